/* The bilinear resize of float32, sums in the order of TensorFlow Lite: left before right, upper before lower. */
#include "bilinear.h"
#include "trivet/kernels/bilinear.h"

static void mix(const void *context, const trivet_corners *c, uint32_t channels, void *result) {
    const float *ul = (const float *)c->upper_left, *ll = (const float *)c->lower_left;
    const float *ur = (const float *)c->upper_right, *lr = (const float *)c->lower_right;
    const float down = c->down.weight.real, right = c->right.weight.real;
    float *y = (float *)result;
    (void)context;
    for (uint32_t i = 0; i < channels; i++) {
        float mean = ul[i] * (1.0f - down) * (1.0f - right);
        mean += ll[i] * down * (1.0f - right);
        mean += ur[i] * (1.0f - down) * right;
        mean += lr[i] * down * right;
        y[i] = mean;
    }
}

trivet_status trivet_bilinear_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_bilinear_f32_record *p = (const trivet_bilinear_f32_record *)call->params;
    const trivet_taps taps = TRIVET_TAPS(p, call);
    trivet_bilinear_run(&taps, call, row, rows, sizeof(float), mix, NULL);
    return TRIVET_OK;
}

trivet_status trivet_bilinear_f32_check(const trivet_check *check) {
    const trivet_bilinear_f32_record *p = (const trivet_bilinear_f32_record *)check->params;
    const trivet_taps taps = TRIVET_TAPS(p, check);
    TRIVET_REQUIRE(trivet_taps_are_sound(&taps, check, TRIVET_F32, sizeof(float)));
    return TRIVET_OK;
}
