/* The inner loops of the int8 kernels: exact sums of products and their requantization.
 *
 * There is one portable set, and sets for instruction sets that the processor is asked for at run time. All of them
 * give the same bytes.
 */
#ifndef TRIVET_CORE_S8_H
#define TRIVET_CORE_S8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pointers that nothing else in the function reaches; C++ has no word for it. */
#ifdef __cplusplus
#define TRIVET_RESTRICT __restrict
#else
#define TRIVET_RESTRICT restrict
#endif

/* Output channels of a full block of packed weights. */
#define TRIVET_LANES 16u

/* How a sum becomes a stored integer. All arrays have one entry for each output channel. */
typedef enum trivet_rounding {
    TRIVET_ROUND_Q31,      /* Q0.31 doubling high multiply, then a rounding shift (TensorFlow Lite) */
    TRIVET_ROUND_AWAY,     /* float64 product, half away from zero */
    TRIVET_ROUND_EVEN      /* float64 product, half to even */
} trivet_rounding;

/* Where all shifts of a layer lie. */
typedef enum trivet_shifts {
    TRIVET_SHIFTS_USUAL, /* in [-31, -1]: the two roundings become one 64-bit addition */
    TRIVET_SHIFTS_ANY    /* in [-31, 30] */
} trivet_shifts;

typedef struct trivet_requant_s8 {
    const int32_t *bias;
    const int32_t *mantissas; /* TRIVET_ROUND_Q31: 0, or in [2^30, 2^31) */
    const int8_t *shifts;     /* TRIVET_ROUND_Q31: in [-31, 30]; positive means left */
    const double *scales;     /* the others */
    int32_t zero, lo, hi;
    uint32_t rounding;
    uint32_t shift_range; /* trivet_shifts */
} trivet_requant_s8;

/* Part of the operand of a dot product: pixel p of a run reads it at data + p * stride. */
typedef struct trivet_segment_s8 {
    const int8_t *data;
    size_t stride;
    uint32_t first_step; /* where its weights start */
} trivet_segment_s8;

#define TRIVET_MAX_SEGMENTS 64u

/* Products of runs of pixels with packed weights: [ceil(channels / 16)][steps][lanes][4], lanes 16, or in the last
 * block the channels that are left, rounded up to a multiple of 4. A step is 4 products of every channel. */
typedef struct trivet_gemm_s8 {
    const int8_t *weights;
    trivet_requant_s8 requant;
    uint32_t channels;
    uint32_t steps;
    uint32_t segment_count;
    uint32_t segment_steps; /* of each segment */
    int32_t weight_zero;
    uint32_t rows;          /* of pixels: each reads its segments `row_stride` bytes after the one before it, */
    size_t row_stride;
    size_t out_row_stride;  /* and is made so many bytes after it */
} trivet_gemm_s8;

/* Sums over the taps of windows, channel by channel; weights: [taps][channels]. */
typedef struct trivet_depthwise_s8 {
    const int8_t *weights;
    trivet_requant_s8 requant;
    uint32_t channels;
    uint32_t taps;
    int32_t weight_zero;
    size_t stride; /* bytes from pixel to pixel of the operand */
} trivet_depthwise_s8;

/* Rows times taps of one call. */
#define TRIVET_MAX_TAPS 64u

/* y = clamp((a * a_factor + b * b_factor + constant) >> shift); no sum leaves int32. */
typedef struct trivet_linear_s8 {
    int32_t a_factor, b_factor, constant, lo, hi;
    uint32_t shift;
} trivet_linear_s8;

typedef struct trivet_core_s8 {
    const char *name;
    uint32_t level; /* of the instruction set: 0 portable, 1 AVX2 and FMA, 2 AVX-512 with VNNI */
    /* `rows` rows of `pixels` each; pixel p of the first is made at out + p * out_stride: `channels` bytes. */
    void (*gemm)(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                 size_t out_stride);
    /* Pixel p of row r reads tap t at taps[r * g->taps + t] + p * g->stride, and is made at
     * out + (r * pixels + p) * channels. */
    void (*depthwise)(const trivet_depthwise_s8 *g, const int8_t *const *taps, uint32_t rows, uint32_t pixels,
                      int8_t *out);
    /* `out` may be `a` or `b`. */
    void (*linear)(const trivet_linear_s8 *g, const int8_t *a, const int8_t *b, int8_t *out, uint32_t count);
} trivet_core_s8;

/* The fastest set that the processor has, unless another was chosen. */
const trivet_core_s8 *trivet_core_s8_get(void);

/* For tests: set `index` of those that this processor has, from 0 (portable) on; NULL beyond the last. */
const trivet_core_s8 *trivet_core_s8_at(uint32_t index);

/* For tests: makes every kernel use set `index`, or the fastest again if there is no such set. */
void trivet_core_s8_choose(uint32_t index);

/* Requantizes `count` sums of channels channel, channel + 1, ... */
void trivet_requantize_s8(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                          int8_t *out);

extern const trivet_core_s8 trivet_core_s8_portable;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(TRIVET_PORTABLE)
#define TRIVET_X86 1
extern const trivet_core_s8 trivet_core_s8_avx2;
extern const trivet_core_s8 trivet_core_s8_avx512;
#endif

#endif
