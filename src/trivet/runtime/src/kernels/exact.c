/* Exact integer products, whose sums the compiler has proved to fit; a plan that lies about that wraps. */
#include "trivet/kernels/exact.h"

enum { A_NARROW = 1, B_NARROW = 2, BIAS_NARROW = 4 };

static uint32_t element(const void *data, uint32_t index, bool narrow) {
    return narrow ? (uint32_t)((const int8_t *)data)[index] : (uint32_t)((const int32_t *)data)[index];
}

/* The constant, or the next activation. */
static const void *operand(const trivet_call *call, const trivet_blob *blob, uint32_t *next) {
    const uint8_t *constant = trivet_blob_data(call->constants, blob);
    return constant != NULL ? constant : call->inputs[(*next)++].data;
}

trivet_status trivet_matmul_i32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_matmul_i32_record *p = (const trivet_matmul_i32_record *)call->params;
    uint32_t next = 0;
    const void *a = operand(call, &p->a, &next);
    const void *b = operand(call, &p->b, &next);
    const void *bias = p->bias_steps != 0 ? operand(call, &p->bias, &next) : NULL;
    int32_t *y = (int32_t *)(void *)call->outputs[0].data;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < p->rows; i++) {
        for (uint32_t j = 0; j < p->columns; j++) {
            uint32_t sum = bias == NULL ? 0 : element(bias, j, (p->narrow & BIAS_NARROW) != 0);
            for (uint32_t k = 0; k < p->inner; k++) {
                sum += element(a, i * p->inner + k, (p->narrow & A_NARROW) != 0) *
                       element(b, k * p->columns + j, (p->narrow & B_NARROW) != 0);
            }
            int32_t value = (int32_t)sum;
            *y++ = p->relu && value < 0 ? 0 : value;
        }
    }
    return TRIVET_OK;
}

/* An operand of `elements`: a constant of just its bytes, or the next activation. */
static bool operand_is_sound(const trivet_check *check, const trivet_blob *blob, uint32_t elements, bool narrow,
                             uint32_t *next) {
    if (blob->bytes != 0) {
        return blob->bytes == trivet_product(elements, narrow ? 1 : 4);
    }
    if (*next >= check->input_count) {
        return false;
    }
    const trivet_tensor_info *x = &check->inputs[(*next)++];
    return x->dtype == (narrow ? TRIVET_I8 : TRIVET_I32) && trivet_elements(x) == elements;
}

trivet_status trivet_matmul_i32_check(const trivet_check *check) {
    const trivet_matmul_i32_record *p = (const trivet_matmul_i32_record *)check->params;
    uint32_t next = 0;
    TRIVET_REQUIRE(check->output_count == 1 && check->images == 1 && !check->accumulates && p->bias_steps <= 1);
    TRIVET_REQUIRE(check->outputs[0].dtype == TRIVET_I32);
    TRIVET_REQUIRE(trivet_elements(&check->outputs[0]) == trivet_product(p->rows, p->columns));
    TRIVET_REQUIRE(operand_is_sound(check, &p->a, trivet_product(p->rows, p->inner), (p->narrow & A_NARROW) != 0, &next));
    TRIVET_REQUIRE(operand_is_sound(check, &p->b, trivet_product(p->inner, p->columns), (p->narrow & B_NARROW) != 0, &next));
    if (p->bias_steps != 0) {
        TRIVET_REQUIRE(operand_is_sound(check, &p->bias, p->columns, (p->narrow & BIAS_NARROW) != 0, &next));
    }
    TRIVET_REQUIRE(next == check->input_count);
    return TRIVET_OK;
}

trivet_status trivet_relu_i32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    for (uint32_t r = row; r < row + rows; r++) {
        const int32_t *x = (const int32_t *)(const void *)trivet_row(&call->inputs[0], r);
        int32_t *y = (int32_t *)(void *)trivet_row(&call->outputs[0], r);
        for (uint32_t i = 0; i < call->outputs[0].row_bytes / sizeof(int32_t); i++) {
            y[i] = x[i] < 0 ? 0 : x[i];
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_relu_i32_check(const trivet_check *check) {
    const trivet_relu_i32_record *p = (const trivet_relu_i32_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && p->lo == 0);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_I32 && check->outputs[0].dtype == TRIVET_I32);
    TRIVET_REQUIRE(trivet_same_shape(&check->inputs[0], &check->outputs[0]));
    return TRIVET_OK;
}
