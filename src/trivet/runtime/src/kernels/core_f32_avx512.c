/* The inner loops of the float32 kernels with AVX-512. */
#include "core_f32.h"

#ifdef TRIVET_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET

#define VECTOR __m512
#define WIDTH 16u
#define MAX_P 12
#define MAX_V 4
#define PART __mmask16
#define PART_OF(left) ((__mmask16)((left) < WIDTH ? (1u << (left)) - 1 : 0xFFFFu))
#define SET(v) _mm512_set1_ps(v)
#define LOAD(p) _mm512_loadu_ps(p)
#define LOAD_PART(p, part) _mm512_maskz_loadu_ps(part, p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define STORE_PART(p, v, part) _mm512_mask_storeu_ps(p, part, v)
#define ADD(a, b) _mm512_add_ps(a, b)
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MINIMUM(a, b) _mm512_min_ps(a, b)
#define MAXIMUM(a, b) _mm512_max_ps(a, b)
#include "core_f32_x86.h"

TARGET static void gemm(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixels, float *out,
                        size_t out_stride) {
    const size_t pitch = (size_t)g->products * TRIVET_LANES;
    uint32_t channel = 0;
    for (; channel + 64 <= g->channels; channel += 64) {
        multiply_pixels(g, segments, pixels, channel, TRIVET_LANES, pitch, 0xFFFF, out, out_stride, 6, 4);
    }
    for (; channel + 32 <= g->channels; channel += 32) {
        multiply_pixels(g, segments, pixels, channel, TRIVET_LANES, pitch, 0xFFFF, out, out_stride, 12, 2);
    }
    for (; channel < g->channels; channel += WIDTH) {
        uint32_t left = g->channels - channel;
        uint32_t lanes = left < TRIVET_LANES ? (left + 3) & ~3u : TRIVET_LANES;
        multiply_pixels(g, segments, pixels, channel, lanes, pitch, PART_OF(left), out, out_stride, 12, 1);
    }
}

const trivet_core_f32 trivet_core_f32_avx512 = {gemm, depthwise};
#else
typedef int trivet_core_f32_avx512_is_empty; /* ISO C wants a declaration */
#endif
