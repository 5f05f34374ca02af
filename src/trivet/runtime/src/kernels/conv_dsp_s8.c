/* conv2d on int8 for cores with the DSP extension: windows of a few pixels are widened, then multiplied two by two.
 *
 * Pixels of output rows that follow each other in memory are one run, cut into chunks of `pixels`. A chunk lies in the
 * scratch, or on the stack where that is small: its widened windows, behind them the widened weights of a pair of
 * channels. The order of a window is: of every kernel row its whole words, then of every kernel row what is left. */
#include "gemm_dsp.h"
#include "trivet/kernels/conv_dsp.h"
#include "windows.h"

/* Chunks up to this size are on the stack, which is what the portable kernel takes there too (STACK_BYTES in
 * backends/plan/kernels/conv_dsp.py). */
#define STACK_BYTES 2304u
#define MAX_ROWS 32u      /* of a kernel */
#define MAX_RUN 64u       /* bytes of a kernel row that are no whole words of channels */
#define DIRECT_PIXELS 4u  /* up to so many widening weights once does not pay */

typedef struct job {
    const trivet_conv_dsp_s8_record *p;
    const trivet_view *x, *y;
    trivet_gemm_dsp g;
    uint32_t words, rest; /* of a kernel row: whole words, and bytes left over */
    uint32_t steps;
    uint32_t zero; /* a widened word of zero points */
    uint32_t *windows;
    const int8_t *rows[MAX_ROWS]; /* under the window, NULL beyond the operand */
} job;

/* Where the next step of the pixel goes. */
#define STEP_WORDS 4u

static uint32_t window_steps(const trivet_conv_dsp_s8_record *p) {
    uint32_t run = p->kernel_w * p->in_channels;
    return p->kernel_h * (run / 4) + (p->kernel_h * (run % 4) + 3) / 4;
}

/* Words of a chunk. */
static uint32_t chunk_words(uint32_t pixels, uint32_t steps) {
    uint32_t words = trivet_product(trivet_product(pixels, steps), 2);
    return pixels <= DIRECT_PIXELS ? words : words + trivet_product(4, steps);
}

static void set_up(job *j, const trivet_call *call, uint32_t *stack) {
    const trivet_conv_dsp_s8_record *p = (const trivet_conv_dsp_s8_record *)call->params;
    uint32_t run = p->kernel_w * p->in_channels;
    j->p = p;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->words = run / 4;
    j->rest = run % 4;
    j->steps = window_steps(p);
    j->zero = trivet_dsp_both(p->in_zero);
    uint32_t words = chunk_words(p->pixels, j->steps);
    j->windows = words <= STACK_BYTES / 4 ? stack : (uint32_t *)(void *)call->scratch;
    j->g.steps = j->steps;
    j->g.constant = p->constant;
    j->g.form = p->form;
}

static inline uint32_t *widen(uint32_t *to, const int8_t *from, uint32_t words) {
    for (; words >= 4; words -= 4, from += 16, to += 4 * STEP_WORDS) {
        uint32_t a = trivet_dsp_load(from), b = trivet_dsp_load(from + 4);
        uint32_t c = trivet_dsp_load(from + 8), d = trivet_dsp_load(from + 12);
        to[0] = trivet_dsp_even(a);
        to[1] = trivet_dsp_odd(a);
        to[4] = trivet_dsp_even(b);
        to[5] = trivet_dsp_odd(b);
        to[8] = trivet_dsp_even(c);
        to[9] = trivet_dsp_odd(c);
        to[12] = trivet_dsp_even(d);
        to[13] = trivet_dsp_odd(d);
    }
    for (; words > 0; words--, from += 4, to += STEP_WORDS) {
        uint32_t word = trivet_dsp_load(from);
        to[0] = trivet_dsp_even(word);
        to[1] = trivet_dsp_odd(word);
    }
    return to;
}

static uint32_t *fill(uint32_t *to, uint32_t zero, uint32_t words) {
    for (; words > 0; words--, to += STEP_WORDS) {
        to[0] = zero;
        to[1] = zero;
    }
    return to;
}

/* A kernel row that lies across the edge of the operand, where channels are whole words. */
static uint32_t *widen_across(const job *j, uint32_t *to, const int8_t *row, int32_t ix) {
    const trivet_conv_dsp_s8_record *p = j->p;
    const trivet_range inside = trivet_taps_inside(ix, p->in_width, p->kernel_w, 1);
    const uint32_t words = p->in_channels / 4, taps = inside.last - inside.first;
    to = fill(to, j->zero, inside.first * words);
    if (taps > 0) {
        to = widen(to, row + (ptrdiff_t)(ix + (int32_t)inside.first) * (ptrdiff_t)p->in_channels, taps * words);
    }
    return fill(to, j->zero, (p->kernel_w - inside.last) * words);
}

