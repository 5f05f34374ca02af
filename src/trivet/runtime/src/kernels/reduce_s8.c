/* Sums, means, largest and smallest of int8 along axes. */
#include "fixedpoint.h"
#include "mve.h"
#include "sums.h"
#include "trivet/kernels/reduce.h"

enum { MAX_COUNT = 1 << 23 };

/* The fields that bring a sum to the result's scale, which two records share. */
typedef struct rescale {
    const double *scale;
    int32_t mantissa, shift, in_zero, out_zero;
    uint32_t count, divide;
} rescale;

#define RESCALE(p, constants)                                                                                      \
    {(const double *)(const void *)trivet_blob_data((constants), &(p)->scale), (p)->mantissa, (p)->shift, (p)->in_zero, \
     (p)->out_zero, (p)->count, (p)->divide}

static int8_t rescaled(const rescale *r, int32_t sum) {
    int32_t centered = sum - r->in_zero * (int32_t)r->count;
    int32_t value;
    if (r->scale == NULL) {
        value = trivet_rescale_q31(centered, r->mantissa, r->shift);
    } else {
        double real = r->divide ? (double)centered / (double)r->count : (double)centered;
        value = trivet_round_half_even(real * *r->scale);
    }
    value = trivet_clamp(value, -(1 << 30), 1 << 30);
    return (int8_t)trivet_clamp(value + r->out_zero, -128, 127);
}

static bool rescale_is_sound(const rescale *r, const trivet_blob *scale) {
    if (r->in_zero < -128 || r->in_zero > 127 || r->out_zero < -128 || r->out_zero > 127) {
        return false;
    }
    if (r->count < 1 || r->count > MAX_COUNT || r->shift < -31 || r->shift > 30 || r->mantissa < 0) {
        return false;
    }
    if (scale->bytes == 0) {
        return true;
    }
    return scale->bytes == sizeof(double) && *r->scale >= 0.0 && *r->scale <= 1e30;
}

typedef struct rows_of_call {
    uint32_t row, rows;
} rows_of_call;

/* Adds `count` channels from `first` on of some rows to the sums in scratch, which start anew at row 0. */
static void add_rows(const trivet_call *call, rows_of_call at, uint32_t width, uint32_t channels, uint32_t first,
                     uint32_t count) {
    int32_t *sums = (int32_t *)(void *)call->scratch;
    for (uint32_t c = 0; at.row == 0 && c < count; c++) {
        sums[c] = 0;
    }
    for (uint32_t y = at.row; y < at.row + at.rows; y++) {
        const int8_t *x = (const int8_t *)trivet_row(&call->inputs[0], y) + first;
        for (uint32_t column = 0; column < width; column++, x += channels) {
            trivet_mve_add(sums, x, count);
        }
    }
}

/* True iff sums of whole rows of `width` pixels fit the operands and the scratch. */
static bool rows_are_sound(const trivet_check *check, uint32_t width, uint32_t channels, uint32_t count) {
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    return check->input_count == 1 && check->output_count == 1 && check->accumulates && x->dtype == TRIVET_I8 &&
           y->dtype == TRIVET_I8 && y->height == 1 && x->row_bytes == trivet_product(width, channels) &&
           y->row_bytes == channels &&
           check->scratch_bytes / sizeof(int32_t) >= trivet_channels_at_once(0, check->rows, x->height, channels) &&
           trivet_product(x->height, width) == count && count >= 1 && count <= MAX_COUNT;
}

