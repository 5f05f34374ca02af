/* Dense layers on int8 whose features come or go row by row: sums of plain products, exact in int32. */
#include <string.h>

#include "trivet/kernels/dense_rows.h"
#include "requant_s8.h"

#define MAX_INPUTS 65536u
#define BLOCK 16u /* sums on the stack */

/* The sum of x * (w - zero) over `count` features. */
static int32_t product(const int8_t *x, const int8_t *w, uint32_t count, int32_t zero) {
    int32_t sum = 0;
    int32_t total = 0;
    for (uint32_t k = 0; k < count; k++) {
        sum += x[k] * w[k];
        total += x[k];
    }
    return sum - zero * total;
}

/* Sums are kept modulo 2^32, as the contracts do. */
static int32_t added(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* Results from sums that they may lie over, beginning no later: a block of sums is taken off before it is written to. */
static void finish(const trivet_requant_s8 *requant, const int32_t *sums, uint32_t outputs, int8_t *y) {
    for (uint32_t first = 0; first < outputs; first += BLOCK) {
        int32_t block[BLOCK];
        uint32_t some = outputs - first < BLOCK ? outputs - first : BLOCK;
        memcpy(block, sums + first, some * sizeof *block);
        trivet_requantize_s8(requant, first, block, some, y + first);
    }
}

/* Results of outputs [first, first + count) from an operand that is all there. */
static void make_outputs(const trivet_call *call, uint32_t first, uint32_t count, int8_t *y) {
    const trivet_dense_rows_s8_record *p = (const trivet_dense_rows_s8_record *)call->params;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, call->constants);
    const trivet_requant_s8 requant = trivet_requant_at(&fields, 0, 0);
    const int8_t *weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    const trivet_view *x = &call->inputs[0];
    while (count > 0) {
        int32_t sums[BLOCK];
        uint32_t some = count < BLOCK ? count : BLOCK;
        for (uint32_t i = 0; i < some; i++) {
            const int8_t *w = weights + (size_t)(first + i) * p->inputs;
            sums[i] = added(requant.bias[first + i], product((const int8_t *)x->data, w, p->inputs, p->weight_zero));
        }
        trivet_requantize_s8(&requant, first, sums, some, y);
        first += some;
        count -= some;
        y += some;
    }
}

trivet_status trivet_dense_to_rows_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_view *y = &call->outputs[0];
    for (uint32_t r = row; r < row + rows; r++) {
        make_outputs(call, r * y->row_bytes, y->row_bytes, (int8_t *)trivet_row(y, r));
    }
    return TRIVET_OK;
}

trivet_status trivet_dense_of_rows_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dense_rows_s8_record *p = (const trivet_dense_rows_s8_record *)call->params;
    const trivet_view *x = &call->inputs[0];
    int8_t *y = (int8_t *)trivet_row(&call->outputs[0], 0);
    if (row == 0 && rows == x->height && x->depth == x->height) {
        make_outputs(call, 0, p->outputs, y);
        return TRIVET_OK;
    }
    int32_t *sums = (int32_t *)(void *)call->scratch;
    const int8_t *weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, call->constants);
    const trivet_requant_s8 requant = trivet_requant_at(&fields, 0, 0);
    const uint32_t end = row + rows;
    while (row < end) {
        uint32_t some = trivet_contiguous_rows(x, row, end - row);
        const int8_t *features = (const int8_t *)trivet_row(x, row);
        for (uint32_t o = 0; o < p->outputs; o++) {
            const int8_t *w = weights + (size_t)o * p->inputs + (size_t)row * x->row_bytes;
            int32_t sum = product(features, w, some * x->row_bytes, p->weight_zero);
            sums[o] = added(row == 0 ? requant.bias[o] : sums[o], sum);
        }
        row += some;
    }
    if (end == x->height) {
        finish(&requant, sums, p->outputs, y);
    }
    return TRIVET_OK;
}

static bool is_sound(const trivet_check *check) {
    const trivet_dense_rows_s8_record *p = (const trivet_dense_rows_s8_record *)check->params;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, check->constants);
    if (check->input_count != 1 || check->output_count != 1 || check->images != 1 || p->inputs == 0 ||
        p->inputs > MAX_INPUTS || p->weights.bytes != trivet_product(p->inputs, p->outputs)) {
        return false;
    }
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    return x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && p->weight_zero >= -128 && p->weight_zero <= 127 &&
           trivet_product(x->height, x->row_bytes) == p->inputs &&
           trivet_product(y->height, y->row_bytes) == p->outputs && trivet_requant_is_sound(&fields, p->outputs, 1);
}

trivet_status trivet_dense_to_rows_s8_check(const trivet_check *check) {
    TRIVET_REQUIRE(!check->accumulates && is_sound(check) && check->inputs[0].depth == check->inputs[0].height);
    return TRIVET_OK;
}

trivet_status trivet_dense_of_rows_s8_check(const trivet_check *check) {
    TRIVET_REQUIRE(check->accumulates && is_sound(check) && check->outputs[0].height == 1);
    const trivet_tensor_info *x = &check->inputs[0];
    bool is_whole = check->rows >= x->height && x->depth == x->height;
    TRIVET_REQUIRE(is_whole || check->scratch_bytes / sizeof(int32_t) >= check->outputs[0].row_bytes);
    return TRIVET_OK;
}
