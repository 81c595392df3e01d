// A processing element. Weight-stationary: adds x times its weight to the sum that comes from above. Output-stationary:
// multiplies x from the left with w from above into its own result.
//
// What comes from the left (x, and what to do with it) goes on to the right a cycle later; what comes from above (a sum,
// or w) goes on downwards. Weights shift upwards through a plane of their own while another plane is in use.
module pe #(
  parameter int unsigned WeightPlanes = 2,  // weights it holds
  parameter int unsigned ResultPlanes = 2   // results it holds
) (
  input  logic clk_i,
  input  logic rst_ni,

  // From the left, and on to the right.
  input  logic              valid_i,       // there is an x
  input  logic              stationary_i,  // 1: its result stays here (output-stationary)
  input  logic              clear_i,       // the result begins anew
  input  logic [2:0]        plane_i,       // of weights, or of results
  input  logic signed [7:0] x_i,
  output logic              valid_o,
  output logic              stationary_o,
  output logic              clear_o,
  output logic [2:0]        plane_o,
  output logic signed [7:0] x_o,

  // From above, and on downwards: a sum, or in its low byte w.
  input  logic signed [31:0] down_i,
  output logic signed [31:0] down_o,

  // Weights, upwards.
  input  logic              shift_i,
  input  logic [2:0]        shift_plane_i,
  input  logic signed [7:0] weight_i,
  output logic signed [7:0] weight_o,

  input  logic [2:0]         result_plane_i,  // which result is read
  output logic signed [31:0] result_o
);
  localparam int unsigned WeightBits = WeightPlanes > 1 ? $clog2(WeightPlanes) : 1;
  localparam int unsigned ResultBits = ResultPlanes > 1 ? $clog2(ResultPlanes) : 1;

  logic signed [7:0] weight_q [WeightPlanes];
  logic signed [31:0] result_q [ResultPlanes];
  logic signed [7:0] factor;
  logic signed [15:0] product;
  logic signed [31:0] sum;

  assign factor = stationary_i ? down_i[7:0] : weight_q[plane_i[WeightBits-1:0]];
  assign product = x_i * factor;
  assign sum = (stationary_i ? (clear_i ? 32'sd0 : result_q[plane_i[ResultBits-1:0]]) : down_i) + 32'(product);
  assign weight_o = weight_q[shift_plane_i[WeightBits-1:0]];
  assign result_o = result_q[result_plane_i[ResultBits-1:0]];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_o <= 1'b0;
      stationary_o <= 1'b0;
      clear_o <= 1'b0;
      plane_o <= '0;
      x_o <= '0;
      down_o <= '0;
    end else begin
      valid_o <= valid_i;
      stationary_o <= stationary_i;
      clear_o <= clear_i;
      plane_o <= plane_i;
      x_o <= x_i;
      down_o <= stationary_i ? down_i : sum;
    end
  end

  always_ff @(posedge clk_i) begin
    if (shift_i) weight_q[shift_plane_i[WeightBits-1:0]] <= weight_i;
    if (valid_i && stationary_i) result_q[plane_i[ResultBits-1:0]] <= sum;
  end

  // Planes beyond those that are built are not addressed.
  logic unused_planes;
  assign unused_planes = ^{plane_i, shift_plane_i, result_plane_i};
endmodule
