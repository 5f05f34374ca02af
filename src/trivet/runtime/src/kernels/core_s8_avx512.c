/* The inner loops of the int8 kernels with AVX-512 and its dot product instructions (VNNI). */
#include "core_s8.h"

#ifdef TRIVET_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2")))
#define INLINE static inline __attribute__((always_inline)) TARGET

/* The parameters of 16 channels. */
typedef struct params16 {
    __m512i bias, mantissa, odd_mantissa, left, right, mask, half;
    __m512i even_nudge, odd_nudge; /* the usual shifts: both roundings */
} params16;

/* 2^30 + 2^(30 + e) for shifts of e to the right. */
INLINE __m512i nudge_of(__m512i right) {
    __m512i half = _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_add_epi64(right, _mm512_set1_epi64(30)));
    return _mm512_add_epi64(half, _mm512_set1_epi64(1 << 30));
}

INLINE params16 params_of(__m512i bias, __m512i mantissa, __m512i shift) {
    const __m512i zero = _mm512_setzero_si512(), one = _mm512_set1_epi32(1);
    params16 p;
    p.bias = bias;
    p.mantissa = mantissa;
    p.odd_mantissa = _mm512_srli_epi64(mantissa, 32);
    p.left = _mm512_max_epi32(shift, zero);
    p.right = _mm512_max_epi32(_mm512_sub_epi32(zero, shift), zero);
    p.mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, p.right), one);
    p.half = _mm512_srli_epi32(p.mask, 1);
    p.even_nudge = nudge_of(_mm512_and_si512(p.right, _mm512_set1_epi64(31)));
    p.odd_nudge = nudge_of(_mm512_srli_epi64(p.right, 32));
    return p;
}

INLINE params16 load_params(const trivet_requant_s8 *r, uint32_t channel, __mmask16 some) {
    __m512i bias = _mm512_maskz_loadu_epi32(some, r->bias + channel);
    if (r->rounding != TRIVET_ROUND_Q31) {
        return params_of(bias, _mm512_setzero_si512(), _mm512_setzero_si512());
    }
    return params_of(bias, _mm512_maskz_loadu_epi32(some, r->mantissas + channel),
                     _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, r->shifts + channel)));
}

/* How the sums of a layer are rescaled. */
typedef enum manner {
    MANNER_RELU,  /* usual shifts, and no result lies below the zero point */
    MANNER_USUAL, /* usual shifts */
    MANNER_ANY,
    MANNER_FLOAT  /* not Q0.31 */
} manner;

INLINE manner manner_of(const trivet_requant_s8 *r) {
    if (r->rounding != TRIVET_ROUND_Q31) {
        return MANNER_FLOAT;
    }
    if (r->shift_range != TRIVET_SHIFTS_USUAL) {
        return MANNER_ANY;
    }
    return r->lo >= r->zero ? MANNER_RELU : MANNER_USUAL;
}

/* A doubling high multiply and a rounding shift by e >= 1, floor((floor((x*m + 2^30) / 2^31) + 2^(e-1) - s) / 2^e) with
 * s = 1 for negative x, is floor((x*m + 2^30 + 2^(30+e) - s * 2^31) / 2^(31+e)): one addition, one shift. Where results
 * below the zero point are clamped, s makes no difference. */
INLINE __m512i rescale_usual(__m512i sum, const params16 *p, bool relu) {
    __m512i even = _mm512_mul_epi32(sum, p->mantissa);
    __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(sum, 32), p->odd_mantissa);
    if (!relu) {
        const __m512i one = _mm512_set1_epi64(-(INT64_C(1) << 31));
        __mmask8 even_negative = _mm512_movepi64_mask(even), odd_negative = _mm512_movepi64_mask(odd);
        even = _mm512_mask_add_epi64(even, even_negative, even, one);
        odd = _mm512_mask_add_epi64(odd, odd_negative, odd, one);
    }
    even = _mm512_add_epi64(even, p->even_nudge);
    odd = _mm512_add_epi64(odd, p->odd_nudge);
    __m512i high = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    return _mm512_srav_epi32(high, _mm512_sub_epi32(p->right, _mm512_set1_epi32(1)));
}

/* The general form, with shifts of any direction. */
INLINE __m512i rescale_any(__m512i sum, const params16 *p) {
    const __m512i nudge = _mm512_set1_epi64(1 << 30);
    sum = _mm512_sllv_epi32(sum, p->left);
    __m512i even = _mm512_add_epi64(_mm512_mul_epi32(sum, p->mantissa), nudge);
    __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(sum, 32), p->odd_mantissa), nudge);
    __m512i high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    __mmask16 up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(high, p->mask),
                                           _mm512_sub_epi32(p->half, _mm512_srai_epi32(high, 31)));
    high = _mm512_srav_epi32(high, p->right);
    return _mm512_mask_sub_epi32(high, up, high, _mm512_set1_epi32(-1));
}

