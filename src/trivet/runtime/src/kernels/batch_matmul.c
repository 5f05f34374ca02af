/* Products of two activations, matrix by matrix, on int8, int16 and float32. */
#include "fixedpoint.h"
#include "trivet/kernels/batch_matmul.h"

enum { MAX_INNER = 32768 };

/* The fields that both records share. */
typedef struct matrices {
    const trivet_blob *pairs, *a, *b;
    uint32_t rows, inner, columns, transposed;
} matrices;

#define MATRICES(p) \
    {&(p)->matrices, &(p)->a, &(p)->b, (p)->rows, (p)->inner, (p)->columns, (p)->transposed}

static uint32_t count_of(const matrices *m) { return m->pairs->bytes / (2 * (uint32_t)sizeof(uint32_t)); }

/* Where the operands start: constants, or inputs in order. */
static void operands_of(const trivet_call *call, const matrices *m, const uint8_t **a, const uint8_t **b) {
    *a = trivet_blob_data(call->constants, m->a);
    *b = trivet_blob_data(call->constants, m->b);
    uint32_t next = 0;
    if (*a == NULL) {
        *a = call->inputs[next++].data;
    }
    if (*b == NULL) {
        *b = call->inputs[next].data;
    }
}

static bool side_is_sound(const trivet_check *check, const trivet_blob *blob, uint32_t dtype, uint32_t width,
                          uint64_t needed, uint32_t *next) {
    if (blob->bytes != 0) {
        return needed * width <= blob->bytes;
    }
    if (*next >= check->input_count || check->inputs[*next].dtype != dtype) {
        return false;
    }
    return needed <= trivet_elements(&check->inputs[(*next)++]);
}

static bool matrices_are_sound(const trivet_check *check, const matrices *m, uint32_t dtype, uint32_t width) {
    uint32_t size_a = trivet_product(m->rows, m->inner), size_b = trivet_product(m->inner, m->columns);
    uint32_t size_y = trivet_product(m->rows, m->columns), count = count_of(m), next = 0, last_a = 0, last_b = 0;
    const uint32_t *pairs = (const uint32_t *)(const void *)trivet_blob_data(check->constants, m->pairs);
    if (check->output_count != 1 || check->accumulates || check->images != 1 || check->outputs[0].dtype != dtype) {
        return false;
    }
    if (count == 0 || m->inner == 0 || size_a == UINT32_MAX || size_b == UINT32_MAX ||
        trivet_elements(&check->outputs[0]) != trivet_product(size_y, count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        last_a = pairs[2 * i] > last_a ? pairs[2 * i] : last_a;
        last_b = pairs[2 * i + 1] > last_b ? pairs[2 * i + 1] : last_b;
    }
    return side_is_sound(check, m->a, dtype, width, ((uint64_t)last_a + 1) * size_a, &next) &&
           side_is_sound(check, m->b, dtype, width, ((uint64_t)last_b + 1) * size_b, &next) &&
           next == check->input_count;
}

static void sums_s8(const trivet_batch_matmul_stored_record *p, const int8_t *a, const int8_t *b, int32_t *sums) {
    /* Centered values fit in 16 bits: compilers know instructions for products of these. */
    const int32_t a_zero = p->a_zero, b_zero = p->b_zero;
    if (p->transposed != 0) {
        for (uint32_t n = 0; n < p->columns; n++, b += p->inner) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < p->inner; k++) {
                sum += (int16_t)(a[k] - a_zero) * (int16_t)(b[k] - b_zero);
            }
            sums[n] = sum;
        }
        return;
    }
    for (uint32_t n = 0; n < p->columns; n++) {
        sums[n] = 0;
    }
    for (uint32_t k = 0; k < p->inner; k++, b += p->columns) {
        const int16_t factor = (int16_t)(a[k] - a_zero);
        for (uint32_t n = 0; n < p->columns; n++) {
            sums[n] += factor * (int16_t)(b[n] - b_zero);
        }
    }
}

