// On-chip memory of one core, in banks of one element each, so that any run of elements is reached at any alignment.
//
// Every lane has an element address of its own; reads are combinational and the reader registers them. All lanes are
// served in every cycle: what a chip would replicate, or share between engines with conflicts, is ideal here, as it is in
// the event model.
module scratchpad #(
  parameter int unsigned Elements = 4096,  // capacity
  parameter int unsigned Width = 8,        // bits of an element
  parameter int unsigned ReadLanes = 16,   // elements read at once
  parameter int unsigned WriteLanes = 16   // elements written at once; a higher lane wins
) (
  input  logic clk_i,

  input  logic [ReadLanes-1:0][31:0]      read_address_i,
  output logic [ReadLanes-1:0][Width-1:0] read_data_o,

  input  logic [WriteLanes-1:0]            write_valid_i,
  input  logic [WriteLanes-1:0][31:0]      write_address_i,
  input  logic [WriteLanes-1:0][Width-1:0] write_data_i
);
  localparam int unsigned IndexBits = $clog2(Elements);

  logic [Width-1:0] elements [Elements];

  always_comb begin
    for (int unsigned l = 0; l < ReadLanes; l++) read_data_o[l] = elements[read_address_i[l][IndexBits-1:0]];
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned l = 0; l < WriteLanes; l++) begin
      if (write_valid_i[l]) elements[write_address_i[l][IndexBits-1:0]] <= write_data_i[l];
    end
  end

  // Addresses are within bounds: the program was checked before it was loaded.
  logic unused_high;
  assign unused_high = ^{read_address_i, write_address_i};
endmodule
