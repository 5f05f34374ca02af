/* conv2d and depthwise_conv2d on float32: windows are read in place; taps beyond the operand are left out. */
#include <string.h>

#include "core_f32.h"
#include "trivet/kernels/conv.h"
#include "trivet/kernels/depthwise.h"
#include "windows.h"

#define MAX_SEGMENTS 32u

typedef struct job {
    const trivet_conv_f32_record *p;
    const uint8_t *constants;
    const trivet_view *x, *y;
    uint32_t group_inputs, group_outputs, products;
} job;

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

static trivet_gemm_f32 group_gemm(const job *j, uint32_t group) {
    const trivet_conv_f32_record *p = j->p;
    const float *bias = (const float *)(const void *)trivet_blob_data(j->constants, &p->bias);
    trivet_gemm_f32 g;
    g.weights = (const float *)(const void *)trivet_blob_data(j->constants, &p->weights) +
                (size_t)group * round_up(j->group_outputs, 4) * j->products;
    g.bias = bias == NULL ? NULL : bias + group * j->group_outputs;
    g.channels = j->group_outputs;
    g.products = j->products;
    g.segment_count = 0;
    g.lo = p->lo;
    g.hi = p->hi;
    return g;
}

/* Appends a segment, or makes the last one longer that it continues in memory and in the weights. Returns false when
 * there is no room for another. */
static bool add_segment(trivet_segment_f32 *segments, uint32_t *count, trivet_segment_f32 next) {
    trivet_segment_f32 *last = *count == 0 ? NULL : &segments[*count - 1];
    if (last != NULL && next.data == last->data + last->length && next.first == last->first + last->length) {
        last->length += next.length;
        return true;
    }
    if (*count == MAX_SEGMENTS) {
        return false;
    }
    segments[(*count)++] = next;
    return true;
}

/* The part of one kernel row that lies inside the operand: one segment, or one for each tap. Returns false when there
 * is no room for more segments. */
static bool add_segments(const job *j, trivet_segment_f32 *segments, uint32_t *count, const float *row, uint32_t ky,
                         uint32_t group, int32_t left, size_t stride) {
    const trivet_conv_f32_record *p = j->p;
    trivet_range taps = trivet_taps_inside(left, p->in_width, p->kernel_w, p->dilation_w);
    bool joined = p->groups == 1 && p->dilation_w == 1;
    uint32_t step = joined && taps.last > taps.first ? taps.last - taps.first : 1;
    for (uint32_t kx = taps.first; kx < taps.last; kx += step) {
        trivet_segment_f32 next;
        next.data = row + (size_t)(left + (int32_t)(kx * p->dilation_w)) * p->in_channels + group * j->group_inputs;
        next.stride = stride;
        next.first = (ky * p->kernel_w + kx) * j->group_inputs;
        next.length = step * j->group_inputs;
        if (!add_segment(segments, count, next)) {
            return false;
        }
    }
    return true;
}

/* One pixel with more segments than fit: its sum in plain C. */
static void run_slowly(const job *j, const trivet_gemm_f32 *g, uint32_t group, uint32_t oy, uint32_t ox, float *out) {
    const trivet_conv_f32_record *p = j->p;
    for (uint32_t o = 0; o < g->channels; o++) {
        uint32_t block = o / TRIVET_LANES * TRIVET_LANES;
        uint32_t lanes = round_up(trivet_minimum(g->channels - block, TRIVET_LANES), 4);
        const float *w = g->weights + (size_t)block * g->products + o % TRIVET_LANES;
        float sum = 0.0f;
        for (uint32_t k = 0; k < g->products; k++) {
            uint32_t tap = k / j->group_inputs;
            int32_t iy = (int32_t)(oy * p->stride_h + tap / p->kernel_w * p->dilation_h) - p->pad_top;
            int32_t ix = (int32_t)(ox * p->stride_w + tap % p->kernel_w * p->dilation_w) - p->pad_left;
            const float *row = (const float *)(const void *)trivet_window_row(j->x, iy);
            if (row != NULL && ix >= 0 && ix < (int32_t)p->in_width) {
                uint32_t channel = group * j->group_inputs + k % j->group_inputs;
                sum += row[(size_t)ix * p->in_channels + channel] * w[(size_t)k * lanes];
            }
        }
        sum += g->bias == NULL ? 0.0f : g->bias[o];
        sum = sum < g->lo ? g->lo : sum;
        out[o] = sum > g->hi ? g->hi : sum;
    }
}

