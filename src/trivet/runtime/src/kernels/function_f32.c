/* Functions of one float32 number. */
#include <math.h>

#include "trivet/kernels/functions.h"

enum { FUNCTION_COUNT = 24 };

static inline float within(float v, float lo, float hi) {
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* max(x, 0) + log(1 + e^-|x|) does not overflow. */
static float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1pf(expf(-fabsf(x))); }

static float gelu_tanh(float x) {
    float cubic = x + 0.044715f * x * x * x;
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * cubic));
}

/* y[i] = expression of x for each i; results may lie over operands. */
#define MAP(number, expression)                  \
    case number:                                 \
        for (uint32_t i = 0; i < count; i++) {   \
            const float v = x[i];                \
            y[i] = (expression);                 \
        }                                        \
        break;

static void map_floats(uint32_t function, float alpha, float beta, const float *x, float *y, uint32_t count) {
    switch (function) {
        MAP(0, within(v, alpha, beta))
        MAP(1, 1.0f / (1.0f + expf(-v)))
        MAP(2, tanhf(v))
        MAP(3, v * within(v + 3.0f, 0.0f, 6.0f) / 6.0f)
        MAP(4, fabsf(v))
        MAP(5, v >= 0.0f ? v : alpha * v)
        MAP(6, v < 0.0f ? alpha * (expf(v) - 1.0f) : v)
        MAP(7, within(alpha * v + beta, 0.0f, 1.0f))
        MAP(8, 0.5f * v * erfcf(v * -0.70710678f))
        MAP(9, expf(v))
        MAP(10, logf(v))
        MAP(11, sqrtf(v))
        MAP(12, 1.0f / sqrtf(v))
        MAP(13, -v)
        MAP(14, 1.0f / v)
        MAP(15, 1.0f - erfcf(v))
        MAP(16, floorf(v))
        MAP(17, ceilf(v))
        MAP(18, rintf(v))
        MAP(19, sinf(v))
        MAP(20, cosf(v))
        MAP(21, softplus(v))
        MAP(23, atanf(v))
        default:
            for (uint32_t i = 0; i < count; i++) {
                y[i] = gelu_tanh(x[i]);
            }
            break;
    }
}

trivet_status trivet_function_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_function_f32_record *p = (const trivet_function_f32_record *)call->params;
    const trivet_view *x = &call->inputs[0];
    const trivet_view *y = &call->outputs[0];
    while (rows > 0) {
        uint32_t run = trivet_contiguous_rows(x, row, trivet_contiguous_rows(y, row, rows));
        map_floats(p->function, p->alpha, p->beta, (const float *)(const void *)trivet_row(x, row),
                   (float *)(void *)trivet_row(y, row), run * (y->row_bytes / (uint32_t)sizeof(float)));
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

trivet_status trivet_function_f32_check(const trivet_check *check) {
    const trivet_function_f32_record *p = (const trivet_function_f32_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_F32 && check->outputs[0].dtype == TRIVET_F32);
    TRIVET_REQUIRE(trivet_same_shape(&check->inputs[0], &check->outputs[0]) && p->function < FUNCTION_COUNT);
    return TRIVET_OK;
}