static void store_s8(const trivet_batch_matmul_stored_record *p, const double *scale, const int32_t *sums, int8_t *y) {
    for (uint32_t n = 0; n < p->columns; n++) {
        int32_t value = scale == NULL ? trivet_rescale_q31(sums[n], p->mantissa, p->shift)
                                      : trivet_round_half_even((double)sums[n] * *scale);
        value = trivet_clamp(value, -(1 << 30), 1 << 30);
        y[n] = (int8_t)trivet_clamp(value + p->out_zero, -128, 127);
    }
}

trivet_status trivet_batch_matmul_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_batch_matmul_stored_record *p = (const trivet_batch_matmul_stored_record *)call->params;
    const matrices m = MATRICES(p);
    const uint32_t *pairs = (const uint32_t *)(const void *)trivet_blob_data(call->constants, m.pairs);
    const double *scale = (const double *)(const void *)trivet_blob_data(call->constants, &p->scale);
    const uint8_t *a, *b;
    int32_t *sums = (int32_t *)(void *)call->scratch;
    int8_t *y = (int8_t *)call->outputs[0].data;
    operands_of(call, &m, &a, &b);
    for (uint32_t i = 0; i < count_of(&m); i++) {
        const int8_t *left = (const int8_t *)a + (uintptr_t)pairs[2 * i] * p->rows * p->inner;
        const int8_t *right = (const int8_t *)b + (uintptr_t)pairs[2 * i + 1] * p->inner * p->columns;
        for (uint32_t r = 0; r < p->rows; r++, left += p->inner, y += p->columns) {
            sums_s8(p, left, right, sums);
            store_s8(p, scale, sums, y);
        }
    }
    return TRIVET_OK;
}

static bool is_between(int32_t v, int32_t lo, int32_t hi) { return v >= lo && v <= hi; }

/* True iff zero points are stored values of a type whose least value is `least`, and the factor is sound. */
static bool rescaling_is_sound(const trivet_check *check, int32_t least) {
    const trivet_batch_matmul_stored_record *p = (const trivet_batch_matmul_stored_record *)check->params;
    const double *scale = (const double *)(const void *)trivet_blob_data(check->constants, &p->scale);
    int32_t most = -(least + 1);
    return is_between(p->a_zero, least, most) && is_between(p->b_zero, least, most) &&
           is_between(p->out_zero, least, most) && p->mantissa >= 0 &&
           (scale == NULL || (p->scale.bytes == sizeof(double) && *scale >= 0.0 && *scale <= 1e30));
}

trivet_status trivet_batch_matmul_s8_check(const trivet_check *check) {
    const trivet_batch_matmul_stored_record *p = (const trivet_batch_matmul_stored_record *)check->params;
    const matrices m = MATRICES(p);
    TRIVET_REQUIRE(matrices_are_sound(check, &m, TRIVET_I8, 1) && p->inner <= MAX_INNER);
    TRIVET_REQUIRE(check->scratch_bytes / sizeof(int32_t) >= p->columns);
    TRIVET_REQUIRE(rescaling_is_sound(check, -128) && is_between(p->shift, -31, 30));
    return TRIVET_OK;
}

static void sums_i16(const trivet_batch_matmul_stored_record *p, const int16_t *a, const int16_t *b, int64_t *sums) {
    const uintptr_t next_k = p->transposed != 0 ? 1 : p->columns, next_n = p->transposed != 0 ? p->inner : 1;
    for (uint32_t n = 0; n < p->columns; n++) {
        const int16_t *column = b + n * next_n;
        int64_t sum = 0;
        for (uint32_t k = 0; k < p->inner; k++) {
            sum += (int64_t)(a[k] - p->a_zero) * (column[k * next_k] - p->b_zero);
        }
        sums[n] = sum;
    }
}

