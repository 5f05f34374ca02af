/* The inner loops of the int8 kernels with AVX-512 and its dot product instructions (VNNI). */
#include "core_s8.h"

#ifdef TRIVET_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2")))
#define INLINE static inline __attribute__((always_inline)) TARGET

#include "requant_s8_avx512.h"

INLINE int32_t load_word(const int8_t *x) {
    int32_t word;
    memcpy(&word, x, 4);
    return word;
}

INLINE int64_t load_long(const int8_t *x) {
    int64_t word;
    memcpy(&word, x, 8);
    return word;
}

/* Channels of a tile, and what they need. */
typedef struct tile {
    usual16 params[4];
    __m512i start[4]; /* of the sums of the channels */
    size_t offset;    /* bytes from the first row's operands */
    int8_t *out;
    size_t out_stride;
    const int32_t *sums; /* of the operand, for each pixel: added too; or NULL */
    uint32_t channel, lanes;
    __mmask16 some; /* lanes of the only vector that exist */
} tile;

/* Minus (128 + the weights' zero point) times the sum of the operand of one pixel. */
INLINE int32_t operand_correction(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, size_t offset,
                                  uint32_t pixel) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const int8_t *x = segments[i].data + offset + pixel * segments[i].stride;
        uint32_t left = 4 * g->segment_steps;
        for (; left >= 64; left -= 64, x += 64) {
            sum = _mm512_dpbusd_epi32(sum, ones, _mm512_loadu_si512(x));
        }
        if (left > 0) {
            sum = _mm512_dpbusd_epi32(sum, ones, _mm512_maskz_loadu_epi8((UINT64_C(1) << left) - 1, x));
        }
    }
    return (int32_t)(0u - (uint32_t)(128 + g->weight_zero) * (uint32_t)_mm512_reduce_add_epi32(sum));
}

/* -128 times the sums of the weights of 16 channels that the segments use. */
INLINE __m512i weights_correction(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, const tile *t,
                                  uint32_t channel) {
    const int8_t *block = g->weights + (size_t)channel * g->steps * 4;
    __m512i sum = _mm512_setzero_si512();
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const int8_t *w = block + (size_t)segments[i].first_step * t->lanes * 4;
        for (uint32_t s = 0; s < g->segment_steps; s++, w += t->lanes * 4) {
            sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), _mm512_maskz_loadu_epi32(t->some, w));
        }
    }
    return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, 7));
}

typedef __m512i sums_of_tile[12][4];

/* Packs four vectors of channels, as they are after the rescaling, into 64 bytes. */
INLINE void store_64(__m512i a, __m512i b, __m512i c, __m512i d, const trivet_requant_s8 *r, int8_t *out) {
    const __m512i zero = _mm512_set1_epi16((int16_t)r->zero);
    __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero);
    __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero);
    __m512i bytes = _mm512_packs_epi16(ab, cd);
    bytes = _mm512_max_epi8(bytes, _mm512_set1_epi8((int8_t)r->lo));
    bytes = _mm512_min_epi8(bytes, _mm512_set1_epi8((int8_t)r->hi));
    /* Packing went by lanes of 128 bits: dword 4 * lane + vector holds channels 4 * lane of a vector. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, bytes));
}

/* Requantizes and stores a tile. */
INLINE void finish(const trivet_gemm_s8 *g, sums_of_tile acc, uint32_t pixel, const tile *t, const manner how,
                   const uint32_t P, const uint32_t V) {
    const trivet_requant_s8 *r = &g->requant;
#pragma GCC unroll 12
    for (uint32_t p = 0; p < P; p++) {
        int8_t *out = t->out + (pixel + p) * t->out_stride + t->channel;
        __m512i v[4];
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++) {
            v[i] = i < V ? rescale_usual(acc[p][i], &t->params[i], how == MANNER_RELU) : _mm512_setzero_si512();
        }
        if (V == 4) {
            store_64(v[0], v[1], v[2], v[3], r, out);
        } else if (V == 2) {
            _mm_storeu_si128((__m128i *)(void *)out, narrow(v[0], r));
            _mm_storeu_si128((__m128i *)(void *)(out + TRIVET_LANES), narrow(v[1], r));
        } else {
            _mm_mask_storeu_epi8(out, t->some, narrow(v[0], r));
        }
    }
}

