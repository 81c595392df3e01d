// Walks a box of up to 4 dimensions in row-major order, Lanes elements at once, without multipliers.
//
// For each dimension it keeps the index and the address of its current position; a step of the innermost dimension adds
// its stride, and one that ends it goes back to where the next outer dimension stands. The positions of all lanes come
// from a chain of such steps. `advance_i` says how many elements are done with; the addresses of the next ones appear in
// the next cycle.
module walker
  import presil_pkg::*;
#(
  parameter int unsigned Lanes = 4  // elements at once
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic     load_i,  // take a box; it can be walked from the next cycle
  input  operand_t box_i,

  input  logic [$clog2(Lanes+1)-1:0] advance_i,  // elements that are done with in this cycle

  output logic [Lanes-1:0]       valid_o,    // whether a lane has an element of the box
  output logic [Lanes-1:0][31:0] address_o,  // its byte address
  output logic [Lanes-1:0]       last_o      // whether it is the last of the box
);
  typedef struct packed {
    logic live;
    logic [DIMS-1:0][23:0] index;
    logic [DIMS-1:0][31:0] address;
  } position_t;

  position_t position_q;
  position_t [Lanes:0] position;
  operand_t box_q;

  function automatic position_t stepped(
      position_t from, logic [DIMS-1:0][23:0] size, logic [DIMS-1:0][31:0] stride
  );
    position_t to;
    logic carry;
    to = from;
    carry = 1'b1;
    // Dimension 0 of the packed arrays is the outermost.
    for (int d = DIMS - 1; d >= 0; d--) begin
      if (carry) begin
        if (from.index[d] + 24'd1 < size[d]) begin
          to.index[d] = from.index[d] + 24'd1;
          to.address[d] = from.address[d] + stride[d];
          carry = 1'b0;
          for (int inner = d + 1; inner < DIMS; inner++) begin
            to.index[inner] = '0;
            to.address[inner] = to.address[d];
          end
        end
      end
    end
    to.live = from.live && !carry;
    return to;
  endfunction

  always_comb begin
    position_t now;
    now = position_q;
    position = '0;
    position[0] = now;
    for (int unsigned l = 0; l < Lanes; l++) begin
      valid_o[l] = now.live;
      address_o[l] = now.address[DIMS-1];
      now = stepped(now, box_q.size, box_q.stride);
      position[l+1] = now;
      last_o[l] = valid_o[l] && !now.live;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      position_q <= '0;
      box_q <= '0;
    end else if (load_i) begin
      box_q <= box_i;
      position_q.live <= 1'b1;
      position_q.index <= '0;
      position_q.address <= {DIMS{box_i.address}};
    end else begin
      position_q <= position[advance_i];
    end
  end

  logic unused_box;
  assign unused_box = ^{box_q.space, box_q.element_bytes, box_q.address};

`ifndef SYNTHESIS
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
    end else begin
      for (int unsigned n = Lanes + 1; n < 1 << $bits(advance_i); n++) begin
        assert (32'(advance_i) != n) else $error("more elements are done with than there are lanes");
      end
      assert ((valid_o & (valid_o + Lanes'(1))) == '0) else $error("a lane has an element and one before has none");
    end
  end
`endif
endmodule
