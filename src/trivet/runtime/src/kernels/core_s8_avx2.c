/* The inner loops of the int8 kernels with AVX2. */
#include "core_s8.h"

#ifdef TRIVET_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline)) TARGET

/* The parameters of 8 channels. */
typedef struct params8 {
    __m256i bias; /* where `load_params` made them */
    __m256i mantissa, odd_mantissa, left, right, mask, half;
    __m256i even_nudge, odd_nudge; /* the usual shifts: both roundings */
} params8;

INLINE __m256i load_ints(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }

INLINE __m256i load_shifts(const int8_t *p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* 2^30 + 2^(30 + e) for shifts of e to the right. */
INLINE __m256i nudge_of(__m256i right) {
    __m256i half = _mm256_sllv_epi64(_mm256_set1_epi64x(1), _mm256_add_epi64(right, _mm256_set1_epi64x(30)));
    return _mm256_add_epi64(half, _mm256_set1_epi64x(1 << 30));
}

INLINE params8 params_of(__m256i mantissa, __m256i shift) {
    params8 p;
    p.bias = _mm256_setzero_si256();
    p.mantissa = mantissa;
    p.odd_mantissa = _mm256_srli_epi64(p.mantissa, 32);
    p.left = _mm256_max_epi32(shift, _mm256_setzero_si256());
    p.right = _mm256_max_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), shift), _mm256_setzero_si256());
    p.mask = _mm256_sub_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), p.right), _mm256_set1_epi32(1));
    p.half = _mm256_srli_epi32(p.mask, 1);
    p.even_nudge = nudge_of(_mm256_and_si256(p.right, _mm256_set1_epi64x(31)));
    p.odd_nudge = nudge_of(_mm256_srli_epi64(p.right, 32));
    return p;
}

/* `count` channels from `channel` on; the others are zero. */
INLINE params8 load_params(const trivet_requant_s8 *r, uint32_t channel, uint32_t count) {
    const bool q31 = r->rounding == TRIVET_ROUND_Q31;
    params8 p;
    if (q31 && count >= 8) {
        p = params_of(load_ints(r->mantissas + channel), load_shifts(r->shifts + channel));
        p.bias = load_ints(r->bias + channel);
        return p;
    }
    int32_t bias[8] = {0}, mantissas[8] = {0};
    int8_t shifts[8] = {0};
    for (uint32_t i = 0; i < (count < 8 ? count : 8); i++) {
        bias[i] = r->bias[channel + i];
        mantissas[i] = q31 ? r->mantissas[channel + i] : 0;
        shifts[i] = (int8_t)(q31 ? r->shifts[channel + i] : 0);
    }
    p = params_of(load_ints(mantissas), load_shifts(shifts));
    p.bias = load_ints(bias);
    return p;
}

/* How the sums of a layer are rescaled: see core_s8_avx512.c. */
typedef enum manner { MANNER_RELU, MANNER_USUAL, MANNER_ANY, MANNER_FLOAT } manner;

INLINE manner manner_of(const trivet_requant_s8 *r) {
    if (r->rounding != TRIVET_ROUND_Q31) {
        return MANNER_FLOAT;
    }
    if (r->shift_range != TRIVET_SHIFTS_USUAL) {
        return MANNER_ANY;
    }
    return r->lo >= r->zero ? MANNER_RELU : MANNER_USUAL;
}

INLINE __m256i rescale_usual(__m256i sum, const params8 *p, bool relu) {
    __m256i even = _mm256_mul_epi32(sum, p->mantissa);
    __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(sum, 32), p->odd_mantissa);
    if (!relu) { /* - 2^31 where the sum is negative */
        const __m256i one = _mm256_set1_epi64x(-(INT64_C(1) << 31));
        const __m256i none = _mm256_setzero_si256();
        even = _mm256_add_epi64(even, _mm256_and_si256(_mm256_cmpgt_epi64(none, even), one));
        odd = _mm256_add_epi64(odd, _mm256_and_si256(_mm256_cmpgt_epi64(none, odd), one));
    }
    even = _mm256_add_epi64(even, p->even_nudge);
    odd = _mm256_add_epi64(odd, p->odd_nudge);
    __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_srav_epi32(high, _mm256_sub_epi32(p->right, _mm256_set1_epi32(1)));
}

INLINE __m256i rescale_any(__m256i sum, const params8 *p) {
    const __m256i nudge = _mm256_set1_epi64x(1 << 30);
    sum = _mm256_sllv_epi32(sum, p->left);
    __m256i even = _mm256_add_epi64(_mm256_mul_epi32(sum, p->mantissa), nudge);
    __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(sum, 32), p->odd_mantissa), nudge);
    __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
    __m256i up = _mm256_cmpgt_epi32(_mm256_and_si256(high, p->mask),
                                    _mm256_sub_epi32(p->half, _mm256_srai_epi32(high, 31)));
    return _mm256_sub_epi32(_mm256_srav_epi32(high, p->right), up);
}

