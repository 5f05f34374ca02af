/* The bilinear resize of int8: in TensorFlow Lite's integers, and in float32 as other runtimes do it. */
#include <math.h>

#include "bilinear.h"
#include "fixedpoint.h"
#include "trivet/kernels/bilinear.h"

enum { ONE = 1024, HALF_SQUARE = 1 << 19, SQUARE_BITS = 20 };

static void mix_fixed(const void *context, const trivet_corners *c, uint32_t channels, void *result) {
    const int8_t *ul = (const int8_t *)c->upper_left, *ll = (const int8_t *)c->lower_left;
    const int8_t *ur = (const int8_t *)c->upper_right, *lr = (const int8_t *)c->lower_right;
    const int32_t down = c->down.weight.fixed, right = c->right.weight.fixed;
    const int32_t w_ul = (ONE - down) * (ONE - right), w_ll = down * (ONE - right);
    const int32_t w_ur = (ONE - down) * right, w_lr = down * right;
    int8_t *y = (int8_t *)result;
    (void)context;
    for (uint32_t i = 0; i < channels; i++) {
        int32_t sum = ul[i] * w_ul + ll[i] * w_ll + ur[i] * w_ur + lr[i] * w_lr;
        int32_t size = ((sum < 0 ? -sum : sum) + HALF_SQUARE) >> SQUARE_BITS;
        y[i] = (int8_t)trivet_clamp(sum < 0 ? -size : size, -128, 127);
    }
}

trivet_status trivet_bilinear_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_bilinear_s8_record *p = (const trivet_bilinear_s8_record *)call->params;
    const trivet_taps taps = TRIVET_TAPS(p, call);
    trivet_bilinear_run(&taps, call, row, rows, 1, mix_fixed, NULL);
    return TRIVET_OK;
}

/* Weights so small that four products of them and an int8 add up inside int32. */
static bool are_small(const trivet_tap_pair *pairs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (pairs[i].weight.fixed < -ONE || pairs[i].weight.fixed > 2 * ONE) {
            return false;
        }
    }
    return true;
}

trivet_status trivet_bilinear_s8_check(const trivet_check *check) {
    const trivet_bilinear_s8_record *p = (const trivet_bilinear_s8_record *)check->params;
    const trivet_taps taps = TRIVET_TAPS(p, check);
    TRIVET_REQUIRE(trivet_taps_are_sound(&taps, check, TRIVET_I8, 1));
    TRIVET_REQUIRE(are_small(taps.rows, taps.row_count) && are_small(taps.columns, taps.column_count));
    return TRIVET_OK;
}

static void mix_real(const void *context, const trivet_corners *c, uint32_t channels, void *result) {
    const trivet_bilinear_real_s8_record *p = (const trivet_bilinear_real_s8_record *)context;
    const int8_t *ul = (const int8_t *)c->upper_left, *ll = (const int8_t *)c->lower_left;
    const int8_t *ur = (const int8_t *)c->upper_right, *lr = (const int8_t *)c->lower_right;
    const float down = c->down.weight.real, right = c->right.weight.real;
    int8_t *y = (int8_t *)result;
    for (uint32_t i = 0; i < channels; i++) {
        float mean = (float)(ul[i] - p->zero) * (1.0f - down) * (1.0f - right);
        mean += (float)(ll[i] - p->zero) * down * (1.0f - right);
        mean += (float)(ur[i] - p->zero) * (1.0f - down) * right;
        mean += (float)(lr[i] - p->zero) * down * right;
        int32_t rounded = p->halves_up != 0 ? (int32_t)floorf(mean + 0.5f) : trivet_round_half_even((double)mean);
        y[i] = (int8_t)trivet_clamp(rounded + p->zero, -128, 127);
    }
}

trivet_status trivet_bilinear_real_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_bilinear_real_s8_record *p = (const trivet_bilinear_real_s8_record *)call->params;
    const trivet_taps taps = TRIVET_TAPS(p, call);
    trivet_bilinear_run(&taps, call, row, rows, 1, mix_real, p);
    return TRIVET_OK;
}

/* Weights with which means stay inside int32. */
static bool are_weights(const trivet_tap_pair *pairs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!(pairs[i].weight.real >= -1024.0f && pairs[i].weight.real <= 1024.0f)) {
            return false;
        }
    }
    return true;
}

trivet_status trivet_bilinear_real_s8_check(const trivet_check *check) {
    const trivet_bilinear_real_s8_record *p = (const trivet_bilinear_real_s8_record *)check->params;
    const trivet_taps taps = TRIVET_TAPS(p, check);
    TRIVET_REQUIRE(trivet_taps_are_sound(&taps, check, TRIVET_I8, 1));
    TRIVET_REQUIRE(p->zero >= -128 && p->zero <= 127);
    TRIVET_REQUIRE(are_weights(taps.rows, taps.row_count) && are_weights(taps.columns, taps.column_count));
    return TRIVET_OK;
}
