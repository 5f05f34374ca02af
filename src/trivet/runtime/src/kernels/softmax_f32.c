/* Softmax of float32 along the last axis, or along another: then vectors lie side by side, element by element. */
#include <math.h>

#include "trivet/kernels/softmax.h"

static void softmax_vector(const float *x, float *y, uint32_t features, uintptr_t step, float beta) {
    float largest = x[0];
    for (uint32_t i = 1; i < features; i++) {
        float v = x[i * step];
        largest = v > largest ? v : largest;
    }
    float total = 0.0f;
    for (uint32_t i = 0; i < features; i++) {
        float power = expf((x[i * step] - largest) * beta);
        y[i * step] = power;
        total += power;
    }
    for (uint32_t i = 0; i < features; i++) {
        y[i * step] /= total;
    }
}

trivet_status trivet_softmax_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_softmax_f32_record *p = (const trivet_softmax_f32_record *)call->params;
    uint32_t elements = call->outputs[0].row_bytes / (uint32_t)sizeof(float);
    for (uint32_t r = row; r < row + rows; r++) {
        const float *x = (const float *)(const void *)trivet_row(&call->inputs[0], r);
        float *y = (float *)(void *)trivet_row(&call->outputs[0], r);
        for (uint32_t at = 0; at < elements; at += p->features) {
            softmax_vector(x + at, y + at, p->features, 1, p->beta);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_softmax_axis_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_softmax_axis_f32_record *p = (const trivet_softmax_axis_f32_record *)call->params;
    const float *x = (const float *)(const void *)call->inputs[0].data;
    float *y = (float *)(void *)call->outputs[0].data;
    uint32_t elements = call->outputs[0].row_bytes / (uint32_t)sizeof(float) * call->outputs[0].height;
    (void)row, (void)rows;
    for (uint32_t at = 0; at < elements; at += p->features * p->inner) {
        for (uint32_t i = 0; i < p->inner; i++) {
            softmax_vector(x + at + i, y + at + i, p->features, p->inner, p->beta);
        }
    }
    return TRIVET_OK;
}

static bool operands_are_sound(const trivet_check *check) {
    return check->input_count == 1 && check->output_count == 1 && !check->accumulates &&
           check->inputs[0].dtype == TRIVET_F32 && check->outputs[0].dtype == TRIVET_F32 &&
           trivet_same_shape(&check->inputs[0], &check->outputs[0]);
}

trivet_status trivet_softmax_f32_check(const trivet_check *check) {
    const trivet_softmax_f32_record *p = (const trivet_softmax_f32_record *)check->params;
    TRIVET_REQUIRE(operands_are_sound(check) && p->features >= 1);
    TRIVET_REQUIRE(check->outputs[0].row_bytes / sizeof(float) % p->features == 0);
    return TRIVET_OK;
}

trivet_status trivet_softmax_axis_f32_check(const trivet_check *check) {
    const trivet_softmax_axis_f32_record *p = (const trivet_softmax_axis_f32_record *)check->params;
    uint32_t block = trivet_product(p->features, p->inner);
    TRIVET_REQUIRE(operands_are_sound(check) && check->images == 1 && block >= 1);
    TRIVET_REQUIRE(trivet_elements(&check->outputs[0]) % block == 0);
    return TRIVET_OK;
}