/* Sums at the output's scale, before the zero point. */
INLINE __m256i rescale(__m256i sum, const params8 *p, manner how) {
    return how == MANNER_ANY ? rescale_any(sum, p) : rescale_usual(sum, p, how == MANNER_RELU);
}

/* Zero point, clamp and narrowing of 16 words. */
INLINE __m128i narrow(__m256i words, const trivet_requant_s8 *r) {
    words = _mm256_adds_epi16(words, _mm256_set1_epi16((int16_t)r->zero));
    words = _mm256_max_epi16(words, _mm256_set1_epi16((int16_t)r->lo));
    words = _mm256_min_epi16(words, _mm256_set1_epi16((int16_t)r->hi));
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
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

/* Minus the weights' zero point times the sum of the operand of one pixel. */
static int32_t offset_of(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixel) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < g->segment_count && g->weight_zero != 0; i++) {
        const int8_t *x = segments[i].data + pixel * segments[i].stride;
        for (uint32_t k = 0; k < 4 * g->segment_steps; k++) {
            sum += x[k];
        }
    }
    return (int32_t)(0u - (uint32_t)g->weight_zero * (uint32_t)sum);
}

/* A block of packed weights: 4 Q channels, of which `count` exist. */
typedef struct block {
    const int8_t *weights;
    uint32_t channel, count;
} block;

/* Sums of 8 channels from two accumulators, which hold two partial sums for each of 4 channels. */
INLINE __m256i join(__m256i a, __m256i b) {
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

INLINE void finish(const trivet_gemm_s8 *g, const block *b, __m256i low, __m256i high, const params8 params[2],
                   int8_t *out) {
    const trivet_requant_s8 *r = &g->requant;
    low = _mm256_add_epi32(low, params[0].bias);
    high = _mm256_add_epi32(high, params[1].bias);
    if (r->rounding != TRIVET_ROUND_Q31) {
        int32_t sums[TRIVET_LANES];
        _mm256_storeu_si256((__m256i *)(void *)sums, low);
        _mm256_storeu_si256((__m256i *)(void *)(sums + 8), high);
        trivet_requantize_s8(r, b->channel, sums, b->count, out);
        return;
    }
    const manner how = manner_of(r);
    low = rescale(low, &params[0], how);
    high = rescale(high, &params[1], how);
    __m128i bytes = narrow(_mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0)), r);
    if (b->count == TRIVET_LANES) {
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
    } else {
        int8_t buffer[TRIVET_LANES];
        _mm_storeu_si128((__m128i *)(void *)buffer, bytes);
        memcpy(out, buffer, b->count);
    }
}

/* One tile of P pixels and 4 Q channels. */
INLINE void multiply(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixel, const block *b,
                     int8_t *out, size_t out_stride, const uint32_t P, const uint32_t Q) {
    __m256i acc[6][4];
#pragma GCC unroll 6
    for (uint32_t p = 0; p < P; p++) {
        __m256i offset = _mm256_set1_epi64x((int64_t)(uint32_t)offset_of(g, segments, pixel + p));
#pragma GCC unroll 4
        for (uint32_t q = 0; q < 4; q++) {
            acc[p][q] = q < Q ? offset : _mm256_setzero_si256();
        }
    }
    for (uint32_t i = 0; i < g->segment_count; i++) {
        size_t stride = segments[i].stride;
        const int8_t *x = segments[i].data + pixel * stride;
        const int8_t *w = b->weights + (size_t)segments[i].first_step * Q * 16;
        for (uint32_t s = 0; s < g->segment_steps; s++, x += 4, w += Q * 16) {
            __m256i operand[6];
#pragma GCC unroll 6
            for (uint32_t p = 0; p < P; p++) {
                operand[p] = _mm256_cvtepi8_epi16(_mm_set1_epi32(load_word(x + p * stride)));
            }
#pragma GCC unroll 4
            for (uint32_t q = 0; q < Q; q++) {
                __m256i weights = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + q * 16)));
#pragma GCC unroll 6
                for (uint32_t p = 0; p < P; p++) {
                    acc[p][q] = _mm256_add_epi32(acc[p][q], _mm256_madd_epi16(operand[p], weights));
                }
            }
        }
    }
    params8 params[2] = {load_params(&g->requant, b->channel, b->count),
                         load_params(&g->requant, b->channel + 8, b->count > 8 ? b->count - 8 : 0)};
#pragma GCC unroll 6
    for (uint32_t p = 0; p < P; p++) {
        finish(g, b, join(acc[p][0], acc[p][1]), join(acc[p][2], acc[p][3]), params,
               out + (pixel + p) * out_stride + b->channel);
    }
}

/* All pixels, P at a time and then one at a time. */
INLINE void multiply_pixels(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, const block *b,
                            int8_t *out, size_t out_stride, const uint32_t P, const uint32_t Q) {
    uint32_t pixel = 0;
    for (; pixel + P <= pixels; pixel += P) {
        multiply(g, segments, pixel, b, out, out_stride, P, Q);
    }
    for (; pixel < pixels; pixel++) {
        multiply(g, segments, pixel, b, out, out_stride, 1, Q);
    }
}

