/* A pointwise convolution, a depthwise one and a pointwise one on int8 as one: what lies between them exists as a strip
 * of a few pixels only.
 *
 * Scratch holds: `lines` rows of the first layer's result, which the next row of windows needs again (row e in line
 * e mod lines); a window of kernel_h rows and as many columns as a strip reads, padding included; and the strip that
 * the depthwise layer makes. From strip to strip the columns that windows share move to the left end of the window.
 * Without a first layer windows are read in place. */
#include <string.h>

#include "core_s8.h"
#include "requant_s8.h"
#include "trivet/kernels/block.h"
#include "windows.h"

#define LAYER_FIELDS(p, constants, layer)                                                                        \
    {(constants), &(p)->layer##_bias, &(p)->layer##_multipliers, &(p)->layer##_shifts, (p)->layer##_out_zero,   \
     (p)->layer##_lo, (p)->layer##_hi, (p)->layer##_rounding, (p)->layer##_shift_range}

typedef struct job {
    const trivet_block_s8_record *p;
    const trivet_view *x, *y;
    const trivet_core_s8 *core;
    trivet_gemm_s8 expand, project;
    trivet_depthwise_s8 depthwise;
    bool expands, projects;
    int8_t *lines, *window, *strip;
    uint32_t columns; /* of the window */
    int8_t zeros[TRIVET_CONV_PATCH_BYTES]; /* one pixel of padding */
} job;

static trivet_gemm_s8 pointwise(const trivet_requant_fields *fields, const uint8_t *constants,
                                const trivet_blob *weights, int32_t weight_zero, uint32_t inputs, uint32_t outputs) {
    trivet_gemm_s8 g;
    memset(&g, 0, sizeof g);
    g.weights = (const int8_t *)trivet_blob_data(constants, weights);
    g.requant = trivet_requant_at(fields, 0, 0);
    g.channels = outputs;
    g.steps = inputs / 4;
    g.segment_count = 1;
    g.segment_steps = g.steps;
    g.weight_zero = weight_zero;
    g.rows = 1;
    return g;
}

static uint32_t window_columns(const trivet_block_s8_record *p) {
    return p->kernel_w + (p->strip - 1) * p->stride_w;
}

static void set_up(job *j, const trivet_call *call) {
    const trivet_block_s8_record *p = (const trivet_block_s8_record *)call->params;
    const trivet_requant_fields expand = LAYER_FIELDS(p, call->constants, expand);
    const trivet_requant_fields depthwise = LAYER_FIELDS(p, call->constants, depthwise);
    const trivet_requant_fields project = LAYER_FIELDS(p, call->constants, project);
    j->p = p;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->core = trivet_core_s8_get();
    j->expands = p->expand_weights.bytes != 0;
    j->projects = p->project_weights.bytes != 0;
    if (j->expands) {
        j->expand = pointwise(&expand, call->constants, &p->expand_weights, p->expand_weight_zero, p->in_channels,
                              p->channels);
    }
    if (j->projects) {
        j->project = pointwise(&project, call->constants, &p->project_weights, p->project_weight_zero, p->channels,
                               p->out_channels);
    }
    j->depthwise.weights = (const int8_t *)trivet_blob_data(call->constants, &p->depthwise_weights);
    j->depthwise.requant = trivet_requant_at(&depthwise, 0, 0);
    j->depthwise.channels = p->channels;
    j->depthwise.taps = (uint32_t)p->kernel_h * p->kernel_w;
    j->depthwise.weight_zero = p->depthwise_weight_zero;
    j->depthwise.stride = (size_t)p->stride_w * p->channels;
    j->columns = window_columns(p);
    j->lines = (int8_t *)call->scratch;
    j->window = j->lines + (size_t)p->lines * p->in_width * p->channels;
    j->strip = j->window + (j->expands ? (size_t)p->kernel_h * j->columns * p->channels : 0);
    memset(j->zeros, p->depthwise_in_zero, p->channels);
}

static int8_t *line(const job *j, uint32_t row, uint32_t column) {
    return j->lines + ((size_t)(row % j->p->lines) * j->p->in_width + column) * j->p->channels;
}

/* Columns [first, first + count) of a row of the first layer's result, padding included: `to` gets them. */
static void fetch(const job *j, int32_t row, bool is_kept, int32_t first, uint32_t count, int8_t *to) {
    const trivet_block_s8_record *p = j->p;
    const size_t pixel = p->channels;
    if (row < 0 || row >= (int32_t)j->x->height) {
        memset(to, p->depthwise_in_zero, count * pixel);
        return;
    }
    uint32_t left = first < 0 ? trivet_minimum((uint32_t)-first, count) : 0;
    int32_t beyond = first + (int32_t)count - (int32_t)p->in_width;
    uint32_t right = beyond > 0 ? trivet_minimum((uint32_t)beyond, count - left) : 0;
    uint32_t inside = count - left - right;
    memset(to, p->depthwise_in_zero, left * pixel);
    memset(to + (left + inside) * pixel, p->depthwise_in_zero, right * pixel);
    if (inside == 0) {
        return;
    }
    uint32_t column = (uint32_t)(first + (int32_t)left);
    to += left * pixel;
    if (is_kept) {
        memcpy(to, line(j, (uint32_t)row, column), inside * pixel);
        return;
    }
    const int8_t *from = (const int8_t *)trivet_row(j->x, (uint32_t)row) + (size_t)column * p->in_channels;
    trivet_segment_s8 segment = {from, p->in_channels, 0};
    j->core->gemm(&j->expand, &segment, inside, to, pixel);
    if (p->lines != 0) {
        memcpy(line(j, (uint32_t)row, column), to, inside * pixel);
    }
}

/* The window of pixels [ox, ox + pixels) of row oy. Rows that are kept are fetched before the row that takes their
 * line is made, as they lie above it. */
static void fill_window(const job *j, uint32_t oy, uint32_t ox, uint32_t pixels) {
    const trivet_block_s8_record *p = j->p;
    const uint32_t columns = p->kernel_w + (pixels - 1) * p->stride_w;
    const uint32_t shared = ox == 0 || p->kernel_w <= p->stride_w ? 0 : p->kernel_w - p->stride_w;
    const size_t pitch = (size_t)j->columns * p->channels;
    const int32_t first = (int32_t)(ox * p->stride_w) - p->pad_left + (int32_t)shared;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        int8_t *to = j->window + ky * pitch;
        memmove(to, to + pitch - (size_t)shared * p->channels, (size_t)shared * p->channels);
        fetch(j, (int32_t)(oy * p->stride_h + ky) - p->pad_top, oy > 0 && ky < p->lines, first, columns - shared,
              to + (size_t)shared * p->channels);
    }
}

