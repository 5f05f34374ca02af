/* Elements that move: nested loops over runs of bytes, inside each row or over the whole tensor. */
#include <string.h>

#include "trivet/kernels/movement.h"

enum { MAX_AXES = 8, TILE = 16 };

typedef struct axis {
    int32_t extent, source, target; /* turns, and bytes from one to the next */
} axis;

/* The two innermost loops, outer first. */
typedef struct plane {
    axis outer, inner;
    uint32_t run;
} plane;

/* Runs of a fixed length, which compilers make single loads and stores. Turns of the outer loop are taken TILE at a
 * time, so that the cache lines of both sides of a transpose are used up while they are there. A plan may let a result
 * share bytes with the operand: hence memmove, here and in every movement. */
#define TILED(BYTES)                                                                                          \
    for (int32_t first = 0; first < outer.extent; first += TILE) {                                            \
        const int32_t count = outer.extent - first < TILE ? outer.extent - first : TILE;                      \
        for (int32_t j = 0; j < inner.extent; j++) {                                                          \
            const uint8_t *s = source + (intptr_t)j * inner.source + (intptr_t)first * outer.source;          \
            uint8_t *t = target + (intptr_t)j * inner.target + (intptr_t)first * outer.target;                \
            for (int32_t i = 0; i < count; i++, s += outer.source, t += outer.target) {                       \
                memmove(t, s, BYTES);                                                                          \
            }                                                                                                 \
        }                                                                                                     \
    }

static int64_t size_of_step(int32_t step) { return step < 0 ? -(int64_t)step : step; }

static void move_plane(const plane *p, const uint8_t *source, uint8_t *target) {
    const int32_t run = (int32_t)p->run;
    axis outer = p->outer, inner = p->inner;
    if (inner.source == run && inner.target == run) {
        for (int32_t i = 0; i < outer.extent; i++, source += outer.source, target += outer.target) {
            memmove(target, source, (size_t)p->run * (uint32_t)inner.extent);
        }
        return;
    }
    if (size_of_step(outer.target) > size_of_step(inner.source)) { /* the long steps go to the loop of fewer turns */
        outer = p->inner;
        inner = p->outer;
    }
    switch (p->run) {
    case 1: TILED(1) break;
    case 2: TILED(2) break;
    case 4: TILED(4) break;
    case 8: TILED(8) break;
    case 16: TILED(16) break;
    default: TILED(p->run) break;
    }
}

/* One segment: all turns of its outer loops, each a plane. */
static void move_segment(const int32_t *segment, uint32_t axes, uint32_t run, const uint8_t *source, uint8_t *target) {
    const axis single = {1, (int32_t)run, (int32_t)run};
    const axis *loops = (const axis *)(const void *)(segment + 2);
    const plane p = {axes < 2 ? single : loops[axes - 2], axes < 1 ? single : loops[axes - 1], run};
    const uint32_t outer = axes < 2 ? 0 : axes - 2;
    int32_t turns[MAX_AXES] = {0};
    source += segment[0];
    target += segment[1];
    for (uint32_t level = outer + 1; level > 0;) {
        move_plane(&p, source, target);
        for (level = outer; level > 0; level--) {
            const axis *loop = &loops[level - 1];
            source += loop->source;
            target += loop->target;
            if (++turns[level - 1] < loop->extent) {
                break;
            }
            source -= (intptr_t)loop->extent * loop->source;
            target -= (intptr_t)loop->extent * loop->target;
            turns[level - 1] = 0;
        }
    }
}

/* The fields that both records share. */
typedef struct movement {
    const int32_t *segments;
    uint32_t words, axes, run;
} movement;

#define MOVEMENT(p, constants)                                                                                   \
    {(const int32_t *)(const void *)trivet_blob_data((constants), &(p)->segments), (p)->segments.bytes / 4u, (p)->axes, \
     (p)->run_bytes}

static void move_all(const movement *m, const uint8_t *source, uint8_t *target) {
    const uint32_t words = 2 + 3 * m->axes;
    for (uint32_t word = 0; word + words <= m->words; word += words) {
        move_segment(m->segments + word, m->axes, m->run, source, target);
    }
}

static void fill(uint8_t *target, uint32_t bytes, const uint8_t *value) {
    uint32_t done = bytes < 8 ? bytes : 8;
    memmove(target, value, done);
    for (; done < bytes; done *= 2) { /* what is there doubles */
        memmove(target + done, target, bytes - done < done ? bytes - done : done);
        if (done > bytes / 2) {
            break;
        }
    }
}

trivet_status trivet_move_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_move_record *p = (const trivet_move_record *)call->params;
    const movement m = MOVEMENT(p, call->constants);
    const trivet_view *y = &call->outputs[0];
    (void)row, (void)rows;
    if (p->fills != 0) {
        fill(y->data, y->height * y->row_bytes, p->fill);
    }
    move_all(&m, call->inputs[0].data, y->data);
    return TRIVET_OK;
}

