// The words of one stream. Written before the start; read by its sequencer, combinationally.
module instruction_memory
  import presil_pkg::*;
#(
  parameter int unsigned Instructions = 256  // words it holds
) (
  input  logic clk_i,

  input  logic               write_i,
  input  logic [PC_BITS-1:0] write_pc_i,
  input  word_t              write_word_i,

  input  logic [PC_BITS-1:0] pc_i,
  output word_t              word_o
);
  localparam int unsigned IndexBits = Instructions > 1 ? $clog2(Instructions) : 1;

  logic [WORD_BITS-1:0] words [Instructions];

  logic unused_pc;
  assign unused_pc = ^{pc_i, write_pc_i};

  assign word_o = word_t'(words[pc_i[IndexBits-1:0]]);

  always_ff @(posedge clk_i) begin
    if (write_i) words[write_pc_i[IndexBits-1:0]] <= write_word_i;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    assert (!write_i || 32'(write_pc_i) < Instructions) else $error("beyond the last word");
  end
`endif
endmodule
