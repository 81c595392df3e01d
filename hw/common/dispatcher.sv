// Hands the commands of all streams to the engines. Of several streams that offer to one engine the one that has waited
// longest comes first: each stream has one offer at a time, so taking turns is first come, first served.
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

  logic [Engines-1:0][Bits-1:0] served_q, chosen;  // the stream served last; the one whose turn it is

  always_comb begin
    valid_o = '0;
    for (int unsigned e = 0; e < Engines; e++) begin
      chosen[e] = served_q[e];
      for (int unsigned i = Streams; i > 0; i--) begin
        if (offered_i[(32'(served_q[e]) + i) % Streams] && engine_i[(32'(served_q[e]) + i) % Streams] == 4'(e)) begin
          chosen[e] = Bits'((32'(served_q[e]) + i) % Streams);
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
      served_q <= '0;
    end else begin
      for (int unsigned e = 0; e < Engines; e++) if (valid_o[e] && ready_i[e]) served_q[e] <= chosen[e];
    end
  end
endmodule