/* The same for unusual layers: one vector after the other. */
TARGET static void finish_vector(const trivet_gemm_s8 *g, __m512i sum, uint32_t channel, __mmask16 some, int8_t *out) {
    const trivet_requant_s8 *r = &g->requant;
    if (r->rounding == TRIVET_ROUND_Q31) {
        params16 p = params_of(load_ints(r->mantissas + channel, some), load_shifts(r->shifts + channel, some));
        _mm_mask_storeu_epi8(out, some, narrow(rescale_any(sum, &p), r));
        return;
    }
    int32_t sums[TRIVET_LANES];
    uint32_t left = g->channels - channel;
    _mm512_storeu_si512(sums, sum);
    trivet_requantize_s8(r, channel, sums, left < TRIVET_LANES ? left : TRIVET_LANES, out);
}

INLINE void finish_slowly(const trivet_gemm_s8 *g, sums_of_tile acc, uint32_t pixel, const tile *t, const uint32_t P,
                          const uint32_t V) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; v++) {
        uint32_t channel = t->channel + v * TRIVET_LANES;
#pragma GCC unroll 12
        for (uint32_t p = 0; p < P; p++) {
            finish_vector(g, acc[p][v], channel, t->some,
                          t->out + (pixel + p) * t->out_stride + channel);
        }
    }
}

/* One tile of P pixels and V vectors of channels. One factor must be unsigned, so it is taken 128 too large: either the
 * operand (`flip_x`), which the sums of the weights correct, or the weights, which the sums of the operand correct. */
INLINE void multiply(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixel, const tile *t,
                     const bool flip_x, const uint32_t P, const uint32_t V) {
    const __m512i flip = _mm512_set1_epi8(-128);
    sums_of_tile acc;
#pragma GCC unroll 12
    for (uint32_t p = 0; p < P; p++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < V; v++) {
            acc[p][v] = flip_x ? t->start[v] : _mm512_add_epi32(t->start[v], _mm512_set1_epi32(t->sums[pixel + p]));
        }
    }
    const int8_t *block = g->weights + (size_t)t->channel * g->steps * 4;
    const size_t block_bytes = (size_t)g->steps * TRIVET_LANES * 4;
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const size_t stride = segments[i].stride;
        const int8_t *x = segments[i].data + t->offset + pixel * stride;
        const int8_t *w = block + (size_t)segments[i].first_step * t->lanes * 4;
        for (uint32_t s = 0; s < g->segment_steps; s++, x += 4, w += t->lanes * 4) {
            __m512i weights[4];
#pragma GCC unroll 4
            for (uint32_t v = 0; v < V; v++) {
                weights[v] = V == 1 ? _mm512_maskz_loadu_epi32(t->some, w) : _mm512_loadu_si512(w + v * block_bytes);
                weights[v] = flip_x ? weights[v] : _mm512_xor_si512(weights[v], flip);
            }
#pragma GCC unroll 12
            for (uint32_t p = 0; p < P; p++) {
                __m512i operand = _mm512_set1_epi32(load_word(x + p * stride));
                operand = flip_x ? _mm512_xor_si512(operand, flip) : operand;
#pragma GCC unroll 4
                for (uint32_t v = 0; v < V; v++) {
                    acc[p][v] = flip_x ? _mm512_dpbusd_epi32(acc[p][v], operand, weights[v])
                                       : _mm512_dpbusd_epi32(acc[p][v], weights[v], operand);
                }
            }
        }
    }
    switch (manner_of(&g->requant)) {
    case MANNER_RELU: finish(g, acc, pixel, t, MANNER_RELU, P, V); break;
    case MANNER_USUAL: finish(g, acc, pixel, t, MANNER_USUAL, P, V); break;
    default: finish_slowly(g, acc, pixel, t, P, V); break;
    }
}

#define VARIANT(P, V)                                                                                      \
    TARGET static void by_operand_##P##_##V(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments,    \
                                            uint32_t pixel, const tile *t) {                               \
        multiply(g, segments, pixel, t, false, P, V);                                                      \
    }                                                                                                      \
    TARGET static void by_weights_##P##_##V(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments,    \
                                            uint32_t pixel, const tile *t) {                               \
        multiply(g, segments, pixel, t, true, P, V);                                                       \
    }