/* Sums at the output's scale, before the zero point. */
INLINE __m512i rescale(__m512i sum, const params16 *p, manner how) {
    return how == MANNER_ANY ? rescale_any(sum, p) : rescale_usual(sum, p, how == MANNER_RELU);
}

/* Zero point, clamp and narrowing of 16 rescaled sums. */
INLINE __m128i narrow(__m512i v, const trivet_requant_s8 *r) {
    v = _mm512_min_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(r->lo - r->zero)), _mm512_set1_epi32(r->hi - r->zero));
    return _mm_add_epi8(_mm512_cvtepi32_epi8(v), _mm_set1_epi8((int8_t)r->zero));
}

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

/* The sum of the operand of one pixel. */
INLINE int32_t sum_pixel(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixel) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const int8_t *x = segments[i].data + pixel * segments[i].stride;
        uint32_t left = 4 * g->segment_steps;
        for (; left >= 64; left -= 64, x += 64) {
            sum = _mm512_dpbusd_epi32(sum, ones, _mm512_loadu_si512(x));
        }
        if (left > 0) {
            sum = _mm512_dpbusd_epi32(sum, ones, _mm512_maskz_loadu_epi8((UINT64_C(1) << left) - 1, x));
        }
    }
    return _mm512_reduce_add_epi32(sum);
}

/* Channels and pixels of one tile; `some` are the lanes of the last vector. */
typedef struct tile {
    uint32_t channel, lanes;
    __mmask16 some;
    int8_t *out;
    size_t out_stride;
    const int32_t *sums;   /* of each pixel: where sums of tiles start, or */
    __m512i correction[4]; /* of each channel */
} tile;

typedef __m512i sums_of_tile[12][4];

/* Requantizes and stores a tile. */
INLINE void finish(const trivet_gemm_s8 *g, sums_of_tile acc, uint32_t pixel, const tile *t, const manner how,
                   const uint32_t P, const uint32_t V) {
    const trivet_requant_s8 *r = &g->requant;
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; v++) {
        __mmask16 some = V == 1 ? t->some : 0xFFFF;
        uint32_t channel = t->channel + v * TRIVET_LANES;
        params16 params = load_params(r, channel, some);
#pragma GCC unroll 12
        for (uint32_t p = 0; p < P; p++) {
            int8_t *out = t->out + (pixel + p) * t->out_stride + channel;
            __m128i bytes = narrow(rescale(_mm512_add_epi32(acc[p][v], params.bias), &params, how), r);
            if (V == 1) {
                _mm_mask_storeu_epi8(out, some, bytes);
            } else {
                _mm_storeu_si128((__m128i *)(void *)out, bytes);
            }
        }
    }
}

/* The same for unusual layers: one vector after the other. */
TARGET static void finish_vector(const trivet_gemm_s8 *g, __m512i sum, uint32_t channel, __mmask16 some, int8_t *out) {
    const trivet_requant_s8 *r = &g->requant;
    params16 params = load_params(r, channel, some);
    sum = _mm512_add_epi32(sum, params.bias);
    if (r->rounding == TRIVET_ROUND_Q31) {
        _mm_mask_storeu_epi8(out, some, narrow(rescale_any(sum, &params), r));
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
            finish_vector(g, acc[p][v], channel, V == 1 ? t->some : 0xFFFF,
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
            acc[p][v] = flip_x ? t->correction[v] : _mm512_set1_epi32(t->sums[pixel + p]);
        }
    }
    const int8_t *block = g->weights + (size_t)t->channel * g->steps * 4;
    const size_t block_bytes = (size_t)g->steps * TRIVET_LANES * 4;
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const size_t stride = segments[i].stride;
        const int8_t *x = segments[i].data + pixel * stride;
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

/* -128 times the sums of the weights that the segments use. */
TARGET static void set_correction(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t vectors,
                                  tile *t) {
    for (uint32_t v = 0; v < vectors; v++) {
        const int8_t *block = g->weights + (size_t)(t->channel + v * TRIVET_LANES) * g->steps * 4;
        __m512i sum = _mm512_setzero_si512();
        for (uint32_t i = 0; i < g->segment_count; i++) {
            const int8_t *w = block + (size_t)segments[i].first_step * t->lanes * 4;
            for (uint32_t s = 0; s < g->segment_steps; s++, w += t->lanes * 4) {
                sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), _mm512_maskz_loadu_epi32(t->some, w));
            }
        }
        t->correction[v] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, 7));
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
VARIANT(12, 1)
VARIANT(1, 2)
VARIANT(3, 2)
VARIANT(8, 2)
VARIANT(1, 4)
VARIANT(3, 4)
VARIANT(6, 4)
#undef VARIANT

