/* Which pixels of the operand reach an output of a transposed convolution.
 *
 * Output o gets tap k from operand index (o + before - k * dilation) / stride where that is whole. The taps for which
 * it is whole depend on the phase (o + before) mod stride alone; within a phase, the next output, `stride` further,
 * gets each of them from the next operand index. */
#ifndef TRIVET_TRANSPOSED_H
#define TRIVET_TRANSPOSED_H

#include "trivet/kernel.h"
#include "windows.h"

typedef struct trivet_axis {
    uint32_t size, outputs, kernel, stride, dilation, before;
} trivet_axis;

/* True iff tap k belongs to the phase of output o; `index` is where it is read, perhaps beyond the operand. */
static inline bool trivet_tap_source(const trivet_axis *a, uint32_t o, uint32_t k, int32_t *index) {
    int32_t distance = (int32_t)(o + a->before) - (int32_t)(k * a->dilation);
    int32_t stride = (int32_t)a->stride;
    if (distance % stride != 0) {
        return false;
    }
    *index = distance / stride;
    return true;
}

/* The most taps that a phase has: a tap's phase is k * dilation mod stride. */
static inline uint32_t trivet_most_taps(const trivet_axis *a) {
    uint32_t period = 1; /* taps of one phase are so far apart */
    while (period < a->kernel && period * a->dilation % a->stride != 0) {
        period++;
    }
    return (a->kernel + period - 1) / period;
}

/* Outputs first, first + stride, ... of the phase of `first`: how many of them, counted in steps, come before those
 * that get all taps of the phase from inside the operand, and where the latter end. */
static inline trivet_range trivet_phase_interior(const trivet_axis *a, uint32_t first) {
    uint32_t count = (a->outputs - first + a->stride - 1) / a->stride;
    int32_t from = 0, to = (int32_t)count;
    for (uint32_t k = 0; k < a->kernel; k++) {
        int32_t index;
        if (trivet_tap_source(a, first, k, &index)) {
            from = -index > from ? -index : from;
            to = (int32_t)a->size - index < to ? (int32_t)a->size - index : to;
        }
    }
    trivet_range range = {trivet_minimum((uint32_t)from, count), 0};
    range.last = to < (int32_t)range.first ? range.first : (uint32_t)to;
    return range;
}

#endif
