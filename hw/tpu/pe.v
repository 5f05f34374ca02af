// One multiplier of the array: a weight that computes, a weight that waits, and a partial sum on its way down.
module pe #(parameter ROW = 0, parameter N = 8) (
    input  wire               clk,
    input  wire signed  [7:0] a_in,       // moves right, one column a cycle
    input  wire               swap_in,    // the first row of a pass brings the waiting weight along
    input  wire signed [31:0] sum_in,     // moves down, one row a cycle
    input  wire signed  [7:0] w_in,       // this column's weight bus
    input  wire         [7:0] w_row,
    input  wire               w_valid,
    output reg  signed  [7:0] a_out,
    output reg                swap_out,
    output reg  signed [31:0] sum_out
);
    reg signed [7:0] waiting, active;
    wire signed [7:0] weight = swap_in ? waiting : active;
    wire signed [15:0] product = a_in * weight;

    always @(posedge clk) begin
        a_out <= a_in;
        swap_out <= swap_in;
        sum_out <= sum_in + {{16{product[15]}}, product};
        if (swap_in) active <= waiting;
        if (w_valid && w_row == ROW) waiting <= w_in;
    end
    initial {waiting, active} = 0;
endmodule
