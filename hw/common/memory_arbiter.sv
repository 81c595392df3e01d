// Shares the link to memory between channels: one holds it from its first request to its last, and comes first as long as
// it has something to ask for. When it falls free, the channel behind the last holder is asked first, so that none waits
// for two transfers of another.
module memory_arbiter #(
  parameter int unsigned Channels = 2  // that may ask
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic [Channels-1:0] valid_i,  // a request
  input  logic [Channels-1:0] last_i,   // the last of its transfer
  input  logic                ready_i,  // memory takes a request
  output logic [Channels-1:0] ready_o,  // to the channel whose request it is

  output logic                                              valid_o,
  output logic [(Channels > 1 ? $clog2(Channels) : 1) - 1:0] channel_o  // whose request is passed on
);
  localparam int unsigned Bits = Channels > 1 ? $clog2(Channels) : 1;

  logic held_q;
  logic [Bits-1:0] holder_q, chosen;

  always_comb begin
    chosen = holder_q;
    if (!held_q || !valid_i[holder_q]) begin
      for (int unsigned i = Channels; i > 0; i--) begin
        if (valid_i[(32'(holder_q) + i) % Channels]) chosen = Bits'((32'(holder_q) + i) % Channels);
      end
    end
  end
  assign valid_o = valid_i[chosen];
  assign channel_o = chosen;
  always_comb begin
    ready_o = '0;
    ready_o[chosen] = ready_i && valid_i[chosen];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q <= 1'b0;
      holder_q <= '0;
    end else if (valid_o && (!held_q || chosen == holder_q)) begin
      // A guest, served while the holder has nothing to ask for, does not become the holder.
      held_q <= !(ready_i && last_i[chosen]);
      holder_q <= chosen;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
    end else begin
      assert ((ready_o & ~valid_i) == '0) else $error("a grant without a request");
      assert ((ready_o & (ready_o - Channels'(1))) == '0) else $error("more than one grant");
      assert ((ready_o != '0) == (ready_i && valid_i != '0)) else $error("memory is ready and a request is left");
      assert (!held_q || !valid_i[holder_q] || chosen == holder_q) else $error("the link is taken from its holder");
    end
  end
`endif
endmodule
