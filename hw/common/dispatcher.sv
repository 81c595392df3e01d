// Hands the commands of all streams to the engines: each engine takes from the lowest stream that offers it one.
module dispatcher
  import presil_pkg::*;
#(
  parameter int unsigned Streams = 8,  // sequencers
  parameter int unsigned Engines = 6   // engines
) (
  input  logic    [Streams-1:0]      offered_i,
  input  logic    [Streams-1:0][3:0] engine_i,
  input  command_t [Streams-1:0]     command_i,
  output logic    [Streams-1:0]      accepted_o,

  output logic    [Engines-1:0] valid_o,
  output command_t [Engines-1:0] command_o,
  input  logic    [Engines-1:0] ready_i
);
  always_comb begin
    valid_o = '0;
    command_o = '0;
    accepted_o = '0;
    for (int unsigned e = 0; e < Engines; e++) begin
      for (int unsigned s = 0; s < Streams; s++) begin
        if (offered_i[s] && engine_i[s] == 4'(e) && !valid_o[e]) begin
          valid_o[e] = 1'b1;
          command_o[e] = command_i[s];
          accepted_o[s] = ready_i[e];
        end
      end
    end
  end
endmodule
