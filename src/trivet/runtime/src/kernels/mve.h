/* What kernels for Helium, the vector extension of Arm's M-profile (MVE), share: how sums become stored integers.
 *
 * TRIVET_MVE: the compiler makes code for a core with the integer part of the extension and takes GNU assembler.
 * Everything else runs portable C with the same arithmetic. */
#ifndef TRIVET_MVE_H
#define TRIVET_MVE_H

#include <string.h>

#include "trivet/kernel.h"

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && !defined(TRIVET_NO_MVE)
#define TRIVET_MVE 1
#endif

/* Bytes of a vector. */
#define TRIVET_MVE_BYTES 16u
/* Channels whose sums are rescaled together. */
#define TRIVET_MVE_LANES 4u

/* A sum s becomes t = (2 * (s + bias) * mantissa + 2^31) >> 32, then with e in 1..31 (t + 2^(e - 1)) >> e, plus `zero`,
 * between `lo` and `hi`. `is_signed`: where t < 0, 1 is taken off before the shift. Those are TensorFlow Lite's two
 * roundings; a layer whose least result is `zero` does without the sign, as no result of a negative t counts. */
typedef struct trivet_mve_rescale {
    int32_t zero, lo, hi;
    uint32_t is_signed;
} trivet_mve_rescale;

/* Of 4 channels: bias, mantissa, -e; their numbers lie TRIVET_MVE_LANES apart. */
#define TRIVET_MVE_NUMBERS 3u

static inline int8_t trivet_mve_stored(const trivet_mve_rescale *r, const int32_t *numbers, uint32_t sum) {
    const int32_t acc = (int32_t)(sum + (uint32_t)numbers[0]);
    const int32_t shift = -numbers[2 * TRIVET_MVE_LANES];
    int64_t value = ((int64_t)acc * numbers[TRIVET_MVE_LANES] + (INT64_C(1) << 30)) >> 31;
    value -= r->is_signed != 0 && value < 0 ? 1 : 0;
    value = ((value + (INT64_C(1) << (shift - 1))) >> shift) + r->zero;
    return (int8_t)(value < r->lo ? r->lo : value > r->hi ? r->hi : value);
}

/* True iff `numbers` are those of `channels`, a multiple of 4, within their ranges, and the rest is in range too. */
bool trivet_mve_rescale_is_sound(const trivet_mve_rescale *r, const uint8_t *constants, const trivet_blob *numbers,
                                 uint32_t channels);

/* Copies, fills and sums, for short runs of bytes that do not overlap. */
static inline void trivet_mve_copy(int8_t *to, const int8_t *from, uint32_t bytes) {
#ifdef TRIVET_MVE
    __asm__ volatile(" wlstp.8 lr, %2, 2f\n1: vldrb.u8 q0, [%1], #16\n vstrb.8 q0, [%0], #16\n letp lr, 1b\n2:\n"
                     : "+r"(to), "+r"(from)
                     : "r"(bytes)
                     : "lr", "q0", "memory");
#else
    memcpy(to, from, bytes);
#endif
}

/* The same of one vector. */
static inline void trivet_mve_copy_vector(int8_t *to, const int8_t *from) {
#ifdef TRIVET_MVE
    __asm__ volatile(" vldrb.u8 q0, [%1]\n vstrb.8 q0, [%0]\n" : : "r"(to), "r"(from) : "q0", "memory");
#else
    memcpy(to, from, TRIVET_MVE_BYTES);
#endif
}

static inline void trivet_mve_fill_vector(int8_t *to, int32_t value) {
#ifdef TRIVET_MVE
    __asm__ volatile(" vdup.8 q0, %1\n vstrb.8 q0, [%0]\n" : : "r"(to), "r"(value) : "q0", "memory");
#else
    memset(to, value, TRIVET_MVE_BYTES);
#endif
}

/* Adds bytes to sums. */
static inline void trivet_mve_add(int32_t *sums, const int8_t *x, uint32_t count) {
#ifdef TRIVET_MVE
    __asm__ volatile(" wlstp.32 lr, %2, 2f\n1: vldrb.s32 q0, [%1], #4\n vldrw.u32 q1, [%0]\n vadd.i32 q0, q0, q1\n"
                     " vstrw.32 q0, [%0], #16\n letp lr, 1b\n2:\n"
                     : "+r"(sums), "+l"(x)
                     : "r"(count)
                     : "lr", "q0", "q1", "memory");
#else
    for (uint32_t i = 0; i < count; i++) {
        sums[i] += x[i];
    }
#endif
}

static inline void trivet_mve_fill(int8_t *to, int32_t value, uint32_t bytes) {
#ifdef TRIVET_MVE
    __asm__ volatile(" vdup.8 q0, %1\n wlstp.8 lr, %2, 2f\n1: vstrb.8 q0, [%0], #16\n letp lr, 1b\n2:\n"
                     : "+r"(to)
                     : "r"(value), "r"(bytes)
                     : "lr", "q0", "memory");
#else
    memset(to, value, bytes);
#endif
}

#endif
