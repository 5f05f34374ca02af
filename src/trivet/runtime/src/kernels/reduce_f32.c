/* Sums, means, largest, smallest and products of float32 along axes. */
#include "sums.h"
#include "trivet/kernels/reduce.h"

enum { MODE_SUM, MODE_LARGEST, MODE_SMALLEST, MODE_PRODUCT };

/* Sums of `count` channels from `first` on, and their results after the last row. */
static void sum_block(const trivet_call *call, uint32_t row, uint32_t rows, uint32_t first, uint32_t count) {
    const trivet_sum_rows_f32_record *p = (const trivet_sum_rows_f32_record *)call->params;
    float *sums = (float *)(void *)call->scratch;
    for (uint32_t c = 0; row == 0 && c < count; c++) {
        sums[c] = 0.0f;
    }
    for (uint32_t y = row; y < row + rows; y++) {
        const float *x = (const float *)(const void *)trivet_row(&call->inputs[0], y) + first;
        for (uint32_t column = 0; column < p->width; column++, x += p->channels) {
            for (uint32_t c = 0; c < count; c++) {
                sums[c] += x[c];
            }
        }
    }
    float *y = (float *)(void *)trivet_row(&call->outputs[0], 0) + first;
    for (uint32_t c = 0; row + rows == call->inputs[0].height && c < count; c++) {
        float v = sums[c] / p->divisor;
        v = v < p->lo ? p->lo : v;
        y[c] = v > p->hi ? p->hi : v;
    }
}

trivet_status trivet_sum_rows_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_sum_rows_f32_record *p = (const trivet_sum_rows_f32_record *)call->params;
    const uint32_t block = trivet_channels_at_once(row, rows, call->inputs[0].height, p->channels);
    for (uint32_t first = 0; first < p->channels; first += block) {
        sum_block(call, row, rows, first, p->channels - first < block ? p->channels - first : block);
    }
    return TRIVET_OK;
}

trivet_status trivet_sum_rows_f32_check(const trivet_check *check) {
    const trivet_sum_rows_f32_record *p = (const trivet_sum_rows_f32_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_F32 && y->dtype == TRIVET_F32 && y->height == 1);
    TRIVET_REQUIRE(y->row_bytes == trivet_product(p->channels, sizeof(float)));
    TRIVET_REQUIRE(x->row_bytes == trivet_product(p->width, y->row_bytes));
    TRIVET_REQUIRE(check->scratch_bytes / sizeof(float) >= trivet_channels_at_once(0, check->rows, x->height, p->channels));
    return TRIVET_OK;
}

static float folded(const float *x, const trivet_fold_block_f32_record *p) {
    float result = x[0];
    for (uint32_t k = 1; k < p->extent; k++) {
        float v = x[(uintptr_t)k * p->inner];
        switch (p->mode) {
            case MODE_LARGEST: result = v > result ? v : result; break;
            case MODE_SMALLEST: result = v < result ? v : result; break;
            case MODE_PRODUCT: result *= v; break;
            default: result += v; break;
        }
    }
    return p->mode == MODE_SUM ? result / p->divisor : result;
}

trivet_status trivet_fold_block_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_fold_block_f32_record *p = (const trivet_fold_block_f32_record *)call->params;
    const float *x = (const float *)(const void *)call->inputs[0].data;
    float *y = (float *)(void *)call->outputs[0].data;
    for (uint32_t block = 0; block < p->outer; block++, x += (uintptr_t)p->extent * p->inner) {
        for (uint32_t i = 0; i < p->inner; i++) {
            *y++ = folded(x + i, p);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_fold_block_f32_check(const trivet_check *check) {
    const trivet_fold_block_f32_record *p = (const trivet_fold_block_f32_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_F32 && check->outputs[0].dtype == TRIVET_F32);
    TRIVET_REQUIRE(p->extent >= 1 && p->mode <= MODE_PRODUCT);
    uint32_t results = trivet_product(p->outer, p->inner);
    TRIVET_REQUIRE(trivet_elements(&check->outputs[0]) == results);
    TRIVET_REQUIRE(trivet_elements(&check->inputs[0]) == trivet_product(results, p->extent));
    return TRIVET_OK;
}
