/* conv_transpose2d on float32: for each phase of the strides a convolution with the taps of that phase. */
#include "core_f32.h"
#include "transposed.h"
#include "trivet/kernels/conv_transpose.h"

#define MAX_SEGMENTS 64u

typedef struct job {
    const trivet_conv_transpose_f32_record *p;
    const uint8_t *constants;
    const trivet_view *x, *y;
    uint32_t group_inputs, group_outputs;
    trivet_axis rows, columns;
} job;

static uint32_t round_up(uint32_t value) { return (value + 3) & ~3u; }

/* The taps of one output that lie inside the operand; outputs of its phase after it read one pixel further each. */
static uint32_t place_taps(const job *j, uint32_t oy, uint32_t ox, uint32_t group, trivet_segment_f32 *segments) {
    const trivet_conv_transpose_f32_record *p = j->p;
    uint32_t count = 0;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        int32_t iy, ix;
        const float *row = NULL;
        if (trivet_tap_source(&j->rows, oy, ky, &iy)) {
            row = (const float *)(const void *)trivet_window_row(j->x, iy);
        }
        for (uint32_t kx = 0; row != NULL && kx < p->kernel_w; kx++) {
            if (trivet_tap_source(&j->columns, ox, kx, &ix) && ix >= 0 && ix < (int32_t)p->in_width) {
                trivet_segment_f32 *s = &segments[count++];
                s->data = row + (size_t)ix * p->in_channels + group * j->group_inputs;
                s->stride = p->in_channels;
                s->first = (ky * p->kernel_w + kx) * j->group_inputs;
                s->length = j->group_inputs;
            }
        }
    }
    return count;
}

/* `pixels` outputs of one phase, `stride_w` apart. */
static void run_phase(const job *j, uint32_t oy, uint32_t ox, uint32_t group, uint32_t pixels) {
    const trivet_conv_transpose_f32_record *p = j->p;
    const float *bias = (const float *)(const void *)trivet_blob_data(j->constants, &p->bias);
    trivet_segment_f32 segments[MAX_SEGMENTS];
    trivet_gemm_f32 g;
    g.products = (uint32_t)p->kernel_h * p->kernel_w * j->group_inputs;
    g.weights = (const float *)(const void *)trivet_blob_data(j->constants, &p->weights) +
                (size_t)group * round_up(j->group_outputs) * g.products;
    g.bias = bias == NULL ? NULL : bias + group * j->group_outputs;
    g.channels = j->group_outputs;
    g.segment_count = place_taps(j, oy, ox, group, segments);
    g.lo = p->lo;
    g.hi = p->hi;
    float *out = (float *)(void *)trivet_row(j->y, oy) + (size_t)ox * p->out_channels + group * j->group_outputs;
    trivet_core_f32_get()->gemm(&g, segments, pixels, out, (size_t)p->stride_w * p->out_channels);
}

static void run_row(const job *j, uint32_t oy, uint32_t group) {
    const trivet_conv_transpose_f32_record *p = j->p;
    for (uint32_t first = 0; first < trivet_minimum(p->stride_w, p->out_width); first++) {
        uint32_t count = (p->out_width - first + p->stride_w - 1) / p->stride_w;
        trivet_range inside = trivet_phase_interior(&j->columns, first);
        for (uint32_t i = 0; i < count;) {
            uint32_t run = i == inside.first && inside.first < inside.last ? inside.last - inside.first : 1;
            run_phase(j, oy, first + i * p->stride_w, group, run);
            i += run;
        }
    }
}

trivet_status trivet_conv_transpose_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_conv_transpose_f32_record *p = (const trivet_conv_transpose_f32_record *)call->params;
    const trivet_view *x = &call->inputs[0], *y = &call->outputs[0];
    job j = {p, call->constants, x, y, p->in_channels / p->groups, p->out_channels / p->groups,
             {x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top},
             {p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left}};
    for (uint32_t oy = row; oy < row + rows; oy++) {
        for (uint32_t group = 0; group < p->groups; group++) {
            run_row(&j, oy, group);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_conv_transpose_f32_check(const trivet_check *check) {
    const trivet_conv_transpose_f32_record *p = (const trivet_conv_transpose_f32_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_F32 && y->dtype == TRIVET_F32);
    TRIVET_REQUIRE(p->groups > 0 && p->in_channels > 0 && p->out_channels > 0 && p->in_channels % p->groups == 0 &&
                   p->out_channels % p->groups == 0);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(trivet_product(p->in_width, p->in_channels), sizeof(float)));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(trivet_product(p->out_width, p->out_channels), sizeof(float)));
    TRIVET_REQUIRE(
        trivet_window_is_sound(y->height, x->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
        trivet_window_is_sound(p->out_width, p->in_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    trivet_axis rows = {x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top};
    trivet_axis columns = {p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left};
    TRIVET_REQUIRE(trivet_product(trivet_most_taps(&rows), trivet_most_taps(&columns)) <= MAX_SEGMENTS);
    uint32_t products = trivet_product(trivet_product(p->kernel_h, p->kernel_w), p->in_channels / p->groups);
    TRIVET_REQUIRE(products <= TRIVET_MAX_POSITION && p->out_channels <= TRIVET_MAX_POSITION);
    uint32_t channels = trivet_product(p->groups, round_up(p->out_channels / p->groups));
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(trivet_product(channels, products), sizeof(float)));
    TRIVET_REQUIRE(p->bias.bytes == 0 || p->bias.bytes == trivet_product(p->out_channels, sizeof(float)));
    return TRIVET_OK;
}
