// N x N multipliers. A row of A enters with its elements skewed, its sums leave 2N - 1 cycles later, side by side again.
module array #(parameter N = 8) (
    input  wire            clk,
    input  wire [8*N-1:0]  a_row,
    input  wire            a_swap,
    input  wire [8*N-1:0]  w_data,        // one row of a tile; element j is for column j
    input  wire      [7:0] w_row,
    input  wire            w_valid,
    output wire [32*N-1:0] sums
);
    wire [7:0]  a    [0:N-1][0:N];        // between columns
    wire        swap [0:N-1][0:N];
    wire [31:0] sum  [0:N][0:N-1];        // between rows

    genvar i, j;
    generate
        for (i = 0; i < N; i = i + 1) begin : skew
            // Element i waits i cycles, and the swap with it.
            wire [8:0] entering = {a_swap, a_row[8*i +: 8]};
            wire [8:0] delayed;
            delay #(.WIDTH(9), .CYCLES(i)) wait_a (.clk(clk), .in(entering), .out(delayed));
            assign a[i][0] = delayed[7:0];
            assign swap[i][0] = delayed[8];
        end
        for (j = 0; j < N; j = j + 1) begin : column
            // Column j gets its weights j cycles later, in step with the elements of A.
            wire [16:0] entering = {w_valid, w_row, w_data[8*j +: 8]};
            wire [16:0] bus;
            delay #(.WIDTH(17), .CYCLES(j)) wait_w (.clk(clk), .in(entering), .out(bus));
            assign sum[0][j] = 32'd0;
            for (i = 0; i < N; i = i + 1) begin : row
                pe #(.ROW(i), .N(N)) one (
                    .clk(clk), .a_in(a[i][j]), .swap_in(swap[i][j]), .sum_in(sum[i][j]),
                    .w_in(bus[7:0]), .w_row(bus[15:8]), .w_valid(bus[16]),
                    .a_out(a[i][j+1]), .swap_out(swap[i][j+1]), .sum_out(sum[i+1][j])
                );
            end
            delay #(.WIDTH(32), .CYCLES(N-1-j)) wait_sum (.clk(clk), .in(sum[N][j]), .out(sums[32*j +: 32]));
        end
    endgenerate
endmodule

// `out` is `in` so many cycles ago.
module delay #(parameter WIDTH = 8, parameter CYCLES = 1) (
    input  wire             clk,
    input  wire [WIDTH-1:0] in,
    output wire [WIDTH-1:0] out
);
    generate
        if (CYCLES == 0) begin : none
            assign out = in;
        end else begin : some
            reg [WIDTH*CYCLES-1:0] held;
            always @(posedge clk) held <= (held << WIDTH) | in;
            assign out = held[WIDTH*CYCLES-1 -: WIDTH];
            initial held = 0;
        end
    endgenerate
endmodule