/* Pixels whose windows are alike: one anywhere, or several `stride` floats apart that lie inside the columns, of one
 * row of the result or of rows that follow each other. */
static void run_pixels(const job *j, uint32_t oy, uint32_t ox, uint32_t pixels, size_t stride) {
    const trivet_conv_f32_record *p = j->p;
    float *out = (float *)(void *)trivet_row(j->y, oy) + (size_t)ox * p->out_channels;
    int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top, left = (int32_t)(ox * p->stride_w) - p->pad_left;
    for (uint32_t group = 0; group < p->groups; group++, out += j->group_outputs) {
        trivet_segment_f32 segments[MAX_SEGMENTS];
        trivet_gemm_f32 g = group_gemm(j, group);
        uint32_t count = 0;
        bool fits = true;
        for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
            int32_t iy = top + (int32_t)(ky * p->dilation_h);
            const float *row = (const float *)(const void *)trivet_window_row(j->x, iy);
            fits = fits && (row == NULL || add_segments(j, segments, &count, row, ky, group, left, stride));
        }
        if (fits) {
            g.segment_count = count;
            trivet_core_f32_get()->gemm(&g, segments, pixels, out, p->out_channels);
        } else {
            for (uint32_t i = 0; i < pixels; i++) {
                uint32_t oy_i = oy + (ox + i) / p->out_width, ox_i = (ox + i) % p->out_width;
                run_slowly(j, &g, group, oy_i, ox_i, out + (size_t)i * p->out_channels);
            }
        }
    }
}

static void run_row(const job *j, uint32_t oy) {
    const trivet_conv_f32_record *p = j->p;
    trivet_range interior = trivet_interior(p->in_width, p->out_width, p->stride_w, p->pad_left,
                                            (p->kernel_w - 1u) * p->dilation_w + 1);
    const size_t stride = (size_t)p->stride_w * p->in_channels;
    for (uint32_t ox = 0; ox < interior.first; ox++) {
        run_pixels(j, oy, ox, 1, stride);
    }
    if (interior.first < interior.last) {
        run_pixels(j, oy, interior.first, interior.last - interior.first, stride);
    }
    for (uint32_t ox = interior.last; ox < p->out_width; ox++) {
        run_pixels(j, oy, ox, 1, stride);
    }
}

/* Rows that are one run of pixels: pointwise rows that follow each other, or one column of output inside the operand.
 * Returns the number of rows made, or 0. */
static uint32_t run_span(const job *j, uint32_t row, uint32_t rows) {
    const trivet_conv_f32_record *p = j->p;
    rows = trivet_contiguous_rows(j->y, row, rows);
    uint32_t extent = (p->kernel_h - 1u) * p->dilation_h + 1;
    int32_t first = (int32_t)(row * p->stride_h) - p->pad_top;
    if (first < 0 || first + (int32_t)extent > (int32_t)j->x->height) {
        return 0;
    }
    uint32_t inside = trivet_contiguous_rows(j->x, (uint32_t)first, j->x->height - (uint32_t)first);
    if (inside < extent) {
        return 0;
    }
    rows = trivet_minimum(rows, (inside - extent) / p->stride_h + 1);
    if (p->out_width == 1 && p->pad_left == 0 && p->in_width >= (p->kernel_w - 1u) * p->dilation_w + 1) {
        run_pixels(j, row, 0, rows, (size_t)p->stride_h * p->in_width * p->in_channels);
        return rows;
    }
    if (extent == 1 && p->kernel_w == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_left == 0 &&
        p->out_width == p->in_width) {
        run_pixels(j, row, 0, rows * p->out_width, p->in_channels);
        return rows;
    }
    return 0;
}

