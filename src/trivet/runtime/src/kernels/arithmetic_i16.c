/* Arithmetic of quantized int16. */
#include <math.h>

#include "broadcast.h"
#include "fixedpoint.h"
#include "trivet/kernels/wide.h"

enum { SUM, DIFFERENCE, PRODUCT, QUOTIENT, SQUARE, LARGER, SMALLER, MODES };

static inline int16_t within(int64_t v, int32_t lo, int32_t hi) { return (int16_t)(v < lo ? lo : v > hi ? hi : v); }

static inline int32_t scaled(int16_t v, int32_t zero, uint32_t left, int32_t mantissa, int32_t shift) {
    return trivet_rescale_q31((int32_t)((uint32_t)(v - zero) << left), mantissa, shift);
}

/* TensorFlow Lite's steps; what leaves 32 bits wraps. */
static inline int16_t exact(const trivet_arithmetic_i16_record *p, int16_t x, int16_t z) {
    uint32_t a = (uint32_t)(x - p->a_zero), b = (uint32_t)(z - p->b_zero);
    uint32_t value = a * b;
    if (p->mode != PRODUCT) {
        a = (uint32_t)scaled(x, p->a_zero, p->left, p->a_mantissa, p->a_shift);
        b = (uint32_t)scaled(z, p->b_zero, p->left, p->b_mantissa, p->b_shift);
        value = p->mode == SUM ? a + b : p->mode == DIFFERENCE ? a - b : (a - b) * (a - b);
    }
    return within((int64_t)trivet_rescale_q31((int32_t)value, p->mantissa, p->shift) + p->zero, p->lo, p->hi);
}

static inline float combined(uint32_t mode, float a, float b) {
    switch (mode) {
        case SUM: return a + b;
        case DIFFERENCE: return a - b;
        case PRODUCT: return a * b;
        case QUOTIENT: return a / b;
        default: return (a - b) * (a - b);
    }
}

static inline int16_t real(const trivet_arithmetic_i16_record *p, int16_t x, int16_t z) {
    float a = p->a_scale * (float)(x - p->a_zero), b = p->b_scale * (float)(z - p->b_zero);
    float steps = rintf(combined(p->mode, a, b) / p->out_scale);
    if (!(steps > -1e6f)) { /* also what is no number */
        return (int16_t)p->lo;
    }
    return steps > 1e6f ? (int16_t)p->hi : within((int64_t)steps + p->zero, p->lo, p->hi);
}

#define PARAMS const trivet_arithmetic_i16_record *p = (const trivet_arithmetic_i16_record *)context
TRIVET_PAIRS(exact_pairs, int16_t, int16_t, int16_t, PARAMS, exact(p, x, z))
TRIVET_PAIRS(real_pairs, int16_t, int16_t, int16_t, PARAMS, real(p, x, z))
TRIVET_PAIRS(larger_pairs, int16_t, int16_t, int16_t, (void)0, x > z ? x : z)
TRIVET_PAIRS(smaller_pairs, int16_t, int16_t, int16_t, (void)0, x < z ? x : z)

trivet_status trivet_arithmetic_i16_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_arithmetic_i16_record *p = (const trivet_arithmetic_i16_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {2, 2, 2};
    trivet_pairs_fn pairs = p->a_scale > 0.0f ? real_pairs : exact_pairs;
    if (p->mode >= LARGER) {
        pairs = p->mode == LARGER ? larger_pairs : smaller_pairs;
    }
    trivet_broadcast_run(&bc, call, row, rows, bytes, pairs, p);
    return TRIVET_OK;
}

static bool is_stored(int32_t v) { return v >= -32768 && v <= 32767; }

static bool shift_is_sound(int32_t shift) { return shift >= -31 && shift <= 30; }

static bool scale_is_sound(float scale) { return scale >= 0.0f && scale <= 1e30f; }

trivet_status trivet_arithmetic_i16_check(const trivet_check *check) {
    const trivet_arithmetic_i16_record *p = (const trivet_arithmetic_i16_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I16, TRIVET_I16, TRIVET_I16));
    TRIVET_REQUIRE(p->mode < MODES && p->left <= 15 && p->lo <= p->hi && is_stored(p->lo) && is_stored(p->hi));
    TRIVET_REQUIRE(is_stored(p->a_zero) && is_stored(p->b_zero) && is_stored(p->zero));
    TRIVET_REQUIRE(shift_is_sound(p->a_shift) && shift_is_sound(p->b_shift) && shift_is_sound(p->shift));
    TRIVET_REQUIRE(scale_is_sound(p->a_scale) && scale_is_sound(p->b_scale) && scale_is_sound(p->out_scale));
    return TRIVET_OK;
}

static void leaky_relu(const trivet_leaky_relu_i16_record *p, const int16_t *x, int16_t *y, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t value = x[i] - p->in_zero;
        int64_t result = value >= 0 ? trivet_rescale_q31(value, p->mantissa, p->shift)
                                    : trivet_rescale_q31(value, p->slope_mantissa, p->slope_shift);
        result = value < 0 && p->falls != 0 ? -result : result;
        y[i] = within(result + p->out_zero, -32768, 32767);
    }
}

trivet_status trivet_leaky_relu_i16_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    for (uint32_t r = row; r < row + rows; r++) {
        leaky_relu((const trivet_leaky_relu_i16_record *)call->params, (const int16_t *)(const void *)trivet_row(&call->inputs[0], r),
                   (int16_t *)(void *)trivet_row(&call->outputs[0], r), call->outputs[0].row_bytes / 2);
    }
    return TRIVET_OK;
}

trivet_status trivet_leaky_relu_i16_check(const trivet_check *check) {
    const trivet_leaky_relu_i16_record *p = (const trivet_leaky_relu_i16_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_I16 && check->outputs[0].dtype == TRIVET_I16);
    TRIVET_REQUIRE(trivet_same_shape(&check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(is_stored(p->in_zero) && is_stored(p->out_zero));
    TRIVET_REQUIRE(shift_is_sound(p->shift) && shift_is_sound(p->slope_shift));
    return TRIVET_OK;
}
