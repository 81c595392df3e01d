// `drain`: a plane of results to the accumulator, a row a cycle; always Rows cycles.
module drain_engine
  import presil_pkg::*;
  import systolic_pkg::*;
#(
  parameter int unsigned Rows = 4,
  parameter int unsigned Columns = 4
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic     command_valid_i,
  output logic     command_ready_o,
  input  command_t command_i,

  output logic                done_valid_o,
  output count_t [COUNTS-1:0] done_signals_o,
  output logic                busy_o,
  output logic                occupied_o,
  output logic [3:0]          error_o,

  output logic [2:0]               result_plane_o,
  output logic [31:0]              result_row_o,
  input  logic [Columns-1:0][31:0] results_i,

  // The accumulator: what is there, what it becomes. Addresses are of elements.
  output logic [Columns-1:0][31:0] sum_address_o,
  input  logic [Columns-1:0][31:0] sum_old_i,
  output logic [Columns-1:0]       sum_write_o,
  output logic [Columns-1:0][31:0] sum_new_o
);
  localparam int unsigned RowBits = $clog2(Rows + 1);

  logic active_q, starts, ends, row_valid, row_last;
  logic [RowBits-1:0] row_q;
  command_t command_q;
  operand_t rows;
  logic [31:0] address;
  logic [23:0] columns;
  logic [COUNTS*$bits(count_t)-1:0] signals;
  logic ending;

  assign starts = command_valid_i && command_ready_o;
  assign ends = active_q && 32'(row_q) == Rows - 1;
  assign command_ready_o = !active_q || ends;
  assign occupied_o = active_q;
  assign columns = command_q.operands[0].size[DIMS-1];
  always_comb begin
    error_o = ERROR_NONE;
    if (command_valid_i && command_i.opcode != OP_DRAIN) error_o = ERROR_OPCODE;
    rows = command_i.operands[0];
    rows.size[DIMS-1] = 24'd1;
  end

  walker #(.Lanes(1)) i_rows (
    .clk_i, .rst_ni, .load_i(starts), .box_i(rows), .advance_i(active_q),
    .valid_o(row_valid), .address_o(address), .last_o(row_last)
  );

  assign result_plane_o = command_q.operands[1].address[2:0];
  assign result_row_o = 32'(row_q);
  always_comb begin
    for (int unsigned c = 0; c < Columns; c++) begin
      sum_address_o[c] = {2'b00, address[31:2]} + c;
      sum_write_o[c] = active_q && row_valid && c < 32'(columns);
    end
  end
  always_comb begin
    for (int unsigned c = 0; c < Columns; c++) begin
      sum_new_o[c] = (command_q.accumulate ? sum_old_i[c] : 32'd0) + results_i[c];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      row_q <= '0;
      command_q <= '0;
    end else if (starts) begin
      active_q <= 1'b1;
      row_q <= '0;
      command_q <= command_i;
    end else if (active_q) begin
      active_q <= !ends;
      row_q <= row_q + RowBits'(1);
    end
  end

  // As long from the last row to the signal as in the other engines.
  delay #(.Width(1 + COUNTS * $bits(count_t)), .Cycles(2)) i_done (
    .clk_i, .rst_ni, .data_i({ends, command_q.signals}), .data_o({done_valid_o, signals})
  );
  delay #(.Width(1), .Cycles(1)) i_ending (.clk_i, .rst_ni, .data_i(ends), .data_o(ending));
  assign done_signals_o = signals;
  assign busy_o = active_q || ending || done_valid_o;

  logic unused_bits;
  assign unused_bits = ^{command_q, row_last, address[1:0]};
endmodule