trivet_status trivet_conv_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_conv_f32_record *p = (const trivet_conv_f32_record *)call->params;
    job j = {p, call->constants, &call->inputs[0], &call->outputs[0], p->in_channels / p->groups,
             p->out_channels / p->groups, 0};
    j.products = (uint32_t)p->kernel_h * p->kernel_w * j.group_inputs;
    while (rows > 0) {
        uint32_t run = run_span(&j, row, rows);
        if (run == 0) {
            run_row(&j, row);
            run = 1;
        }
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

trivet_status trivet_conv_f32_check(const trivet_check *check) {
    const trivet_conv_f32_record *p = (const trivet_conv_f32_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_F32 && y->dtype == TRIVET_F32);
    TRIVET_REQUIRE(p->groups > 0 && p->in_channels > 0 && p->out_channels > 0 && p->in_channels % p->groups == 0 &&
                   p->out_channels % p->groups == 0);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(trivet_product(p->in_width, p->in_channels), sizeof(float)));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(trivet_product(p->out_width, p->out_channels), sizeof(float)));
    TRIVET_REQUIRE(
        trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
        trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    uint32_t taps = trivet_product(p->kernel_h, p->kernel_w);
    uint32_t products = trivet_product(taps, p->in_channels / p->groups);
    TRIVET_REQUIRE(products <= TRIVET_MAX_POSITION && p->out_channels <= TRIVET_MAX_POSITION);
    uint32_t channels = trivet_product(p->groups, round_up(p->out_channels / p->groups, 4));
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(trivet_product(channels, products), sizeof(float)));
    TRIVET_REQUIRE(p->bias.bytes == 0 || p->bias.bytes == trivet_product(p->out_channels, sizeof(float)));
    return TRIVET_OK;
}

/* Pixels of a depthwise row: one anywhere, or several whose windows lie inside the columns. */
static void run_depthwise(const trivet_call *call, uint32_t oy, uint32_t ox, uint32_t pixels) {
    const trivet_depthwise_f32_record *p = (const trivet_depthwise_f32_record *)call->params;
    const float *weights = (const float *)(const void *)trivet_blob_data(call->constants, &p->weights);
    trivet_tap_f32 taps[TRIVET_MAX_TAPS];
    trivet_depthwise_f32 g = {(const float *)(const void *)trivet_blob_data(call->constants, &p->bias), p->channels, 0,
                              (size_t)p->stride_w * p->channels, p->lo, p->hi};
    int32_t left = (int32_t)(ox * p->stride_w) - p->pad_left;
    trivet_range columns = trivet_taps_inside(left, p->in_width, p->kernel_w, p->dilation_w);
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        int32_t iy = (int32_t)(oy * p->stride_h + ky * p->dilation_h) - p->pad_top;
        const float *row = (const float *)(const void *)trivet_window_row(&call->inputs[0], iy);
        for (uint32_t kx = columns.first; row != NULL && kx < columns.last; kx++, g.taps++) {
            taps[g.taps].data = row + (size_t)(left + (int32_t)(kx * p->dilation_w)) * p->channels;
            taps[g.taps].weights = weights + (size_t)(ky * p->kernel_w + kx) * p->channels;
        }
    }
    float *out = (float *)(void *)trivet_row(&call->outputs[0], oy) + (size_t)ox * p->channels;
    trivet_core_f32_get()->depthwise(&g, taps, pixels, out);
}

trivet_status trivet_depthwise_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_depthwise_f32_record *p = (const trivet_depthwise_f32_record *)call->params;
    trivet_range interior = trivet_interior(p->in_width, p->out_width, p->stride_w, p->pad_left,
                                            (p->kernel_w - 1u) * p->dilation_w + 1);
    for (uint32_t oy = row; oy < row + rows; oy++) {
        for (uint32_t ox = 0; ox < interior.first; ox++) {
            run_depthwise(call, oy, ox, 1);
        }
        if (interior.first < interior.last) {
            run_depthwise(call, oy, interior.first, interior.last - interior.first);
        }
        for (uint32_t ox = interior.last; ox < p->out_width; ox++) {
            run_depthwise(call, oy, ox, 1);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_depthwise_f32_check(const trivet_check *check) {
    const trivet_depthwise_f32_record *p = (const trivet_depthwise_f32_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_F32 && y->dtype == TRIVET_F32);
    TRIVET_REQUIRE(p->channels > 0 && p->channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(trivet_product(p->in_width, p->channels), sizeof(float)));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(trivet_product(p->out_width, p->channels), sizeof(float)));
    TRIVET_REQUIRE(
        trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
        trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    uint32_t taps = trivet_product(p->kernel_h, p->kernel_w);
    TRIVET_REQUIRE(taps <= TRIVET_MAX_TAPS);
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(trivet_product(taps, p->channels), sizeof(float)));
    TRIVET_REQUIRE(p->bias.bytes == 0 || p->bias.bytes == trivet_product(p->channels, sizeof(float)));
    return TRIVET_OK;
}
