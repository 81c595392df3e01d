// The chip with its memory, as the simulators run it. Memory is behavioural; see `dram`.
module systolic_bench
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
  parameter int unsigned PortBytes = 16,
  parameter int unsigned BurstBytes = 16,
  parameter int unsigned InFlightBytes = 1024,
  parameter int unsigned DmaSetup = 8,
  parameter int unsigned DmaRowSetup = 1,
  parameter int unsigned DmaAheadBytes = 64,
  parameter int unsigned MemoryBytes = 1 << 22,       // a power of 2
  parameter int unsigned BytesPer1024Cycles = 8192,
  parameter int unsigned MemoryLatency = 64,          // cycles
  parameter int unsigned SemaphoreCycles = 1,
  parameter int unsigned Streams = 8,
  parameter int unsigned Instructions = 512,
  parameter int unsigned Semaphores = 32,
  localparam int unsigned Engines = 6
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic                       word_write_i,
  input  logic [$clog2(Streams)-1:0] word_stream_i,
  input  logic [PC_BITS-1:0]         word_pc_i,
  input  logic [WORD_BITS-1:0]       word_i,
  input  logic                       semaphore_write_i,
  input  logic [SEMAPHORE_BITS-1:0]  semaphore_i,
  input  logic [20:0]                semaphore_amount_i,
  input  logic [Streams-1:0]         enable_i,

  input  logic start_i,
  output logic done_o,

  output logic [3:0]                 error_o,
  output logic [$clog2(Streams)-1:0] error_stream_o,
  output logic [PC_BITS-1:0]         error_pc_o,

  output logic [63:0]              cycles_o,
  output logic [Engines-1:0][63:0] busy_cycles_o,
  output logic [Streams-1:0][63:0] issued_o,
  output logic [63:0]              touched_bytes_o
);
  localparam int unsigned Channels = 2;
  localparam int unsigned BeatBits = $clog2(PortBytes + 1);

  logic request_valid, request_ready, request_channel, request_burst, request_last, response_burst, response_last;
  logic [31:0] request_address;
  logic [BeatBits-1:0] request_bytes, response_bytes;
  logic [PortBytes-1:0][7:0] request_data, response_data;
  logic [Channels-1:0] response_valid, response_ready;

  systolic_chip #(
    .Rows(Rows), .Columns(Columns), .WeightPlanes(WeightPlanes), .ResultPlanes(ResultPlanes),
    .ScratchpadBytes(ScratchpadBytes), .AccumulatorBytes(AccumulatorBytes), .VectorLanes(VectorLanes),
    .VectorLatency(VectorLatency), .PortBytes(PortBytes), .BurstBytes(BurstBytes), .InFlightBytes(InFlightBytes),
    .DmaSetup(DmaSetup), .DmaRowSetup(DmaRowSetup), .DmaAheadBytes(DmaAheadBytes),
    .SemaphoreCycles(SemaphoreCycles), .Streams(Streams), .Instructions(Instructions),
    .Semaphores(Semaphores)
  ) i_chip (
    .clk_i,
    .rst_ni,
    .word_write_i,
    .word_stream_i,
    .word_pc_i,
    .word_i(word_t'(word_i)),
    .semaphore_write_i,
    .semaphore_i,
    .semaphore_amount_i,
    .enable_i,
    .start_i,
    .done_o,
    .error_o,
    .error_stream_o,
    .error_pc_o,
    .request_valid_o(request_valid),
    .request_ready_i(request_ready),
    .request_channel_o(request_channel),
    .request_address_o(request_address),
    .request_bytes_o(request_bytes),
    .request_burst_o(request_burst),
    .request_last_o(request_last),
    .request_data_o(request_data),
    .response_valid_i(response_valid),
    .response_ready_o(response_ready),
    .response_bytes_i(response_bytes),
    .response_burst_i(response_burst),
    .response_last_i(response_last),
    .response_data_i(response_data),
    .cycles_o,
    .busy_cycles_o,
    .issued_o
  );

  dram #(
    .Bytes(MemoryBytes), .PortBytes(PortBytes), .BurstBytes(BurstBytes), .BytesPer1024Cycles(BytesPer1024Cycles),
    .Latency(MemoryLatency), .Channels(Channels)
  ) i_dram (
    .clk_i,
    .rst_ni,
    .request_valid_i(request_valid),
    .request_ready_o(request_ready),
    .request_channel_i(request_channel),
    .request_write_i(request_channel),
    .request_address_i(request_address),
    .request_bytes_i(request_bytes),
    .request_burst_i(request_burst),
    .request_last_i(request_last),
    .request_data_i(request_data),
    .response_valid_o(response_valid),
    .response_ready_i(response_ready),
    .response_bytes_o(response_bytes),
    .response_burst_o(response_burst),
    .response_last_o(response_last),
    .response_data_o(response_data),
    .touched_bytes_o
  );
endmodule
