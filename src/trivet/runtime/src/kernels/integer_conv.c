/* Exact sums of products of bytes into int32; the zero point of the operand may be an operand itself. */
#include <string.h>

#include "trivet/kernels/dynamic.h"
#include "windows.h"

typedef struct job {
    const trivet_integer_conv_record *p;
    const int8_t *weights;
    const int32_t *zeros; /* of the weights; NULL: all zero */
    const trivet_view *x;
    int16_t in_zero;
    uint32_t inputs, outputs; /* channels of a group */
} job;

/* Centered values fit in 16 bits: compilers know instructions for products of these. Sums wrap. */
static uint32_t dot_s8(const int8_t *x, const int8_t *w, uint32_t count, int16_t zero) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (uint32_t)((int16_t)(x[i] - zero) * (int16_t)w[i]);
    }
    return sum;
}

static uint32_t dot_u8(const uint8_t *x, const int8_t *w, uint32_t count, int16_t zero) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (uint32_t)((int16_t)(x[i] - zero) * (int16_t)w[i]);
    }
    return sum;
}

static uint32_t total(const uint8_t *x, uint32_t count, int16_t zero, bool is_unsigned) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (uint32_t)((is_unsigned ? x[i] : (int8_t)x[i]) - zero);
    }
    return sum;
}

/* One window of one output channel. */
static uint32_t window_sum(const job *j, uint32_t channel, int32_t top, int32_t left, trivet_range columns) {
    const trivet_integer_conv_record *p = j->p;
    const int8_t *w = j->weights + (size_t)channel * p->kernel_h * p->kernel_w * j->inputs;
    const bool join = p->groups == 1 && p->dilation_w == 1; /* the taps of a kernel row follow each other */
    const uint32_t runs = columns.last == columns.first ? 0 : join ? 1 : columns.last - columns.first;
    const uint32_t length = join ? (columns.last - columns.first) * j->inputs : j->inputs;
    uint32_t sum = 0;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++, w += (size_t)p->kernel_w * j->inputs) {
        const uint8_t *row = trivet_window_row(j->x, top + (int32_t)(ky * p->dilation_h));
        for (uint32_t run = 0; row != NULL && run < runs; run++) {
            uint32_t kx = columns.first + run;
            const uint8_t *x = row + (size_t)(left + (int32_t)(kx * p->dilation_w)) * p->in_channels +
                               (size_t)(channel / j->outputs) * j->inputs;
            const int8_t *filter = w + (size_t)kx * j->inputs;
            sum += p->is_unsigned ? dot_u8(x, filter, length, j->in_zero)
                                  : dot_s8((const int8_t *)x, filter, length, j->in_zero);
            if (j->zeros != NULL && j->zeros[channel] != 0) {
                sum -= (uint32_t)j->zeros[channel] * total(x, length, j->in_zero, p->is_unsigned != 0);
            }
        }
    }
    return sum;
}

/* True iff the zero point is one of the operand's type. */
static bool is_zero_point(int32_t zero, uint32_t is_unsigned) {
    return is_unsigned != 0 ? zero >= 0 && zero <= 255 : zero >= -128 && zero <= 127;
}

trivet_status trivet_integer_conv_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_integer_conv_record *p = (const trivet_integer_conv_record *)call->params;
    job j = {p, (const int8_t *)trivet_blob_data(call->constants, &p->weights),
             (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->weight_zeros), &call->inputs[0], 0,
             p->in_channels / p->groups, p->out_channels / p->groups};
    int32_t zero = p->in_zero;
    if (p->zero_operand != 0) {
        memcpy(&zero, call->inputs[1].data, sizeof zero);
    }
    if (!is_zero_point(zero, p->is_unsigned)) {
        return TRIVET_ERR_VALUE;
    }
    j.in_zero = (int16_t)zero;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        uint32_t *y = (uint32_t *)(void *)trivet_row(&call->outputs[0], oy);
        int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top;
        for (uint32_t ox = 0; ox < p->out_width; ox++, y += p->out_channels) {
            int32_t left = (int32_t)(ox * p->stride_w) - p->pad_left;
            trivet_range columns = trivet_taps_inside(left, p->in_width, p->kernel_w, p->dilation_w);
            for (uint32_t channel = 0; channel < p->out_channels; channel++) {
                y[channel] = window_sum(&j, channel, top, left, columns);
            }
        }
    }
    return TRIVET_OK;
}

static bool shapes_are_sound(const trivet_integer_conv_record *p, const trivet_tensor_info *x,
                             const trivet_tensor_info *y) {
    return x->dtype == (p->is_unsigned != 0 ? TRIVET_U8 : TRIVET_I8) && y->dtype == TRIVET_I32 && p->groups > 0 &&
           p->in_channels > 0 && p->out_channels > 0 && p->in_channels % p->groups == 0 &&
           p->out_channels % p->groups == 0 && x->row_bytes == trivet_product(p->in_width, p->in_channels) &&
           y->row_bytes == trivet_product(trivet_product(p->out_width, p->out_channels), sizeof(int32_t)) &&
           trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
           trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left);
}

trivet_status trivet_integer_conv_check(const trivet_check *check) {
    const trivet_integer_conv_record *p = (const trivet_integer_conv_record *)check->params;
    TRIVET_REQUIRE(check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(check->input_count == (p->zero_operand != 0 ? 2u : 1u));
    TRIVET_REQUIRE(shapes_are_sound(p, &check->inputs[0], &check->outputs[0]));
    if (p->zero_operand != 0) {
        TRIVET_REQUIRE(check->inputs[1].dtype == TRIVET_I32 && trivet_elements(&check->inputs[1]) == 1);
    } else {
        TRIVET_REQUIRE(is_zero_point(p->in_zero, p->is_unsigned));
    }
    uint32_t window = trivet_product(trivet_product(p->kernel_h, p->kernel_w), p->in_channels / p->groups);
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(window, p->out_channels));
    TRIVET_REQUIRE(p->weight_zeros.bytes == 0 ||
                   p->weight_zeros.bytes == trivet_product(p->out_channels, sizeof(int32_t)));
    return TRIVET_OK;
}
