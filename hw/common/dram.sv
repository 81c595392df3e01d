// Memory, as a behavioural model outside the synthesised chip: a link of given bandwidth, then a fixed latency.
//
// A request that begins a burst takes the link for the time of the burst; it is accepted when the link has nothing left
// of the ones before. Its answer comes when the burst is through, Latency cycles later, in order, one a cycle.
module dram #(
  parameter int unsigned Bytes = 1 << 20,          // capacity; a power of 2
  parameter int unsigned PortBytes = 16,           // of a beat
  parameter int unsigned BurstBytes = 16,          // what a burst takes the link for
  parameter int unsigned BytesPer1024Cycles = 8192,  // bandwidth
  parameter int unsigned Latency = 64,             // cycles
  parameter int unsigned Channels = 2,
  parameter int unsigned Requests = 256            // that may wait for answers; a power of 2
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic                             request_valid_i,
  output logic                             request_ready_o,
  input  logic [(Channels > 1 ? $clog2(Channels) : 1) - 1:0] request_channel_i,
  input  logic                             request_write_i,
  input  logic [31:0]                      request_address_i,
  input  logic [$clog2(PortBytes+1)-1:0]   request_bytes_i,
  input  logic                             request_burst_i,
  input  logic                             request_last_i,
  input  logic [PortBytes-1:0][7:0]        request_data_i,

  output logic [Channels-1:0]              response_valid_o,
  input  logic [Channels-1:0]              response_ready_i,
  output logic [$clog2(PortBytes+1)-1:0]   response_bytes_o,
  output logic                             response_burst_o,
  output logic                             response_last_o,
  output logic [PortBytes-1:0][7:0]        response_data_o,

  output logic [63:0] touched_bytes_o  // in whole bursts, since reset
);
  localparam int unsigned AddressBits = $clog2(Bytes);
  localparam int unsigned IndexBits = $clog2(Requests);
  localparam int unsigned ChannelBits = Channels > 1 ? $clog2(Channels) : 1;
  localparam logic [31:0] Rate = 32'(BytesPer1024Cycles);
  localparam logic [31:0] Burst = 32'(BurstBytes * 1024);

  typedef struct packed {
    logic [63:0] due;
    logic [ChannelBits-1:0] channel;
    logic [$clog2(PortBytes+1)-1:0] bytes;
    logic burst;
    logic last;
    logic [PortBytes-1:0][7:0] data;
  } answer_t;

  logic [7:0] cells [Bytes] /* verilator public_flat_rw */;
  answer_t answers [Requests];
  answer_t answer;
  logic [IndexBits:0] head_q, tail_q;
  logic [63:0] cycle_q, due_q, due;
  logic [31:0] debt_q, debt, drain;
  logic accepted, answered;

  assign request_ready_o = (!request_burst_i || debt_q < Rate) && (tail_q - head_q) != (IndexBits+1)'(Requests);
  assign accepted = request_valid_i && request_ready_o;
  assign debt = debt_q + (accepted && request_burst_i ? Burst : 32'd0);
  assign drain = (debt + Rate - 32'd1) / Rate;
  assign due = request_burst_i ? cycle_q + 64'(Latency) + 64'(drain) : due_q;

  assign answer = answers[head_q[IndexBits-1:0]];
  assign answered = head_q != tail_q && answer.due <= cycle_q && response_ready_i[answer.channel];
  always_comb begin
    response_valid_o = '0;
    response_valid_o[answer.channel] = head_q != tail_q && answer.due <= cycle_q;
    response_bytes_o = answer.bytes;
    response_burst_o = answer.burst;
    response_last_o = answer.last;
    response_data_o = answer.data;
  end

  always_ff @(posedge clk_i) begin
    if (accepted) begin
      answers[tail_q[IndexBits-1:0]].due <= due;
      answers[tail_q[IndexBits-1:0]].channel <= request_channel_i;
      answers[tail_q[IndexBits-1:0]].bytes <= request_bytes_i;
      answers[tail_q[IndexBits-1:0]].burst <= request_burst_i;
      answers[tail_q[IndexBits-1:0]].last <= request_last_i;
      for (int unsigned b = 0; b < PortBytes; b++) begin
        answers[tail_q[IndexBits-1:0]].data[b] <= cells[AddressBits'(request_address_i + b)];
        if (request_write_i && b < 32'(request_bytes_i)) begin
          cells[AddressBits'(request_address_i + b)] <= request_data_i[b];
        end
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
      cycle_q <= '0;
      due_q <= '0;
      debt_q <= '0;
      touched_bytes_o <= '0;
    end else begin
      cycle_q <= cycle_q + 64'd1;
      debt_q <= debt > Rate ? debt - Rate : '0;
      if (accepted) begin
        tail_q <= tail_q + (IndexBits+1)'(1);
        due_q <= due;
        if (request_burst_i) touched_bytes_o <= touched_bytes_o + 64'(BurstBytes);
      end
      if (answered) head_q <= head_q + (IndexBits+1)'(1);
    end
  end

  // It is never synthesised, so that its assertions need no guard.
  logic [Channels-1:0] waits_q;
  answer_t waiting_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      waits_q <= '0;
      waiting_q <= '0;
    end else begin
      waits_q <= response_valid_o & ~response_ready_i;
      waiting_q <= answer;
      assert (waits_q == '0 || (response_valid_o == waits_q && answer == waiting_q))
      else $error("an answer has changed while it waited");
      assert ((tail_q - head_q) <= (IndexBits+1)'(Requests)) else $error("too many requests");
      for (int unsigned c = Channels; c < 1 << ChannelBits; c++) begin
        assert (!accepted || 32'(request_channel_i) != c) else $error("no such channel");
      end
      assert (!accepted || 32'(request_bytes_i) <= PortBytes) else $error("a beat is wider than the port");
      assert (!accepted || request_bytes_i != '0) else $error("an empty beat");
      assert (!accepted || request_address_i + 32'(request_bytes_i) <= Bytes) else $error("beyond the end of memory");
    end
  end
endmodule
