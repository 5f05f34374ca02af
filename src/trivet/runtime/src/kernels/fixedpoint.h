/* The integer primitives of TensorFlow Lite's contracts, as core/fixedpoint.py states them. */
#ifndef TRIVET_FIXEDPOINT_H
#define TRIVET_FIXEDPOINT_H

#include <stdint.h>

/* The high half of 2*a*b, halves toward plus infinity. */
static inline int32_t trivet_srdhm(int32_t a, int32_t b) {
    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/* x / 2^exponent, halves away from zero; exponent from 0 to 62. */
static inline int64_t trivet_rdbp(int64_t x, uint32_t exponent) {
    int64_t mask = ((int64_t)1 << exponent) - 1;
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* x * mantissa * 2^(shift - 31): a doubling high multiply, then a rounding shift. Left shifts wrap. */
static inline int32_t trivet_rescale_q31(int32_t x, int32_t mantissa, int32_t shift) {
    int32_t left = shift > 0 ? shift : 0;
    int32_t product = trivet_srdhm((int32_t)((uint32_t)x << left), mantissa);
    return (int32_t)trivet_rdbp(product, (uint32_t)(left - shift));
}

/* x * mantissa * 2^(shift - 31) with the mantissa cut to 16 bits, rounded once, modulo 2^32.
 * Shifts from -31 to 7. */
static inline int64_t trivet_rescale_q15(int64_t x, int32_t mantissa, int32_t shift) {
    int64_t reduced = mantissa < 0x7FFF0000 ? (mantissa + (1 << 15)) >> 16 : 0x7FFF;
    return (int32_t)(uint64_t)((x * reduced + ((int64_t)1 << (14 - shift))) >> (15 - shift));
}

/* x * 2^exponent within int32. */
static inline int32_t trivet_saturating_shift_left(int32_t x, uint32_t exponent) {
    int64_t wide = (int64_t)x * ((int64_t)1 << exponent);
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

static inline uint32_t trivet_leading_zeros(uint32_t x) {
    uint32_t zeros = 32;
    while (x != 0) {
        x >>= 1;
        zeros--;
    }
    return zeros;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1): three Newton steps from 48/17 - 32/17 * half, in Q2.29. */
static inline int32_t trivet_one_over_one_plus(int32_t a) {
    int64_t total = (int64_t)a + INT32_MAX;
    int32_t half = (int32_t)(total >= 0 ? (total + 1) >> 1 : -((1 - total) >> 1));
    int32_t x = 1515870810 + trivet_srdhm(half, -1010580540);
    for (int step = 0; step < 3; step++) {
        int32_t error = (1 << 29) - trivet_srdhm(half, x);
        x += trivet_saturating_shift_left(trivet_srdhm(x, error), 2);
    }
    return trivet_saturating_shift_left(x, 1);
}

/* The nearest integer, halves to even; beyond 2^30 the result is 2^30. */
static inline int32_t trivet_round_half_even(double v) {
    const double limit = 1073741824.0;
    v = v < -limit ? -limit : v > limit ? limit : v;
    int32_t whole = (int32_t)v;
    double rest = v - whole;
    int32_t odd = whole & 1;
    return whole + ((rest > 0.5) | ((rest == 0.5) & odd)) - ((rest < -0.5) | ((rest == -0.5) & odd));
}

static inline int32_t trivet_clamp(int32_t v, int32_t lo, int32_t hi) { return v < lo ? lo : v > hi ? hi : v; }

#endif
