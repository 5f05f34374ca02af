/* Windowed pools on int16, channel by channel. */
#include "fixedpoint.h"
#include "pool_window.h"
#include "trivet/kernels/products_i16.h"

typedef trivet_pool_i16_record record;

static int32_t largest(const trivet_window *w, uint32_t channel) {
    int32_t found = -32768;
    for (uint32_t ky = w->rows.first; ky < w->rows.last; ky++) {
        for (uint32_t kx = w->columns.first; kx < w->columns.last; kx++) {
            int32_t v = ((const int16_t *)(const void *)trivet_tap(w, ky, kx, 2))[channel];
            found = v > found ? v : found;
        }
    }
    return found;
}

static int64_t sum_of(const trivet_window *w, uint32_t channel) {
    int64_t sum = 0;
    for (uint32_t ky = w->rows.first; ky < w->rows.last; ky++) {
        for (uint32_t kx = w->columns.first; kx < w->columns.last; kx++) {
            sum += ((const int16_t *)(const void *)trivet_tap(w, ky, kx, 2))[channel];
        }
    }
    return sum;
}

/* The mean of the stored integers, halves away from zero; or of the real values at another scale, halves to even. */
static int64_t mean(const record *p, const double *scale, const trivet_window *w, uint32_t channel) {
    const int64_t inside = (int64_t)(w->rows.last - w->rows.first) * (w->columns.last - w->columns.first);
    const int64_t taps = p->count_include_pad != 0 ? (int64_t)p->kernel_h * p->kernel_w : inside;
    const int64_t sum = sum_of(w, channel) + p->in_zero * (taps - inside);
    if (scale == NULL) {
        int64_t size = ((sum < 0 ? -sum : sum) + taps / 2) / taps;
        return sum < 0 ? -size : size;
    }
    return (int64_t)trivet_round_half_even((double)(sum - p->in_zero * taps) / (double)taps * *scale) + p->out_zero;
}

trivet_status trivet_pool_i16_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const record *p = (const record *)call->params;
    const double *scale = (const double *)(const void *)trivet_blob_data(call->constants, &p->scale);
    for (uint32_t oy = row; oy < row + rows; oy++) {
        int16_t *y = (int16_t *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, y += p->channels) {
            const trivet_window w = TRIVET_WINDOW(p, &call->inputs[0], oy, ox);
            for (uint32_t channel = 0; channel < p->channels; channel++) {
                int64_t v = p->average != 0 ? mean(p, scale, &w, channel) : largest(&w, channel);
                y[channel] = (int16_t)(v < p->lo ? p->lo : v > p->hi ? p->hi : v);
            }
        }
    }
    return TRIVET_OK;
}

static bool is_i16(int32_t v) { return v >= -32768 && v <= 32767; }

trivet_status trivet_pool_i16_check(const trivet_check *check) {
    const record *p = (const record *)check->params;
    const double *scale = (const double *)(const void *)trivet_blob_data(check->constants, &p->scale);
    TRIVET_CHECK_POOL(p, check, 2, TRIVET_I16);
    TRIVET_REQUIRE(is_i16(p->lo) && is_i16(p->hi) && is_i16(p->in_zero) && is_i16(p->out_zero));
    TRIVET_REQUIRE(p->scale.bytes == 0 || (p->scale.bytes == 8 && *scale >= 0.0 && *scale <= 1e30));
    const int64_t last_row = (int64_t)(check->outputs[0].height - 1) * p->stride_h - p->pad_top;
    const int64_t last_column = (int64_t)(p->out_width - 1) * p->stride_w - p->pad_left;
    TRIVET_REQUIRE(p->average == 0 || (p->pad_top < p->kernel_h && p->pad_left < p->kernel_w && p->dilation_h == 1 &&
                                       p->dilation_w == 1 && last_row < check->inputs[0].height &&
                                       last_column < p->in_width)); /* no window is padding alone */
    return TRIVET_OK;
}
