// The sequencer of one stream: hardware loops, address generators, waits, and the hand-over to engines.
//
// Two cycles an instruction: its word and its running values are fetched, then it is issued: its waits are taken, its
// engine accepts it. In the cycle of acceptance the turning loop is found, the innermost open loop that is not in its
// last trip. It says what to add to the running addresses and, among the loops that end here, where to go on. So loops
// cost no cycle, and addresses need no multiplier.
module sequencer
  import presil_pkg::*;
#(
  parameter int unsigned Instructions = 256,  // words of the instruction memory
  parameter int unsigned Engines = 6,         // engines of the core
  parameter int unsigned Semaphores = 32      // semaphores of the core
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic start_i,   // begin at word 0
  input  logic enable_i,  // whether this stream has a program
  input  logic stop_i,    // an error: issue nothing more

  // Words, before the start.
  input  logic               write_i,
  input  logic [PC_BITS-1:0] write_pc_i,
  input  word_t              write_word_i,

  output count_t [COUNTS-1:0] waits_o,    // waits that are not taken yet
  input  logic   [COUNTS-1:0] granted_i,  // those that are taken in this cycle

  output logic       command_valid_o,
  input  logic       command_ready_i,
  output logic [3:0] command_engine_o,
  output command_t   command_o,

  output logic               busy_o,   // the stream has not ended
  output logic [3:0]         error_o,  // ERROR_NONE, or why the word at pc_o cannot be executed
  output logic [PC_BITS-1:0] pc_o
);
  localparam int unsigned IndexBits = Instructions > 1 ? $clog2(Instructions) : 1;
  localparam int unsigned LoopBits = $clog2(MAX_LOOPS + 1);

  // What runs from execution to execution of an instruction.
  typedef struct packed {
    logic [OPERANDS-1:0][31:0] address;
    logic [OPERANDS-1:0][31:0] ring;
    logic [31:0] accumulate;
  } running_t;

  typedef enum logic [1:0] {Idle, Fetch, Issue} state_e;

  state_e state_q;
  logic [PC_BITS-1:0] pc_q;
  word_t word, word_q;
  running_t running [Instructions];
  running_t running_q, first, next;
  logic [Instructions-1:0] executed_q;  // whether an instruction has running values
  logic [COUNTS-1:0] taken_q, wanted;
  logic [MAX_LOOPS-1:0][20:0] counter_q;
  logic accepted, turns, branches;
  logic [3:0] turning;

  instruction_memory #(.Instructions(Instructions)) i_memory (
    .clk_i,
    .write_i,
    .write_pc_i,
    .write_word_i,
    .pc_i(pc_q),
    .word_o(word)
  );

  logic unused_first;  // running values begin with those of `word`
  assign unused_first = ^word_q;

  assign pc_o = pc_q;
  assign busy_o = state_q != Idle;

  always_comb begin
    error_o = ERROR_NONE;
    if (state_q == Issue) begin
      if (word_q.opcode == 8'd0) error_o = ERROR_OPCODE;
      else if (32'(word_q.engine) >= Engines) error_o = ERROR_ENGINE;
      else if (32'(word_q.depth) > MAX_LOOPS || word_q.ends > word_q.depth) error_o = ERROR_LOOP;
      for (int unsigned i = 0; i < COUNTS; i++) begin
        if (word_q.waits[i].valid && 32'(word_q.waits[i].semaphore) >= Semaphores) error_o = ERROR_SEMAPHORE;
        if (word_q.signals[i].valid && 32'(word_q.signals[i].semaphore) >= Semaphores) error_o = ERROR_SEMAPHORE;
      end
    end
  end

  // Waits, then the offer.
  logic offers;
  assign offers = state_q == Issue && error_o == ERROR_NONE && !stop_i;
  always_comb begin
    waits_o = word_q.waits;
    for (int unsigned i = 0; i < COUNTS; i++) begin
      wanted[i] = word_q.waits[i].valid && !taken_q[i];
      waits_o[i].valid = wanted[i] && offers;
    end
  end
  assign command_valid_o = offers && (wanted & ~granted_i) == '0;
  assign command_engine_o = word_q.engine;
  assign accepted = command_valid_o && command_ready_i;

  always_comb begin
    command_o.opcode = word_q.opcode;
    command_o.accumulate = running_q.accumulate != '0;
    command_o.immediate0 = word_q.immediate0;
    command_o.immediate1 = word_q.immediate1;
    command_o.signals = word_q.signals;
    for (int unsigned i = 0; i < OPERANDS; i++) begin
      command_o.operands[i].space = word_q.operands[i].space;
      command_o.operands[i].element_bytes = word_q.operands[i].element_bytes;
      command_o.operands[i].address = running_q.address[i] + running_q.ring[i];
      command_o.operands[i].size = word_q.operands[i].size;
      command_o.operands[i].stride = word_q.operands[i].stride;
    end
  end

  // The turning loop, and whether it ends here.
  always_comb begin
    turns = 1'b0;
    turning = '0;
    for (int unsigned d = 0; d < MAX_LOOPS; d++) begin
      if (d < 32'(word_q.depth) && counter_q[d] + 21'd1 < word_q.trips[d]) begin
        turns = 1'b1;
        turning = 4'(d);
      end
    end
    branches = turns && turning >= word_q.depth - word_q.ends;
  end

  // Running values: those of the word at first, then stepped.
  always_comb begin
    for (int unsigned i = 0; i < OPERANDS; i++) begin
      first.address[i] = word.operands[i].address;
      first.ring[i] = word.operands[i].ring;
    end
    first.accumulate = word.accumulate;
  end

  always_comb begin
    next = running_q;
    if (turns) begin
      next.accumulate = running_q.accumulate + word_q.accumulate_step[turning[LoopBits-1:0]];
      for (int unsigned i = 0; i < OPERANDS; i++) begin
        next.address[i] = running_q.address[i] + word_q.operands[i].step[turning[LoopBits-1:0]];
        next.ring[i] = running_q.ring[i] + word_q.operands[i].ring_step[turning[LoopBits-1:0]];
        if (next.ring[i] >= word_q.operands[i].ring_bytes && word_q.operands[i].ring_bytes != '0) begin
          next.ring[i] -= word_q.operands[i].ring_bytes;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (accepted) running[pc_q[IndexBits-1:0]] <= next;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      pc_q <= '0;
      word_q <= '0;
      running_q <= '0;
      executed_q <= '0;
      taken_q <= '0;
      counter_q <= '0;
    end else if (start_i) begin
      state_q <= enable_i ? Fetch : Idle;
      pc_q <= '0;
      executed_q <= '0;
      taken_q <= '0;
      counter_q <= '0;
    end else if (state_q == Fetch) begin
      state_q <= Issue;
      word_q <= word;
      running_q <= executed_q[pc_q[IndexBits-1:0]] ? running[pc_q[IndexBits-1:0]] : first;
    end else if (state_q == Issue) begin
      taken_q <= accepted ? '0 : taken_q | granted_i;
      if (accepted) begin
        executed_q[pc_q[IndexBits-1:0]] <= 1'b1;
        for (int unsigned d = 0; d < MAX_LOOPS; d++) begin
          if (branches && d == 32'(turning)) begin
            counter_q[d] <= counter_q[d] + 21'd1;
          end else if (d >= 32'(word_q.depth - word_q.ends) && (!turns || d > 32'(turning))) begin
            counter_q[d] <= '0;
          end
        end
        state_q <= word_q.last && !branches ? Idle : Fetch;
        pc_q <= branches ? word_q.start[turning[LoopBits-1:0]] : pc_q + PC_BITS'(1);
      end
    end
  end

`ifndef SYNTHESIS
  // What is offered stands until it is accepted, and nothing is taken that was not asked for.
  logic waiting_q;
  command_t offered_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      waiting_q <= 1'b0;
      offered_q <= '0;
    end else begin
      waiting_q <= command_valid_o && !command_ready_i && !start_i && !stop_i;
      offered_q <= command_o;
      assert (!waiting_q || stop_i || (command_valid_o && command_o == offered_q)) else $error("an offer has changed");
      assert (state_q == Idle || 32'(pc_q) < Instructions) else $error("beyond the last word");
      assert (!write_i || state_q == Idle || stop_i || error_o != ERROR_NONE)
      else $error("a word is written while the stream runs");
      assert ((granted_i & ~wanted) == '0 || state_q != Issue) else $error("a wait is granted that was not asked for");
    end
  end
`endif
endmodule