/* The bytes of a kernel row with its padding. */
static const int8_t *padded_row(const job *j, const int8_t *row, int32_t ix, int8_t *bytes) {
    const trivet_conv_dsp_s8_record *p = j->p;
    if (row != NULL && ix >= 0 && ix + p->kernel_w <= (int32_t)p->in_width) {
        return row + (size_t)ix * p->in_channels;
    }
    memset(bytes, p->in_zero, p->kernel_w * p->in_channels);
    const trivet_range inside = trivet_taps_inside(ix, p->in_width, p->kernel_w, 1);
    if (row != NULL && inside.last > inside.first) {
        memcpy(bytes + inside.first * p->in_channels,
               row + (ptrdiff_t)(ix + (int32_t)inside.first) * (ptrdiff_t)p->in_channels,
               (inside.last - inside.first) * p->in_channels);
    }
    return bytes;
}

/* A window whose kernel rows are no whole words. */
static void widen_bytes(const job *j, uint32_t *to, int32_t ix) {
    int8_t bytes[MAX_RUN], left[3 * MAX_ROWS + 4];
    uint32_t count = 0;
    for (uint32_t ky = 0; ky < j->p->kernel_h; ky++) {
        const int8_t *row = padded_row(j, j->rows[ky], ix, bytes);
        to = widen(to, row, j->words);
        for (uint32_t i = 0; i < j->rest; i++) {
            left[count++] = row[4 * j->words + i];
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        left[count + i] = 0;
    }
    widen(to, left, (count + 3) / 4);
}

static void widen_window(const job *j, uint32_t *to, uint32_t ox) {
    const trivet_conv_dsp_s8_record *p = j->p;
    const int32_t ix = (int32_t)(ox * p->stride_w) - p->pad_left;
    const bool inside = ix >= 0 && ix + p->kernel_w <= (int32_t)p->in_width;
    if (j->rest != 0 || (!inside && p->in_channels % 4 != 0)) {
        widen_bytes(j, to, ix);
        return;
    }
    for (uint32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *row = j->rows[ky];
        if (row == NULL) {
            to = fill(to, j->zero, j->words);
        } else if (inside) {
            to = widen(to, row + (size_t)ix * p->in_channels, j->words);
        } else {
            to = widen_across(j, to, row, ix);
        }
    }
}

static void place_rows(job *j, uint32_t oy) {
    for (uint32_t ky = 0; ky < j->p->kernel_h; ky++) {
        int32_t iy = (int32_t)(oy * j->p->stride_h + ky) - j->p->pad_top;
        j->rows[ky] = (const int8_t *)trivet_window_row(j->x, iy);
    }
}

static void clamp_bytes(const trivet_conv_dsp_s8_record *p, int8_t *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (int8_t)(out[i] < p->lo ? p->lo : out[i] > p->hi ? p->hi : out[i]);
    }
}

/* All channels of the windows from `x` on, `pixels` of them; a pair at the end makes the channel before the last again
 * where their number is odd. */
static void multiply(job *j, const uint32_t *x, uint32_t pixels, uint32_t *widened, int8_t *out) {
    const trivet_conv_dsp_s8_record *p = j->p;
    const size_t pairs = p->out_channels / TRIVET_PAIR;
    trivet_gemm_dsp *g = &j->g;
    g->x = x;
    g->x_end = x + (size_t)(pixels + 1) / 2 * j->steps * 4;
    g->out = out;
    g->out_stride = pixels == 1 ? 0 : p->out_channels;
    g->widened = widened;
    g->pairs = pairs;
    trivet_gemm_dsp_run(g);
    if (p->out_channels % TRIVET_PAIR != 0) {
        const trivet_gemm_dsp most = *g;
        g->out += p->out_channels - TRIVET_PAIR;
        g->weights += pairs * 8 * j->steps;
        g->rescale += pairs * TRIVET_PAIR * trivet_dsp_rescale_numbers(p->form);
        g->pairs = 1;
        trivet_gemm_dsp_run(g);
        *g = most;
    }
}

static void multiply_chunk(job *j, uint32_t pixels, int8_t *out) {
    const trivet_conv_dsp_s8_record *p = j->p;
    const uint32_t even = pixels & ~1u;
    if (even > 0) {
        uint32_t *widened = pixels > DIRECT_PIXELS ? j->windows + 2 * (size_t)p->pixels * j->steps : NULL;
        multiply(j, j->windows, even, widened, out);
    }
    if (pixels != even) {
        multiply(j, j->windows + 2 * (size_t)even * j->steps, 1, NULL, out + (size_t)even * p->out_channels);
    }
    if (p->lo > -128 || p->hi < 127) {
        clamp_bytes(p, out, (size_t)pixels * p->out_channels);
    }
}

