/* Fixed-point functions in 16 bits, as core/fixedpoint.py states them: LiteRT's, and TensorFlow Lite Micro's table. */
#ifndef TRIVET_FIXEDPOINT16_H
#define TRIVET_FIXEDPOINT16_H

#include "fixedpoint.h"

static inline int32_t trivet_saturate16(int64_t x) {
    return x < -32768 ? -32768 : x > 32767 ? 32767 : (int32_t)x;
}

/* a*b / 2^15, halves toward plus infinity. */
static inline int32_t trivet_srdhm16(int32_t a, int32_t b) {
    int32_t high = (int32_t)(((int64_t)a * b + (1 << 14)) >> 15);
    return high > 32767 ? 32767 : high;
}

/* From `bits` integer bits to `wanted`, saturating to the left. */
static inline int32_t trivet_rescale16(int32_t x, int32_t bits, int32_t wanted) {
    return bits > wanted ? trivet_saturate16((int64_t)x * (1 << (bits - wanted)))
                         : (int32_t)trivet_rdbp(x, (uint32_t)(wanted - bits));
}

/* e^a for a in [-1/4, 0), Q0: a Taylor polynomial around -1/8. */
static inline int32_t trivet_exp_last_quarter16(int32_t a) {
    int32_t x = a + (1 << 12);
    int32_t x2 = trivet_srdhm16(x, x), x3 = trivet_srdhm16(x2, x), x4 = trivet_srdhm16(x2, x2);
    int32_t tail = (int32_t)trivet_rdbp(trivet_srdhm16((int32_t)trivet_rdbp(x4, 2) + x3, 10923) + x2, 1);
    return trivet_saturate16(28918 + trivet_srdhm16(28918, x + tail));
}

/* e^a in Q0 for a <= 0 with `bits` integer bits, 0 to 7. */
static inline int32_t trivet_exp_on_negative16(int32_t a, int32_t bits) {
    static const int32_t FACTORS[] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* e^-(2^k), k from -2 */
    const int32_t fraction = 15 - bits, quarter = 1 << (fraction - 2);
    int32_t remainder = (a & (quarter - 1)) - quarter, rest = remainder - a;
    int32_t result = trivet_exp_last_quarter16(trivet_rescale16(remainder, bits, 0));
    for (int32_t k = -2; k <= 4; k++) {
        if (bits > k && (rest >> (fraction + k) & 1) != 0) {
            result = trivet_srdhm16(result, FACTORS[k + 2]);
        }
    }
    if (bits > 5 && a < -(1 << (20 - bits))) {
        result = 0;
    }
    return a == 0 ? 32767 : result;
}

/* 1 / ((1 + a) / 2) with two integer bits, for a in [0, 1) Q0. */
static inline int32_t trivet_half_reciprocal16(int32_t a) {
    int32_t total = a + 32767, half = total >= 0 ? (total + 1) >> 1 : -((1 - total) >> 1);
    int32_t x = 23130 + trivet_srdhm16(half, -15420);
    for (int step = 0; step < 3; step++) {
        int32_t error = (1 << 13) - trivet_srdhm16(half, x);
        x += trivet_rescale16(trivet_srdhm16(x, error), 4, 2);
    }
    return x;
}

static inline int32_t trivet_logistic16(int32_t a, int32_t bits) {
    if (a == 0) {
        return 1 << 14;
    }
    int32_t power = trivet_exp_on_negative16(a < 0 ? a : -a, bits);
    int32_t positive = trivet_rescale16(trivet_half_reciprocal16(power), 1, 0);
    return a > 0 ? positive : 32767 - positive;
}

static inline int32_t trivet_tanh16(int32_t a, int32_t bits) {
    int32_t power = trivet_exp_on_negative16(a < 0 ? a : -a, bits + 1);
    int32_t size = trivet_rescale16(trivet_half_reciprocal16(power) - (1 << 13), 2, 0);
    return a == 0 ? 0 : a < 0 ? -size : size;
}

/* The table at size / 2^bits, with `bits` more fraction bits. */
static inline int32_t trivet_interpolated16(const uint16_t *table, int32_t size, int32_t bits, int32_t limit) {
    int32_t index = size >> bits;
    if (index >= 255) {
        return limit;
    }
    return (table[index] << bits) + (size & ((1 << bits) - 1)) * (table[index + 1] - table[index]);
}

/* Of x * factor / 2^right in steps of 2^-9/24: Q0.15. */
static inline int32_t trivet_table_argument16(int32_t x, int32_t factor, uint32_t right) {
    return (int32_t)(((int64_t)x * factor + ((1 << right) >> 1)) >> right);
}

static inline int32_t trivet_table_logistic16(const uint16_t *table, int32_t value) {
    int32_t entry = trivet_interpolated16(table, value < 0 ? -value : value, 9, 0x7FFF << 10);
    return value >= 0 ? (entry + 512) >> 10 : ((1 << 25) - entry + 511) >> 10;
}

static inline int32_t trivet_table_tanh16(const uint16_t *table, int32_t value) {
    int32_t entry = trivet_interpolated16(table, value < 0 ? -value : value, 8, 0xFFFF << 8);
    return value >= 0 ? (entry - (1 << 23) + 128) >> 8 : (-entry + (1 << 23) + 127) >> 8;
}

#endif
