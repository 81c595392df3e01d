// Hands the commands of all streams to the engines. Of several streams that offer to one engine the one that has waited
// longest comes first, and of those that have waited equally long the lowest.
module dispatcher
  import presil_pkg::*;
#(
  parameter int unsigned Streams = 8,  // sequencers
  parameter int unsigned Engines = 6   // engines
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic     [Streams-1:0]      offered_i,
  input  logic     [Streams-1:0][3:0] engine_i,
  input  command_t [Streams-1:0]      command_i,
  output logic     [Streams-1:0]      accepted_o,

  output logic     [Engines-1:0] valid_o,
  output command_t [Engines-1:0] command_o,
  input  logic     [Engines-1:0] ready_i
);
  localparam int unsigned Bits = Streams > 1 ? $clog2(Streams) : 1;
  localparam int unsigned AgeBits = 24;

  logic [Streams-1:0][AgeBits-1:0] age_q;  // cycles a stream has waited with its offer, up to the most they can count
  logic [Engines-1:0][Bits-1:0] chosen;

  always_comb begin
    valid_o = '0;
    chosen = '0;
    for (int unsigned e = 0; e < Engines; e++) begin
      for (int unsigned s = 0; s < Streams; s++) begin
        if (offered_i[s] && engine_i[s] == 4'(e) && (!valid_o[e] || age_q[s] > age_q[chosen[e]])) begin
          chosen[e] = Bits'(s);
          valid_o[e] = 1'b1;
        end
      end
    end
  end

  always_comb begin
    accepted_o = '0;
    for (int unsigned e = 0; e < Engines; e++) begin
      command_o[e] = command_i[chosen[e]];
      if (valid_o[e] && ready_i[e]) accepted_o[chosen[e]] = 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      age_q <= '0;
    end else begin
      for (int unsigned s = 0; s < Streams; s++) begin
        if (!offered_i[s] || accepted_o[s]) age_q[s] <= '0;
        else if (age_q[s] != '1) age_q[s] <= age_q[s] + AgeBits'(1);
      end
    end
  end

`ifndef SYNTHESIS
  // An offer stands until it is accepted, or until an error withdraws it, and what an engine is offered with it.
  logic [Streams-1:0] waits_q;
  logic [Streams-1:0][3:0] engine_q;
  command_t [Streams-1:0] command_q;
  logic [Engines-1:0] valid_q;
  logic [Engines-1:0][Bits-1:0] chosen_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      waits_q <= '0;
      engine_q <= '0;
      command_q <= '0;
      valid_q <= '0;
      chosen_q <= '0;
    end else begin
      waits_q <= offered_i & ~accepted_o;
      engine_q <= engine_i;
      command_q <= command_i;
      valid_q <= valid_o & ~ready_i;
      chosen_q <= chosen;
      assert ((accepted_o & ~offered_i) == '0) else $error("accepted without an offer");
      for (int unsigned s = 0; s < Streams; s++) begin
        assert (!waits_q[s] || !offered_i[s] || (engine_i[s] == engine_q[s] && command_i[s] == command_q[s]))
        else $error("an offer has changed while it waited");
      end
      for (int unsigned e = 0; e < Engines; e++) begin
        // Of ages that can count no further the lowest stream's comes first.
        assert (!valid_q[e] || !offered_i[chosen_q[e]] || chosen[e] == chosen_q[e] || age_q[chosen[e]] == '1)
        else $error("an engine is offered another command than the one that waits");
      end
    end
  end
`endif
endmodule
