/* depthwise_conv2d on int8 with windows of 3 x 3 for Helium: 16 channels at a time, or 8 channels of two pixels. */
#include "depthwise_mve.h"
#include "trivet/kernels/depthwise_mve.h"
#include "windows.h"

/* Zero points for so many channels are on the stack; for more they need scratch
 * (backends/plan/kernels/depthwise_mve.py). */
#define STACK_BYTES 256u
#define KERNEL 3u
#define HALF (TRIVET_MVE_BYTES / 2)

typedef struct job {
    const trivet_depthwise_mve_s8_record *p;
    const trivet_view *x, *y;
    trivet_depthwise_mve g;
    const int8_t *rows[KERNEL]; /* NULL: padding */
    int8_t *zeros;              /* a pixel of zero points */
    uint32_t unit;              /* pixels that are made together: 2 with 8 channels */
    trivet_range interior;      /* whose windows lie inside the columns */
    int8_t halves[TRIVET_MVE_TAPS][TRIVET_MVE_BYTES];
} job;

static void set_up(job *j, const trivet_call *call, int8_t *stack) {
    const trivet_depthwise_mve_s8_record *p = (const trivet_depthwise_mve_s8_record *)call->params;
    const trivet_mve_rescale rescale = {p->out_zero, p->lo, p->hi, p->is_signed};
    j->p = p;
    j->x = &call->inputs[0];
    j->y = &call->outputs[0];
    j->g.weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    j->g.numbers = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->numbers);
    j->g.rescale = rescale;
    j->unit = p->channels == HALF ? 2 : 1;
    j->interior = trivet_interior(p->in_width, p->out_width, p->stride_w, p->pad_left, KERNEL);
    j->zeros = p->channels <= STACK_BYTES ? stack : (int8_t *)call->scratch;
    memset(j->zeros, p->in_zero, p->channels < TRIVET_MVE_BYTES ? TRIVET_MVE_BYTES : p->channels);
}

/* Taps of the pixels at ox, of which those beyond the operand are zero points. */
static void place_taps(job *j, uint32_t ox) {
    const uint32_t channels = j->p->channels;
    const int32_t ix = (int32_t)(ox * j->p->stride_w) - j->p->pad_left;
    const int8_t **tap = j->g.taps;
    for (uint32_t ky = 0; ky < KERNEL; ky++, tap += KERNEL) {
        const int8_t *row = j->rows[ky];
        const int8_t *at = row == NULL ? j->zeros : row + (ptrdiff_t)ix * (ptrdiff_t)channels;
        const size_t step = row == NULL ? 0 : channels;
        tap[0] = at;
        tap[1] = at + step;
        tap[2] = at + 2 * step;
    }
    for (int32_t kx = 0; kx < (int32_t)KERNEL; kx++) {
        if (ix + kx < 0 || ix + kx >= (int32_t)j->p->in_width) {
            j->g.taps[kx] = j->g.taps[kx + 3] = j->g.taps[kx + 6] = j->zeros;
        }
    }
}

/* The same of two pixels with 8 channels each, not all inside. */
static void place_halves(job *j, uint32_t ox) {
    const int8_t *first[TRIVET_MVE_TAPS];
    place_taps(j, ox);
    memcpy(first, j->g.taps, sizeof first);
    place_taps(j, ox + 1);
    for (uint32_t t = 0; t < TRIVET_MVE_TAPS; t++) {
        memcpy(j->halves[t], first[t], HALF);
        memcpy(j->halves[t] + HALF, j->g.taps[t], HALF);
        j->g.taps[t] = j->halves[t];
    }
}

