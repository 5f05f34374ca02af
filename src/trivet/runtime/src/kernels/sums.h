/* How many channels a sum over rows keeps at a time. */
#ifndef TRIVET_SUMS_H
#define TRIVET_SUMS_H

#include "trivet/kernel.h"

/* Channels that are summed at a time where the operand is all there (SUM_BLOCK in backends/plan/kernels/reduce.py). */
#define TRIVET_SUM_BLOCK 64u

/* All channels where rows come in parts, as their sums wait for the rest; a block of them where all rows come at once. */
static inline uint32_t trivet_channels_at_once(uint32_t row, uint32_t rows, uint32_t height, uint32_t channels) {
    bool is_whole = row == 0 && rows >= height;
    return is_whole && channels > TRIVET_SUM_BLOCK ? TRIVET_SUM_BLOCK : channels;
}

#endif
