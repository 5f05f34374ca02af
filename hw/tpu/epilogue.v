// One lane of the epilogue, four stages: bias (or a joined operand), product, rounding, offset and clamp.
module epilogue (
    input  wire               clk,
    input  wire               valid,
    input  wire signed [31:0] value,
    input  wire signed [31:0] bias,
    input  wire               rescale,
    input  wire signed [31:0] multiplier,
    input  wire signed  [7:0] shift,      // > 0: left, before the product
    input  wire signed [31:0] offset,
    input  wire signed [31:0] lo,
    input  wire signed [31:0] hi,
    output reg  signed [31:0] result,
    output reg                overflow    // the sum with the bias has left 32 bits
);
    wire signed [32:0] biased = {value[31], value} + {bias[31], bias};
    wire [4:0] left = shift > 0 ? shift[4:0] : 5'd0;
    wire signed [7:0] minus = -shift;

    reg signed [31:0] x1, m1, o1, l1, h1, x2, o2, l2, h2, x3, o3, l3, h3;
    reg signed [63:0] p2;
    reg [4:0] r1, r2;
    reg e1, e2;

    // Doubling high half, halves toward plus infinity; then a shift to the right, halves away from zero.
    wire signed [63:0] raised = p2 + 64'sd1073741824;
    wire signed [31:0] high = raised[62:31];
    wire [31:0] mask = (32'd1 << r2) - 32'd1;
    wire [31:0] rest = high & mask;
    wire [31:0] half = (mask >> 1) + {31'd0, high[31]};
    wire signed [31:0] rounded = (high >>> r2) + (rest > half ? 32'sd1 : 32'sd0);
    wire signed [32:0] moved = {x3[31], x3} + {o3[31], o3};

    always @(posedge clk) begin
        overflow <= valid && (biased[32] != biased[31]);
        x1 <= biased[31:0] << left;
        r1 <= shift < 0 ? minus[4:0] : 5'd0;
        {e1, m1, o1, l1, h1} <= {rescale, multiplier, offset, lo, hi};
        p2 <= x1 * m1;
        {e2, r2, x2, o2, l2, h2} <= {e1, r1, x1, o1, l1, h1};
        x3 <= e2 ? rounded : x2;
        {o3, l3, h3} <= {o2, l2, h2};
        result <= moved < l3 ? l3 : moved > h3 ? h3 : moved[31:0];
    end
    initial overflow = 0;
endmodule