/* Where the window of pixel `i` of a chunk goes: two pixels take turns. */
static uint32_t *window_place(const job *j, uint32_t i) {
    return j->windows + (size_t)(i / 2) * j->steps * 4 + i % 2 * 2;
}

/* The next `count` pixels of row oy from ox on, of a layer whose windows are one pixel of whole words. */
static void widen_pixels(const job *j, uint32_t i, uint32_t ox, uint32_t count) {
    const trivet_conv_dsp_s8_record *p = j->p;
    const size_t step = (size_t)p->stride_w * p->in_channels;
    const int8_t *from = j->rows[0] + ox * step;
    for (uint32_t end = i + count; i < end; i++, from += step) {
        widen(window_place(j, i), from, j->words);
    }
}

/* Rows that follow each other in memory. */
static void run_rows(job *j, uint32_t row, uint32_t rows) {
    const trivet_conv_dsp_s8_record *p = j->p;
    const bool is_pixel = p->kernel_h == 1 && p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 && j->rest == 0 &&
                          (p->out_width - 1) * p->stride_w < p->in_width;
    int8_t *out = (int8_t *)trivet_row(j->y, row);
    uint32_t i = 0;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        place_rows(j, oy);
        for (uint32_t ox = 0; ox < p->out_width;) {
            uint32_t count = trivet_minimum(p->pixels - i, p->out_width - ox);
            if (is_pixel && j->rows[0] != NULL) {
                widen_pixels(j, i, ox, count);
            } else {
                for (uint32_t k = 0; k < count; k++) {
                    widen_window(j, window_place(j, i + k), ox + k);
                }
            }
            i += count;
            ox += count;
            if (i == p->pixels) {
                multiply_chunk(j, i, out);
                out += (size_t)i * p->out_channels;
                i = 0;
            }
        }
    }
    if (i > 0) {
        multiply_chunk(j, i, out);
    }
}

trivet_status trivet_conv_dsp_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    uint32_t stack[STACK_BYTES / 4];
    job j;
    set_up(&j, call, stack);
    j.g.weights = (const int8_t *)trivet_blob_data(call->constants, &j.p->weights);
    j.g.rescale = (const int32_t *)(const void *)trivet_blob_data(call->constants, &j.p->rescale);
    while (rows > 0) {
        uint32_t run = trivet_contiguous_rows(j.y, row, rows);
        run_rows(&j, row, run);
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

static bool shapes_are_sound(const trivet_conv_dsp_s8_record *p, const trivet_tensor_info *x,
                             const trivet_tensor_info *y) {
    return x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && p->in_channels > 0 &&
           p->in_channels <= TRIVET_MAX_POSITION && p->out_channels >= TRIVET_PAIR &&
           p->out_channels <= TRIVET_MAX_POSITION && x->row_bytes == trivet_product(p->in_width, p->in_channels) &&
           y->row_bytes == trivet_product(p->out_width, p->out_channels) && p->kernel_h <= MAX_ROWS &&
           p->dilation_h == 1 && p->dilation_w == 1 &&
           trivet_window_is_sound(x->height, y->height, p->kernel_h, p->stride_h, 1, p->pad_top) &&
           trivet_window_is_sound(p->in_width, p->out_width, p->kernel_w, p->stride_w, 1, p->pad_left);
}

trivet_status trivet_conv_dsp_s8_check(const trivet_check *check) {
    const trivet_conv_dsp_s8_record *p = (const trivet_conv_dsp_s8_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(shapes_are_sound(p, &check->inputs[0], &check->outputs[0]));
    const uint32_t run = trivet_product(p->kernel_w, p->in_channels);
    TRIVET_REQUIRE(trivet_product(run, p->kernel_h) <= TRIVET_MAX_POSITION / 16);
    TRIVET_REQUIRE(p->in_channels % 4 == 0 || run <= MAX_RUN);
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127 && p->lo >= -128 && p->lo <= p->hi && p->hi <= 127);
    TRIVET_REQUIRE(p->pixels >= 2 && p->pixels % 2 == 0 && p->pixels <= TRIVET_MAX_POSITION);
    const uint32_t steps = window_steps(p), words = chunk_words(p->pixels, steps);
    TRIVET_REQUIRE(words <= STACK_BYTES / 4 || (words <= UINT32_MAX / 4 && check->scratch_bytes >= 4 * words));
    const uint32_t channels = p->out_channels + p->out_channels % TRIVET_PAIR;
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(channels, 4 * steps));
    TRIVET_REQUIRE(trivet_dsp_rescale_is_sound(check->constants, &p->rescale, p->form, TRIVET_PAIR, channels));
    return TRIVET_OK;
}
