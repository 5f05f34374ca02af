/* Convolutions, also transposed ones, on int16 activations with int8 weights: sums in 64 bits. */
#include "fixedpoint.h"
#include "trivet/kernels/products_i16.h"
#include "windows.h"

typedef trivet_conv_i16_record record;

enum { Q31, Q15, AWAY, EVEN, ROUNDING_COUNT, LARGEST_WINDOW = 1 << 22 };

typedef struct job {
    const record *p;
    const int8_t *weights;
    const int64_t *bias;
    const int32_t *mantissas;
    const double *scales;
    const int8_t *shifts;
    const trivet_view *x;
    uint32_t inputs, outputs; /* channels of a group */
} job;

static job set_up(const trivet_call *call) {
    const record *p = (const record *)call->params;
    const uint8_t *multipliers = trivet_blob_data(call->constants, &p->multipliers);
    job j = {p,
             (const int8_t *)trivet_blob_data(call->constants, &p->weights),
             (const int64_t *)(const void *)trivet_blob_data(call->constants, &p->bias),
             (const int32_t *)(const void *)multipliers,
             (const double *)(const void *)multipliers,
             (const int8_t *)trivet_blob_data(call->constants, &p->shifts),
             &call->inputs[0],
             p->in_channels / p->groups,
             p->out_channels / p->groups};
    return j;
}

/* One tap of a channel: the products of a pixel with its part of the filter. */
static int64_t tap(const job *j, uint32_t channel, uint32_t ky, uint32_t kx, uint32_t iy, uint32_t ix) {
    const record *p = j->p;
    const int16_t *x = (const int16_t *)(const void *)trivet_row(j->x, iy) + (size_t)ix * p->in_channels +
                       (size_t)(channel / j->outputs) * j->inputs;
    const int8_t *w = j->weights + (((size_t)channel * p->kernel_h + ky) * p->kernel_w + kx) * j->inputs;
    int64_t sum = 0;
    for (uint32_t i = 0; i < j->inputs; i++) {
        sum += (x[i] - p->in_zero) * (w[i] - p->weight_zero);
    }
    return sum;
}

static int64_t away(double v) {
    const double limit = 1e15;
    v = v < -limit ? -limit : v > limit ? limit : v;
    return v < 0 ? -(int64_t)(0.5 - v) : (int64_t)(v + 0.5);
}

static int16_t stored(const job *j, uint32_t channel, int64_t sum) {
    const record *p = j->p;
    int64_t value = 0;
    sum += j->bias == NULL ? 0 : j->bias[channel];
    switch (p->rounding) {
        case Q31:
            value = trivet_rescale_q31((int32_t)(uint32_t)(uint64_t)sum, j->mantissas[channel], j->shifts[channel]);
            break;
        case Q15: value = trivet_rescale_q15(sum, j->mantissas[channel], j->shifts[channel]); break;
        case AWAY: value = away((double)sum * j->scales[channel]); break;
        default: value = trivet_round_half_even((double)sum * j->scales[channel]); break;
    }
    value += p->out_zero;
    return (int16_t)(value < p->lo ? p->lo : value > p->hi ? p->hi : value);
}

static int64_t window_sum(const job *j, uint32_t channel, int32_t top, int32_t left) {
    const record *p = j->p;
    const trivet_range rows = trivet_taps_inside(top, j->x->height, p->kernel_h, p->dilation_h);
    const trivet_range columns = trivet_taps_inside(left, p->in_width, p->kernel_w, p->dilation_w);
    int64_t sum = 0;
    for (uint32_t ky = rows.first; ky < rows.last; ky++) {
        for (uint32_t kx = columns.first; kx < columns.last; kx++) {
            sum += tap(j, channel, ky, kx, (uint32_t)(top + (int32_t)(ky * p->dilation_h)),
                       (uint32_t)(left + (int32_t)(kx * p->dilation_w)));
        }
    }
    return sum;
}

trivet_status trivet_conv_i16_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const job j = set_up(call);
    const record *p = j.p;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        int16_t *y = (int16_t *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, y += p->out_channels) {
            for (uint32_t channel = 0; channel < p->out_channels; channel++) {
                int64_t sum = window_sum(&j, channel, (int32_t)(oy * p->stride_h) - p->pad_top,
                                         (int32_t)(ox * p->stride_w) - p->pad_left);
                y[channel] = stored(&j, channel, sum);
            }
        }
    }
    return TRIVET_OK;
}

