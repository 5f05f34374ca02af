/* Windowed pools on int8: channels side by side, the taps inside the operand one after the other. */
#include "pool_window.h"
#include "trivet/kernels/pool.h"

enum { CHUNK = 64 }; /* channels at a time */

static void max_chunk(const trivet_window *w, uint32_t channel, uint32_t count, int8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        out[i] = -128;
    }
    for (uint32_t ky = w->rows.first; ky < w->rows.last; ky++) {
        for (uint32_t kx = w->columns.first; kx < w->columns.last; kx++) {
            const int8_t *x = (const int8_t *)trivet_tap(w, ky, kx, 1) + channel;
            for (uint32_t i = 0; i < count; i++) {
                out[i] = x[i] > out[i] ? x[i] : out[i];
            }
        }
    }
}

static void max_pixel(const trivet_max_pool_s8_record *p, const trivet_window *w, int8_t *out) {
    for (uint32_t channel = 0; channel < p->channels; channel += CHUNK) {
        int8_t largest[CHUNK];
        uint32_t count = trivet_minimum(p->channels - channel, CHUNK);
        max_chunk(w, channel, count, largest);
        for (uint32_t i = 0; i < count; i++) {
            int32_t v = largest[i];
            v = v < p->lo ? p->lo : v;
            out[channel + i] = (int8_t)(v > p->hi ? p->hi : v);
        }
    }
}

trivet_status trivet_max_pool_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_max_pool_s8_record *p = (const trivet_max_pool_s8_record *)call->params;
    for (uint32_t oy = row; oy < row + rows; oy++) {
        int8_t *out = (int8_t *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, out += p->channels) {
            trivet_window w = TRIVET_WINDOW(p, &call->inputs[0], oy, ox);
            max_pixel(p, &w, out);
        }
    }
    return TRIVET_OK;
}

static void sum_chunk(const trivet_window *w, uint32_t channel, uint32_t count, int32_t *sums) {
    for (uint32_t ky = w->rows.first; ky < w->rows.last; ky++) {
        for (uint32_t kx = w->columns.first; kx < w->columns.last; kx++) {
            const int8_t *x = (const int8_t *)trivet_tap(w, ky, kx, 1) + channel;
            for (uint32_t i = 0; i < count; i++) {
                sums[i] += x[i];
            }
        }
    }
}

static int8_t clamped(int32_t v, const trivet_average_pool_s8_record *p) {
    return (int8_t)(v < p->lo ? p->lo : v > p->hi ? p->hi : v);
}

/* Means of the stored integers, moved by `offset` before the rounding: halves away from zero. A float64 quotient of
 * two int32 is never rounded up to the next integer. */
static void stored_means(const trivet_average_pool_s8_record *p, const int32_t *sums, uint32_t taps, uint32_t count,
                         int8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t sum = sums[i] + p->offset * (int32_t)taps;
        int32_t mean = (int32_t)((double)((sum < 0 ? -sum : sum) + (int32_t)(taps / 2)) / (double)taps);
        out[i] = clamped((sum < 0 ? -mean : mean) - p->offset, p);
    }
}

/* Means of the real values at another scale: halves to even. */
static void rescaled_means(const trivet_average_pool_s8_record *p, double scale, const int32_t *sums, uint32_t taps,
                           uint32_t count, int8_t *out) {
    const double limit = 1073741824.0;
    for (uint32_t i = 0; i < count; i++) {
        double v = (double)(sums[i] - p->in_zero * (int32_t)taps) / (double)taps * scale;
        v = v < -limit ? -limit : v > limit ? limit : v;
        int32_t whole = (int32_t)v;
        double rest = v - whole;
        int32_t odd = whole & 1;
        whole += ((rest > 0.5) | ((rest == 0.5) & odd)) - ((rest < -0.5) | ((rest == -0.5) & odd));
        out[i] = clamped(whole + p->out_zero, p);
    }
}

static void average_pixel(const trivet_average_pool_s8_record *p, const double *scale, const trivet_window *w, int8_t *out) {
    uint32_t inside = (w->rows.last - w->rows.first) * (w->columns.last - w->columns.first);
    uint32_t taps = p->count_include_pad ? (uint32_t)p->kernel_h * p->kernel_w : inside;
    for (uint32_t channel = 0; channel < p->channels; channel += CHUNK) {
        int32_t sums[CHUNK];
        uint32_t count = trivet_minimum(p->channels - channel, CHUNK);
        for (uint32_t i = 0; i < count; i++) {
            sums[i] = p->in_zero * (int32_t)(taps - inside);
        }
        sum_chunk(w, channel, count, sums);
        if (scale == NULL) {
            stored_means(p, sums, taps, count, out + channel);
        } else {
            rescaled_means(p, *scale, sums, taps, count, out + channel);
        }
    }
}

trivet_status trivet_average_pool_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_average_pool_s8_record *p = (const trivet_average_pool_s8_record *)call->params;
    const double *scale = (const double *)(const void *)trivet_blob_data(call->constants, &p->scale);
    for (uint32_t oy = row; oy < row + rows; oy++) {
        int8_t *out = (int8_t *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, out += p->channels) {
            trivet_window w = TRIVET_WINDOW(p, &call->inputs[0], oy, ox);
            average_pixel(p, scale, &w, out);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_max_pool_s8_check(const trivet_check *check) {
    const trivet_max_pool_s8_record *p = (const trivet_max_pool_s8_record *)check->params;
    TRIVET_CHECK_POOL(p, check, 1, TRIVET_I8);
    TRIVET_REQUIRE(p->lo >= -128 && p->hi <= 127);
    return TRIVET_OK;
}

/* True iff no window is padding alone: it would be divided by no taps. */
static bool windows_touch(const trivet_average_pool_s8_record *p, uint32_t in_height, uint32_t out_height) {
    int64_t last_row = (int64_t)(out_height - 1) * p->stride_h - p->pad_top;
    int64_t last_column = (int64_t)(p->out_width - 1) * p->stride_w - p->pad_left;
    return p->pad_top < p->kernel_h && p->pad_left < p->kernel_w && last_row < in_height && last_column < p->in_width;
}

trivet_status trivet_average_pool_s8_check(const trivet_check *check) {
    const trivet_average_pool_s8_record *p = (const trivet_average_pool_s8_record *)check->params;
    const double *scale = (const double *)(const void *)trivet_blob_data(check->constants, &p->scale);
    TRIVET_CHECK_POOL(p, check, 1, TRIVET_I8);
    TRIVET_REQUIRE(p->lo >= -128 && p->hi <= 127 && p->dilation_h == 1 && p->dilation_w == 1);
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127 && p->out_zero >= -128 && p->out_zero <= 127);
    TRIVET_REQUIRE(p->offset == 0 || p->offset == 128);
    TRIVET_REQUIRE(trivet_product(p->kernel_h, p->kernel_w) <= 1u << 20);
    TRIVET_REQUIRE(p->scale.bytes == 0 || p->scale.bytes == 8);
    TRIVET_REQUIRE(scale == NULL || (*scale >= 0.0 && *scale <= 1e30));
    TRIVET_REQUIRE(windows_touch(p, check->inputs[0].height, check->outputs[0].height));
    return TRIVET_OK;
}
