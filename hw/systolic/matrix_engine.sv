// `matmul` and `mac`: feeds the array and, for `matmul`, brings its sums to the accumulator.
//
// matmul (weight-stationary): a row of x a cycle, with the plane of weights it meets. Beside the array the place of each
// row in the accumulator goes through a delay as long as the array, so that commands follow each other without a gap.
// mac (output-stationary): a column of x and a row of w a cycle, for the results in one plane.
module matrix_engine
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

  output logic [Rows-1:0][31:0]    x_address_o,
  input  logic [Rows-1:0][7:0]     x_data_i,
  output logic [Columns-1:0][31:0] w_address_o,
  input  logic [Columns-1:0][7:0]  w_data_i,

  // The array.
  output logic                     valid_o,
  output logic                     stationary_o,
  output logic                     clear_o,
  output logic [2:0]               plane_o,
  output logic [Rows-1:0][7:0]     x_o,
  output logic [Columns-1:0][7:0]  w_o,
  input  logic [Columns-1:0][31:0] sums_i,

  // The accumulator: what is there, what it becomes. Addresses are of elements.
  output logic [Columns-1:0][31:0] sum_address_o,
  input  logic [Columns-1:0][31:0] sum_old_i,
  output logic [Columns-1:0]       sum_write_o,
  output logic [Columns-1:0][31:0] sum_new_o
);
  localparam int unsigned RowBits = $clog2(Rows + 1);
  localparam int unsigned Length = Rows + Columns - 1;  // cycles through the array

  // What goes beside the array.
  typedef struct packed {
    logic write;
    logic accumulate;
    logic [31:0] address;
    logic [23:0] columns;
    logic last;
    count_t [COUNTS-1:0] signals;
  } beside_t;

  logic active_q, starts, stays, ends;
  command_t command_q;
  logic [23:0] inner, columns, inner_q;  // inner length done
  logic [31:0] w_address_q;
  operand_t x_rows, sum_rows;
  logic [Rows-1:0] row_valid, row_last;
  logic [Rows-1:0][31:0] row_address;
  logic sum_valid, sum_last;
  logic [31:0] sum_address;
  beside_t enters, leaves;

  assign starts = command_valid_i && command_ready_o;
  assign stays = command_q.opcode == OP_MAC;
  assign inner = command_q.operands[1].size[DIMS-1];
  assign columns = command_q.operands[2].size[DIMS-1];
  assign ends = active_q && (stays ? inner_q + 24'd1 == inner : row_last[0]);
  assign command_ready_o = !active_q || ends;
  assign occupied_o = active_q;

  always_comb begin
    error_o = ERROR_NONE;
    if (command_valid_i) begin
      if (command_i.opcode != OP_MATMUL && command_i.opcode != OP_MAC) error_o = ERROR_OPCODE;
      else if (command_i.operands[1].space != SPACE_SCRATCHPAD) error_o = ERROR_OPERAND;
    end
  end

  // Rows of x and of the sums.
  always_comb begin
    x_rows = command_i.operands[1];
    x_rows.size[DIMS-1] = 24'd1;
    sum_rows = command_i.operands[0];
    sum_rows.size[DIMS-1] = 24'd1;
  end
  walker #(.Lanes(Rows)) i_x_rows (
    .clk_i, .rst_ni, .load_i(starts), .box_i(x_rows),
    .advance_i(active_q && !stays ? RowBits'(1) : '0),
    .valid_o(row_valid), .address_o(row_address), .last_o(row_last)
  );
  walker #(.Lanes(1)) i_sum_rows (
    .clk_i, .rst_ni, .load_i(starts), .box_i(sum_rows), .advance_i(active_q && !stays),
    .valid_o(sum_valid), .address_o(sum_address), .last_o(sum_last)
  );

  always_comb begin
    for (int unsigned r = 0; r < Rows; r++) x_address_o[r] = stays ? row_address[r] + 32'(inner_q) : row_address[0] + r;
    for (int unsigned c = 0; c < Columns; c++) w_address_o[c] = w_address_q + c;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      command_q <= '0;
      inner_q <= '0;
      w_address_q <= '0;
      valid_o <= 1'b0;
      stationary_o <= 1'b0;
      clear_o <= 1'b0;
      plane_o <= '0;
      x_o <= '0;
      w_o <= '0;
    end else begin
      if (starts) begin
        active_q <= 1'b1;
        command_q <= command_i;
        inner_q <= '0;
        w_address_q <= command_i.operands[2].address;
      end else if (active_q) begin
        active_q <= !ends;
        inner_q <= inner_q + 24'd1;
        w_address_q <= w_address_q + command_q.operands[2].stride[DIMS-2];
      end
      valid_o <= active_q;
      stationary_o <= stays;
      clear_o <= !command_q.accumulate && inner_q == '0;
      plane_o <= stays ? command_q.operands[0].address[2:0] : command_q.operands[2].address[2:0];
      for (int unsigned r = 0; r < Rows; r++) begin
        x_o[r] <= (stays ? row_valid[r] : r < 32'(inner)) ? x_data_i[r] : 8'd0;
      end
      for (int unsigned c = 0; c < Columns; c++) w_o[c] <= c < 32'(columns) ? w_data_i[c] : 8'd0;
    end
  end

  // The place of a row of sums, one cycle more than through the array: x is registered before it enters.
  always_comb begin
    enters.write = active_q && !stays && sum_valid;
    enters.accumulate = command_q.accumulate;
    enters.address = {2'b00, sum_address[31:2]};
    enters.columns = columns;
    enters.last = ends;
    enters.signals = command_q.signals;
  end
  delay #(.Width($bits(beside_t)), .Cycles(Length + 1)) i_beside (.clk_i, .rst_ni, .data_i(enters), .data_o(leaves));

  always_comb begin
    for (int unsigned c = 0; c < Columns; c++) begin
      sum_address_o[c] = leaves.address + c;
      sum_write_o[c] = leaves.write && c < 32'(leaves.columns);
    end
  end
  always_comb begin
    for (int unsigned c = 0; c < Columns; c++) begin
      sum_new_o[c] = (leaves.accumulate ? sum_old_i[c] : 32'd0) + sums_i[c];
    end
  end
  assign done_valid_o = leaves.last;
  assign done_signals_o = leaves.signals;

  // Commands under way.
  logic [15:0] under_way_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) under_way_q <= '0;
    else under_way_q <= under_way_q + 16'(starts) - 16'(leaves.last);
  end
  assign busy_o = under_way_q != '0;

  logic unused_bits;
  assign unused_bits = ^{command_q, row_last, sum_last, sum_address[1:0]};
endmodule
