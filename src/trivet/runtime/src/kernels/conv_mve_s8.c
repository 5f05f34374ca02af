/* conv2d on int8 for Helium: windows of two pixels at a time, read in place where they are a pixel of the operand, and
 * copied where not. A vector may be read beyond the end of a window, but never beyond the operand. */
#include "gemm_mve.h"
#include "trivet/kernels/conv_mve.h"
#include "windows.h"

/* Two windows up to this size are copied on the stack; longer ones need scratch (backends/plan/kernels/conv_mve.py). */
#define STACK_BYTES 1024u
#define MAX_ROWS 32u

typedef struct job {
    const trivet_conv_mve_s8_record *p;
    const trivet_view *x, *y;
    trivet_gemm_mve g;
    const int8_t *rows[MAX_ROWS]; /* of the operand, that windows of an output row lie on; NULL: padding */
    const int8_t *last_vector;    /* of the operand; NULL: it has none */
    int8_t *copies;
    uint32_t run;          /* bytes of a window on one row */
    uint32_t window_bytes; /* whole vectors */
    uint32_t waiting;      /* pixels whose windows are placed: 0 or 1 */
    bool is_pixel;         /* windows are single pixels that lie inside */
    bool copies_pixels;    /* as the result lies over the operand */
} job;

static uint32_t window_steps(const trivet_conv_mve_s8_record *p) {
    const uint32_t bytes = (uint32_t)p->kernel_h * p->kernel_w * p->in_channels;
    return (bytes + TRIVET_MVE_BYTES - 1) / TRIVET_MVE_BYTES;
}

static void set_up(job *j, const trivet_call *call, int8_t *stack) {
    const trivet_conv_mve_s8_record *p = (const trivet_conv_mve_s8_record *)call->params;
    j->p = p;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->run = p->kernel_w * p->in_channels;
    j->g.steps = window_steps(p);
    j->window_bytes = j->g.steps * TRIVET_MVE_BYTES;
    j->g.weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    j->g.numbers = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->numbers);
    j->g.groups = p->out_channels / TRIVET_MVE_LANES;
    const trivet_mve_rescale rescale = {p->out_zero, p->lo, p->hi, p->is_signed};
    j->g.rescale = rescale;
    j->waiting = 0;
    j->is_pixel = p->kernel_h == 1 && p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 &&
                  (p->out_width - 1) * p->stride_w < p->in_width;
    j->copies_pixels = j->x->data == j->y->data;
    j->copies = 2 * j->window_bytes <= STACK_BYTES ? stack : (int8_t *)call->scratch;
    const uint32_t end = p->kernel_h * j->run;
    memset(j->copies + end, 0, j->window_bytes - end);
    memset(j->copies + j->window_bytes + end, 0, j->window_bytes - end);
    const size_t bytes = (size_t)j->x->depth * j->x->row_bytes;
    j->last_vector = bytes < TRIVET_MVE_BYTES ? NULL : (const int8_t *)j->x->data + (bytes - TRIVET_MVE_BYTES);
}

static bool is_readable(const job *j, const int8_t *vector) { return j->last_vector != NULL && vector <= j->last_vector; }

static void place_rows(job *j, uint32_t oy) {
    int32_t iy = (int32_t)(oy * j->p->stride_h) - j->p->pad_top;
    for (uint32_t ky = 0; ky < j->p->kernel_h; ky++, iy++) {
        j->rows[ky] = (const int8_t *)trivet_window_row(j->x, iy);
    }
}

/* At most 16 bytes. Whole vectors are written: what comes behind is written later, or is the end of the copies. */
static void copy_short(const job *j, int8_t *to, const int8_t *from, uint32_t bytes) {
    if (is_readable(j, from)) {
        trivet_mve_copy_vector(to, from);
    } else {
        trivet_mve_copy(to, from, bytes);
    }
}

/* What a window has on one row, of which it begins at column ix, if that is at most 16 bytes. */
static void copy_short_across(const job *j, int8_t *to, const int8_t *row, int32_t ix) {
    const trivet_conv_mve_s8_record *p = j->p;
    const trivet_range inside = trivet_taps_inside(ix, p->in_width, p->kernel_w, 1);
    trivet_mve_fill_vector(to, p->in_zero);
    if (inside.last > inside.first) {
        copy_short(j, to + inside.first * p->in_channels,
                   row + (ptrdiff_t)(ix + (int32_t)inside.first) * (ptrdiff_t)p->in_channels,
                   (inside.last - inside.first) * p->in_channels);
        trivet_mve_fill_vector(to + inside.last * p->in_channels, p->in_zero);
    }
}

