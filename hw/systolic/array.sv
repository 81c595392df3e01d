// Rows x Columns processing elements, with the skew registers around them.
//
// A whole vector of x (an element for each row) enters at once; row r is delayed by r cycles, so that sums and operands
// meet. In output-stationary use a vector of w enters from above with it, column c delayed by c. Sums leave at the bottom
// and are straightened: the row of sums of the x that entered in a cycle is at `sums_o` Rows + Columns - 1 cycles later.
module array #(
  parameter int unsigned Rows = 4,
  parameter int unsigned Columns = 4,
  parameter int unsigned WeightPlanes = 2,
  parameter int unsigned ResultPlanes = 2
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic                    valid_i,       // a vector enters
  input  logic                    stationary_i,  // 1: results stay (output-stationary)
  input  logic                    clear_i,       // results begin anew
  input  logic [2:0]              plane_i,       // of weights, or of results
  input  logic [Rows-1:0][7:0]    x_i,           // an element for each row
  input  logic [Columns-1:0][7:0] w_i,           // output-stationary: an element for each column

  output logic [Columns-1:0][31:0] sums_o,

  input  logic                    shift_i,        // a row of weights enters from below
  input  logic [2:0]              shift_plane_i,
  input  logic [Columns-1:0][7:0] weights_i,

  input  logic [2:0]                result_plane_i,
  input  logic [31:0]               result_row_i,
  output logic [Columns-1:0][31:0]  results_o  // a row of results
);
  // What travels with x.
  typedef struct packed {
    logic valid;
    logic stationary;
    logic clear;
    logic [2:0] plane;
    logic [7:0] x;
  } feed_t;

  feed_t [Rows-1:0] enters, row;
  logic [Columns-1:0][31:0] column, bottom;
  logic [Rows-1:0][Columns-1:0][31:0] result;

  for (genvar r = 0; r < Rows; r++) begin : gen_row_skew
    assign enters[r] = '{valid: valid_i, stationary: stationary_i, clear: clear_i, plane: plane_i, x: x_i[r]};
    delay #(.Width($bits(feed_t)), .Cycles(r)) i_delay (.clk_i, .rst_ni, .data_i(enters[r]), .data_o(row[r]));
  end

  for (genvar c = 0; c < Columns; c++) begin : gen_column_skew
    logic [7:0] w;
    delay #(.Width(8), .Cycles(c)) i_delay (.clk_i, .rst_ni, .data_i(stationary_i ? w_i[c] : 8'd0), .data_o(w));
    assign column[c] = 32'(w);
    delay #(.Width(32), .Cycles(Columns - 1 - c)) i_straighten (
      .clk_i, .rst_ni, .data_i(bottom[c]), .data_o(sums_o[c])
    );
  end

  // Between elements: [r][c] enters element (r, c); column Columns and row Rows are the edges that leave.
  feed_t [Rows-1:0][Columns:0] across;
  logic [Rows:0][Columns-1:0][31:0] down;
  logic [Rows:0][Columns-1:0][7:0] up;

  assign down[0] = column;
  assign bottom = down[Rows];
  assign up[Rows] = weights_i;

  for (genvar r = 0; r < Rows; r++) begin : gen_row
    assign across[r][0] = row[r];
    for (genvar c = 0; c < Columns; c++) begin : gen_element
      pe #(.WeightPlanes(WeightPlanes), .ResultPlanes(ResultPlanes)) i_pe (
        .clk_i,
        .rst_ni,
        .valid_i(across[r][c].valid),
        .stationary_i(across[r][c].stationary),
        .clear_i(across[r][c].clear),
        .plane_i(across[r][c].plane),
        .x_i(across[r][c].x),
        .valid_o(across[r][c+1].valid),
        .stationary_o(across[r][c+1].stationary),
        .clear_o(across[r][c+1].clear),
        .plane_o(across[r][c+1].plane),
        .x_o(across[r][c+1].x),
        .down_i(down[r][c]),
        .down_o(down[r+1][c]),
        .shift_i,
        .shift_plane_i,
        .weight_i(up[r+1][c]),
        .weight_o(up[r][c]),
        .result_plane_i,
        .result_o(result[r][c])
      );
    end
  end

  // What leaves at the right and at the top goes nowhere.
  logic unused_edges;
  always_comb begin
    unused_edges = ^up[0];
    for (int unsigned r = 0; r < Rows; r++) unused_edges ^= ^across[r][Columns];
  end

  always_comb begin
    results_o = '0;
    for (int unsigned r = 0; r < Rows; r++) if (r == result_row_i) results_o = result[r];
  end
endmodule