/* A row outside of the operand under another border than 0 stands for one inside. */
static int64_t mirrored(int64_t row, int64_t height, uint32_t border) {
    if (border != 1) {
        int64_t spare = border == 2 ? 0 : 1;
        row = row < 0 ? -row - spare : row >= height ? 2 * height - 2 + spare - row : row;
    }
    return row < 0 ? 0 : row >= height ? height - 1 : row;
}

trivet_status trivet_move_rows_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_move_rows_record *p = (const trivet_move_rows_record *)call->params;
    const movement m = MOVEMENT(p, call->constants);
    const trivet_view *x = &call->inputs[0];
    const trivet_view *y = &call->outputs[0];
    for (uint32_t r = row; r < row + rows; r++) {
        uint8_t *target = trivet_row(y, r);
        int64_t first = p->first_row + (int64_t)(r / p->group) * p->row_step;
        bool is_outside = first < 0 || first >= x->height;
        if (p->fills == 2 || (p->fills == 1 && is_outside)) {
            fill(target, y->row_bytes, p->fill);
        }
        if (is_outside && p->border == 0) {
            continue;
        }
        first = mirrored(first, x->height, p->border);
        for (uint32_t tap = 0; tap < p->taps; tap++) {
            const uint8_t *source = trivet_row(x, (uint32_t)first + tap) + (uintptr_t)(r % p->group) * p->phase_bytes;
            move_all(&m, source, target + (uintptr_t)tap * p->tap_bytes);
        }
    }
    return TRIVET_OK;
}

/* True iff no turn of a segment leaves that side's bytes, and the turns fill the result at most once. */
static bool is_inside(const int32_t *segment, uint32_t axes, uint32_t side, uint32_t run, int64_t bytes) {
    const int64_t limit = (int64_t)1 << 40;
    int64_t lowest = segment[side], highest = lowest + run;
    uint32_t moved = run;
    for (uint32_t i = 0; i < axes; i++) {
        const int32_t *loop = segment + 2 + 3 * i;
        if (loop[0] < 1) {
            return false;
        }
        moved = trivet_product(moved, (uint32_t)loop[0]);
        int64_t reach = (int64_t)(loop[0] - 1) * loop[1 + side];
        if (reach < -limit || reach > limit) {
            return false;
        }
        lowest += reach < 0 ? reach : 0;
        highest += reach > 0 ? reach : 0;
    }
    return lowest >= 0 && highest <= bytes && (side == 0 || moved <= bytes);
}

/* True iff no segment leaves `source` and `target` bytes. */
static bool is_sound(const movement *m, const trivet_check *check, uint64_t source, uint64_t target) {
    const uint32_t words = 2 + 3 * m->axes;
    if (check->accumulates || m->axes > MAX_AXES || m->run < 1 || m->run > INT32_MAX || m->words < words ||
        m->words % words != 0) {
        return false;
    }
    for (uint32_t word = 0; word < m->words; word += words) {
        const int32_t *segment = m->segments + word;
        if (!is_inside(segment, m->axes, 0, m->run, (int64_t)source) ||
            !is_inside(segment, m->axes, 1, m->run, (int64_t)target)) {
            return false;
        }
    }
    return true;
}

trivet_status trivet_move_check(const trivet_check *check) {
    const trivet_move_record *p = (const trivet_move_record *)check->params;
    const movement m = MOVEMENT(p, check->constants);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1);
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    TRIVET_REQUIRE(check->images == 1 && p->segments.bytes % 4 == 0 && p->fills <= 2);
    TRIVET_REQUIRE(is_sound(&m, check, (uint64_t)x->height * x->row_bytes, (uint64_t)y->height * y->row_bytes));
    return TRIVET_OK;
}

trivet_status trivet_move_rows_check(const trivet_check *check) {
    const trivet_move_rows_record *p = (const trivet_move_rows_record *)check->params;
    const movement m = MOVEMENT(p, check->constants);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1);
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    TRIVET_REQUIRE(p->segments.bytes % 4 == 0 && p->fills <= 2 && p->border <= 3);
    TRIVET_REQUIRE(p->group >= 1 && p->taps >= 1 && x->height >= 1 && y->height >= 1);
    uint32_t phase = trivet_product(p->group - 1, p->phase_bytes), tap = trivet_product(p->taps - 1, p->tap_bytes);
    TRIVET_REQUIRE(phase <= x->row_bytes && tap <= y->row_bytes);
    TRIVET_REQUIRE(is_sound(&m, check, x->row_bytes - phase, y->row_bytes - tap));
    int64_t last = p->first_row + (int64_t)((y->height - 1) / p->group) * p->row_step;
    int64_t end = (int64_t)x->height - p->taps;
    bool all_inside = p->first_row >= 0 && p->first_row <= end && last >= 0 && last <= end;
    TRIVET_REQUIRE(all_inside || (p->taps == 1 && (p->border != 0 || p->fills != 0)));
    return TRIVET_OK;
}
