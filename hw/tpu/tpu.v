// The machine without its memories: what is read in a cycle comes in the next one, what is written is there after it.
module tpu #(parameter N = 8, parameter ACCUMULATORS = 512, parameter COMMANDS = 1024) (
    input  wire            clk,
    input  wire            reset,
    input  wire            write,
    input  wire     [15:0] write_at,
    input  wire     [95:0] write_command,
    input  wire            write_load,
    input  wire     [15:0] commands,
    input  wire     [15:0] loads,
    output wire            a_valid,       // activation memory, read port
    output wire     [15:0] a_command,
    output wire     [15:0] a_item,
    output wire      [7:0] a_part,
    input  wire [32*N-1:0] a_data,        // N elements, extended to 32 bits
    output wire            w_valid,       // weight memory
    output wire     [15:0] w_command,
    output wire      [7:0] w_row,
    input  wire  [8*N-1:0] w_data,
    output wire            p_valid,       // parameter memory
    output wire     [15:0] p_command,
    input  wire [32*N-1:0] p_bias,
    input  wire            p_rescale,
    input  wire [32*N-1:0] p_multiplier,
    input  wire  [8*N-1:0] p_shift,
    input  wire     [31:0] p_offset,
    input  wire     [31:0] p_lo,
    input  wire     [31:0] p_hi,
    output wire            y_valid,       // activation memory, write port
    output wire     [15:0] y_command,
    output wire     [15:0] y_item,
    output wire [32*N-1:0] y_data,
    output reg             trap,          // a sum has left 32 bits
    output wire            finished
);
    wire s_valid, s_zero, s_vector, s_swap, s_last, s_done, s_first, s_epilogue;
    wire [15:0] s_accumulator;
    reg  [15:0] retired;

    sequencer #(.N(N), .COMMANDS(COMMANDS)) control (
        .clk(clk), .reset(reset), .write(write), .write_at(write_at), .write_command(write_command),
        .write_load(write_load), .commands(commands), .loads(loads), .retired(retired),
        .a_valid(s_valid), .a_zero(s_zero), .a_vector(s_vector), .a_swap(s_swap), .a_last(s_last),
        .a_command(a_command), .a_item(a_item), .a_part(a_part), .a_item_done(s_done), .a_first(s_first),
        .a_epilogue(s_epilogue), .a_accumulator(s_accumulator),
        .w_valid(w_valid), .w_command(w_command), .w_row(w_row), .finished(finished)
    );
    assign a_valid = s_valid && !s_zero;

    // One cycle for the memories to answer.
    reg r_stream, r_zero, r_swap, w_there;
    reg [7:0] w_index;
    always @(posedge clk) begin
        r_stream <= s_valid && !s_vector;
        r_zero <= s_zero;
        r_swap <= s_swap;
        w_there <= w_valid;
        w_index <= w_row;
    end

    genvar i;
    wire [8*N-1:0] a_bytes;
    generate
        for (i = 0; i < N; i = i + 1) begin : narrow
            assign a_bytes[8*i +: 8] = r_stream && !r_zero ? a_data[32*i +: 8] : 8'd0;
        end
    endgenerate
    wire [32*N-1:0] sums;
    array #(.N(N)) multipliers (
        .clk(clk), .a_row(a_bytes), .a_swap(r_swap), .w_data(w_data), .w_row(w_index), .w_valid(w_there), .sums(sums)
    );

    // What a row is for travels beside it: {valid, first, epilogue, last, accumulator, command, item}.
    wire [51:0] tag = {s_valid && !s_vector, s_first, s_epilogue, s_last, s_accumulator, a_command, a_item};
    wire [51:0] before, here;
    delay #(.WIDTH(52), .CYCLES(2 * N - 1)) most (.clk(clk), .in(tag), .out(before));
    delay #(.WIDTH(52), .CYCLES(1)) last_cycle (.clk(clk), .in(before), .out(here));
    wire [15:0] at = here[47:32];

    reg [32*N-1:0] accumulators [0:ACCUMULATORS-1];
    wire [32*N-1:0] stored = accumulators[at];
    wire [32*N-1:0] totals;
    wire [N-1:0] wrapped;
    generate
        for (i = 0; i < N; i = i + 1) begin : accumulate
            wire signed [31:0] old = here[50] ? 32'sd0 : stored[32*i +: 32];
            wire signed [32:0] total = {old[31], old} + {sums[32*i+31], sums[32*i +: 32]};
            assign totals[32*i +: 32] = total[31:0];
            assign wrapped[i] = total[32] != total[31];
        end
    endgenerate
    always @(posedge clk) if (here[51]) accumulators[at] <= totals;

    // The vector unit: one item is one operand, or two, which arrive one after the other.
    reg v_there, v_second, v_done, v_last;
    reg [15:0] v_command, v_item;
    reg [32*N-1:0] v_first;
    always @(posedge clk) begin
        v_there <= s_valid && s_vector;
        v_second <= a_part != 0;
        v_done <= s_done;
        v_last <= s_last;
        {v_command, v_item} <= {a_command, a_item};
        if (v_there && !v_second) v_first <= a_data;
    end
    wire v_enters = v_there && v_done;
    wire a_enters = here[51] && here[49];
    wire enters = v_enters || a_enters;
    wire [32*N-1:0] value = a_enters ? totals : v_second ? v_first : a_data;
    wire [32*N-1:0] joined = v_enters && v_second ? a_data : p_bias;

    // Parameters are read in the cycle before their row enters.
    wire v_next = s_valid && s_vector && s_done;
    assign p_valid = v_next || (before[51] && before[49]);
    assign p_command = v_next ? a_command : before[31:16];

    wire [N-1:0] over;
    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            epilogue one (
                .clk(clk), .valid(enters), .value(value[32*i +: 32]), .bias(joined[32*i +: 32]), .rescale(p_rescale),
                .multiplier(p_multiplier[32*i +: 32]), .shift(p_shift[8*i +: 8]), .offset(p_offset), .lo(p_lo),
                .hi(p_hi), .result(y_data[32*i +: 32]), .overflow(over[i])
            );
        end
    endgenerate

    wire [33:0] leaving = {enters, a_enters ? here[48] : v_last, a_enters ? here[31:0] : {v_command, v_item}};
    wire [33:0] left;
    delay #(.WIDTH(34), .CYCLES(4)) stages (.clk(clk), .in(leaving), .out(left));
    assign {y_valid, y_command, y_item} = {left[33], left[31:0]};

    always @(posedge clk) begin
        if (left[33] && left[32]) retired <= y_command + 16'd1;
        if (here[51] && |wrapped) trap <= 1;
        if (|over) trap <= 1;
        if (reset) {retired, trap} <= 0;
    end
endmodule
