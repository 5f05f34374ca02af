/* Quantization with parameters of the data: float32 to int8 or uint8, a scale and a zero point. */
#include <math.h>

#include "trivet/kernels/dynamic.h"

enum { AFFINE, SYMMETRIC, ASYMMETRIC, MODE_COUNT };

typedef struct parameters {
    float scale, inverse; /* inverse: factor of the elements, where they are not divided by the scale */
    int32_t zero;
} parameters;

/* The least and the largest element, zero included. */
static void find_range(const float *x, uint32_t count, float *low, float *high) {
    *low = 0.0f;
    *high = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

/* An integral number within [lo, hi]; what is no number is the least. */
static int32_t limited(double v, int32_t lo, int32_t hi) { return !(v > lo) ? lo : v > hi ? hi : (int32_t)v; }

static parameters affine(float low, float high) {
    parameters p = {(high - low) / 255.0f, 1.0f, 0};
    if (low == high) {
        p.scale = 1.0f;
    }
    p.zero = limited((double)rintf(-low / p.scale), 0, 255);
    return p;
}

static parameters symmetric(float low, float high) {
    float largest = -low > high ? -low : high;
    parameters p = {1.0f, 127.0f, 0};
    if (largest != 0.0f) {
        p.scale = largest / 127.0f;
        p.inverse = 127.0f / largest;
    }
    return p;
}

static parameters asymmetric(float low, float high) {
    parameters p = {1.0f, 1.0f, 0};
    if (low == high) {
        return p;
    }
    double step = (double)(high - low) / 255.0;
    double first = (double)low / step, last = (double)high / step;
    double near = 128.0 + fabs(first) < 127.0 + fabs(last) ? -128.0 - first : 127.0 - last;
    p.zero = limited(round(near), -128, 127);
    p.scale = (float)step;
    p.inverse = 1.0f / p.scale;
    return p;
}

static void store(uint32_t mode, const parameters *p, const float *x, uint8_t *y, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t v;
        if (mode == AFFINE) {
            v = limited((double)rintf(x[i] / p->scale) + p->zero, 0, 255);
        } else {
            double whole = (double)roundf(x[i] * p->inverse) + p->zero;
            v = limited(whole, mode == SYMMETRIC ? -127 : -128, 127);
        }
        y[i] = (uint8_t)v;
    }
}

trivet_status trivet_dynamic_quantize_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dynamic_quantize_record *p = (const trivet_dynamic_quantize_record *)call->params;
    const float *x = (const float *)(const void *)call->inputs[0].data;
    uint8_t *y = call->outputs[0].data;
    float *scales = (float *)(void *)call->outputs[1].data;
    int32_t *zeros = (int32_t *)(void *)call->outputs[2].data;
    (void)row, (void)rows;
    for (uint32_t g = 0; g < p->groups; g++, x += p->elements, y += p->elements) {
        float low, high;
        find_range(x, p->elements, &low, &high);
        parameters found = p->mode == AFFINE      ? affine(low, high)
                           : p->mode == SYMMETRIC ? symmetric(low, high)
                                                  : asymmetric(low, high);
        store(p->mode, &found, x, y, p->elements);
        scales[g] = found.scale;
        zeros[g] = found.zero;
    }
    return TRIVET_OK;
}

trivet_status trivet_dynamic_quantize_check(const trivet_check *check) {
    const trivet_dynamic_quantize_record *p = (const trivet_dynamic_quantize_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 3 && !check->accumulates && check->images == 1);
    TRIVET_REQUIRE(p->mode < MODE_COUNT && p->groups >= 1 && p->elements >= 1);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_F32 && trivet_same_shape(&check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(check->outputs[0].dtype == (p->mode == AFFINE ? TRIVET_U8 : TRIVET_I8));
    TRIVET_REQUIRE(check->outputs[1].dtype == TRIVET_F32 && check->outputs[2].dtype == TRIVET_I32);
    TRIVET_REQUIRE(trivet_elements(&check->outputs[1]) == p->groups && trivet_elements(&check->outputs[2]) == p->groups);
    TRIVET_REQUIRE(trivet_product(p->groups, p->elements) == trivet_elements(&check->inputs[0]));
    return TRIVET_OK;
}
