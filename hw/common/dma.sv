// One channel between memory and an on-chip space: `load` and `fill`, or `store`.
//
// A transfer is a box of runs of contiguous bytes on either side. The descriptor stage takes Setup cycles and then puts
// out a run every RowSetup cycles; the mover asks for them, a beat of at most PortBytes a cycle, with at most
// InFlightBytes outstanding; answers come in order. The stages work on different transfers at the same time: the next
// descriptor is taken when no more than AheadBytes are left to ask for, so that its set-up is just hidden. Whole bursts
// are charged, counted from the beginning of each run. The link is held from the first request of a transfer to its last.
// A fill asks memory for nothing: it writes its value as soon as all before it has been answered, and takes the descriptor
// stage for as long as that takes the port.
module dma
  import presil_pkg::*;
#(
  parameter bit          Store = 1'b0,         // moves to memory instead of from it
  parameter int unsigned PortBytes = 16,       // on-chip bytes a cycle; a power of 2
  parameter int unsigned BurstBytes = 16,      // what memory moves at least; a power of 2
  parameter int unsigned InFlightBytes = 1024, // requested and not yet answered
  parameter int unsigned Setup = 8,            // cycles a transfer; at least 1
  parameter int unsigned RowSetup = 1,         // cycles from one run to the next; at least 1
  parameter int unsigned AheadBytes = 64,      // left to ask for when the next descriptor is taken
  parameter int unsigned Runs = 16,            // between descriptor stage and mover; a power of 2
  parameter int unsigned Transfers = 64        // that may wait for answers; a power of 2
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic     command_valid_i,
  output logic     command_ready_o,
  input  command_t command_i,

  output logic                done_valid_o,    // a transfer is complete
  output count_t [COUNTS-1:0] done_signals_o,  // its signals
  output logic                busy_o,          // something is under way
  output logic                occupied_o,      // a descriptor is worked on, or requests are made
  output logic [3:0]          error_o,         // ERROR_NONE, or why command_i cannot be executed

  // Requests, one beat each.
  output logic                           request_valid_o,
  input  logic                           request_ready_i,
  output logic [31:0]                    request_address_o,
  output logic [$clog2(PortBytes+1)-1:0] request_bytes_o,
  output logic                           request_burst_o,  // a burst begins: it is charged
  output logic                           request_last_o,   // of the transfer: the link is free behind it
  output logic [PortBytes-1:0][7:0]      request_data_o,   // of a store

  // Answers, in the order of the requests.
  input  logic                           response_valid_i,
  output logic                           response_ready_o,
  input  logic [$clog2(PortBytes+1)-1:0] response_bytes_i,
  input  logic                           response_burst_i,
  input  logic                           response_last_i,
  input  logic [PortBytes-1:0][7:0]      response_data_i,

  // The on-chip side: what a store reads, what a load or a fill writes.
  output logic [PortBytes-1:0][31:0] local_address_o,
  input  logic [PortBytes-1:0][7:0]  local_data_i,
  output logic [PortBytes-1:0]       local_write_o,
  output logic [PortBytes-1:0][7:0]  local_data_o
);
  localparam int unsigned Local = Store ? 1 : 0;
  localparam int unsigned Remote = Store ? 0 : 1;
  localparam int unsigned BeatBits = $clog2(PortBytes + 1);
  localparam int unsigned IndexBits = $clog2(Transfers);
  localparam int unsigned RunBits = $clog2(Runs);

  typedef struct packed {
    operand_t local_box;
    logic fill;
    logic [31:0] value;  // of a fill
    count_t [COUNTS-1:0] signals;
  } transfer_t;

  typedef struct packed {
    logic [31:0] address;
    logic [23:0] bytes;
    logic last;  // of its transfer
  } run_t;

  // ------------------------------------------------------------------ descriptors
  logic described_q;  // a descriptor is worked on
  logic first_q;      // it has not put out a run
  command_t command_q;
  logic [31:0] wait_q, beats;
  logic takes, puts, puts_transfer, described;
  logic [31:0] left_q, left_d;  // bytes to ask for, in whole bursts
  logic run_valid, run_last;
  logic [31:0] run_address;
  operand_t run_box;

  transfer_t transfers [Transfers];
  logic [IndexBits:0] head_q, walk_q, tail_q;  // oldest unanswered, the one that is walked, the next to come
  logic transfers_full;
  run_t runs [Runs];
  run_t run;
  logic [RunBits:0] run_head_q, run_tail_q;
  logic runs_full, runs_empty, fill;

  assign takes = command_valid_i && command_ready_o;
  assign beats = (command_i.immediate1 + 32'(PortBytes - 1)) / 32'(PortBytes);  // of a fill
  assign fill = command_q.opcode == OP_FILL;
  assign transfers_full = (tail_q - head_q) == (IndexBits+1)'(Transfers);
  assign runs_full = (run_tail_q - run_head_q) == (RunBits+1)'(Runs);
  assign runs_empty = run_tail_q == run_head_q;
  assign puts_transfer = described_q && first_q && !transfers_full && (fill || (wait_q == '0 && !runs_full));
  assign puts = described_q && !fill && wait_q == '0 && !runs_full && (!first_q || !transfers_full);
  assign described = fill ? described_q && wait_q == '0 && (!first_q || puts_transfer) : puts && run_last;
  assign command_ready_o = (!described_q || described) && left_d <= 32'(AheadBytes);
  always_comb begin
    left_d = left_q;
    if (puts) left_d += (32'(command_q.operands[Remote].size[DIMS-1]) + 32'(BurstBytes - 1)) & ~32'(BurstBytes - 1);
    if (request_valid_o && request_ready_i && request_burst_o) left_d -= 32'(BurstBytes);
  end

  always_comb begin
    error_o = ERROR_NONE;
    if (command_valid_i) begin
      if (command_i.opcode != OP_LOAD && command_i.opcode != OP_STORE && command_i.opcode != OP_FILL) begin
        error_o = ERROR_OPCODE;
      end else if ((command_i.opcode == OP_STORE) != Store) begin
        error_o = ERROR_ENGINE;
      end else if (command_i.operands[Local].space != SPACE_SCRATCHPAD) begin
        error_o = ERROR_OPERAND;
      end
    end
  end

  // Runs of the far side: the innermost dimension is a run, walked by beats.
  always_comb begin
    run_box = command_i.operands[Remote];
    run_box.size[DIMS-1] = 24'd1;
  end
  walker #(.Lanes(1)) i_runs (
    .clk_i,
    .rst_ni,
    .load_i(takes),
    .box_i(run_box),
    .advance_i(puts),
    .valid_o(run_valid),
    .address_o(run_address),
    .last_o(run_last)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      described_q <= 1'b0;
      first_q <= 1'b0;
      command_q <= '0;
      wait_q <= '0;
      left_q <= '0;
    end else if (takes) begin
      left_q <= left_d;
      described_q <= 1'b1;
      first_q <= 1'b1;
      command_q <= command_i;
      wait_q <= command_i.opcode == OP_FILL && beats > 32'(Setup) ? beats - 32'd1 : 32'(Setup - 1);
    end else begin
      left_q <= left_d;
      if (described) described_q <= 1'b0;
      if (puts_transfer) first_q <= 1'b0;
      if (puts) wait_q <= 32'(RowSetup - 1);
      else if (wait_q != '0) wait_q <= wait_q - 32'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (puts_transfer) begin
      transfers[tail_q[IndexBits-1:0]] <= '{
          local_box: command_q.operands[Local], fill: fill, value: command_q.immediate0, signals: command_q.signals
      };
    end
    if (puts) begin
      runs[run_tail_q[RunBits-1:0]] <= '{
          address: run_address, bytes: command_q.operands[Remote].size[DIMS-1], last: run_last
      };
    end
  end

  // ------------------------------------------------------------------ requests
  logic [23:0] moved_q, left, burst_left_q;  // bytes of the present run; of the present burst
  logic [BeatBits-1:0] beat;
  logic [31:0] outstanding_q;
  logic accepted, run_ends, walking_q;

  assign run = runs[run_head_q[RunBits-1:0]];
  assign left = run.bytes - moved_q;
  always_comb begin
    beat = BeatBits'(PortBytes);
    if (left < 24'(PortBytes)) beat = left[BeatBits-1:0];
    if (burst_left_q < 24'(beat)) beat = burst_left_q[BeatBits-1:0];
  end
  assign request_valid_o = !runs_empty && (!Store || walking_q) &&
                           outstanding_q + 32'(BurstBytes) <= 32'(InFlightBytes);
  assign request_address_o = run.address + 32'(moved_q);
  assign request_bytes_o = beat;
  assign request_burst_o = burst_left_q == 24'(BurstBytes);
  assign request_last_o = left == 24'(beat) && run.last;
  assign accepted = request_valid_o && request_ready_i;
  assign run_ends = accepted && left == 24'(beat);
  assign occupied_o = described_q || !runs_empty;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      moved_q <= '0;
      burst_left_q <= 24'(BurstBytes);
      run_head_q <= '0;
      run_tail_q <= '0;
      outstanding_q <= '0;
    end else begin
      if (puts) run_tail_q <= run_tail_q + (RunBits+1)'(1);
      if (run_ends) run_head_q <= run_head_q + (RunBits+1)'(1);
      if (run_ends) begin
        moved_q <= '0;
        burst_left_q <= 24'(BurstBytes);
      end else if (accepted) begin
        moved_q <= moved_q + 24'(beat);
        burst_left_q <= burst_left_q == 24'(beat) ? 24'(BurstBytes) : burst_left_q - 24'(beat);
      end
      outstanding_q <= outstanding_q + (accepted && request_burst_o ? 32'(BurstBytes) : '0) -
                       (response_valid_i && response_ready_o && response_burst_i ? 32'(BurstBytes) : '0);
    end
  end

  // ------------------------------------------------------------------ answers
  transfer_t head;
  logic answered, filling, filled, done;
  logic [PortBytes-1:0] lane_valid, lane_last;  // of the on-chip side

  assign head = transfers[head_q[IndexBits-1:0]];
  assign response_ready_o = Store || (walking_q && !head.fill);
  assign answered = response_valid_i && response_ready_o;
  assign filling = !Store && walking_q && head.fill;
  assign filled = filling && |(lane_last & lane_valid);
  assign done = (answered && response_last_i) || filled;
  assign busy_o = described_q || head_q != tail_q || done_valid_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
    end else begin
      if (puts_transfer) tail_q <= tail_q + (IndexBits+1)'(1);
      if (done) head_q <= head_q + (IndexBits+1)'(1);
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      done_valid_o <= 1'b0;
      done_signals_o <= '0;
    end else begin
      done_valid_o <= done;
      done_signals_o <= head.signals;
    end
  end

  // ------------------------------------------------------------------ the on-chip side
  // It is walked by the requests of a store, by the answers to a load, by itself for a fill.
  logic walked, walk_load;
  logic [IndexBits:0] next_walk;
  operand_t walk_box;
  logic [BeatBits-1:0] advance;

  assign walked = Store ? accepted && request_last_o : done;
  assign next_walk = walked ? walk_q + (IndexBits+1)'(1) : walk_q;
  assign walk_load = (walked || !walking_q) && (next_walk != tail_q || puts_transfer);
  assign walk_box = next_walk != tail_q ? transfers[next_walk[IndexBits-1:0]].local_box : command_q.operands[Local];
  always_comb begin
    advance = '0;
    if (filling) advance = BeatBits'(PortBytes);
    else if (Store) advance = accepted ? beat : '0;
    else if (answered) advance = response_bytes_i;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      walking_q <= 1'b0;
      walk_q <= '0;
    end else begin
      walk_q <= next_walk;
      if (walk_load) walking_q <= 1'b1;
      else if (walked) walking_q <= 1'b0;
    end
  end

  walker #(.Lanes(PortBytes)) i_local (
    .clk_i,
    .rst_ni,
    .load_i(walk_load),
    .box_i(walk_box),
    .advance_i(advance),
    .valid_o(lane_valid),
    .address_o(local_address_o),
    .last_o(lane_last)
  );

  always_comb begin
    for (int unsigned l = 0; l < PortBytes; l++) begin
      request_data_o[l] = local_data_i[l];
      local_data_o[l] = response_data_i[l];
      local_write_o[l] = !Store && answered && lane_valid[l] && l < 32'(response_bytes_i);
      if (filling) begin
        local_write_o[l] = lane_valid[l];
        local_data_o[l] = head.local_box.element_bytes == 3'd4 ? head.value[8*(l%4)+:8] : head.value[7:0];
      end
    end
  end

  logic unused_bits;
  assign unused_bits = ^{command_q, run_valid};

`ifndef SYNTHESIS
  logic command_waits_q, request_waits_q;
  command_t waiting_q;
  logic [31:0] asked_address_q;
  logic [BeatBits+1:0] asked_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      command_waits_q <= 1'b0;
      request_waits_q <= 1'b0;
      waiting_q <= '0;
      asked_address_q <= '0;
      asked_q <= '0;
    end else begin
      // An error stops all, and withdraws what waits.
      command_waits_q <= command_valid_i && !command_ready_o && error_o == ERROR_NONE;
      waiting_q <= command_i;
      request_waits_q <= request_valid_o && !request_ready_i;
      asked_address_q <= request_address_o;
      asked_q <= {request_bytes_o, request_burst_o, request_last_o};
      assert (!command_waits_q || !command_valid_i || command_i == waiting_q)
      else $error("a command has changed while it waited");
      assert (!request_waits_q || (request_valid_o && request_address_o == asked_address_q &&
              {request_bytes_o, request_burst_o, request_last_o} == asked_q))
      else $error("a request has changed while it waited");
      assert ((run_tail_q - run_head_q) <= (RunBits+1)'(Runs)) else $error("too many runs");
      assert ((tail_q - head_q) <= (IndexBits+1)'(Transfers)) else $error("too many transfers");
      assert ((walk_q - head_q) <= (tail_q - head_q)) else $error("a transfer is walked that has not begun");
      assert (!accepted || request_bytes_o != '0) else $error("an empty request");
      assert (!answered || !response_burst_i || outstanding_q >= 32'(BurstBytes))
      else $error("more is answered than was asked for");
      for (int unsigned l = 0; l < PortBytes; l++) begin
        assert (Store || !answered || 32'(response_bytes_i) != l + 1 ||
                (lane_valid[l] && lane_last[l] == response_last_i))
        else $error("the sides of a load have unlike numbers of bytes");
        assert (!Store || !accepted || 32'(request_bytes_o) != l + 1 ||
                (lane_valid[l] && lane_last[l] == request_last_o))
        else $error("the sides of a store have unlike numbers of bytes");
      end
      assert (outstanding_q <= 32'(InFlightBytes)) else $error("more is outstanding than may be");
      assert (!response_valid_i || head_q != tail_q) else $error("an answer that nobody asked for");
      assert (!done || head_q != tail_q) else $error("a transfer ends that has not begun");
    end
  end
`endif
endmodule