typedef void (*variant)(const trivet_gemm_s8 *, const trivet_segment_s8 *, uint32_t, const tile *);

/* Variants by number of vectors (1, 2, 4) and by what corrects the sums, then by decreasing number of pixels. */
static const struct {
    uint32_t pixels[3];
    variant run[2][3];
} variants[3] = {
    {{12, 4, 1}, {{by_operand_12_1, by_operand_4_1, by_operand_1_1}, {by_weights_12_1, by_weights_4_1, by_weights_1_1}}},
    {{8, 3, 1}, {{by_operand_8_2, by_operand_3_2, by_operand_1_2}, {by_weights_8_2, by_weights_3_2, by_weights_1_2}}},
    {{6, 3, 1}, {{by_operand_6_4, by_operand_3_4, by_operand_1_4}, {by_weights_6_4, by_weights_3_4, by_weights_1_4}}},
};

TARGET static void multiply_pixels(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t first,
                                   uint32_t last, const tile *t, uint32_t vectors) {
    const uint32_t row = vectors >> 1; /* 1, 2, 4 -> 0, 1, 2 */
    const uint32_t widest = variants[row].pixels[0];
    const variant *run = variants[row].run[t->sums == NULL];
    uint32_t p = first;
    for (; p + widest <= last; p += widest) {
        run[0](g, segments, p, t);
    }
    if (last - p > widest / 2 && last - first >= widest) { /* once more over some pixels */
        run[0](g, segments, last - widest, t);
        return;
    }
    for (uint32_t i = 1; i < 3; i++) {
        for (; p + variants[row].pixels[i] <= last; p += variants[row].pixels[i]) {
            run[i](g, segments, p, t);
        }
    }
}

/* Pixels [first, last), all channels. `sums` NULL: the weights' sums correct. */
TARGET static void multiply_channels(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t first,
                                     uint32_t last, const int32_t *sums, int8_t *out, size_t out_stride) {
    for (uint32_t channel = 0; channel < g->channels;) {
        uint32_t left = g->channels - channel, vectors = left >= 64 ? 4 : left >= 32 ? 2 : 1;
        tile t;
        t.channel = channel;
        t.lanes = left < TRIVET_LANES ? (left + 3) & ~3u : TRIVET_LANES;
        t.some = (__mmask16)(left < TRIVET_LANES ? (1u << left) - 1 : 0xFFFFu);
        t.out = out;
        t.out_stride = out_stride;
        t.sums = sums;
        if (sums == NULL) {
            set_correction(g, segments, vectors, &t);
        }
        multiply_pixels(g, segments, first, last, &t, vectors);
        channel += left < TRIVET_LANES ? left : vectors * TRIVET_LANES;
    }
}

enum { GROUP = 96 }; /* pixels whose sums are kept */

TARGET static void gemm(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                        size_t out_stride) {
    /* The operand's sum costs a pixel about a dozen instructions, flipping the operand one each step and tile. */
    uint32_t flips = g->segment_count * g->segment_steps * ((g->channels + 63) / 64);
    if (g->weight_zero == 0 && pixels >= 8 && flips <= 12) {
        multiply_channels(g, segments, 0, pixels, NULL, out, out_stride);
        return;
    }
    for (uint32_t first = 0; first < pixels; first += GROUP) {
        int32_t sums[GROUP];
        uint32_t count = pixels - first < GROUP ? pixels - first : GROUP;
        for (uint32_t p = 0; p < count; p++) {
            sums[p] = (int32_t)(0u - (uint32_t)(128 + g->weight_zero) * (uint32_t)sum_pixel(g, segments, first + p));
        }
        multiply_channels(g, segments, first, first + count, sums - first, out, out_stride);
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
#define PARAMS(bias, mantissas, shifts) params_of(bias, mantissas, shifts)
/* Of channels 0 to 15 and 16 to 31, those in the low and the high halves after unpacking. */
#define LOW_LANES(a, b) _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0))
#define HIGH_LANES(a, b) _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1))
#include "depthwise_s8_x86.h"

const trivet_core_s8 trivet_core_s8_avx512 = {"avx512vnni", 2, gemm, depthwise};
#else
typedef int trivet_core_s8_avx512_is_empty; /* ISO C wants a declaration */
#endif