VARIANT(1, 1)
VARIANT(4, 1)
VARIANT(8, 1)
VARIANT(12, 1)
VARIANT(1, 2)
VARIANT(2, 2)
VARIANT(4, 2)
VARIANT(8, 2)
VARIANT(1, 4)
VARIANT(2, 4)
VARIANT(4, 4)
VARIANT(6, 4)
#undef VARIANT

typedef void (*variant)(const trivet_gemm_s8 *, const trivet_segment_s8 *, uint32_t, const tile *);
#define VARIANTS(a, b, c, V)                                                                      \
    {                                                                                             \
        {a, b, c, 1}, {                                                                           \
            {by_operand_##a##_##V, by_operand_##b##_##V, by_operand_##c##_##V, by_operand_1_##V}, \
                {by_weights_##a##_##V, by_weights_##b##_##V, by_weights_##c##_##V, by_weights_1_##V} \
        }                                                                                         \
    }

/* Variants by number of vectors (1, 2, 4) and by what corrects the sums, then by decreasing number of pixels. */
static const struct {
    uint32_t pixels[4];
    variant run[2][4];
} variants[3] = {VARIANTS(12, 8, 4, 1), VARIANTS(8, 4, 2, 2), VARIANTS(6, 4, 2, 4)};

TARGET static void multiply_pixels(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t first,
                                   uint32_t last, const tile *t, uint32_t vectors) {
    const uint32_t row = vectors >> 1; /* 1, 2, 4 -> 0, 1, 2 */
    const variant *run = variants[row].run[t->sums == NULL];
    uint32_t p = first;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t width = variants[row].pixels[i];
        for (; p + width <= last; p += width) {
            run[i](g, segments, p, t);
        }
        /* A few pixels of one vector are made faster together with some that are there already. */
        if (vectors == 1 && i == 2 && p < last && last - first >= width) {
            run[i](g, segments, last - width, t);
            return;
        }
    }
}

/* The channels from `channel` on that make one tile. */
INLINE uint32_t open_tile(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t channel,
                          bool by_weights, tile *t) {
    const trivet_requant_s8 *r = &g->requant;
    uint32_t left = g->channels - channel, vectors = left >= 64 ? 4 : left >= 32 ? 2 : 1;
    t->channel = channel;
    t->lanes = left < TRIVET_LANES ? (left + 3) & ~3u : TRIVET_LANES;
    t->some = (__mmask16)(left < TRIVET_LANES ? (1u << left) - 1 : 0xFFFFu);
    for (uint32_t v = 0; v < vectors; v++) {
        uint32_t here = channel + v * TRIVET_LANES;
        if (r->rounding == TRIVET_ROUND_Q31 && r->shift_range == TRIVET_SHIFTS_USUAL) {
            __m512i shift = load_shifts(r->shifts + here, t->some);
            t->params[v] = usual_of(load_ints(r->mantissas + here, t->some),
                                    _mm512_sub_epi32(_mm512_setzero_si512(), shift));
        }
        t->start[v] = load_ints(r->bias + here, t->some);
        if (by_weights) {
            t->start[v] = _mm512_add_epi32(t->start[v], weights_correction(g, segments, t, here));
        }
    }
    return vectors;
}

enum { GROUP = 96 }; /* pixels whose sums are kept */

/* Rows [row, row + rows) and pixels [first, last), all channels; `sums` as in a tile. */
TARGET static void multiply_channels(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t row,
                                     uint32_t rows, uint32_t first, uint32_t last, const int32_t *sums, int8_t *out,
                                     size_t out_stride) {
    tile t;
    t.out_stride = out_stride;
    t.sums = sums;
    for (uint32_t channel = 0; channel < g->channels;) {
        uint32_t vectors = open_tile(g, segments, channel, sums == NULL, &t);
        for (uint32_t r = row; r < row + rows; r++) {
            t.offset = r * g->row_stride;
            t.out = out + r * g->out_row_stride;
            multiply_pixels(g, segments, first, last, &t, vectors);
        }
        channel += g->channels - channel < TRIVET_LANES ? g->channels - channel : vectors * TRIVET_LANES;
    }
}

TARGET static void gemm(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                        size_t out_stride) {
    /* The sum of its operand costs a pixel about 20 instructions; flipping the operand one each step and tile, half of
     * which hide behind the products. */
    uint32_t flips = g->segment_count * g->segment_steps * ((g->channels + 63) / 64);
    if (g->weight_zero == 0 && g->rows * pixels >= 8 && flips <= 40) {
        multiply_channels(g, segments, 0, g->rows, 0, pixels, NULL, out, out_stride);
        return;
    }
    for (uint32_t row = 0; row < g->rows; row++) {
        for (uint32_t first = 0; first < pixels; first += GROUP) {
            int32_t sums[GROUP];
            uint32_t count = pixels - first < GROUP ? pixels - first : GROUP;
            for (uint32_t p = 0; p < count; p++) {
                sums[p] = operand_correction(g, segments, row * g->row_stride, first + p);
            }
            multiply_channels(g, segments, row, 1, first, first + count, sums - first, out, out_stride);
        }
    }
}

#define VECTOR __m512i
#define HALF_BYTES 32 /* channels of one vector of int16 */
#define WIDEN(p) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define WIDEN_SOME(p, n) _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((__mmask32)((UINT64_C(1) << (n)) - 1), p))
#define GATHER_16(p, stride) \
    _mm512_cvtepi8_epi16(_mm256_set_m128i(_mm_loadu_si128((const __m128i *)(const void *)((p) + (stride))), \
                                          _mm_loadu_si128((const __m128i *)(const void *)(p))))
#define GATHER_8(p, stride)                                                                          \
    _mm512_cvtepi8_epi16(_mm256_set_epi64x(load_long((p) + 3 * (stride)), load_long((p) + 2 * (stride)), \
                                           load_long((p) + (stride)), load_long(p)))
#define SET_WORDS(v) _mm512_set1_epi16((int16_t)(v))
#define SUB_WORDS(a, b) _mm512_sub_epi16(a, b)
#define UNPACK_LOW(a, b) _mm512_unpacklo_epi16(a, b)
#define UNPACK_HIGH(a, b) _mm512_unpackhi_epi16(a, b)
#define MULTIPLY_ADD(sum, a, b) _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define LOAD(p) _mm512_loadu_si512(p)

/* 32-bit lanes of the low and the high halves after unpacking: which channel of 32 they hold. */
#define CHANNEL_OF(half, lane) (8 * ((lane) / 4) + 4 * (half) + (lane) % 4)

INLINE void pack_store(__m512i low, __m512i high, const trivet_requant_s8 *r, int8_t *out) {
    __m512i words = _mm512_adds_epi16(_mm512_packs_epi32(low, high), SET_WORDS(r->zero));
    words = _mm512_min_epi16(_mm512_max_epi16(words, SET_WORDS(r->lo)), SET_WORDS(r->hi));
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtsepi16_epi8(words));
}

