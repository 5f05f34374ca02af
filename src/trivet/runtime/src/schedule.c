/* The loop that is the schedule of a stream: planner, simulator and loader run the same one.
 *
 * A step fires when the rows that it reads have been made and the slots that it writes are free. Firing other steps
 * only ever makes that true, so any order that ends proves that every order ends.
 */
#include "model.h"

/* floor(a / b), b > 0; most are 1, and a division of 64 bits takes longer than all the rest */
static int64_t floor_div(int64_t a, int64_t b) {
    if (b == 1) {
        return a;
    }
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static int64_t clamp(int64_t value, int64_t height) {
    return value < 0 ? 0 : value < height ? value : height - 1;
}

static int64_t window_start(const trivet_edge_record *edge, uint32_t row) {
    int64_t start = (int64_t)row * edge->stride - edge->before;
    return edge->divisor == 1 ? start : floor_div(start, edge->divisor);
}

static int64_t window_end(const trivet_edge_record *edge, uint32_t row) {
    return window_start(edge, row) + (int64_t)(edge->taps - 1) * edge->dilation;
}

/* The first operand row that `row` reads, -1 if it reads none. */
static int64_t first_row(const trivet_edge_record *edge, int64_t height, uint32_t row) {
    int64_t start = window_start(edge, row);
    if (edge->clamped != 0) {
        return clamp(start, height);
    }
    int64_t skipped = start < 0 ? -floor_div(start, edge->dilation) : 0;
    int64_t first = start + skipped * edge->dilation;
    return skipped < edge->taps && first < height ? first : -1;
}

/* The last operand row that `row` reads, -1 if it reads none. */
static int64_t last_row(const trivet_edge_record *edge, int64_t height, uint32_t row) {
    int64_t end = window_end(edge, row);
    if (edge->clamped != 0) {
        return clamp(end, height);
    }
    int64_t excess = end - (height - 1);
    int64_t skipped = excess > 0 ? -floor_div(-excess, edge->dilation) : 0;
    int64_t last = end - skipped * edge->dilation;
    return skipped < edge->taps && last >= 0 ? last : -1;
}

/* The first operand row that rows [row, end) read, -1 if they read none. Windows only move down, so one that lies
 * before the operand can be skipped in one go, and behind one that lies after it nothing is read any more. Of windows
 * that begin before the operand a later one may read an earlier row, when the dilation does not divide the stride. */
static int64_t first_row_of(const trivet_edge_record *edge, int64_t height, uint32_t row, uint32_t end) {
    int64_t reach = edge->before - (int64_t)(edge->taps - 1) * edge->dilation * edge->divisor;
    if (edge->clamped == 0 && edge->stride > 0 && window_end(edge, row) < 0) {
        int64_t start = -floor_div(-reach, edge->stride);
        row = start < end ? (uint32_t)start : end;
    }
    int64_t least = -1;
    for (; row < end && window_start(edge, row) < height; row++) {
        int64_t first = first_row(edge, height, row);
        least = first >= 0 && (least < 0 || first < least) ? first : least;
        if (least == 0 || edge->clamped != 0 || edge->stride == 0 || window_start(edge, row) >= 0) {
            return least;
        }
    }
    return least < 0 && edge->clamped != 0 && row < end ? height - 1 : least;
}

/* The last operand row that rows [row, end) read, -1 if they read none. */
static int64_t last_row_of(const trivet_edge_record *edge, int64_t height, uint32_t row, uint32_t end) {
    if (edge->clamped == 0 && edge->stride > 0 && window_start(edge, end - 1) >= height) {
        int64_t inside = floor_div(height * edge->divisor - 1 + edge->before, edge->stride) + 1;
        end = inside < row ? row : (uint32_t)inside;
    }
    int64_t most = -1;
    for (; end > row && (edge->clamped != 0 || window_end(edge, end - 1) >= 0); end--) {
        int64_t last = last_row(edge, height, end - 1);
        most = last > most ? last : most;
        if (edge->clamped != 0 || edge->stride == 0 || window_end(edge, end - 1) < height) {
            return most;
        }
    }
    return most;
}

trivet_firing trivet_rows_read(const trivet_model *model, const trivet_step_record *step, uint32_t operand,
                               trivet_firing firing) {
    int64_t height = trivet_operand_height(model, trivet_operand(model, step, operand), step->images);
    int64_t low = height;
    int64_t high = -1;
    bool has_edge = false;
    for (uint32_t e = 0; e < step->edge_count; e++) {
        const trivet_edge_record *edge = &trivet_edges(model)[step->edges + e];
        if (edge->operand != operand) {
            continue;
        }
        has_edge = true;
        int64_t first = first_row_of(edge, height, firing.row, firing.row + firing.rows);
        int64_t last = last_row_of(edge, height, firing.row, firing.row + firing.rows);
        low = first >= 0 && first < low ? first : low;
        high = last > high ? last : high;
    }
    trivet_firing all = {0, (uint32_t)height};
    trivet_firing none = {0, 0};
    if (!has_edge) {
        return all;
    }
    trivet_firing read = {(uint32_t)low, (uint32_t)(high - low + 1)};
    return high < 0 ? none : read;
}

#define NOTED_STEPS 32u

/* A stream as its loop sees it. */
typedef struct schedule {
    const trivet_model *model;
    const trivet_step_record *steps;
    const uint32_t *counters;
    uint32_t count;
    uint32_t readers[NOTED_STEPS]; /* bit r: step r reads where this one writes; in streams of so many steps at most */
} schedule;

static int64_t operand_height(const trivet_model *model, const trivet_step_record *step, uint32_t index) {
    return trivet_operand_height(model, trivet_operand(model, step, index), step->images);
}

/* Rows of the result that exist after `fired` firings, and perhaps more where those are all rows. */
static int64_t made_rows(const trivet_step_record *step, uint32_t fired) {
    if ((step->flags & TRIVET_STEP_ACCUMULATES) != 0) {
        return fired < step->firings ? 0 : INT64_MAX;
    }
    return (int64_t)fired * step->rows;
}

static bool rows_are_there(const schedule *stream, const trivet_step_record *step, trivet_firing firing) {
    const trivet_edge_record *edges = trivet_edges(stream->model) + step->edges;
    for (uint32_t e = 0; e < step->edge_count; e++) {
        const trivet_edge_record *edge = &edges[e];
        if (edge->source == TRIVET_NO_SOURCE) {
            continue;
        }
        int64_t made = made_rows(&stream->steps[edge->source], stream->counters[edge->source]);
        int64_t end = window_end(edge, firing.row + firing.rows - 1);
        if (end >= 0 && end < made) {
            continue; /* no row reads past the end of the last window */
        }
        int64_t height = operand_height(stream->model, step, edge->operand);
        if (last_row_of(edge, height, firing.row, firing.row + firing.rows) >= made) {
            return false;
        }
    }
    return true;
}

/* The lowest row of what `edge` reads that its step still needs; INT64_MAX if none. */
static int64_t low_row(const schedule *stream, uint32_t reader, const trivet_edge_record *edge) {
    const trivet_step_record *step = &stream->steps[reader];
    if (stream->counters[reader] >= step->firings) {
        return INT64_MAX;
    }
    int64_t height = operand_height(stream->model, step, edge->operand);
    int64_t start = window_start(edge, stream->counters[reader] * step->rows);
    if (start >= 0 && edge->clamped == 0) {
        return start < height ? start : INT64_MAX;
    }
    uint32_t rows = trivet_step_height(stream->model, step);
    trivet_firing last = trivet_step_firing(step, rows, step->firings - 1);
    int64_t first = first_row_of(edge, height, stream->counters[reader] * step->rows, last.row + last.rows);
    return first < 0 ? INT64_MAX : first;
}

/* True iff `edge` of step `reader` reads what a step of the stream makes at the place of `result`: also what an in-place
 * step has made of it. */
static bool reads_place(const schedule *stream, uint32_t reader, const trivet_edge_record *edge,
                        const trivet_tensor_record *result) {
    if (edge->source == TRIVET_NO_SOURCE) {
        return false;
    }
    const trivet_tensor_record *read = trivet_operand(stream->model, &stream->steps[reader], edge->operand);
    return read->region == result->region && read->offset == result->offset;
}

/* Rows up to `lost` of what is at the place of `result` have no reader any more: of one step. */
static bool has_read(const schedule *stream, uint32_t reader, const trivet_tensor_record *result, int64_t lost) {
    const trivet_step_record *step = &stream->steps[reader];
    const trivet_edge_record *edges = trivet_edges(stream->model) + step->edges;
    for (uint32_t e = 0; e < step->edge_count; e++) {
        if (reads_place(stream, reader, &edges[e], result) && low_row(stream, reader, &edges[e]) <= lost) {
            return false;
        }
    }
    return true;
}

static bool slot_is_free(const schedule *stream, uint32_t index, trivet_firing firing) {
    const trivet_step_record *step = &stream->steps[index];
    if ((step->flags & TRIVET_STEP_ACCUMULATES) != 0 || step->outputs == 0) {
        return true;
    }
    const trivet_tensor_record *result = trivet_operand(stream->model, step, step->inputs);
    int64_t lost = (int64_t)firing.row + firing.rows - 1 - result->depth; /* the last row that is overwritten */
    if (!trivet_is_ring(stream->model, result) || lost < 0) {
        return true;
    }
    bool noted = stream->count <= NOTED_STEPS;
    for (uint32_t reader = index + 1; reader < stream->count; reader++) {
        bool may_read = !noted || (stream->readers[index] >> reader & 1u) != 0;
        if (may_read && !has_read(stream, reader, result, lost)) {
            return false;
        }
    }
    return true;
}

/* Which later steps read at the place of a step's result. */
static uint32_t readers_of(const schedule *stream, uint32_t index) {
    const trivet_step_record *step = &stream->steps[index];
    uint32_t readers = 0;
    for (uint32_t reader = index + 1; reader < stream->count && step->outputs != 0; reader++) {
        const trivet_tensor_record *result = trivet_operand(stream->model, step, step->inputs);
        const trivet_edge_record *edges = trivet_edges(stream->model) + stream->steps[reader].edges;
        for (uint32_t e = 0; e < stream->steps[reader].edge_count; e++) {
            readers |= (uint32_t)reads_place(stream, reader, &edges[e], result) << reader;
        }
    }
    return readers;
}

/* Counters at 0, readers noted. Returns the number of firings. */
static uint64_t begin(schedule *stream, uint32_t *counters) {
    uint64_t firings = 0;
    for (uint32_t s = 0; s < stream->count; s++) {
        counters[s] = 0;
        firings += stream->steps[s].firings;
        if (stream->count <= NOTED_STEPS) {
            stream->readers[s] = readers_of(stream, s);
        }
    }
    return firings;
}

static trivet_firing next_firing(const trivet_model *model, const trivet_step_record *step, uint32_t fired) {
    if (fired + 1 < step->firings) {
        trivet_firing whole = {fired * step->rows, step->rows};
        return whole;
    }
    return trivet_step_firing(step, trivet_step_height(model, step), fired);
}

static bool may_fire(const schedule *stream, uint32_t index, trivet_firing firing) {
    return rows_are_there(stream, &stream->steps[index], firing) && slot_is_free(stream, index, firing);
}

trivet_status trivet_schedule(const trivet_model *model, const trivet_stream_record *stream, uint32_t *counters,
                              trivet_fire_fn fire, void *context) {
    schedule loop = {model, trivet_steps(model) + stream->first_step, counters, stream->step_count, {0}};
    uint64_t left = begin(&loop, counters);
    while (left > 0) {
        uint64_t before = left;
        for (uint32_t s = 0; s < loop.count; s++) {
            const trivet_step_record *step = &loop.steps[s];
            while (left > 0 && counters[s] < step->firings) {
                trivet_firing firing = next_firing(model, step, counters[s]);
                if (!may_fire(&loop, s, firing)) {
                    break;
                }
                trivet_status status = fire(context, stream->first_step + s, firing);
                if (status != TRIVET_OK) {
                    return status;
                }
                counters[s]++;
                left--;
            }
        }
        if (left == before) {
            return TRIVET_ERR_STREAM; /* no step can ever fire again */
        }
    }
    return TRIVET_OK;
}
