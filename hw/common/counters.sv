// Counts the cycles in which each input is high, from `clear_i` on.
module counters #(
  parameter int unsigned Count = 4  // how many
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic clear_i,
  input  logic [Count-1:0]       high_i,
  output logic [Count-1:0][63:0] cycles_o
);
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cycles_o <= '0;
    end else if (clear_i) begin
      cycles_o <= '0;
    end else begin
      for (int unsigned i = 0; i < Count; i++) cycles_o[i] <= cycles_o[i] + 64'(high_i[i]);
    end
  end
endmodule
