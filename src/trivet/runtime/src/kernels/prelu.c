/* x where it is not negative, else slope * x. */
#include "broadcast.h"
#include "fixedpoint.h"
#include "trivet/kernels/functions.h"

TRIVET_PAIRS(prelu_floats, float, float, float, (void)0, x >= 0.0f ? x : z * x)

trivet_status trivet_prelu_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_prelu_f32_record *p = (const trivet_prelu_f32_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {sizeof(float), sizeof(float), sizeof(float)};
    trivet_broadcast_run(&bc, call, row, rows, bytes, prelu_floats, p);
    return TRIVET_OK;
}

trivet_status trivet_prelu_f32_check(const trivet_check *check) {
    const trivet_prelu_f32_record *p = (const trivet_prelu_f32_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_F32, TRIVET_F32, TRIVET_F32));
    return TRIVET_OK;
}

static inline int8_t saturated(int64_t v) { return (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v); }

static inline int8_t prelu_q31(const trivet_prelu_s8_record *p, int8_t a, int8_t b) {
    int32_t value = a - p->a_zero;
    int32_t scaled = value >= 0 ? trivet_rescale_q31(value, p->mantissa, p->shift)
                                : trivet_rescale_q31(value * (b - p->b_zero), p->slope_mantissa, p->slope_shift);
    return saturated((int64_t)scaled + p->zero);
}

static inline int8_t prelu_real(const trivet_prelu_s8_record *p, int8_t a, int8_t b) {
    float real = p->scale * (float)(a - p->a_zero);
    real = real >= 0.0f ? real : p->b_scale * (float)(b - p->b_zero) * real;
    return saturated((int64_t)trivet_round_half_even((double)(real / p->out_scale)) + p->zero);
}

TRIVET_PAIRS(prelu_q31s, int8_t, int8_t, int8_t, const trivet_prelu_s8_record *p = (const trivet_prelu_s8_record *)context, prelu_q31(p, x, z))
TRIVET_PAIRS(prelu_reals, int8_t, int8_t, int8_t, const trivet_prelu_s8_record *p = (const trivet_prelu_s8_record *)context, prelu_real(p, x, z))

trivet_status trivet_prelu_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_prelu_s8_record *p = (const trivet_prelu_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {1, 1, 1};
    trivet_broadcast_run(&bc, call, row, rows, bytes, p->scale > 0.0f ? prelu_reals : prelu_q31s, p);
    return TRIVET_OK;
}

static bool is_byte(int32_t v) { return v >= -128 && v <= 127; }

static bool shift_is_sound(int32_t shift) { return shift >= -31 && shift <= 30; }

trivet_status trivet_prelu_s8_check(const trivet_check *check) {
    const trivet_prelu_s8_record *p = (const trivet_prelu_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I8, TRIVET_I8, TRIVET_I8));
    TRIVET_REQUIRE(is_byte(p->a_zero) && is_byte(p->b_zero) && is_byte(p->zero));
    TRIVET_REQUIRE(shift_is_sound(p->shift) && shift_is_sound(p->slope_shift));
    TRIVET_REQUIRE(p->scale >= 0.0f && p->scale <= 1e30f && p->b_scale >= 0.0f && p->b_scale <= 1e30f);
    TRIVET_REQUIRE(p->out_scale >= 1e-30f && p->out_scale <= 1e30f);
    return TRIVET_OK;
}
