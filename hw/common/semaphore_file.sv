// The semaphores of one core: counters that streams take from and engines give to.
//
// A stream asks for up to COUNTS waits, in order: a wait is granted if its semaphore holds enough and all before it are
// granted. What is granted is taken in this cycle. Streams are served by number. What engines give is seen by streams in
// the next cycle.
module semaphore_file
  import presil_pkg::*;
#(
  parameter int unsigned Semaphores = 64,  // how many there are
  parameter int unsigned Streams = 8,      // takers
  parameter int unsigned Engines = 6       // givers
) (
  input  logic clk_i,
  input  logic rst_ni,

  // Initial counts, written before the start.
  input  logic                      set_i,
  input  logic [SEMAPHORE_BITS-1:0] set_semaphore_i,
  input  logic [20:0]               set_amount_i,

  input  count_t [Streams-1:0][COUNTS-1:0] waits_i,    // waits that are not taken yet
  output logic   [Streams-1:0][COUNTS-1:0] granted_o,  // those that are taken in this cycle

  input  logic   [Engines-1:0]             given_valid_i,  // an instruction completes
  input  count_t [Engines-1:0][COUNTS-1:0] given_i,        // its signals

  output logic overflow_o  // a count has grown beyond MOST_UNITS
);
  localparam int unsigned IndexBits = Semaphores > 1 ? $clog2(Semaphores) : 1;

  logic [Semaphores-1:0][20:0] count_q, left, count_d;
  logic overflow;

  // The sequencers refuse semaphores that do not exist.
  logic unused_set;
  assign unused_set = ^set_semaphore_i;

  always_comb begin
    left = count_q;
    granted_o = '0;
    for (int unsigned s = 0; s < Streams; s++) begin
      automatic logic open = 1'b1;
      for (int unsigned w = 0; w < COUNTS; w++) begin
        if (waits_i[s][w].valid && open) begin
          if (left[waits_i[s][w].semaphore[IndexBits-1:0]] >= waits_i[s][w].amount) begin
            left[waits_i[s][w].semaphore[IndexBits-1:0]] -= waits_i[s][w].amount;
            granted_o[s][w] = 1'b1;
          end else begin
            open = 1'b0;
          end
        end
      end
    end
  end

  always_comb begin
    count_d = left;
    overflow = 1'b0;
    for (int unsigned e = 0; e < Engines; e++) begin
      for (int unsigned g = 0; g < COUNTS; g++) begin
        if (given_valid_i[e] && given_i[e][g].valid) begin
          count_d[given_i[e][g].semaphore[IndexBits-1:0]] += given_i[e][g].amount;
          if (count_d[given_i[e][g].semaphore[IndexBits-1:0]] > MOST_UNITS[20:0]) overflow = 1'b1;
        end
      end
    end
    if (set_i) count_d[set_semaphore_i[IndexBits-1:0]] = set_amount_i;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
      overflow_o <= 1'b0;
    end else begin
      count_q <= count_d;
      overflow_o <= overflow_o | overflow;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
    end else begin
      for (int unsigned s = 0; s < Streams; s++) begin
        for (int unsigned w = 0; w < COUNTS; w++) begin
          assert (!granted_o[s][w] || waits_i[s][w].valid) else $error("a grant without a wait");
          for (int unsigned first = 0; first < w; first++) begin
            assert (!granted_o[s][w] || granted_o[s][first] || !waits_i[s][first].valid)
            else $error("a wait is granted before one that comes first");
          end
          assert (!waits_i[s][w].valid || 32'(waits_i[s][w].semaphore) < Semaphores) else $error("no such semaphore");
        end
      end
      for (int unsigned i = 0; i < Semaphores; i++) begin
        assert (left[i] <= count_q[i]) else $error("more is taken than there is");
      end
      for (int unsigned e = 0; e < Engines; e++) begin
        for (int unsigned g = 0; g < COUNTS; g++) begin
          assert (!given_valid_i[e] || !given_i[e][g].valid || 32'(given_i[e][g].semaphore) < Semaphores)
          else $error("no such semaphore");
        end
      end
    end
  end
`endif
endmodule
