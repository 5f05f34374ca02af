/* The inner loops of the float32 kernels with AVX2 and FMA. */
#include "core_f32.h"

#ifdef TRIVET_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET

#define VECTOR __m256
#define WIDTH 8u
#define MAX_P 8
#define MAX_V 2
#define PART __m256i
#define PART_OF(left) part_of(left)
#define SET(v) _mm256_set1_ps(v)
#define LOAD(p) _mm256_loadu_ps(p)
#define LOAD_PART(p, part) _mm256_maskload_ps(p, part)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define STORE_PART(p, v, part) _mm256_maskstore_ps(p, part, v)
#define ADD(a, b) _mm256_add_ps(a, b)
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MINIMUM(a, b) _mm256_min_ps(a, b)
#define MAXIMUM(a, b) _mm256_max_ps(a, b)

/* The first `left` lanes. */
INLINE __m256i part_of(uint32_t left) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)(left < WIDTH ? left : WIDTH)), lanes);
}

#include "core_f32_x86.h"

TARGET static void gemm(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixels, float *out,
                        size_t out_stride) {
    uint32_t channel = 0;
    for (; channel + TRIVET_LANES <= g->channels; channel += TRIVET_LANES) {
        multiply_pixels(g, segments, pixels, channel, TRIVET_LANES, WIDTH, part_of(WIDTH), out, out_stride, 6, 2);
    }
    const uint32_t lanes = (g->channels - channel + 3) & ~3u;
    for (; channel < g->channels; channel += WIDTH) {
        multiply_pixels(g, segments, pixels, channel, lanes, 0, part_of(g->channels - channel), out, out_stride, 8, 1);
    }
}

const trivet_core_f32 trivet_core_f32_avx2 = {gemm, depthwise};
#else
typedef int trivet_core_f32_avx2_is_empty; /* ISO C wants a declaration */
#endif
