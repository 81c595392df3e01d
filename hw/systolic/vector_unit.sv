// Quantisation, activation and elementwise arithmetic on integers: Lanes elements a cycle, each operand walked as a box.
//
// Results come Latency cycles later. Commands follow each other without a gap, but for one that reads what a command before
// it has still in the pipeline: it stands until that is written. What is compared are ranges, from the lowest to the
// highest byte of a cycle, so that one may stand for a neighbour's sake; it never reads too soon.
module vector_unit
  import presil_pkg::*;
  import systolic_pkg::*;
#(
  parameter int unsigned Lanes = 4,    // elements a cycle
  parameter int unsigned Latency = 8   // cycles to the result
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

  // Sources: a lies in the accumulator (addresses of elements) or in the scratchpad (of bytes), b in the scratchpad.
  output logic [Lanes-1:0][31:0]    sum_address_o,
  input  logic [Lanes-1:0][31:0]    sum_data_i,
  output logic [4*Lanes-1:0][31:0]  a_address_o,
  input  logic [4*Lanes-1:0][7:0]   a_data_i,
  output logic [4*Lanes-1:0][31:0]  b_address_o,
  input  logic [4*Lanes-1:0][7:0]   b_data_i,

  // The destination, in the scratchpad.
  output logic [4*Lanes-1:0]       write_o,
  output logic [4*Lanes-1:0][31:0] write_address_o,
  output logic [4*Lanes-1:0][7:0]  write_data_o
);
  localparam int unsigned StepBits = $clog2(Lanes + 1);
  localparam logic signed [63:0] High = 64'sd127;
  localparam logic signed [63:0] Low = -64'sd128;

  // What goes through the pipeline.
  typedef struct packed {
    logic [Lanes-1:0] valid;
    logic [Lanes-1:0][31:0] address;
    logic [Lanes-1:0][31:0] value;
    logic wide;
    logic last;
    count_t [COUNTS-1:0] signals;
  } stage_t;

  logic active_q, starts, ends, nothing, moves, stands;
  command_t command_q;
  logic [Lanes-1:0] valid, last, a_valid, a_last, b_valid, b_last;
  logic [Lanes-1:0][31:0] address, a_address, b_address;
  logic [StepBits-1:0] advance;
  stage_t enters, leaves;

  assign starts = command_valid_i && command_ready_o;
  assign nothing = command_q.opcode == OP_SYNC;
  assign moves = active_q && !nothing && !stands;
  assign ends = active_q && (nothing || (moves && |(last & valid)));
  assign command_ready_o = !active_q || ends;
  assign occupied_o = active_q;
  assign advance = moves ? StepBits'(Lanes) : '0;

  always_comb begin
    error_o = ERROR_NONE;
    if (command_valid_i) begin
      case (command_i.opcode)
        OP_SYNC: ;
        OP_REQUANTIZE, OP_BIAS, OP_CAST, OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_MAXIMUM, OP_RELU: begin
          if (command_i.operands[0].space != SPACE_SCRATCHPAD) error_o = ERROR_OPERAND;
          if (command_i.operands[2].space == SPACE_ACCUMULATOR) error_o = ERROR_OPERAND;
        end
        default: error_o = ERROR_OPCODE;
      endcase
    end
  end

  walker #(.Lanes(Lanes)) i_destination (
    .clk_i, .rst_ni, .load_i(starts), .box_i(command_i.operands[0]), .advance_i(advance),
    .valid_o(valid), .address_o(address), .last_o(last)
  );
  walker #(.Lanes(Lanes)) i_a (
    .clk_i, .rst_ni, .load_i(starts), .box_i(command_i.operands[1]), .advance_i(advance),
    .valid_o(a_valid), .address_o(a_address), .last_o(a_last)
  );
  walker #(.Lanes(Lanes)) i_b (
    .clk_i, .rst_ni, .load_i(starts), .box_i(command_i.operands[2]), .advance_i(advance),
    .valid_o(b_valid), .address_o(b_address), .last_o(b_last)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      command_q <= '0;
    end else if (starts) begin
      active_q <= 1'b1;
      command_q <= command_i;
    end else if (ends) begin
      active_q <= 1'b0;
    end
  end

  function automatic logic signed [31:0] extended(logic [3:0][7:0] bytes, logic [2:0] element_bytes);
    return element_bytes == 3'd4 ? bytes : 32'(signed'(bytes[0]));
  endfunction

  function automatic logic [31:0] result(
      logic [7:0] opcode, logic signed [31:0] a, logic signed [31:0] b, logic signed [31:0] multiplier,
      logic [5:0] shift, logic relu
  );
    logic signed [63:0] scaled;
    logic signed [31:0] value;
    case (opcode)
      OP_REQUANTIZE: begin
        // Halves round up; the sum of 2^31 and a bias times a multiplier below 2^29 stays below 2^63.
        scaled = ((64'(a) + 64'(b)) * 64'(multiplier) + (64'sd1 <<< (shift - 6'd1))) >>> shift;
        if (scaled > High) scaled = High;
        if (scaled < (relu ? 64'sd0 : Low)) scaled = relu ? 64'sd0 : Low;
        value = scaled[31:0];
      end
      OP_BIAS: value = relu && a + b < 32'sd0 ? 32'sd0 : a + b;
      OP_ADD: value = a + b;
      OP_SUBTRACT: value = a - b;
      OP_MULTIPLY: value = a * b;
      OP_MAXIMUM: value = a > b ? a : b;
      OP_RELU: value = a > 32'sd0 ? a : 32'sd0;
      default: value = a;  // cast
    endcase
    return value;
  endfunction

  function automatic logic [31:0] narrowed(logic signed [31:0] value, logic [2:0] element_bytes);
    if (element_bytes == 3'd4) return value;
    if (value > 32'sd127) return 32'd127;
    if (value < -32'sd128) return 32'hFFFF_FF80;
    return value;
  endfunction

  logic [Lanes-1:0][31:0] a, b;
  always_comb begin
    for (int unsigned l = 0; l < Lanes; l++) begin
      sum_address_o[l] = {2'b00, a_address[l][31:2]};
      for (int unsigned i = 0; i < 4; i++) begin
        a_address_o[4*l+i] = a_address[l] + i;
        b_address_o[4*l+i] = b_address[l] + i;
      end
    end
  end
  always_comb begin
    for (int unsigned l = 0; l < Lanes; l++) begin
      a[l] = command_q.operands[1].space == SPACE_ACCUMULATOR ? sum_data_i[l] :
             extended(a_data_i[4*l+:4], command_q.operands[1].element_bytes);
      b[l] = command_q.operands[2].space == SPACE_NONE ? 32'd0 :
             extended(b_data_i[4*l+:4], command_q.operands[2].element_bytes);
      enters.value[l] = narrowed(
          result(command_q.opcode, a[l], b[l], command_q.immediate0, command_q.immediate1[5:0], command_q.immediate1[8]),
          command_q.operands[0].element_bytes
      );
    end
    enters.valid = moves ? valid : '0;
    enters.address = address;
    enters.wide = command_q.operands[0].element_bytes == 3'd4;
    enters.last = ends;
    enters.signals = command_q.signals;
  end

  // ------------------------------------------------------------------ what is read too soon
  localparam int unsigned Stages = Latency + 2;

  // The bytes that one cycle reads or writes lie in a range.
  typedef struct packed {
    logic any;
    logic [31:0] low;
    logic [31:0] high;
  } range_t;

  function automatic range_t range_of(logic on, logic [Lanes-1:0] lanes, logic [Lanes-1:0][31:0] from, logic wide);
    range_t found;
    found = '{any: 1'b0, low: '1, high: '0};
    for (int unsigned l = 0; l < Lanes; l++) begin
      if (on && lanes[l]) begin
        found.any = 1'b1;
        if (from[l] < found.low) found.low = from[l];
        if (from[l] + (wide ? 32'd3 : 32'd0) > found.high) found.high = from[l] + (wide ? 32'd3 : 32'd0);
      end
    end
    return found;
  endfunction

  function automatic logic meet(range_t one, range_t other);
    return one.any && other.any && one.low <= other.high && other.low <= one.high;
  endfunction

  range_t reads_a, reads_b;
  range_t [Stages-1:0] written_q;  // of each stage of the pipeline, the youngest first
  logic [Stages-1:0] ended_q;      // the last of a command is in this stage
  always_comb begin
    automatic logic earlier = 1'b0;  // this stage belongs to a command before the present one
    reads_a = range_of(command_q.operands[1].space == SPACE_SCRATCHPAD, a_valid, a_address,
                       command_q.operands[1].element_bytes == 3'd4);
    reads_b = range_of(command_q.operands[2].space == SPACE_SCRATCHPAD, b_valid, b_address,
                       command_q.operands[2].element_bytes == 3'd4);
    stands = 1'b0;
    for (int unsigned i = 0; i < Stages; i++) begin
      earlier |= ended_q[i];
      if (earlier && (meet(reads_a, written_q[i]) || meet(reads_b, written_q[i]))) stands = 1'b1;
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      written_q <= '0;
      ended_q <= '0;
    end else begin
      written_q[0] <= range_of(moves, valid, address, command_q.operands[0].element_bytes == 3'd4);
      ended_q[0] <= ends;
      for (int unsigned i = 1; i < Stages; i++) begin
        written_q[i] <= written_q[i-1];
        ended_q[i] <= ended_q[i-1];
      end
    end
  end

  // Two cycles more, as in the other engines.
  delay #(.Width($bits(stage_t)), .Cycles(Stages)) i_pipeline (.clk_i, .rst_ni, .data_i(enters), .data_o(leaves));

  always_comb begin
    for (int unsigned l = 0; l < Lanes; l++) begin
      for (int unsigned i = 0; i < 4; i++) begin
        write_o[4*l+i] = leaves.valid[l] && (leaves.wide || i == 0);
        write_address_o[4*l+i] = leaves.address[l] + i;
        write_data_o[4*l+i] = leaves.value[l][8*i+:8];
      end
    end
  end
  assign done_valid_o = leaves.last;
  assign done_signals_o = leaves.signals;

  logic [15:0] under_way_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) under_way_q <= '0;
    else under_way_q <= under_way_q + 16'(starts) - 16'(leaves.last);
  end
  assign busy_o = under_way_q != '0;

  logic unused_bits;
  assign unused_bits = ^{command_q, a_last, b_last};
endmodule
