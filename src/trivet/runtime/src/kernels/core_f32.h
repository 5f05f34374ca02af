/* The inner loops of the float32 kernels: sums of products, several channels side by side.
 *
 * The order of a sum and whether a product is rounded on its own differ between the sets for instruction sets; results
 * agree within float32 rounding. */
#ifndef TRIVET_CORE_F32_H
#define TRIVET_CORE_F32_H

#include <stddef.h>
#include <stdint.h>

#include "core_s8.h"

/* Part of a dot product: pixel p reads `length` floats from data + p * stride on; their weights start at `first`. */
typedef struct trivet_segment_f32 {
    const float *data;
    size_t stride;
    uint32_t first, length;
} trivet_segment_f32;

/* Products of runs of pixels with packed weights: [ceil(channels / 16)][products][lanes], lanes 16, or in the last
 * block the channels that are left, rounded up to a multiple of 4. */
typedef struct trivet_gemm_f32 {
    const float *weights;
    const float *bias; /* one for each channel, or NULL */
    uint32_t channels;
    uint32_t products; /* of a channel */
    uint32_t segment_count;
    float lo, hi;
} trivet_gemm_f32;

/* A tap of depthwise windows: pixel p reads its channels from data + p * stride on. */
typedef struct trivet_tap_f32 {
    const float *data;
    const float *weights;
} trivet_tap_f32;

typedef struct trivet_depthwise_f32 {
    const float *bias; /* one for each channel, or NULL */
    uint32_t channels;
    uint32_t taps;
    size_t stride;
    float lo, hi;
} trivet_depthwise_f32;

typedef struct trivet_core_f32 {
    /* Pixel p of the result is `channels` floats at out + p * out_stride. */
    void (*gemm)(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixels, float *out,
                 size_t out_stride);
    /* Pixel p of the result is at out + p * channels. */
    void (*depthwise)(const trivet_depthwise_f32 *g, const trivet_tap_f32 *taps, uint32_t pixels, float *out);
} trivet_core_f32;

/* The set of the level that the int8 kernels use. */
const trivet_core_f32 *trivet_core_f32_get(void);

#ifdef TRIVET_X86
extern const trivet_core_f32 trivet_core_f32_avx2;
extern const trivet_core_f32 trivet_core_f32_avx512;
#endif

#endif
