// One channel between memory and an on-chip space: `load` and `fill`, or `store`.
//
// A transfer is a box of runs of contiguous bytes on either side. It goes through three stages, each of which may hold
// another transfer: set-up of the descriptor (Setup cycles); requests, a beat of at most PortBytes of one run a cycle, runs
// RowSetup cycles apart, at most InFlightBytes outstanding; and responses, which come in order. Whole bursts are charged,
// counted from the beginning of each run. The link is held from the first request of a transfer to its last. A fill asks
// memory for nothing: it writes its value when all before it has been answered.
module dma
  import presil_pkg::*;
#(
  parameter bit          Store = 1'b0,           // moves to memory instead of from it
  parameter int unsigned PortBytes = 16,         // on-chip bytes a cycle; a power of 2
  parameter int unsigned BurstBytes = 16,        // what memory moves at least; a power of 2
  parameter int unsigned InFlightBytes = 1024,   // requested and not yet answered
  parameter int unsigned Setup = 8,              // cycles a transfer
  parameter int unsigned RowSetup = 1,           // cycles from one run to the next
  parameter int unsigned Transfers = 64          // that may wait for responses; a power of 2
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic     command_valid_i,
  output logic     command_ready_o,
  input  command_t command_i,

  output logic                done_valid_o,    // a transfer is complete
  output count_t [COUNTS-1:0] done_signals_o,  // its signals
  output logic                busy_o,          // something is under way
  output logic                occupied_o,      // requests are being made
  output logic [3:0]          error_o,         // ERROR_NONE, or why command_i cannot be executed

  // Requests, one beat each.
  output logic                              request_valid_o,
  input  logic                              request_ready_i,
  output logic [31:0]                       request_address_o,
  output logic [$clog2(PortBytes+1)-1:0]    request_bytes_o,
  output logic                              request_burst_o,  // a burst begins: it is charged
  output logic                              request_last_o,   // of the transfer: the link is free behind it
  output logic [PortBytes-1:0][7:0]         request_data_o,   // of a store

  // Responses, in the order of the requests.
  input  logic                              response_valid_i,
  output logic                              response_ready_o,
  input  logic [$clog2(PortBytes+1)-1:0]    response_bytes_i,
  input  logic                              response_burst_i,
  input  logic                              response_last_i,
  input  logic [PortBytes-1:0][7:0]         response_data_i,

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

  typedef struct packed {
    operand_t local_box;
    logic fill;
    logic [31:0] value;  // of a fill
    count_t [COUNTS-1:0] signals;
  } transfer_t;

  // ------------------------------------------------------------------ set-up
  logic set_q, set_leaves;
  command_t command_q;
  logic [15:0] set_left_q;

  assign command_ready_o = !set_q || set_leaves;
  always_comb begin
    error_o = ERROR_NONE;
    if (command_valid_i) begin
      if (command_i.opcode != OP_LOAD && command_i.opcode != OP_STORE && command_i.opcode != OP_FILL) begin
        error_o = ERROR_OPCODE;
      end else if ((command_i.opcode == OP_STORE) != Store) begin
        error_o = ERROR_ENGINE;
      end else if (command_i.operands[command_i.opcode == OP_FILL ? 0 : Local].space != SPACE_SCRATCHPAD) begin
        error_o = ERROR_OPERAND;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      set_q <= 1'b0;
      command_q <= '0;
      set_left_q <= '0;
    end else if (command_valid_i && command_ready_o) begin
      set_q <= 1'b1;
      command_q <= command_i;
      set_left_q <= 16'(Setup);
    end else begin
      if (set_leaves) set_q <= 1'b0;
      if (set_left_q != '0) set_left_q <= set_left_q - 16'd1;
    end
  end

  // ------------------------------------------------------------------ requests
  logic requesting_q, ends, starts;
  logic [23:0] run_left_q, run_bytes_q;
  logic [23:0] burst_left_q;
  logic [31:0] run_offset_q;
  logic [15:0] gap_q;
  logic [BeatBits-1:0] beat;
  logic run_valid, run_last;
  logic [31:0] run_address;
  logic [31:0] outstanding_q;
  logic accepted, run_ends;
  logic queue_full, queue_empty;
  operand_t run_box, local_box;

  assign local_box = command_q.operands[command_q.opcode == OP_FILL ? 0 : Local];

  // Runs of the far side: the innermost dimension is a run, walked by beats.
  always_comb begin
    run_box = command_q.operands[Remote];
    run_box.size[DIMS-1] = 24'd1;
  end

  walker #(.Lanes(1)) i_runs (
    .clk_i,
    .rst_ni,
    .load_i(starts),
    .box_i(run_box),
    .advance_i(run_ends),
    .valid_o(run_valid),
    .address_o(run_address),
    .last_o(run_last)
  );

  always_comb begin
    beat = BeatBits'(PortBytes);
    if (run_left_q < 24'(PortBytes)) beat = run_left_q[BeatBits-1:0];
    if (burst_left_q < 24'(beat)) beat = burst_left_q[BeatBits-1:0];
  end
  assign request_burst_o = burst_left_q == 24'(BurstBytes);
  assign request_valid_o = requesting_q && run_valid && gap_q == '0 &&
                           outstanding_q + 32'(BurstBytes) <= 32'(InFlightBytes);
  assign request_address_o = run_address + run_offset_q;
  assign request_bytes_o = beat;
  assign accepted = request_valid_o && request_ready_i;
  assign run_ends = accepted && run_left_q == 24'(beat);
  assign request_last_o = run_left_q == 24'(beat) && run_last;
  assign ends = accepted && request_last_o;
  assign set_leaves = set_q && set_left_q == '0 && (!requesting_q || ends) && !queue_full;
  assign starts = set_leaves;
  assign occupied_o = requesting_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      requesting_q <= 1'b0;
      run_left_q <= '0;
      run_bytes_q <= '0;
      burst_left_q <= '0;
      run_offset_q <= '0;
      gap_q <= '0;
      outstanding_q <= '0;
    end else begin
      if (gap_q != '0) gap_q <= gap_q - 16'd1;
      if (starts) begin
        requesting_q <= command_q.opcode != OP_FILL;
        run_bytes_q <= command_q.operands[Remote].size[DIMS-1];
        run_left_q <= command_q.operands[Remote].size[DIMS-1];
        burst_left_q <= 24'(BurstBytes);
        run_offset_q <= '0;
        gap_q <= '0;
      end else if (ends) begin
        requesting_q <= 1'b0;
      end else if (run_ends) begin
        run_left_q <= run_bytes_q;
        burst_left_q <= 24'(BurstBytes);
        run_offset_q <= '0;
        gap_q <= 16'(RowSetup > 0 ? RowSetup - 1 : 0);
      end else if (accepted) begin
        run_left_q <= run_left_q - 24'(beat);
        burst_left_q <= burst_left_q == 24'(beat) ? 24'(BurstBytes) : burst_left_q - 24'(beat);
        run_offset_q <= run_offset_q + 32'(beat);
      end
      outstanding_q <= outstanding_q + (accepted && request_burst_o ? 32'(BurstBytes) : '0) -
                       (response_valid_i && response_ready_o && response_burst_i ? 32'(BurstBytes) : '0);
    end
  end

  // ------------------------------------------------------------------ responses
  transfer_t queue [Transfers];
  logic [IndexBits:0] head_q, tail_q;
  logic answered, filling, filled, pops;
  transfer_t head;
  logic [BeatBits-1:0] advance;
  logic [PortBytes-1:0] lane_valid, lane_last;
  logic walk_load, walking_q;
  operand_t walk_box;

  assign queue_empty = head_q == tail_q;
  assign queue_full = (tail_q - head_q) == (IndexBits+1)'(Transfers);
  assign head = queue[head_q[IndexBits-1:0]];
  assign filling = walking_q && head.fill;
  assign filled = filling && |(lane_last & lane_valid);
  assign response_ready_o = Store || (walking_q && !head.fill);
  assign answered = response_valid_i && response_ready_o;
  assign pops = (answered && response_last_i) || filled;
  assign done_valid_o = pops;
  assign done_signals_o = head.signals;
  assign busy_o = set_q || requesting_q || !queue_empty;

  always_ff @(posedge clk_i) begin
    if (starts) begin
      queue[tail_q[IndexBits-1:0]] <= '{
          local_box: local_box, fill: command_q.opcode == OP_FILL, value: command_q.immediate0, signals: command_q.signals
      };
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
    end else begin
      if (starts) tail_q <= tail_q + (IndexBits+1)'(1);
      if (pops) head_q <= head_q + (IndexBits+1)'(1);
    end
  end

  // The on-chip side is walked by requests of a store, by responses of a load, by itself for a fill.
  logic [IndexBits:0] next_head;
  assign next_head = head_q + (IndexBits+1)'(1);
  always_comb begin
    walk_load = 1'b0;
    walk_box = local_box;
    if (Store) begin
      walk_load = starts;
    end else if (pops || !walking_q) begin
      // The box of the transfer that is at the head of the queue after this cycle, if it is there.
      if (pops ? next_head != tail_q : !queue_empty) begin
        walk_load = 1'b1;
        walk_box = pops ? queue[next_head[IndexBits-1:0]].local_box : head.local_box;
      end else if (starts) begin
        walk_load = 1'b1;
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) walking_q <= 1'b0;
    else if (walk_load) walking_q <= 1'b1;
    else if (pops) walking_q <= 1'b0;
  end

  always_comb begin
    advance = '0;
    if (filling) advance = BeatBits'(PortBytes);
    else if (Store) advance = accepted ? beat : '0;
    else if (answered) advance = response_bytes_i;
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

  logic unused_command;
  assign unused_command = ^{command_q.operands[2], command_q.accumulate, command_q.immediate1, command_q.opcode};
endmodule
