// `shift`: a tile of weights from the scratchpad into a plane of the array, a row a cycle.
//
// Row 0 enters first and is shifted up to the top; rows below the tile are zero, so that it always takes Rows cycles.
module weight_loader
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

  output logic [Columns-1:0][31:0] read_address_o,  // of a row of weights
  input  logic [Columns-1:0][7:0]  read_data_i,

  output logic                    shift_o,
  output logic [2:0]              shift_plane_o,
  output logic [Columns-1:0][7:0] weights_o
);
  localparam int unsigned RowBits = $clog2(Rows + 1);

  logic active_q, ends;
  logic [RowBits-1:0] row_q;
  logic [31:0] address_q;
  command_t command_q;
  logic [23:0] rows, columns;
  logic [COUNTS*$bits(count_t)-1:0] signals;

  assign rows = command_q.operands[1].size[DIMS-2];
  assign columns = command_q.operands[1].size[DIMS-1];
  assign ends = active_q && 32'(row_q) == Rows - 1;
  assign command_ready_o = !active_q || ends;
  assign occupied_o = active_q;
  always_comb begin
    error_o = ERROR_NONE;
    if (command_valid_i) begin
      if (command_i.opcode != OP_SHIFT) error_o = ERROR_OPCODE;
      else if (command_i.operands[1].space != SPACE_SCRATCHPAD) error_o = ERROR_OPERAND;
    end
  end

  always_comb begin
    for (int unsigned c = 0; c < Columns; c++) read_address_o[c] = address_q + c;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      row_q <= '0;
      address_q <= '0;
      command_q <= '0;
      shift_o <= 1'b0;
      shift_plane_o <= '0;
      weights_o <= '0;
    end else begin
      if (command_valid_i && command_ready_o) begin
        active_q <= 1'b1;
        row_q <= '0;
        address_q <= command_i.operands[1].address;
        command_q <= command_i;
      end else if (active_q) begin
        active_q <= !ends;
        row_q <= row_q + RowBits'(1);
        address_q <= address_q + command_q.operands[1].stride[DIMS-2];
      end
      shift_o <= active_q;
      shift_plane_o <= command_q.operands[0].address[2:0];
      for (int unsigned c = 0; c < Columns; c++) begin
        weights_o[c] <= 24'(row_q) < rows && c < 32'(columns) ? read_data_i[c] : 8'd0;
      end
    end
  end

  // As long from the last row to the signal as in the other engines.
  logic [1:0] ending;
  delay #(.Width(1 + COUNTS * $bits(count_t)), .Cycles(2)) i_done (
    .clk_i, .rst_ni, .data_i({ends, command_q.signals}), .data_o({done_valid_o, signals})
  );
  assign done_signals_o = signals;
  delay #(.Width(1), .Cycles(1)) i_ending (.clk_i, .rst_ni, .data_i(ends), .data_o(ending[0]));
  assign ending[1] = done_valid_o;
  assign busy_o = active_q || (|ending);

  logic unused_command;
  assign unused_command = ^command_q;
endmodule