static void copy_short_rows(const job *j, int8_t *to, int32_t ix, bool inside) {
    const ptrdiff_t at = (ptrdiff_t)ix * (ptrdiff_t)j->p->in_channels;
    for (const int8_t *const *row = j->rows, *const *end = row + j->p->kernel_h; row < end; row++, to += j->run) {
        if (*row == NULL) {
            trivet_mve_fill_vector(to, j->p->in_zero);
        } else if (inside) {
            copy_short(j, to, *row + at, j->run);
        } else {
            copy_short_across(j, to, *row, ix);
        }
    }
}

/* What a window has on one row, of which it begins at column ix. */
static void copy_across(const job *j, int8_t *to, const int8_t *row, int32_t ix) {
    const trivet_conv_mve_s8_record *p = j->p;
    const trivet_range inside = trivet_taps_inside(ix, p->in_width, p->kernel_w, 1);
    trivet_mve_fill(to, p->in_zero, j->run);
    if (row != NULL && inside.last > inside.first) {
        trivet_mve_copy(to + inside.first * p->in_channels,
                        row + (ptrdiff_t)(ix + (int32_t)inside.first) * (ptrdiff_t)p->in_channels,
                        (inside.last - inside.first) * p->in_channels);
    }
}

/* The window of column ox: `waiting` says which of the two copies is free. */
static const int8_t *window(const job *j, uint32_t ox) {
    const trivet_conv_mve_s8_record *p = j->p;
    int8_t *copy = j->copies + j->waiting * j->window_bytes, *to = copy;
    const int32_t ix = (int32_t)(ox * p->stride_w) - p->pad_left;
    const size_t offset = (size_t)ox * p->stride_w * p->in_channels;
    if (j->is_pixel && j->rows[0] != NULL) {
        const int8_t *pixel = j->rows[0] + offset;
        if (!j->copies_pixels && is_readable(j, pixel + (j->window_bytes - TRIVET_MVE_BYTES))) {
            return pixel;
        }
        trivet_mve_copy(to, pixel, p->in_channels);
        return copy;
    }
    const bool inside = ix >= 0 && ix + p->kernel_w <= (int32_t)p->in_width;
    if (j->run <= TRIVET_MVE_BYTES) {
        copy_short_rows(j, to, ix, inside);
        return copy;
    }
    const ptrdiff_t at = (ptrdiff_t)ix * (ptrdiff_t)p->in_channels;
    for (const int8_t *const *row = j->rows, *const *end = row + p->kernel_h; row < end; row++, to += j->run) {
        if (inside && *row != NULL) {
            trivet_mve_copy(to, *row + at, j->run);
        } else {
            copy_across(j, to, *row, ix);
        }
    }
    return copy;
}

/* All channels of the placed windows. Where their number is no multiple of 4, the last group is the last channels, some
 * of them again. */
static void multiply(job *j) {
    const uint32_t rest = j->p->out_channels % TRIVET_MVE_LANES;
    trivet_gemm_mve_pixels(&j->g);
    if (rest != 0) {
        trivet_gemm_mve last = j->g;
        last.weights += (size_t)last.groups * TRIVET_MVE_LANES * j->window_bytes;
        last.numbers += (size_t)last.groups * TRIVET_MVE_LANES * TRIVET_MVE_NUMBERS;
        last.out0 += j->p->out_channels - TRIVET_MVE_LANES;
        last.out1 += j->p->out_channels - TRIVET_MVE_LANES;
        last.groups = 1;
        trivet_gemm_mve_pixels(&last);
    }
    j->waiting = 0;
}

/* One more pixel, made at `out`; every second time both are computed. */
static void add_pixel(job *j, const int8_t *x, int8_t *out) {
    j->g.x1 = x;
    j->g.out1 = out;
    if (j->waiting != 0) {
        multiply(j);
        return;
    }
    j->g.x0 = x;
    j->g.out0 = out;
    j->waiting = 1;
}

/* Groups of 4 channels, one after the other, of `pixels` pixels whose vectors lie inside the row. */
static void run_columns(const job *j, const int8_t *x, int8_t *out, uint32_t pixels) {
    const trivet_conv_mve_s8_record *p = j->p;
    trivet_column_mve g = {x, j->g.weights, j->g.numbers, out, j->g.rescale, pixels, p->stride_w * p->in_channels,
                           p->out_channels};
    for (uint32_t c = 0; c < p->out_channels; c += TRIVET_MVE_LANES) {
        g.out = out + trivet_minimum(c, p->out_channels - TRIVET_MVE_LANES);
        trivet_column_mve_run(&g);
        g.weights += TRIVET_MVE_LANES * TRIVET_MVE_BYTES;
        g.numbers += TRIVET_MVE_LANES * TRIVET_MVE_NUMBERS;
    }
}