TARGET static void gemm_row(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                            size_t out_stride) {
    for (uint32_t channel = 0; channel < g->channels; channel += TRIVET_LANES) {
        uint32_t left = g->channels - channel;
        block b = {g->weights + (size_t)channel * g->steps * 4, channel, left < TRIVET_LANES ? left : TRIVET_LANES};
        switch ((b.count + 3) / 4) {
        case 1: multiply_pixels(g, segments, pixels, &b, out, out_stride, 6, 1); break;
        case 2: multiply_pixels(g, segments, pixels, &b, out, out_stride, 4, 2); break;
        case 3: multiply_pixels(g, segments, pixels, &b, out, out_stride, 3, 3); break;
        default: multiply_pixels(g, segments, pixels, &b, out, out_stride, 2, 4); break;
        }
    }
}

TARGET static void gemm(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                        size_t out_stride) {
    trivet_segment_s8 moved[TRIVET_MAX_SEGMENTS];
    gemm_row(g, segments, pixels, out, out_stride);
    for (uint32_t row = 1; row < g->rows; row++) {
        for (uint32_t i = 0; i < g->segment_count; i++) {
            moved[i] = segments[i];
            moved[i].data += row * g->row_stride;
        }
        gemm_row(g, moved, pixels, out + row * g->out_row_stride, out_stride);
    }
}

#define VECTOR __m256i
#define HALF_BYTES 16 /* channels of one vector of int16 */
#define LANES 8
#define WIDEN(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define WIDEN_SOME(p, n) widen_some(p, n)
#define GATHER_16(p, stride) WIDEN(p)
#define GATHER_8(p, stride) _mm256_cvtepi8_epi16(_mm_set_epi64x(load_long((p) + (stride)), load_long(p)))
#define SET_WORDS(v) _mm256_set1_epi16((int16_t)(v))
#define SUB_WORDS(a, b) _mm256_sub_epi16(a, b)
#define UNPACK_LOW(a, b) _mm256_unpacklo_epi16(a, b)
#define UNPACK_HIGH(a, b) _mm256_unpackhi_epi16(a, b)
#define MULTIPLY_ADD(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define LOAD(p) load_ints(p)
#define LOAD_SHIFTS(p) load_shifts(p)
#define PARAMS(mantissas, shifts) params_of(mantissas, shifts)
/* Of channels 0 to 7 and 8 to 15, those in the low and the high halves after unpacking. */
#define LOW_LANES(a, b) _mm256_permute2x128_si256(a, b, 0x20)
#define HIGH_LANES(a, b) _mm256_permute2x128_si256(a, b, 0x31)
/* Which of 16 channels a 32-bit lane of the low or the high half holds after unpacking. */
#define CHANNEL_OF(half, lane) (8 * ((lane) / 4) + 4 * (half) + (lane) % 4)

INLINE __m256i widen_some(const int8_t *p, uint32_t count) {
    int8_t bytes[HALF_BYTES] = {0};
    if (count == HALF_BYTES) {
        return WIDEN(p);
    }
    memcpy(bytes, p, count);
    return WIDEN(bytes);
}

INLINE void pack_store(__m256i low, __m256i high, const trivet_requant_s8 *r, int8_t *out) {
    _mm_storeu_si128((__m128i *)(void *)out, narrow(_mm256_packs_epi32(low, high), r));
}

typedef params8 params_vector;
#include "depthwise_s8_x86.h"

INLINE __m256i widen_8(const int8_t *p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

INLINE __m256i linear_8(const trivet_linear_s8 *g, const int8_t *a, const int8_t *b) {
    __m256i x = _mm256_mullo_epi32(widen_8(a), _mm256_set1_epi32(g->a_factor));
    __m256i y = _mm256_mullo_epi32(widen_8(b), _mm256_set1_epi32(g->b_factor));
    __m256i sum = _mm256_add_epi32(_mm256_add_epi32(x, y), _mm256_set1_epi32(g->constant));
    __m256i v = _mm256_sra_epi32(sum, _mm_cvtsi32_si128((int32_t)g->shift));
    return _mm256_min_epi32(_mm256_max_epi32(v, _mm256_set1_epi32(g->lo)), _mm256_set1_epi32(g->hi));
}

TARGET static void linear(const trivet_linear_s8 *g, const int8_t *a, const int8_t *b, int8_t *out, uint32_t count) {
    const trivet_linear_s8 c = *g;
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i words = _mm256_packs_epi32(linear_8(&c, a + i, b + i), linear_8(&c, a + i + 8, b + i + 8));
        words = _mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0));
        __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + i), bytes);
    }
    if (i < count) {
        trivet_core_s8_portable.linear(g, a + i, b + i, out + i, count - i);
    }
}

const trivet_core_s8 trivet_core_s8_avx2 = {"avx2", 1, gemm, depthwise, linear};
#else
typedef int trivet_core_s8_avx2_is_empty; /* ISO C wants a declaration */
#endif
