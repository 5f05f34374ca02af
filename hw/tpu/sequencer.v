// Decides in which cycle every weight row and every row of A (or of the vector unit) is read. Commands are passes of
// the array and layers of the vector unit, in order; loads are those passes that load a tile, in order.
module sequencer #(parameter N = 8, parameter COMMANDS = 1024) (
    input  wire        clk,
    input  wire        reset,
    input  wire        write,             // command memory
    input  wire [15:0] write_at,
    input  wire [95:0] write_command,
    input  wire        write_load,        // load memory: the number of a command
    input  wire [15:0] commands,
    input  wire [15:0] loads,
    input  wire [15:0] retired,           // commands whose results are in memory
    output wire        a_valid,           // read one row of A, or one operand of a vector item
    output wire        a_zero,            // it is a row of zeros: nothing is read
    output wire        a_vector,
    output wire        a_swap,
    output wire        a_last,            // the last row of a command
    output wire [15:0] a_command,
    output wire [15:0] a_item,
    output wire  [7:0] a_part,
    output wire        a_item_done,       // with this read the item is complete
    output wire        a_first,
    output wire        a_epilogue,
    output wire [15:0] a_accumulator,
    output wire        w_valid,           // read one row of a weight tile
    output wire [15:0] w_command,
    output wire  [7:0] w_row,
    output wire        finished
);
    localparam NONE = 2'd0, AFTER = 2'd1, AHEAD = 2'd2, SHARED = 2'd3;  // how a tile is loaded; SHARED holds the port

    reg [95:0] memory [0:COMMANDS-1];
    reg [15:0] load_list [0:COMMANDS-1];
    always @(posedge clk) begin
        if (write) memory[write_at] <= write_command;
        if (write_load) load_list[write_at] <= write_command[15:0];
    end

    // The command that streams, or that will stream next.
    reg [15:0] current, item, loaded, swapped;
    reg  [7:0] part;
    reg        streaming;
    reg [31:0] cycle, lanes;              // lanes: the first cycle in which another row may enter the epilogue
    wire [95:0] c = memory[current];
    wire        vector = c[0], zero = c[1], first = c[2], epilogue = c[3];
    wire  [1:0] load = c[5:4];
    wire  [7:0] each = c[15:8];
    wire [15:0] items = c[31:16], accumulator = c[47:32], needs = c[63:48];

    wire available = !reset && current != commands;
    wire ready = retired >= needs;
    // The tile of this pass is complete when as many loads have ended as there are loading passes up to it.
    wire tile_there = load == NONE || loaded > swapped;
    wire lanes_free = !vector || cycle + each >= lanes;
    wire starts = available && !streaming && ready && tile_there && lanes_free;
    wire active = streaming || starts;

    assign a_valid = active;
    assign a_zero = zero;
    assign a_vector = vector;
    assign a_swap = starts && load != NONE;
    assign a_command = current;
    assign a_item = streaming ? item : 16'd0;
    assign a_part = streaming ? part : 8'd0;
    assign a_item_done = a_part + 8'd1 == each;
    assign a_last = a_item_done && a_item + 16'd1 == items;
    assign a_first = first;
    assign a_epilogue = epilogue;
    assign a_accumulator = accumulator + a_item;
    assign finished = !available && retired == commands;

    // The loader walks its own list, ahead of the stream where a load is AHEAD.
    reg [15:0] next_load;
    reg  [7:0] row;
    reg        loading;
    wire [15:0] target = load_list[next_load];
    wire [95:0] t = memory[target];
    wire  [1:0] how = t[5:4];
    wire plane_free = next_load == swapped + (a_swap ? 16'd1 : 16'd0);
    wire empty = current == target && !streaming;
    wire may_load = how == AHEAD ? plane_free : how == AFTER ? empty : empty && ready;
    wire begins = !reset && next_load != loads && !loading && may_load && !(starts && current == target);
    assign w_valid = loading || begins;
    assign w_command = target;
    assign w_row = loading ? row : 8'd0;
    wire load_ends = w_valid && w_row == N - 1;

    always @(posedge clk) begin
        cycle <= cycle + 1;
        if (active) begin
            part <= a_item_done ? 8'd0 : a_part + 8'd1;
            item <= a_item_done ? a_item + 16'd1 : a_item;
            streaming <= !a_last;
            if (a_last) begin
                current <= current + 16'd1;
                if (vector) lanes <= cycle + 2;
                else if (epilogue) lanes <= cycle + 1 + 2 * N;
            end
        end
        if (a_swap) swapped <= swapped + 16'd1;
        if (w_valid) begin
            row <= w_row + 8'd1;
            loading <= !load_ends;
            if (load_ends) begin
                next_load <= next_load + 16'd1;
                loaded <= loaded + 16'd1;
            end
        end
        if (reset) begin
            {current, item, part, streaming, cycle, lanes} <= 0;
            {loaded, swapped, next_load, row, loading} <= 0;
        end
    end
endmodule
