/* Requantization of 16 channels with AVX-512. Part of core_s8_avx512.c, which defines INLINE. */
#ifndef TRIVET_REQUANT_S8_AVX512_H
#define TRIVET_REQUANT_S8_AVX512_H

#include <immintrin.h>

#include "core_s8.h"

/* The parameters of 16 channels whose shifts are usual. */
typedef struct usual16 {
    __m512i mantissa, odd_mantissa;
    __m512i even_nudge, odd_nudge, last_shift; /* both roundings, and what is left to shift */
} usual16;

/* The parameters of 16 channels. */
typedef struct params16 {
    usual16 usual;
    __m512i left, right, mask, half;
} params16;

/* 2^30 + 2^(30 + e) for shifts of e to the right. */
INLINE __m512i nudge_of(__m512i right) {
    __m512i half = _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_add_epi64(right, _mm512_set1_epi64(30)));
    return _mm512_add_epi64(half, _mm512_set1_epi64(1 << 30));
}

INLINE usual16 usual_of(__m512i mantissa, __m512i right) {
    usual16 p;
    p.mantissa = mantissa;
    p.odd_mantissa = _mm512_srli_epi64(mantissa, 32);
    p.even_nudge = nudge_of(_mm512_and_si512(right, _mm512_set1_epi64(31)));
    p.odd_nudge = nudge_of(_mm512_srli_epi64(right, 32));
    p.last_shift = _mm512_sub_epi32(right, _mm512_set1_epi32(1));
    return p;
}

INLINE params16 params_of(__m512i mantissa, __m512i shift) {
    const __m512i zero = _mm512_setzero_si512(), one = _mm512_set1_epi32(1);
    params16 p;
    p.left = _mm512_max_epi32(shift, zero);
    p.right = _mm512_max_epi32(_mm512_sub_epi32(zero, shift), zero);
    p.mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, p.right), one);
    p.half = _mm512_srli_epi32(p.mask, 1);
    p.usual = usual_of(mantissa, p.right);
    return p;
}

INLINE __m512i load_ints(const int32_t *p, __mmask16 some) { return _mm512_maskz_loadu_epi32(some, p); }

INLINE __m512i load_shifts(const int8_t *p, __mmask16 some) {
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, p));
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
INLINE __m512i rescale_usual(__m512i sum, const usual16 *p, bool relu) {
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
    return _mm512_srav_epi32(high, p->last_shift);
}

/* The general form, with shifts of any direction. */
INLINE __m512i rescale_any(__m512i sum, const params16 *p) {
    const __m512i nudge = _mm512_set1_epi64(1 << 30);
    sum = _mm512_sllv_epi32(sum, p->left);
    __m512i even = _mm512_add_epi64(_mm512_mul_epi32(sum, p->usual.mantissa), nudge);
    __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(sum, 32), p->usual.odd_mantissa), nudge);
    __m512i high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    __mmask16 up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(high, p->mask),
                                           _mm512_sub_epi32(p->half, _mm512_srai_epi32(high, 31)));
    high = _mm512_srav_epi32(high, p->right);
    return _mm512_mask_sub_epi32(high, up, high, _mm512_set1_epi32(-1));
}

/* Sums at the output's scale, before the zero point. */
INLINE __m512i rescale(__m512i sum, const params16 *p, manner how) {
    return how == MANNER_ANY ? rescale_any(sum, p) : rescale_usual(sum, &p->usual, how == MANNER_RELU);
}

/* Zero point, clamp and narrowing of 16 rescaled sums. */
INLINE __m128i narrow(__m512i v, const trivet_requant_s8 *r) {
    v = _mm512_min_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(r->lo - r->zero)), _mm512_set1_epi32(r->hi - r->zero));
    return _mm_add_epi8(_mm512_cvtepi32_epi8(v), _mm_set1_epi8((int8_t)r->zero));
}

#endif