/* The index of the operand that a tap brings to `position` (padding included), or -1. */
static int32_t source(uint32_t position, uint32_t tap_offset, uint32_t stride, uint32_t size) {
    if (position < tap_offset || (position - tap_offset) % stride != 0) {
        return -1;
    }
    uint32_t index = (position - tap_offset) / stride;
    return index < size ? (int32_t)index : -1;
}

static int64_t spread_sum(const job *j, uint32_t channel, uint32_t y, uint32_t x) {
    const record *p = j->p;
    int64_t sum = 0;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        int32_t iy = source(y, ky * p->dilation_h, p->stride_h, j->x->height);
        for (uint32_t kx = 0; iy >= 0 && kx < p->kernel_w; kx++) {
            int32_t ix = source(x, kx * p->dilation_w, p->stride_w, p->in_width);
            if (ix >= 0) {
                sum += tap(j, channel, ky, kx, (uint32_t)iy, (uint32_t)ix);
            }
        }
    }
    return sum;
}

trivet_status trivet_conv_transpose_i16_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const job j = set_up(call);
    const record *p = j.p;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        int16_t *y = (int16_t *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, y += p->out_channels) {
            for (uint32_t channel = 0; channel < p->out_channels; channel++) {
                y[channel] = stored(&j, channel, spread_sum(&j, channel, oy + p->pad_top, ox + p->pad_left));
            }
        }
    }
    return TRIVET_OK;
}

static bool is_i16(int32_t v) { return v >= -32768 && v <= 32767; }

static bool multipliers_are_sound(const record *p, const uint8_t *constants) {
    const double *scales = (const double *)(const void *)trivet_blob_data(constants, &p->multipliers);
    const int8_t *shifts = (const int8_t *)trivet_blob_data(constants, &p->shifts);
    const bool is_real = p->rounding == AWAY || p->rounding == EVEN;
    if (p->multipliers.bytes != trivet_product(p->out_channels, is_real ? 8 : 4) ||
        p->shifts.bytes != (is_real ? 0 : p->out_channels)) {
        return false;
    }
    for (uint32_t i = 0; i < p->out_channels; i++) {
        if (is_real ? !(scales[i] >= 0.0 && scales[i] <= 1e30)
                    : shifts[i] < -31 || shifts[i] > (p->rounding == Q15 ? 7 : 30)) {
            return false;
        }
    }
    return true;
}

/* True iff biases leave room for sums in 64 bits. */
static bool biases_are_sound(const record *p, const uint8_t *constants) {
    const int64_t *bias = (const int64_t *)(const void *)trivet_blob_data(constants, &p->bias);
    for (uint32_t i = 0; bias != NULL && i < p->out_channels; i++) {
        if (bias[i] > (int64_t)1 << 46 || bias[i] < -((int64_t)1 << 46)) {
            return false;
        }
    }
    return p->bias.bytes == 0 || p->bias.bytes == trivet_product(p->out_channels, 8);
}

static trivet_status check_products(const trivet_check *check) {
    const record *p = (const record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_I16 && y->dtype == TRIVET_I16 && p->groups > 0 && p->in_channels > 0);
    TRIVET_REQUIRE(p->out_channels > 0 && p->out_channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(p->in_channels % p->groups == 0 && p->out_channels % p->groups == 0);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(trivet_product(p->in_width, p->in_channels), 2));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(trivet_product(p->out_width, p->out_channels), 2));
    TRIVET_REQUIRE(trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top));
    TRIVET_REQUIRE(
        trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    uint32_t window = trivet_product(trivet_product(p->kernel_h, p->kernel_w), p->in_channels / p->groups);
    TRIVET_REQUIRE(window <= LARGEST_WINDOW && p->weights.bytes == trivet_product(window, p->out_channels));
    TRIVET_REQUIRE(is_i16(p->in_zero) && is_i16(p->out_zero) && p->weight_zero >= -128 && p->weight_zero <= 127);
    TRIVET_REQUIRE(is_i16(p->lo) && is_i16(p->hi) && p->rounding < ROUNDING_COUNT);
    TRIVET_REQUIRE(multipliers_are_sound(p, check->constants) && biases_are_sound(p, check->constants));
    return TRIVET_OK;
}

trivet_status trivet_conv_i16_check(const trivet_check *check) { return check_products(check); }

trivet_status trivet_conv_transpose_i16_check(const trivet_check *check) { return check_products(check); }
