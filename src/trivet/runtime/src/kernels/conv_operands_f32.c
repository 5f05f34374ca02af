/* Convolutions on float32 whose weights are operands, so that nothing could be packed for them. */
#include "trivet/kernels/indexing.h"
#include "windows.h"

typedef trivet_conv_operands_f32_record record;

typedef struct job {
    const record *p;
    const float *weights, *bias;
    const trivet_view *x;
    uint32_t inputs, outputs; /* channels of a group */
} job;

static job set_up(const trivet_call *call) {
    const record *p = (const record *)call->params;
    job j = {p,
             (const float *)(const void *)trivet_blob_data(call->constants, &p->weights),
             (const float *)(const void *)trivet_blob_data(call->constants, &p->bias),
             &call->inputs[0],
             p->in_channels / p->groups,
             p->out_channels / p->groups};
    uint32_t next = 1;
    if (j.weights == NULL) {
        j.weights = (const float *)(const void *)call->inputs[next++].data;
    }
    if (p->bias_operand != 0) {
        j.bias = (const float *)(const void *)call->inputs[next].data;
    }
    return j;
}

static float tap(const job *j, uint32_t channel, uint32_t ky, uint32_t kx, uint32_t iy, uint32_t ix) {
    const record *p = j->p;
    const float *x = (const float *)(const void *)trivet_row(j->x, iy) + (size_t)ix * p->in_channels +
                     (size_t)(channel / j->outputs) * j->inputs;
    const float *w = j->weights + (((size_t)channel * p->kernel_h + ky) * p->kernel_w + kx) * j->inputs;
    float sum = 0.0f;
    for (uint32_t i = 0; i < j->inputs; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

static float stored(const job *j, uint32_t channel, float sum) {
    float value = j->bias == NULL ? sum : sum + j->bias[channel];
    return value < j->p->lo ? j->p->lo : value > j->p->hi ? j->p->hi : value;
}

static float window_sum(const job *j, uint32_t channel, int32_t top, int32_t left) {
    const record *p = j->p;
    const trivet_range rows = trivet_taps_inside(top, j->x->height, p->kernel_h, p->dilation_h);
    const trivet_range columns = trivet_taps_inside(left, p->in_width, p->kernel_w, p->dilation_w);
    float sum = 0.0f;
    for (uint32_t ky = rows.first; ky < rows.last; ky++) {
        for (uint32_t kx = columns.first; kx < columns.last; kx++) {
            sum += tap(j, channel, ky, kx, (uint32_t)(top + (int32_t)(ky * p->dilation_h)),
                       (uint32_t)(left + (int32_t)(kx * p->dilation_w)));
        }
    }
    return sum;
}

trivet_status trivet_conv_operands_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const job j = set_up(call);
    const record *p = j.p;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        float *y = (float *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, y += p->out_channels) {
            for (uint32_t channel = 0; channel < p->out_channels; channel++) {
                float sum = window_sum(&j, channel, (int32_t)(oy * p->stride_h) - p->pad_top,
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

static float spread_sum(const job *j, uint32_t channel, uint32_t y, uint32_t x) {
    const record *p = j->p;
    float sum = 0.0f;
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

trivet_status trivet_conv_transpose_operands_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const job j = set_up(call);
    const record *p = j.p;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        float *y = (float *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, y += p->out_channels) {
            for (uint32_t channel = 0; channel < p->out_channels; channel++) {
                y[channel] = stored(&j, channel, spread_sum(&j, channel, oy + p->pad_top, ox + p->pad_left));
            }
        }
    }
    return TRIVET_OK;
}

/* Weights and bias must be seen whole by every firing: activations of them are not of rank 4 rows that come and go. */
static bool is_whole(const trivet_tensor_info *operand, uint32_t elements) {
    return operand->dtype == TRIVET_F32 && trivet_elements(operand) == elements && operand->depth == operand->height;
}

static trivet_status check_products(const trivet_check *check) {
    const record *p = (const record *)check->params;
    uint32_t next = 1;
    TRIVET_REQUIRE(check->input_count >= 1 && check->output_count == 1 && !check->accumulates);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_F32 && y->dtype == TRIVET_F32 && p->groups > 0 && p->in_channels > 0);
    TRIVET_REQUIRE(p->out_channels > 0 && p->in_channels % p->groups == 0 && p->out_channels % p->groups == 0);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(trivet_product(p->in_width, p->in_channels), 4));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(trivet_product(p->out_width, p->out_channels), 4));
    TRIVET_REQUIRE(trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top));
    TRIVET_REQUIRE(
        trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    uint32_t window = trivet_product(trivet_product(p->kernel_h, p->kernel_w), p->in_channels / p->groups);
    uint32_t elements = trivet_product(window, p->out_channels);
    if (p->weights.bytes == 0) {
        TRIVET_REQUIRE(next < check->input_count && check->images == 1 && is_whole(&check->inputs[next++], elements));
    } else {
        TRIVET_REQUIRE(p->weights.bytes == trivet_product(elements, 4));
    }
    if (p->bias_operand != 0) {
        TRIVET_REQUIRE(p->bias.bytes == 0 && next < check->input_count && check->images == 1);
        TRIVET_REQUIRE(is_whole(&check->inputs[next++], p->out_channels));
    }
    TRIVET_REQUIRE(p->bias.bytes == 0 || p->bias.bytes == trivet_product(p->out_channels, 4));
    TRIVET_REQUIRE(next == check->input_count);
    return TRIVET_OK;
}

trivet_status trivet_conv_operands_f32_check(const trivet_check *check) { return check_products(check); }

trivet_status trivet_conv_transpose_operands_f32_check(const trivet_check *check) { return check_products(check); }