trivet_status trivet_average_rows_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_average_rows_s8_record *p = (const trivet_average_rows_s8_record *)call->params;
    const int32_t *sums = (const int32_t *)(const void *)call->scratch;
    const uint32_t height = call->inputs[0].height;
    const uint32_t block = trivet_channels_at_once(row, rows, height, p->channels);
    const rows_of_call at = {row, rows};
    for (uint32_t first = 0; first < p->channels; first += block) {
        uint32_t count = p->channels - first < block ? p->channels - first : block;
        add_rows(call, at, p->width, p->channels, first, count);
        int8_t *y = (int8_t *)trivet_row(&call->outputs[0], 0) + first;
        for (uint32_t c = 0; row + rows == height && c < count; c++) {
            int32_t sum = sums[c] + p->offset * (int32_t)p->count;
            int32_t half = (int32_t)(p->count / 2);
            int32_t mean = (sum > 0 ? sum + half : sum - half) / (int32_t)p->count; /* halves away from zero */
            y[c] = (int8_t)trivet_clamp(mean - p->offset, p->lo, p->hi);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_average_rows_s8_check(const trivet_check *check) {
    const trivet_average_rows_s8_record *p = (const trivet_average_rows_s8_record *)check->params;
    TRIVET_REQUIRE(rows_are_sound(check, p->width, p->channels, p->count) && (p->offset == 0 || p->offset == 128));
    TRIVET_REQUIRE(p->lo >= -128 && p->lo <= p->hi && p->hi <= 127);
    return TRIVET_OK;
}

trivet_status trivet_sum_rows_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_sum_rows_s8_record *p = (const trivet_sum_rows_s8_record *)call->params;
    const rescale r = RESCALE(p, call->constants);
    const int32_t *sums = (const int32_t *)(const void *)call->scratch;
    const uint32_t height = call->inputs[0].height;
    const uint32_t block = trivet_channels_at_once(row, rows, height, p->channels);
    const rows_of_call at = {row, rows};
    for (uint32_t first = 0; first < p->channels; first += block) {
        uint32_t count = p->channels - first < block ? p->channels - first : block;
        add_rows(call, at, p->width, p->channels, first, count);
        int8_t *y = (int8_t *)trivet_row(&call->outputs[0], 0) + first;
        for (uint32_t c = 0; row + rows == height && c < count; c++) {
            y[c] = rescaled(&r, sums[c]);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_sum_rows_s8_check(const trivet_check *check) {
    const trivet_sum_rows_s8_record *p = (const trivet_sum_rows_s8_record *)check->params;
    const rescale r = RESCALE(p, check->constants);
    TRIVET_REQUIRE(rows_are_sound(check, p->width, p->channels, p->count) && rescale_is_sound(&r, &p->scale));
    return TRIVET_OK;
}

trivet_status trivet_sum_block_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_sum_block_s8_record *p = (const trivet_sum_block_s8_record *)call->params;
    const rescale r = RESCALE(p, call->constants);
    const int8_t *x = (const int8_t *)call->inputs[0].data;
    int8_t *y = (int8_t *)call->outputs[0].data;
    for (uint32_t block = 0; block < p->outer; block++, x += (uintptr_t)p->extent * p->inner) {
        for (uint32_t i = 0; i < p->inner; i++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < p->extent; k++) {
                sum += x[(uintptr_t)k * p->inner + i];
            }
            *y++ = rescaled(&r, sum);
        }
    }
    return TRIVET_OK;
}

static bool block_is_sound(const trivet_check *check, uint32_t outer, uint32_t extent, uint32_t inner, uint32_t dtype) {
    if (check->input_count != 1 || check->output_count != 1 || check->accumulates || check->images != 1 || extent < 1) {
        return false;
    }
    uint32_t results = trivet_product(outer, inner);
    return check->inputs[0].dtype == dtype && check->outputs[0].dtype == dtype &&
           trivet_elements(&check->outputs[0]) == results &&
           trivet_elements(&check->inputs[0]) == trivet_product(results, extent);
}

trivet_status trivet_sum_block_s8_check(const trivet_check *check) {
    const trivet_sum_block_s8_record *p = (const trivet_sum_block_s8_record *)check->params;
    const rescale r = RESCALE(p, check->constants);
    TRIVET_REQUIRE(block_is_sound(check, p->outer, p->extent, p->inner, TRIVET_I8));
    TRIVET_REQUIRE(rescale_is_sound(&r, &p->scale) && p->extent == p->count);
    return TRIVET_OK;
}

trivet_status trivet_extremum_block_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_extremum_block_s8_record *p = (const trivet_extremum_block_s8_record *)call->params;
    const int8_t *x = (const int8_t *)call->inputs[0].data;
    int8_t *y = (int8_t *)call->outputs[0].data;
    for (uint32_t block = 0; block < p->outer; block++, x += (uintptr_t)p->extent * p->inner) {
        for (uint32_t i = 0; i < p->inner; i++) {
            int8_t best = x[i];
            for (uint32_t k = 1; k < p->extent; k++) {
                int8_t v = x[(uintptr_t)k * p->inner + i];
                best = (p->smallest ? v < best : v > best) ? v : best;
            }
            *y++ = best;
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_extremum_block_s8_check(const trivet_check *check) {
    const trivet_extremum_block_s8_record *p = (const trivet_extremum_block_s8_record *)check->params;
    TRIVET_REQUIRE(block_is_sound(check, p->outer, p->extent, p->inner, TRIVET_I8));
    return TRIVET_OK;
}
