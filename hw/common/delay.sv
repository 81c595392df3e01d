// A delay of a fixed number of cycles; none is a wire.
module delay #(
  parameter int unsigned Width = 8,   // bits
  parameter int unsigned Cycles = 1
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic [Width-1:0] data_i,
  output logic [Width-1:0] data_o
);
  if (Cycles == 0) begin : gen_wire
    logic unused_clock;
    assign unused_clock = ^{clk_i, rst_ni};
    assign data_o = data_i;
  end else begin : gen_registers
    logic [Cycles-1:0][Width-1:0] data_q;
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        data_q <= '0;
      end else begin
        data_q[0] <= data_i;
        for (int unsigned i = 1; i < Cycles; i++) data_q[i] <= data_q[i-1];
      end
    end
    assign data_o = data_q[Cycles-1];
  end
endmodule