/* Pairs of pixels that are read in place, from ox on. Returns where the rest of the row begins. */
static uint32_t run_pairs(job *j, uint32_t ox, int8_t *out) {
    const trivet_conv_mve_s8_record *p = j->p;
    const size_t step = (size_t)p->stride_w * p->in_channels, past = j->window_bytes - TRIVET_MVE_BYTES;
    if (!j->is_pixel || j->copies_pixels || j->rows[0] == NULL || p->out_channels % TRIVET_MVE_LANES != 0) {
        return ox;
    }
    j->g.x0 = j->rows[0] + ox * step;
    j->g.out0 = out + (size_t)ox * p->out_channels;
    for (; ox + 2 <= p->out_width && is_readable(j, j->g.x0 + step + past); ox += 2) {
        j->g.x1 = j->g.x0 + step;
        j->g.out1 = j->g.out0 + p->out_channels;
        trivet_gemm_mve_pixels(&j->g);
        j->g.x0 = j->g.x1 + step;
        j->g.out0 = j->g.out1 + p->out_channels;
    }
    return ox;
}

/* How many pixels of the row may be read as vectors, one each. */
static uint32_t readable_pixels(const job *j) {
    const trivet_conv_mve_s8_record *p = j->p;
    if (!j->is_pixel || j->copies_pixels || j->g.steps != 1 || j->rows[0] == NULL || !is_readable(j, j->rows[0])) {
        return 0;
    }
    const size_t readable = (size_t)(j->last_vector - j->rows[0]) / (p->stride_w * p->in_channels) + 1;
    return readable < p->out_width ? (uint32_t)readable : p->out_width;
}

trivet_status trivet_conv_mve_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    int8_t stack[STACK_BYTES + TRIVET_MVE_BYTES];
    job j;
    set_up(&j, call, stack);
    for (uint32_t end = row + rows; row < end; row++) {
        int8_t *out = (int8_t *)trivet_row(j.y, row);
        place_rows(&j, row);
        uint32_t ox = readable_pixels(&j);
        if (ox > 0) {
            run_columns(&j, j.rows[0], out, ox);
        }
        for (; ox < j.p->out_width; ox++) {
            if (j.waiting == 0) {
                ox = run_pairs(&j, ox, out);
                if (ox == j.p->out_width) {
                    break;
                }
            }
            add_pixel(&j, window(&j, ox), out + (size_t)ox * j.p->out_channels);
        }
    }
    if (j.waiting != 0) {
        j.g.x1 = j.g.x0;
        j.g.out1 = j.g.out0;
        multiply(&j);
    }
    return TRIVET_OK;
}

static bool shapes_are_sound(const trivet_conv_mve_s8_record *p, const trivet_tensor_info *x,
                             const trivet_tensor_info *y) {
    return x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && p->in_channels > 0 &&
           p->in_channels <= TRIVET_MAX_POSITION && p->out_channels >= TRIVET_MVE_LANES &&
           p->out_channels <= TRIVET_MAX_POSITION && x->row_bytes == trivet_product(p->in_width, p->in_channels) &&
           y->row_bytes == trivet_product(p->out_width, p->out_channels) && p->kernel_h <= MAX_ROWS &&
           p->dilation_h == 1 && p->dilation_w == 1 &&
           trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, 1, p->pad_top) &&
           trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, 1, p->pad_left);
}

trivet_status trivet_conv_mve_s8_check(const trivet_check *check) {
    const trivet_conv_mve_s8_record *p = (const trivet_conv_mve_s8_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(shapes_are_sound(p, &check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(trivet_product(trivet_product(p->kernel_w, p->in_channels), p->kernel_h) <= TRIVET_MAX_POSITION / 16);
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127);
    const uint32_t window_bytes = window_steps(p) * TRIVET_MVE_BYTES;
    TRIVET_REQUIRE(2 * window_bytes <= STACK_BYTES || check->scratch_bytes >= 2 * window_bytes + TRIVET_MVE_BYTES);
    const uint32_t channels = (p->out_channels + TRIVET_MVE_LANES - 1) / TRIVET_MVE_LANES * TRIVET_MVE_LANES;
    const trivet_mve_rescale rescale = {p->out_zero, p->lo, p->hi, p->is_signed};
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(channels, window_bytes));
    TRIVET_REQUIRE(trivet_mve_rescale_is_sound(&rescale, check->constants, &p->numbers, channels));
    return TRIVET_OK;
}
