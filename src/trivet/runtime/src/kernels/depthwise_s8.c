/* depthwise_conv2d on int8 with one filter for each channel.
 *
 * Rows are copied together with their padding where that fits, so that every pixel is like every other; else the
 * windows inside the operand are read in place, and those at its border tap by tap. */
#include <string.h>

#include "core_s8.h"
#include "requant_s8.h"
#include "trivet/kernels/depthwise.h"
#include "windows.h"

#ifdef TRIVET_X86
#define PATCH_BYTES 16384u
#else
#define PATCH_BYTES TRIVET_CONV_PATCH_BYTES
#endif

typedef struct job {
    const trivet_depthwise_s8_record *p;
    const trivet_view *x, *y;
    const trivet_core_s8 *core;
    trivet_depthwise_s8 g;
    uint32_t padded_row; /* bytes of a row with its padding */
    uint32_t padded_width;
    int8_t *patch;
    bool narrow; /* one column: rows of the result are pixels of a run */
} job;

static void set_up(job *j, const trivet_call *call, int8_t *stack) {
    const trivet_depthwise_s8_record *p = (const trivet_depthwise_s8_record *)call->params;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, call->constants);
    j->p = p;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->core = trivet_core_s8_get();
    j->g.weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    j->g.requant = trivet_requant_at(&fields, 0, 0);
    j->g.channels = p->channels;
    j->g.taps = (uint32_t)p->kernel_h * p->kernel_w;
    j->g.weight_zero = p->weight_zero;
    j->g.stride = (size_t)p->stride_w * p->channels;
    j->padded_width = (p->out_width - 1) * p->stride_w + (p->kernel_w - 1u) * p->dilation_w + 1;
    j->padded_row = trivet_product(j->padded_width, p->channels);
    j->patch = p->channels <= PATCH_BYTES ? stack : (int8_t *)call->scratch;
    j->narrow = j->padded_width == 1;
}

/* How many rows of the result can be made from rows copied with their padding. */
static uint32_t rows_of_patch(const job *j, uint32_t rows) {
    const trivet_depthwise_s8_record *p = j->p;
    uint32_t extent = (p->kernel_h - 1u) * p->dilation_h + 1;
    uint32_t copied = PATCH_BYTES / j->padded_row;
    if (copied < extent) {
        return 0;
    }
    rows = trivet_minimum(rows, (copied - extent) / p->stride_h + 1);
    return j->narrow ? rows : trivet_minimum(rows, TRIVET_MAX_TAPS / j->g.taps);
}

/* One row with its padding: `row` NULL is all padding. */
static void copy_row(const job *j, int8_t *to, const int8_t *row) {
    const trivet_depthwise_s8_record *p = j->p;
    uint32_t left = trivet_minimum(p->pad_left, j->padded_width);
    uint32_t inside = row == NULL ? 0 : trivet_minimum(j->padded_width - left, p->in_width);
    size_t start = (size_t)left * p->channels, bytes = (size_t)inside * p->channels;
    if (inside == 0) {
        memset(to, p->in_zero, j->padded_row);
        return;
    }
    memset(to, p->in_zero, start);
    memcpy(to + start, row, bytes);
    memset(to + start + bytes, p->in_zero, j->padded_row - start - bytes);
}

/* `rows` rows of the result, which follow each other, from rows copied with their padding. */
static void run_copied(const job *j, uint32_t oy, uint32_t rows) {
    const trivet_depthwise_s8_record *p = j->p;
    const int8_t *taps[TRIVET_MAX_TAPS];
    uint32_t copied = (rows - 1) * p->stride_h + (p->kernel_h - 1u) * p->dilation_h + 1;
    int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top;
    for (uint32_t i = 0; i < copied; i++) {
        copy_row(j, j->patch + (size_t)i * j->padded_row, (const int8_t *)trivet_window_row(j->x, top + (int32_t)i));
    }
    uint32_t runs = j->narrow ? 1 : rows, t = 0;
    for (uint32_t r = 0; r < runs; r++) {
        for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
            const int8_t *row = j->patch + (size_t)(r * p->stride_h + ky * p->dilation_h) * j->padded_row;
            for (uint32_t kx = 0; kx < p->kernel_w; kx++) {
                taps[t++] = row + (size_t)kx * p->dilation_w * p->channels;
            }
        }
    }
    trivet_depthwise_s8 g = j->g;
    g.stride = j->narrow ? (size_t)p->stride_h * p->channels : g.stride;
    j->core->depthwise(&g, taps, runs, j->narrow ? rows : p->out_width, (int8_t *)trivet_row(j->y, oy));
}