static void run_window(const job *j, uint32_t pixels, int8_t *out) {
    const trivet_block_s8_record *p = j->p;
    const int8_t *taps[TRIVET_MAX_TAPS];
    uint32_t t = 0;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        for (uint32_t kx = 0; kx < p->kernel_w; kx++) {
            taps[t++] = j->window + ((size_t)ky * j->columns + kx) * p->channels;
        }
    }
    j->core->depthwise(&j->depthwise, taps, 1, pixels, out);
}

/* Pixels whose windows are read in place: one anywhere, or several inside the operand's columns; with rows beyond the
 * operand only one, as all taps move by as much from pixel to pixel. */
static void run_in_place(const job *j, uint32_t oy, uint32_t ox, uint32_t pixels, int8_t *out) {
    const trivet_block_s8_record *p = j->p;
    const int8_t *taps[TRIVET_MAX_TAPS];
    uint32_t t = 0;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *row = (const int8_t *)trivet_window_row(j->x, (int32_t)(oy * p->stride_h + ky) - p->pad_top);
        for (uint32_t kx = 0; kx < p->kernel_w; kx++) {
            int32_t ix = (int32_t)(ox * p->stride_w + kx) - p->pad_left;
            bool inside = row != NULL && ix >= 0 && ix < (int32_t)p->in_width;
            taps[t++] = inside ? row + (size_t)ix * p->channels : j->zeros;
        }
    }
    j->core->depthwise(&j->depthwise, taps, 1, pixels, out);
}

static void run_strip_in_place(const job *j, uint32_t oy, uint32_t ox, uint32_t pixels, int8_t *out) {
    const trivet_block_s8_record *p = j->p;
    trivet_range inside = trivet_interior(p->in_width, p->out_width, p->stride_w, p->pad_left, p->kernel_w);
    int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top;
    bool rows_inside = top >= 0 && top + p->kernel_h <= (int32_t)j->x->height;
    while (pixels > 0) {
        uint32_t run = rows_inside && ox >= inside.first && ox < inside.last ? inside.last - ox : 1;
        run = trivet_minimum(run, pixels);
        run_in_place(j, oy, ox, run, out);
        ox += run;
        pixels -= run;
        out += (size_t)run * p->channels;
    }
}