static void store_i16(const trivet_batch_matmul_stored_record *p, const double *scale, const int64_t *sums,
                      int16_t *y) {
    for (uint32_t n = 0; n < p->columns; n++) {
        int64_t value = scale == NULL ? trivet_rescale_q15(sums[n], p->mantissa, p->shift)
                                      : trivet_round_half_even((double)sums[n] * *scale);
        value += p->out_zero;
        y[n] = (int16_t)(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
    }
}

trivet_status trivet_batch_matmul_i16_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_batch_matmul_stored_record *p = (const trivet_batch_matmul_stored_record *)call->params;
    const matrices m = MATRICES(p);
    const uint32_t *pairs = (const uint32_t *)(const void *)trivet_blob_data(call->constants, m.pairs);
    const double *scale = (const double *)(const void *)trivet_blob_data(call->constants, &p->scale);
    const uint8_t *a, *b;
    int64_t *sums = (int64_t *)(void *)call->scratch;
    int16_t *y = (int16_t *)(void *)call->outputs[0].data;
    operands_of(call, &m, &a, &b);
    for (uint32_t i = 0; i < count_of(&m); i++) {
        const int16_t *left = (const int16_t *)(const void *)a + (uintptr_t)pairs[2 * i] * p->rows * p->inner;
        const int16_t *right = (const int16_t *)(const void *)b + (uintptr_t)pairs[2 * i + 1] * p->inner * p->columns;
        for (uint32_t r = 0; r < p->rows; r++, left += p->inner, y += p->columns) {
            sums_i16(p, left, right, sums);
            store_i16(p, scale, sums, y);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_batch_matmul_i16_check(const trivet_check *check) {
    const trivet_batch_matmul_stored_record *p = (const trivet_batch_matmul_stored_record *)check->params;
    const matrices m = MATRICES(p);
    TRIVET_REQUIRE(matrices_are_sound(check, &m, TRIVET_I16, 2) && p->inner <= MAX_INNER);
    TRIVET_REQUIRE(check->scratch_bytes / sizeof(int64_t) >= p->columns);
    TRIVET_REQUIRE(rescaling_is_sound(check, -32768) && is_between(p->shift, -31, 7));
    return TRIVET_OK;
}

static void row_f32(const trivet_batch_matmul_f32_record *p, const float *a, const float *b, float *y) {
    if (p->transposed != 0) {
        for (uint32_t n = 0; n < p->columns; n++, b += p->inner) {
            float sum = 0.0f;
            for (uint32_t k = 0; k < p->inner; k++) {
                sum += a[k] * b[k];
            }
            y[n] = sum;
        }
        return;
    }
    for (uint32_t n = 0; n < p->columns; n++) {
        y[n] = 0.0f;
    }
    for (uint32_t k = 0; k < p->inner; k++, b += p->columns) {
        const float factor = a[k];
        for (uint32_t n = 0; n < p->columns; n++) {
            y[n] += factor * b[n];
        }
    }
}

trivet_status trivet_batch_matmul_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_batch_matmul_f32_record *p = (const trivet_batch_matmul_f32_record *)call->params;
    const matrices m = MATRICES(p);
    const uint32_t *pairs = (const uint32_t *)(const void *)trivet_blob_data(call->constants, m.pairs);
    const uint8_t *a, *b;
    float *y = (float *)(void *)call->outputs[0].data;
    operands_of(call, &m, &a, &b);
    for (uint32_t i = 0; i < count_of(&m); i++) {
        const float *left = (const float *)(const void *)a + (uintptr_t)pairs[2 * i] * p->rows * p->inner;
        const float *right = (const float *)(const void *)b + (uintptr_t)pairs[2 * i + 1] * p->inner * p->columns;
        for (uint32_t r = 0; r < p->rows; r++, left += p->inner, y += p->columns) {
            row_f32(p, left, right, y);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_batch_matmul_f32_check(const trivet_check *check) {
    const trivet_batch_matmul_f32_record *p = (const trivet_batch_matmul_f32_record *)check->params;
    const matrices m = MATRICES(p);
    TRIVET_REQUIRE(matrices_are_sound(check, &m, TRIVET_F32, (uint32_t)sizeof(float)));
    return TRIVET_OK;
}