/* Pixels [first, last) of a row: one pixel anywhere, or several whose windows lie inside the operand. A row of taps
 * beyond the operand is read from the patch, so `several` wants all rows inside. */
static void run_in_place(const job *j, uint32_t oy, uint32_t first, uint32_t last) {
    const trivet_depthwise_s8_record *p = j->p;
    const int8_t *taps[TRIVET_MAX_TAPS];
    uint32_t t = 0;
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        int32_t iy = (int32_t)(oy * p->stride_h + ky * p->dilation_h) - p->pad_top;
        const int8_t *row = (const int8_t *)trivet_window_row(j->x, iy);
        for (uint32_t kx = 0; kx < p->kernel_w; kx++) {
            int32_t ix = (int32_t)(first * p->stride_w + kx * p->dilation_w) - p->pad_left;
            bool inside = row != NULL && ix >= 0 && ix < (int32_t)p->in_width;
            taps[t++] = inside ? row + (size_t)ix * p->channels : j->patch;
        }
    }
    int8_t *out = (int8_t *)trivet_row(j->y, oy) + (size_t)first * p->channels;
    j->core->depthwise(&j->g, taps, 1, last - first, out);
}

static void run_row(const job *j, uint32_t oy) {
    const trivet_depthwise_s8_record *p = j->p;
    uint32_t extent = (p->kernel_h - 1u) * p->dilation_h + 1;
    int32_t top = (int32_t)(oy * p->stride_h) - p->pad_top;
    trivet_range interior = trivet_interior(p->in_width, p->out_width, p->stride_w, p->pad_left,
                                            (p->kernel_w - 1u) * p->dilation_w + 1);
    if (top < 0 || top + (int32_t)extent > (int32_t)j->x->height) {
        interior.first = interior.last = p->out_width;
    }
    memset(j->patch, p->in_zero, p->channels);
    for (uint32_t ox = 0; ox < interior.first; ox++) {
        run_in_place(j, oy, ox, ox + 1);
    }
    if (interior.first < interior.last) {
        run_in_place(j, oy, interior.first, interior.last);
    }
    for (uint32_t ox = interior.last; ox < p->out_width; ox++) {
        run_in_place(j, oy, ox, ox + 1);
    }
}

trivet_status trivet_depthwise_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    int8_t stack[PATCH_BYTES];
    job j;
    set_up(&j, call, stack);
    while (rows > 0) {
        uint32_t run = rows_of_patch(&j, trivet_contiguous_rows(j.y, row, rows));
        if (run > 0) {
            run_copied(&j, row, run);
        } else {
            run_row(&j, row);
            run = 1;
        }
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

trivet_status trivet_depthwise_s8_check(const trivet_check *check) {
    const trivet_depthwise_s8_record *p = (const trivet_depthwise_s8_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, check->constants);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8);
    TRIVET_REQUIRE(p->channels > 0 && p->channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(p->in_width, p->channels));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(p->out_width, p->channels));
    TRIVET_REQUIRE(
        trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top) &&
        trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left));
    uint32_t taps = trivet_product(p->kernel_h, p->kernel_w);
    TRIVET_REQUIRE(taps <= TRIVET_MAX_TAPS && p->weights.bytes == trivet_product(taps, p->channels));
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127 && p->weight_zero >= -128 && p->weight_zero <= 127);
    TRIVET_REQUIRE(p->channels <= TRIVET_CONV_PATCH_BYTES || check->scratch_bytes >= p->channels);
    TRIVET_REQUIRE(trivet_requant_is_sound(&fields, p->channels, 1));
    return TRIVET_OK;
}
