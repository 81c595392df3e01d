// One core of a systolic chip: sequencers, semaphores, scratchpad, accumulator, and the engines between them.
//
// Engines are numbered as in simulators/systolic/cost.py: load, weights, matrix, drain, vector, store. A run begins with
// `start_i` and is over, with `done_o`, when every stream has ended and no engine has anything under way. An error stops
// the chip and stays until reset.
module systolic_chip
  import presil_pkg::*;
#(
  parameter int unsigned Rows = 4,
  parameter int unsigned Columns = 4,
  parameter int unsigned WeightPlanes = 2,
  parameter int unsigned ResultPlanes = 2,
  parameter int unsigned ScratchpadBytes = 16384,
  parameter int unsigned AccumulatorBytes = 4096,
  parameter int unsigned VectorLanes = 4,
  parameter int unsigned VectorLatency = 8,
  parameter int unsigned PortBytes = 16,       // of each DMA channel
  parameter int unsigned BurstBytes = 16,
  parameter int unsigned InFlightBytes = 1024,
  parameter int unsigned DmaSetup = 8,
  parameter int unsigned DmaRowSetup = 1,
  parameter int unsigned DmaAheadBytes = 64,
  parameter int unsigned SemaphoreCycles = 1,  // from the end of an instruction to where its signal is seen
  parameter int unsigned Streams = 8,
  parameter int unsigned Instructions = 512,   // of each stream
  parameter int unsigned Semaphores = 32,
  localparam int unsigned Engines = 6,
  localparam int unsigned Channels = 2
) (
  input  logic clk_i,
  input  logic rst_ni,

  // The program, before the start.
  input  logic                       word_write_i,
  input  logic [$clog2(Streams)-1:0] word_stream_i,
  input  logic [PC_BITS-1:0]         word_pc_i,
  input  word_t                      word_i,
  input  logic                       semaphore_write_i,
  input  logic [SEMAPHORE_BITS-1:0]  semaphore_i,
  input  logic [20:0]                semaphore_amount_i,
  input  logic [Streams-1:0]         enable_i,  // streams that have a program

  input  logic start_i,
  output logic done_o,

  output logic [3:0]                 error_o,         // ERROR_NONE, or the first error
  output logic [$clog2(Streams)-1:0] error_stream_o,  // of the stream whose word it was
  output logic [PC_BITS-1:0]         error_pc_o,

  // Memory: channel 0 loads, channel 1 stores.
  output logic                            request_valid_o,
  input  logic                            request_ready_i,
  output logic                            request_channel_o,
  output logic [31:0]                     request_address_o,
  output logic [$clog2(PortBytes+1)-1:0]  request_bytes_o,
  output logic                            request_burst_o,
  output logic                            request_last_o,
  output logic [PortBytes-1:0][7:0]       request_data_o,
  input  logic [Channels-1:0]             response_valid_i,
  output logic [Channels-1:0]             response_ready_o,
  input  logic [$clog2(PortBytes+1)-1:0]  response_bytes_i,
  input  logic                            response_burst_i,
  input  logic                            response_last_i,
  input  logic [PortBytes-1:0][7:0]       response_data_i,

  output logic [63:0]              cycles_o,  // from the start to the end
  output logic [Engines-1:0][63:0] busy_cycles_o,
  output logic [Streams-1:0][63:0] issued_o
);
  localparam int unsigned Load = 0;
  localparam int unsigned Weights = 1;
  localparam int unsigned Matrix = 2;
  localparam int unsigned Drain = 3;
  localparam int unsigned Vector = 4;
  localparam int unsigned StoreEngine = 5;
  localparam int unsigned VectorBytes = 4 * VectorLanes;

  // ------------------------------------------------------------------ streams
  count_t [Streams-1:0][COUNTS-1:0] waits;
  logic [Streams-1:0][COUNTS-1:0] granted;
  logic [Streams-1:0] offered, accepted, running;
  logic [Streams-1:0][3:0] engine, stream_error;
  command_t [Streams-1:0] offer;
  logic [Streams-1:0][PC_BITS-1:0] pc;
  logic stop;

  for (genvar s = 0; s < Streams; s++) begin : gen_stream
    sequencer #(.Instructions(Instructions), .Engines(Engines), .Semaphores(Semaphores)) i_sequencer (
      .clk_i,
      .rst_ni,
      .start_i,
      .enable_i(enable_i[s]),
      .stop_i(stop),
      .write_i(word_write_i && 32'(word_stream_i) == s),
      .write_pc_i(word_pc_i),
      .write_word_i(word_i),
      .waits_o(waits[s]),
      .granted_i(granted[s]),
      .command_valid_o(offered[s]),
      .command_ready_i(accepted[s]),
      .command_engine_o(engine[s]),
      .command_o(offer[s]),
      .busy_o(running[s]),
      .error_o(stream_error[s]),
      .pc_o(pc[s])
    );
  end

  logic [Engines-1:0] command_valid, command_ready, done_valid, busy, occupied;
  command_t [Engines-1:0] command;
  count_t [Engines-1:0][COUNTS-1:0] done_signals;
  logic [Engines-1:0][3:0] engine_error;
  logic overflow;

  dispatcher #(.Streams(Streams), .Engines(Engines)) i_dispatcher (
    .clk_i,
    .rst_ni,
    .offered_i(offered),
    .engine_i(engine),
    .command_i(offer),
    .accepted_o(accepted),
    .valid_o(command_valid),
    .command_o(command),
    .ready_i(command_ready)
  );

  // Signals reach the semaphores SemaphoreCycles - 1 cycles later; these are seen in the next cycle.
  logic [Engines-1:0] given_valid;
  count_t [Engines-1:0][COUNTS-1:0] given;
  delay #(.Width($bits(done_valid) + $bits(done_signals)), .Cycles(SemaphoreCycles - 1)) i_signals (
    .clk_i, .rst_ni, .data_i({done_valid, done_signals}), .data_o({given_valid, given})
  );

  semaphore_file #(.Semaphores(Semaphores), .Streams(Streams), .Engines(Engines)) i_semaphores (
    .clk_i,
    .rst_ni,
    .set_i(semaphore_write_i),
    .set_semaphore_i(semaphore_i),
    .set_amount_i(semaphore_amount_i),
    .waits_i(waits),
    .granted_o(granted),
    .given_valid_i(given_valid),
    .given_i(given),
    .overflow_o(overflow)
  );

  // ------------------------------------------------------------------ on-chip memories
  // Bytes of the scratchpad that are read: rows of x, weights of either kind of use, the vector unit's a and b, the store.
  localparam int unsigned ReadX = 0;
  localparam int unsigned ReadW = ReadX + Rows;
  localparam int unsigned ReadShift = ReadW + Columns;
  localparam int unsigned ReadA = ReadShift + Columns;
  localparam int unsigned ReadB = ReadA + VectorBytes;
  localparam int unsigned ReadStore = ReadB + VectorBytes;
  localparam int unsigned ReadLanes = ReadStore + PortBytes;
  localparam int unsigned WriteLanes = PortBytes + VectorBytes;

  logic [ReadLanes-1:0][31:0] read_address;
  logic [ReadLanes-1:0][7:0] read_data;
  logic [WriteLanes-1:0] write_valid;
  logic [WriteLanes-1:0][31:0] write_address;
  logic [WriteLanes-1:0][7:0] write_data;

  scratchpad #(
    .Elements(ScratchpadBytes), .Width(8), .ReadLanes(ReadLanes), .WriteLanes(WriteLanes)
  ) i_scratchpad (
    .clk_i,
    .read_address_i(read_address),
    .read_data_o(read_data),
    .write_valid_i(write_valid),
    .write_address_i(write_address),
    .write_data_i(write_data)
  );

  // Sums that are read: what matmul and drain add to, and the vector unit's a.
  localparam int unsigned SumLanes = 2 * Columns + VectorLanes;
  logic [SumLanes-1:0][31:0] sum_address, sum_data;
  logic [2*Columns-1:0] sum_write;
  logic [2*Columns-1:0][31:0] sum_new;

  scratchpad #(
    .Elements(AccumulatorBytes / 4), .Width(32), .ReadLanes(SumLanes), .WriteLanes(2 * Columns)
  ) i_accumulator (
    .clk_i,
    .read_address_i(sum_address),
    .read_data_o(sum_data),
    .write_valid_i(sum_write),
    .write_address_i(sum_address[2*Columns-1:0]),
    .write_data_i(sum_new)
  );

  // ------------------------------------------------------------------ transfers
  logic [Channels-1:0] request_valid, request_ready, request_burst, request_last;
  logic [Channels-1:0][31:0] request_address;
  logic [Channels-1:0][$clog2(PortBytes+1)-1:0] request_bytes;
  logic [Channels-1:0][PortBytes-1:0][7:0] request_data;
  logic [PortBytes-1:0][31:0] load_address, store_address;
  logic [PortBytes-1:0] load_write, unused_store_write;
  logic [PortBytes-1:0][7:0] load_data, unused_store_data;

  dma #(
    .Store(1'b0), .PortBytes(PortBytes), .BurstBytes(BurstBytes), .InFlightBytes(InFlightBytes),
    .Setup(DmaSetup), .RowSetup(DmaRowSetup), .AheadBytes(DmaAheadBytes)
  ) i_load (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid[Load]),
    .command_ready_o(command_ready[Load]),
    .command_i(command[Load]),
    .done_valid_o(done_valid[Load]),
    .done_signals_o(done_signals[Load]),
    .busy_o(busy[Load]),
    .occupied_o(occupied[Load]),
    .error_o(engine_error[Load]),
    .request_valid_o(request_valid[0]),
    .request_ready_i(request_ready[0]),
    .request_address_o(request_address[0]),
    .request_bytes_o(request_bytes[0]),
    .request_burst_o(request_burst[0]),
    .request_last_o(request_last[0]),
    .request_data_o(request_data[0]),
    .response_valid_i(response_valid_i[0]),
    .response_ready_o(response_ready_o[0]),
    .response_bytes_i,
    .response_burst_i,
    .response_last_i,
    .response_data_i,
    .local_address_o(load_address),
    .local_data_i('0),
    .local_write_o(load_write),
    .local_data_o(load_data)
  );

  dma #(
    .Store(1'b1), .PortBytes(PortBytes), .BurstBytes(BurstBytes), .InFlightBytes(InFlightBytes),
    .Setup(DmaSetup), .RowSetup(DmaRowSetup), .AheadBytes(DmaAheadBytes)
  ) i_store (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid[StoreEngine]),
    .command_ready_o(command_ready[StoreEngine]),
    .command_i(command[StoreEngine]),
    .done_valid_o(done_valid[StoreEngine]),
    .done_signals_o(done_signals[StoreEngine]),
    .busy_o(busy[StoreEngine]),
    .occupied_o(occupied[StoreEngine]),
    .error_o(engine_error[StoreEngine]),
    .request_valid_o(request_valid[1]),
    .request_ready_i(request_ready[1]),
    .request_address_o(request_address[1]),
    .request_bytes_o(request_bytes[1]),
    .request_burst_o(request_burst[1]),
    .request_last_o(request_last[1]),
    .request_data_o(request_data[1]),
    .response_valid_i(response_valid_i[1]),
    .response_ready_o(response_ready_o[1]),
    .response_bytes_i,
    .response_burst_i,
    .response_last_i,
    .response_data_i,
    .local_address_o(store_address),
    .local_data_i(read_data[ReadStore+:PortBytes]),
    .local_write_o(unused_store_write),
    .local_data_o(unused_store_data)
  );

  memory_arbiter #(.Channels(Channels)) i_arbiter (
    .clk_i,
    .rst_ni,
    .valid_i(request_valid),
    .last_i(request_last),
    .ready_i(request_ready_i),
    .ready_o(request_ready),
    .valid_o(request_valid_o),
    .channel_o(request_channel_o)
  );
  assign request_address_o = request_address[request_channel_o];
  assign request_bytes_o = request_bytes[request_channel_o];
  assign request_burst_o = request_burst[request_channel_o];
  assign request_last_o = request_last[request_channel_o];
  assign request_data_o = request_data[request_channel_o];

  assign read_address[ReadStore+:PortBytes] = store_address;
  assign write_valid[PortBytes-1:0] = load_write;
  assign write_address[PortBytes-1:0] = load_address;
  assign write_data[PortBytes-1:0] = load_data;

  // ------------------------------------------------------------------ the array and its engines
  logic shift, feed, stationary, clear;
  logic [2:0] shift_plane, plane, result_plane;
  logic [31:0] result_row;
  logic [Columns-1:0][7:0] weights, w;
  logic [Rows-1:0][7:0] x;
  logic [Columns-1:0][31:0] sums, results;

  weight_loader #(.Rows(Rows), .Columns(Columns)) i_weights (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid[Weights]),
    .command_ready_o(command_ready[Weights]),
    .command_i(command[Weights]),
    .done_valid_o(done_valid[Weights]),
    .done_signals_o(done_signals[Weights]),
    .busy_o(busy[Weights]),
    .occupied_o(occupied[Weights]),
    .error_o(engine_error[Weights]),
    .read_address_o(read_address[ReadShift+:Columns]),
    .read_data_i(read_data[ReadShift+:Columns]),
    .shift_o(shift),
    .shift_plane_o(shift_plane),
    .weights_o(weights)
  );

  matrix_engine #(.Rows(Rows), .Columns(Columns)) i_matrix (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid[Matrix]),
    .command_ready_o(command_ready[Matrix]),
    .command_i(command[Matrix]),
    .done_valid_o(done_valid[Matrix]),
    .done_signals_o(done_signals[Matrix]),
    .busy_o(busy[Matrix]),
    .occupied_o(occupied[Matrix]),
    .error_o(engine_error[Matrix]),
    .x_address_o(read_address[ReadX+:Rows]),
    .x_data_i(read_data[ReadX+:Rows]),
    .w_address_o(read_address[ReadW+:Columns]),
    .w_data_i(read_data[ReadW+:Columns]),
    .valid_o(feed),
    .stationary_o(stationary),
    .clear_o(clear),
    .plane_o(plane),
    .x_o(x),
    .w_o(w),
    .sums_i(sums),
    .sum_address_o(sum_address[0+:Columns]),
    .sum_old_i(sum_data[0+:Columns]),
    .sum_write_o(sum_write[0+:Columns]),
    .sum_new_o(sum_new[0+:Columns])
  );

  array #(
    .Rows(Rows), .Columns(Columns), .WeightPlanes(WeightPlanes), .ResultPlanes(ResultPlanes)
  ) i_array (
    .clk_i,
    .rst_ni,
    .valid_i(feed),
    .stationary_i(stationary),
    .clear_i(clear),
    .plane_i(plane),
    .x_i(x),
    .w_i(w),
    .sums_o(sums),
    .shift_i(shift),
    .shift_plane_i(shift_plane),
    .weights_i(weights),
    .result_plane_i(result_plane),
    .result_row_i(result_row),
    .results_o(results)
  );

  drain_engine #(.Rows(Rows), .Columns(Columns)) i_drain (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid[Drain]),
    .command_ready_o(command_ready[Drain]),
    .command_i(command[Drain]),
    .done_valid_o(done_valid[Drain]),
    .done_signals_o(done_signals[Drain]),
    .busy_o(busy[Drain]),
    .occupied_o(occupied[Drain]),
    .error_o(engine_error[Drain]),
    .result_plane_o(result_plane),
    .result_row_o(result_row),
    .results_i(results),
    .sum_address_o(sum_address[Columns+:Columns]),
    .sum_old_i(sum_data[Columns+:Columns]),
    .sum_write_o(sum_write[Columns+:Columns]),
    .sum_new_o(sum_new[Columns+:Columns])
  );

  vector_unit #(.Lanes(VectorLanes), .Latency(VectorLatency)) i_vector (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid[Vector]),
    .command_ready_o(command_ready[Vector]),
    .command_i(command[Vector]),
    .done_valid_o(done_valid[Vector]),
    .done_signals_o(done_signals[Vector]),
    .busy_o(busy[Vector]),
    .occupied_o(occupied[Vector]),
    .error_o(engine_error[Vector]),
    .sum_address_o(sum_address[2*Columns+:VectorLanes]),
    .sum_data_i(sum_data[2*Columns+:VectorLanes]),
    .a_address_o(read_address[ReadA+:VectorBytes]),
    .a_data_i(read_data[ReadA+:VectorBytes]),
    .b_address_o(read_address[ReadB+:VectorBytes]),
    .b_data_i(read_data[ReadB+:VectorBytes]),
    .write_o(write_valid[PortBytes+:VectorBytes]),
    .write_address_o(write_address[PortBytes+:VectorBytes]),
    .write_data_o(write_data[PortBytes+:VectorBytes])
  );

  // ------------------------------------------------------------------ end, errors, counters
  logic started_q, over;
  assign over = started_q && running == '0 && busy == '0;
  assign done_o = over;
  assign stop = error_o != ERROR_NONE;

  logic [3:0] error;
  logic [$clog2(Streams)-1:0] error_stream;
  always_comb begin
    error = overflow ? ERROR_OVERFLOW : ERROR_NONE;
    error_stream = '0;
    for (int unsigned s = 0; s < Streams; s++) begin
      if (error == ERROR_NONE && stream_error[s] != ERROR_NONE) begin
        error = stream_error[s];
        error_stream = ($clog2(Streams))'(s);
      end
      for (int unsigned e = 0; e < Engines; e++) begin
        if (error == ERROR_NONE && engine_error[e] != ERROR_NONE && offered[s] && engine[s] == 4'(e)) begin
          error = engine_error[e];
          error_stream = ($clog2(Streams))'(s);
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      started_q <= 1'b0;
      error_o <= ERROR_NONE;
      error_stream_o <= '0;
      error_pc_o <= '0;
    end else begin
      if (start_i) started_q <= 1'b1;
      if (error_o == ERROR_NONE && error != ERROR_NONE) begin
        error_o <= error;
        error_stream_o <= error_stream;
        error_pc_o <= pc[error_stream];
      end
    end
  end

  counters #(.Count(1 + Engines + Streams)) i_counters (
    .clk_i,
    .rst_ni,
    .clear_i(start_i),
    .high_i({accepted & offered, occupied, started_q && !over}),
    .cycles_o({issued_o, busy_cycles_o, cycles_o})
  );
endmodule