typedef params16 params_vector;
#define LANES 16
#define LOAD_SHIFTS(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define PARAMS(mantissas, shifts) params_of(mantissas, shifts)
/* Of channels 0 to 15 and 16 to 31, those in the low and the high halves after unpacking. */
#define LOW_LANES(a, b) _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0))
#define HIGH_LANES(a, b) _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1))
#include "depthwise_s8_x86.h"

TARGET static void linear(const trivet_linear_s8 *g, const int8_t *a, const int8_t *b, int8_t *out, uint32_t count) {
    const __m512i a_factor = _mm512_set1_epi32(g->a_factor), b_factor = _mm512_set1_epi32(g->b_factor);
    const __m512i constant = _mm512_set1_epi32(g->constant);
    const __m512i lo = _mm512_set1_epi32(g->lo), hi = _mm512_set1_epi32(g->hi);
    const __m128i shift = _mm_cvtsi32_si128((int32_t)g->shift);
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 some = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1 : 0xFFFFu);
        __m512i x = _mm512_mullo_epi32(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, a + i)), a_factor);
        __m512i y = _mm512_mullo_epi32(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, b + i)), b_factor);
        __m512i v = _mm512_sra_epi32(_mm512_add_epi32(_mm512_add_epi32(x, y), constant), shift);
        v = _mm512_min_epi32(_mm512_max_epi32(v, lo), hi);
        _mm_mask_storeu_epi8(out + i, some, _mm512_cvtepi32_epi8(v));
    }
}

const trivet_core_s8 trivet_core_s8_avx512 = {"avx512vnni", 2, gemm, depthwise, linear};
#else
typedef int trivet_core_s8_avx512_is_empty; /* ISO C wants a declaration */
#endif