static void run_row(const job *j, uint32_t oy) {
    const trivet_block_s8_record *p = j->p;
    int8_t *out = (int8_t *)trivet_row(j->y, oy);
    for (uint32_t ox = 0; ox < p->out_width; ox += p->strip) {
        uint32_t pixels = trivet_minimum(p->strip, p->out_width - ox);
        int8_t *made = j->projects ? j->strip : out + (size_t)ox * p->channels;
        if (j->expands) {
            fill_window(j, oy, ox, pixels);
            run_window(j, pixels, made);
        } else {
            run_strip_in_place(j, oy, ox, pixels, made);
        }
        if (j->projects) {
            trivet_segment_s8 segment = {j->strip, p->channels, 0};
            j->core->gemm(&j->project, &segment, pixels, out + (size_t)ox * p->out_channels, p->out_channels);
        }
    }
}

trivet_status trivet_block_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    job j;
    set_up(&j, call);
    for (uint32_t oy = row; oy < row + rows; oy++) {
        run_row(&j, oy);
    }
    return TRIVET_OK;
}

static bool is_zero_point(int32_t zero) { return zero >= -128 && zero <= 127; }

static bool has_pointwise(const trivet_requant_fields *fields, const trivet_blob *weights, int32_t in_zero,
                          int32_t weight_zero, uint32_t inputs, uint32_t outputs) {
    uint32_t rows = trivet_product(outputs / 4 + (outputs % 4 != 0 ? 1 : 0), 4);
    return inputs % 4 == 0 && weights->bytes == trivet_product(rows, inputs) && is_zero_point(in_zero) &&
           is_zero_point(weight_zero) && trivet_requant_is_sound(fields, outputs, 1);
}

static bool has_layers(const trivet_block_s8_record *p, const uint8_t *constants) {
    const trivet_requant_fields expand = LAYER_FIELDS(p, constants, expand);
    const trivet_requant_fields depthwise = LAYER_FIELDS(p, constants, depthwise);
    const trivet_requant_fields project = LAYER_FIELDS(p, constants, project);
    uint32_t taps = trivet_product(p->kernel_h, p->kernel_w);
    bool first = p->expand_weights.bytes == 0
                     ? p->in_channels == p->channels && p->lines == 0
                     : has_pointwise(&expand, &p->expand_weights, p->expand_in_zero, p->expand_weight_zero,
                                     p->in_channels, p->channels);
    bool last = p->project_weights.bytes == 0
                    ? p->out_channels == p->channels
                    : has_pointwise(&project, &p->project_weights, p->project_in_zero, p->project_weight_zero,
                                    p->channels, p->out_channels);
    return first && last && taps <= TRIVET_MAX_TAPS && p->depthwise_weights.bytes == trivet_product(taps, p->channels) &&
           is_zero_point(p->depthwise_in_zero) && is_zero_point(p->depthwise_weight_zero) &&
           trivet_requant_is_sound(&depthwise, p->channels, 1);
}

/* Lines, window and strip fit into the scratch. */
static bool has_room(const trivet_block_s8_record *p, uint32_t scratch_bytes) {
    uint64_t pixels = (uint64_t)p->lines * p->in_width;
    pixels += p->expand_weights.bytes == 0 ? 0 : (uint64_t)p->kernel_h * window_columns(p);
    pixels += p->project_weights.bytes == 0 ? 0 : p->strip;
    return pixels <= UINT32_MAX && trivet_product((uint32_t)pixels, p->channels) <= scratch_bytes;
}

trivet_status trivet_block_s8_check(const trivet_check *check) {
    const trivet_block_s8_record *p = (const trivet_block_s8_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    TRIVET_REQUIRE(x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8);
    TRIVET_REQUIRE(p->channels > 0 && p->channels <= TRIVET_CONV_PATCH_BYTES);
    TRIVET_REQUIRE(p->in_channels > 0 && p->in_channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(p->out_channels > 0 && p->out_channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(p->in_width, p->in_channels));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(p->out_width, p->out_channels));
    TRIVET_REQUIRE(p->dilation_h == 1 && p->dilation_w == 1 && p->strip > 0 && p->strip <= TRIVET_MAX_TAPS);
    TRIVET_REQUIRE(trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, 1, p->pad_top) &&
                   trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, 1, p->pad_left));
    TRIVET_REQUIRE(p->lines == 0 || p->lines + p->stride_h == p->kernel_h);
    TRIVET_REQUIRE(has_layers(p, check->constants) && has_room(p, check->scratch_bytes));
    return TRIVET_OK;
}
