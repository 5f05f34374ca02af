/* Where windows lie on their operand. */
#ifndef TRIVET_WINDOWS_H
#define TRIVET_WINDOWS_H

#include "trivet/kernel.h"

/* Window positions are int32: `check` functions hold every position below this. */
#define TRIVET_MAX_POSITION 0x3FFFFFFFu

/* A window up to this size is copied on the stack; a longer one needs scratch of the plan (PATCH_BYTES in
 * backends/plan/kernels/conv.py). */
#define TRIVET_CONV_PATCH_BYTES 1024u

/* Half-open range of outputs. */
typedef struct trivet_range {
    uint32_t first, last;
} trivet_range;

static inline uint32_t trivet_minimum(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The outputs whose windows of `extent` lie inside an operand of `size`. */
static inline trivet_range trivet_interior(uint32_t size, uint32_t outputs, uint32_t stride, uint32_t before,
                                           uint32_t extent) {
    trivet_range range = {trivet_minimum((before + stride - 1) / stride, outputs), 0};
    range.last = size + before < extent ? 0 : trivet_minimum((size + before - extent) / stride + 1, outputs);
    if (range.last < range.first) {
        range.last = range.first;
    }
    return range;
}

/* A row of the operand, or NULL where the window reaches beyond it. */
static inline const uint8_t *trivet_window_row(const trivet_view *x, int32_t row) {
    return row < 0 || row >= (int32_t)x->height ? NULL : trivet_row(x, (uint32_t)row);
}

/* The taps of a window from `position` on that lie inside an operand of `size`. */
static inline trivet_range trivet_taps_inside(int32_t position, uint32_t size, uint32_t kernel, uint32_t dilation) {
    trivet_range taps = {0, 0};
    if (position < 0) {
        taps.first = trivet_minimum(((uint32_t)-position + dilation - 1) / dilation, kernel);
    }
    if (position < (int32_t)size) {
        taps.last = trivet_minimum(((uint32_t)((int32_t)size - position) + dilation - 1) / dilation, kernel);
    }
    taps.last = taps.last < taps.first ? taps.first : taps.last;
    return taps;
}

/* True iff `outputs` windows fit into positions, and the numbers are sound. */
static inline bool trivet_window_is_sound(uint32_t size, uint32_t outputs, uint32_t kernel, uint32_t stride,
                                          uint32_t dilation, uint32_t before) {
    return kernel > 0 && stride > 0 && dilation > 0 && size > 0 && outputs > 0 && before <= TRIVET_MAX_POSITION / 4 &&
           trivet_product(kernel, dilation) <= TRIVET_MAX_POSITION / 4 &&
           trivet_product(outputs, stride) <= TRIVET_MAX_POSITION / 4 && size <= TRIVET_MAX_POSITION / 4;
}

#endif
