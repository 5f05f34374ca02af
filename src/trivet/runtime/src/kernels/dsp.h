/* What kernels for the DSP extension of Arm's M-profile share: how sums become stored integers, and widened operands.
 *
 * TRIVET_DSP: the compiler makes Thumb-2 code for a core with the extension and takes GNU assembler. Everything else
 * runs portable C with the same arithmetic. */
#ifndef TRIVET_DSP_H
#define TRIVET_DSP_H

#include <string.h>

#include "trivet/kernel.h"

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__GNUC__) && !defined(TRIVET_NO_DSP)
#define TRIVET_DSP 1
#endif

/* How a sum s, of which `acc` is 256 * s modulo 2^32, becomes a stored integer before it is clamped:
 *   folded: (constant + ((acc * factor) >> 32)) >> shift. What is rounded is in `acc` and `factor`; the compiler has
 *           proved that the result is right for every sum that the layer can have.
 *   exact:  t = (2 * s * mantissa + 2^31) >> 32; (t + half + (s < 0 ? -1 : 0)) >> shift, where `half` is
 *           (zero << shift) + (1 << (shift - 1)): TensorFlow Lite's two roundings for shifts from 1 on. */
typedef enum trivet_dsp_form {
    TRIVET_DSP_FOLDED_8,  /* shift 8; rescale: 2 sums, 2 factors */
    TRIVET_DSP_FOLDED_12, /* shift 12 */
    TRIVET_DSP_EXACT      /* rescale: 2 sums, 2 mantissas, 2 halves, 2 shifts */
} trivet_dsp_form;

/* Bit i: form i is in this build. One for a single network needs few. */
#ifndef TRIVET_DSP_FORMS
#define TRIVET_DSP_FORMS 7u
#endif
#define TRIVET_IS_DSP_FORM(form, kind) \
    (TRIVET_DSP_FORMS == 1u << (kind) || ((TRIVET_DSP_FORMS >> (kind) & 1u) != 0 && (form) == (uint32_t)(kind)))

#define TRIVET_DSP_MASK 0xFF00FF00u

/* Four bytes, of which the first is the least significant. Cores with the extension read them at any address. */
static inline uint32_t trivet_dsp_load(const int8_t *from) {
    uint32_t word;
#ifdef __GNUC__
    __builtin_memcpy(&word, from, sizeof word);
#else
    memcpy(&word, from, sizeof word);
#endif
    return word;
}

/* Bytes 0 and 2, and bytes 1 and 3, as int16 times 256. */
static inline uint32_t trivet_dsp_even(uint32_t word) { return word << 8 & TRIVET_DSP_MASK; }
static inline uint32_t trivet_dsp_odd(uint32_t word) { return word & TRIVET_DSP_MASK; }

/* The four bytes of a widened operand that are all `value`: either of its words. */
static inline uint32_t trivet_dsp_both(int32_t value) { return (uint32_t)(value & 0xFF) * 0x01000100u; }

/* What follows is wrapping arithmetic: no value of its operands is undefined. */
static inline int32_t trivet_dsp_low(uint32_t word) { return (int16_t)(uint16_t)(word & 0xFFFFu); }
static inline int32_t trivet_dsp_high(uint32_t word) { return (int16_t)(uint16_t)(word >> 16); }

static inline uint32_t trivet_dsp_smlad(uint32_t x, uint32_t w, uint32_t sum) {
    return sum + (uint32_t)(trivet_dsp_low(x) * trivet_dsp_low(w)) +
           (uint32_t)(trivet_dsp_high(x) * trivet_dsp_high(w));
}

/* a + ((b * c + round) >> 32); `round` is 0 or 2^31. */
static inline int32_t trivet_dsp_smmla(int32_t a, int32_t b, int32_t c, uint32_t round) {
    uint64_t sum = ((uint64_t)(uint32_t)a << 32) + (uint64_t)((int64_t)b * c) + round;
    return (int32_t)(uint32_t)(sum >> 32);
}

static inline int8_t trivet_dsp_ssat8(int32_t value) {
    return (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
}

/* The stored integer of channel `i` of `group`, whose numbers of `rescale` lie `group` apart. */
static inline int8_t trivet_dsp_rescale(uint32_t form, const int32_t *rescale, uint32_t group, uint32_t i,
                                        int32_t constant, uint32_t sum) {
    const int32_t acc = (int32_t)sum, factor = rescale[group + i];
    if (form == TRIVET_DSP_EXACT) {
        int32_t half = (int32_t)((uint32_t)rescale[2 * group + i] - (acc < 0 ? 1u : 0u));
        return trivet_dsp_ssat8(trivet_dsp_smmla(half, acc >> 7, factor, 0x80000000u) >> rescale[3 * group + i]);
    }
    return trivet_dsp_ssat8(trivet_dsp_smmla(constant, acc, factor, 0) >> (form == TRIVET_DSP_FOLDED_8 ? 8 : 12));
}

/* Numbers of `rescale` for each channel. */
static inline uint32_t trivet_dsp_rescale_numbers(uint32_t form) { return form == TRIVET_DSP_EXACT ? 4u : 2u; }

/* True iff `rescale` holds the numbers of `channels`, a multiple of `group`, and its shifts are some. */
bool trivet_dsp_rescale_is_sound(const uint8_t *constants, const trivet_blob *rescale, uint32_t form, uint32_t group,
                                 uint32_t channels);

#endif
