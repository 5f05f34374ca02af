/* The taps of a bilinear resize, which the parameter records of its kernels describe alike. */
#ifndef TRIVET_BILINEAR_H
#define TRIVET_BILINEAR_H

#include "trivet/kernel.h"

/* Two operand rows, or pixels of a row, and the weight of the upper one: real, or in 1/1024. */
typedef struct trivet_tap_pair {
    uint16_t lower, upper;
    union {
        float real;
        int32_t fixed;
    } weight;
} trivet_tap_pair;

typedef struct trivet_taps {
    const trivet_tap_pair *rows, *columns;
    uint32_t row_count, column_count, channels;
} trivet_taps;

static inline const trivet_tap_pair *trivet_tap_pairs(const uint8_t *constants, const trivet_blob *blob) {
    return (const trivet_tap_pair *)(const void *)trivet_blob_data(constants, blob);
}

#define TRIVET_TAPS(p, call)                                                                            \
    {trivet_tap_pairs((call)->constants, &(p)->rows), trivet_tap_pairs((call)->constants, &(p)->columns), \
     (p)->rows.bytes / (uint32_t)sizeof(trivet_tap_pair), (p)->columns.bytes / (uint32_t)sizeof(trivet_tap_pair), \
     (p)->channels}

/* The four neighbours of a pixel, and its weights down and to the right. */
typedef struct trivet_corners {
    const void *upper_left, *lower_left, *upper_right, *lower_right;
    trivet_tap_pair down, right;
} trivet_corners;

typedef void (*trivet_mix_fn)(const void *context, const trivet_corners *corners, uint32_t channels, void *y);

/* Calls `mix` for every pixel of rows [row, row + rows); `bytes` is an element's size. */
void trivet_bilinear_run(const trivet_taps *taps, const trivet_call *call, uint32_t row, uint32_t rows, uint32_t bytes,
                         trivet_mix_fn mix, const void *context);

/* True iff no run leaves operand and result, whose elements are of this type and size. */
bool trivet_taps_are_sound(const trivet_taps *taps, const trivet_check *check, uint32_t dtype, uint32_t bytes);

#endif
