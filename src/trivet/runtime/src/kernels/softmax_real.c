/* The logarithm of softmax on float32, and ONNX's softmax and its logarithm on int8; vectors along any axis. */
#include <math.h>

#include "trivet/kernels/softmax.h"

static uint32_t elements_of(const trivet_view *y, uint32_t width) { return y->row_bytes * y->height / width; }

static void log_softmax_vector(const float *x, float *y, uint32_t features, uintptr_t step) {
    float largest = x[0], total = 0.0f;
    for (uint32_t i = 1; i < features; i++) {
        largest = x[i * step] > largest ? x[i * step] : largest;
    }
    for (uint32_t i = 0; i < features; i++) {
        total += expf(x[i * step] - largest);
    }
    float shift = logf(total);
    for (uint32_t i = 0; i < features; i++) {
        y[i * step] = x[i * step] - largest - shift;
    }
}

trivet_status trivet_log_softmax_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_log_softmax_f32_record *p = (const trivet_log_softmax_f32_record *)call->params;
    const float *x = (const float *)(const void *)call->inputs[0].data;
    float *y = (float *)(void *)call->outputs[0].data;
    uint32_t elements = elements_of(&call->outputs[0], sizeof(float));
    for (uint32_t at = 0; at < elements; at += p->features * p->inner) {
        for (uint32_t i = 0; i < p->inner; i++) {
            log_softmax_vector(x + at + i, y + at + i, p->features, p->inner);
        }
    }
    return TRIVET_OK;
}

/* True iff the call is made whole and its vectors cover the operand. */
static bool vectors_are_sound(const trivet_check *check, uint32_t features, uint32_t inner) {
    uint32_t block = trivet_product(features, inner);
    return check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1 &&
           trivet_same_shape(&check->inputs[0], &check->outputs[0]) && block >= 1 &&
           trivet_elements(&check->outputs[0]) % block == 0;
}

trivet_status trivet_log_softmax_f32_check(const trivet_check *check) {
    const trivet_log_softmax_f32_record *p = (const trivet_log_softmax_f32_record *)check->params;
    TRIVET_REQUIRE(vectors_are_sound(check, p->features, p->inner));
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_F32 && check->outputs[0].dtype == TRIVET_F32);
    return TRIVET_OK;
}

typedef struct stored_limits {
    double lo, hi;
} stored_limits;

/* A real number in steps of the result's scale, halves to even, within the type. */
static double stored(const trivet_real_softmax_s8_record *p, const stored_limits *l, double real) {
    double v = rint(real / (double)p->out_scale) + (double)p->out_zero;
    return v > l->lo ? (v < l->hi ? v : l->hi) : l->lo;
}

static void real_vector(const trivet_real_softmax_s8_record *p, const int32_t *powers, const int8_t *x, int8_t *y8,
                        int16_t *y16, uintptr_t step) {
    const stored_limits l = {p->wide != 0 ? -32768.0 : -128.0, p->wide != 0 ? 32767.0 : 127.0};
    int32_t largest = x[0];
    int64_t total = 0;
    for (uint32_t i = 1; i < p->features; i++) {
        largest = x[i * step] > largest ? x[i * step] : largest;
    }
    for (uint32_t i = 0; i < p->features; i++) {
        total += powers[x[i * step] - largest + 255];
    }
    double shift = p->logarithm != 0 ? log((double)total / 1073741824.0) : 0.0;
    for (uint32_t i = 0; i < p->features; i++) {
        int32_t difference = x[i * step] - largest;
        double real = p->logarithm != 0 ? (double)p->scale * (double)difference - shift
                                        : (double)powers[difference + 255] / (double)total;
        double result = stored(p, &l, real);
        if (p->wide != 0) {
            y16[i * step] = (int16_t)result;
        } else {
            y8[i * step] = (int8_t)result;
        }
    }
}

trivet_status trivet_real_softmax_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_real_softmax_s8_record *p = (const trivet_real_softmax_s8_record *)call->params;
    const int32_t *powers = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->powers);
    const int8_t *x = (const int8_t *)call->inputs[0].data;
    int8_t *y8 = (int8_t *)call->outputs[0].data;
    int16_t *y16 = (int16_t *)(void *)call->outputs[0].data;
    uint32_t elements = elements_of(&call->inputs[0], 1);
    for (uint32_t at = 0; at < elements; at += p->features * p->inner) {
        for (uint32_t i = 0; i < p->inner; i++) {
            uint32_t first = at + i;
            real_vector(p, powers, x + first, p->wide != 0 ? NULL : y8 + first, p->wide != 0 ? y16 + first : NULL,
                        p->inner);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_real_softmax_s8_check(const trivet_check *check) {
    const trivet_real_softmax_s8_record *p = (const trivet_real_softmax_s8_record *)check->params;
    TRIVET_REQUIRE(vectors_are_sound(check, p->features, p->inner) && p->powers.bytes == 256 * sizeof(int32_t));
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_I8);
    TRIVET_REQUIRE(check->outputs[0].dtype == (p->wide != 0 ? TRIVET_I16 : TRIVET_I8));
    return TRIVET_OK;
}