/* `count` units from pixel ox on. Blocks beyond the last whole one are the last 16 channels. */
static void run_units(job *j, uint32_t ox, uint32_t count, bool inside, int8_t *row_out) {
    const uint32_t channels = j->unit * j->p->channels;
    trivet_depthwise_mve *g = &j->g;
    if (j->unit == 1 || inside) {
        place_taps(j, ox);
    } else {
        place_halves(j, ox);
    }
    g->pixels = count;
    g->blocks = channels / TRIVET_MVE_BYTES;
    g->out = row_out + (size_t)ox * j->p->channels;
    g->out_skip = channels - g->blocks * TRIVET_MVE_BYTES;
    for (uint32_t ky = 0; ky < KERNEL; ky++) {
        const int32_t step = j->rows[ky] == NULL ? 0 : (int32_t)(j->p->stride_w * channels);
        g->skips[ky] = step - (int32_t)(g->blocks * TRIVET_MVE_BYTES);
    }
    trivet_depthwise_mve_run(g);
    if (g->out_skip > 0) {
        trivet_depthwise_mve last = *g;
        const uint32_t from = channels - TRIVET_MVE_BYTES, moved = (g->blocks - 1) * TRIVET_MVE_BYTES;
        for (uint32_t t = 0; t < TRIVET_MVE_TAPS; t++) {
            last.taps[t] += from;
            last.skips[t / KERNEL] = g->skips[t / KERNEL] + (int32_t)moved;
        }
        last.out += from;
        last.out_skip += moved;
        last.weights += (size_t)g->blocks * TRIVET_MVE_TAPS * TRIVET_MVE_BYTES;
        last.numbers += (size_t)g->blocks * TRIVET_MVE_BYTES * TRIVET_MVE_NUMBERS;
        last.blocks = 1;
        trivet_depthwise_mve_run(&last);
    }
}

static void run_row(job *j, uint32_t oy) {
    const uint32_t width = j->p->out_width;
    int8_t *out = (int8_t *)trivet_row(j->y, oy);
    const int32_t iy = (int32_t)(oy * j->p->stride_h) - j->p->pad_top;
    for (uint32_t ky = 0; ky < KERNEL; ky++) {
        j->rows[ky] = (const int8_t *)trivet_window_row(j->x, iy + (int32_t)ky);
    }
    for (uint32_t ox = 0; ox < width;) {
        uint32_t count = 1;
        ox = trivet_minimum(ox, width - j->unit); /* of an odd number of pixels, one is made twice */
        const bool inside = ox >= j->interior.first && ox + j->unit <= j->interior.last;
        if (inside) {
            count = (j->interior.last - ox) / j->unit;
        }
        run_units(j, ox, count, inside, out);
        ox += count * j->unit;
    }
}

trivet_status trivet_depthwise_mve_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    int8_t stack[STACK_BYTES];
    job j;
    set_up(&j, call, stack);
    for (uint32_t i = 0; i < rows; i++) {
        run_row(&j, row + i);
    }
    return TRIVET_OK;
}

static bool shapes_are_sound(const trivet_depthwise_mve_s8_record *p, const trivet_tensor_info *x,
                             const trivet_tensor_info *y) {
    const bool halves = p->channels == HALF && p->stride_w == 1 && p->out_width >= 2;
    return x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && (halves || p->channels >= TRIVET_MVE_BYTES) &&
           p->channels <= TRIVET_MAX_POSITION / 16 && x->row_bytes == trivet_product(p->in_width, p->channels) &&
           y->row_bytes == trivet_product(p->out_width, p->channels) && p->kernel_h == KERNEL &&
           p->kernel_w == KERNEL && p->dilation_h == 1 && p->dilation_w == 1 &&
           trivet_product(p->stride_w, p->channels) <= TRIVET_MAX_POSITION &&
           trivet_window_is_sound(x->height, y->height, KERNEL, p->stride_h, 1, p->pad_top) &&
           trivet_window_is_sound(p->in_width, p->out_width, KERNEL, p->stride_w, 1, p->pad_left);
}

/* Sums of two products stay within int16. */
static bool weights_are_sound(const uint8_t *constants, const trivet_blob *weights) {
    const int8_t *w = (const int8_t *)trivet_blob_data(constants, weights);
    for (uint32_t i = 0; i < weights->bytes; i++) {
        if (w[i] == -128) {
            return false;
        }
    }
    return true;
}

trivet_status trivet_depthwise_mve_s8_check(const trivet_check *check) {
    const trivet_depthwise_mve_s8_record *p = (const trivet_depthwise_mve_s8_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(shapes_are_sound(p, &check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127);
    TRIVET_REQUIRE(p->channels <= STACK_BYTES || check->scratch_bytes >= p->channels);
    const uint32_t channels = (p->channels + TRIVET_MVE_BYTES - 1) / TRIVET_MVE_BYTES * TRIVET_MVE_BYTES;
    const trivet_mve_rescale rescale = {p->out_zero, p->lo, p->hi, p->is_signed};
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(channels, TRIVET_MVE_TAPS));
    TRIVET_REQUIRE(weights_are_sound(check->constants, &p->weights));
    TRIVET_REQUIRE(trivet_mve_rescale_is_sound(&rescale, check->constants, &p->numbers, channels));
    return TRIVET_OK;
}
