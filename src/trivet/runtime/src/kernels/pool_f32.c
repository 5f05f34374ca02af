/* Windowed pools on float32: channels side by side, the taps inside the operand one after the other. */
#include <float.h>

#include "pool_window.h"
#include "trivet/kernels/pool.h"

enum { CHUNK = 32 }; /* channels at a time */

static const float *tap(const trivet_window *w, uint32_t ky, uint32_t kx, uint32_t channel) {
    return (const float *)(const void *)trivet_tap(w, ky, kx, sizeof(float)) + channel;
}

static void clamp_chunk(float *values, uint32_t count, float lo, float hi, float *out) {
    for (uint32_t i = 0; i < count; i++) {
        float v = values[i] < lo ? lo : values[i];
        out[i] = v > hi ? hi : v;
    }
}

static void max_chunk(const trivet_window *w, uint32_t channel, uint32_t count, float *largest) {
    for (uint32_t i = 0; i < count; i++) {
        largest[i] = -FLT_MAX;
    }
    for (uint32_t ky = w->rows.first; ky < w->rows.last; ky++) {
        for (uint32_t kx = w->columns.first; kx < w->columns.last; kx++) {
            const float *x = tap(w, ky, kx, channel);
            for (uint32_t i = 0; i < count; i++) {
                largest[i] = x[i] > largest[i] ? x[i] : largest[i];
            }
        }
    }
}

trivet_status trivet_max_pool_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_max_pool_f32_record *p = (const trivet_max_pool_f32_record *)call->params;
    float values[CHUNK];
    for (uint32_t oy = row; oy < row + rows; oy++) {
        float *out = (float *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, out += p->channels) {
            trivet_window w = TRIVET_WINDOW(p, &call->inputs[0], oy, ox);
            for (uint32_t channel = 0; channel < p->channels; channel += CHUNK) {
                uint32_t count = trivet_minimum(p->channels - channel, CHUNK);
                max_chunk(&w, channel, count, values);
                clamp_chunk(values, count, p->lo, p->hi, out + channel);
            }
        }
    }
    return TRIVET_OK;
}

static void average_chunk(const trivet_window *w, uint32_t taps, uint32_t channel, uint32_t count, float *means) {
    for (uint32_t i = 0; i < count; i++) {
        means[i] = 0.0f;
    }
    for (uint32_t ky = w->rows.first; ky < w->rows.last; ky++) {
        for (uint32_t kx = w->columns.first; kx < w->columns.last; kx++) {
            const float *x = tap(w, ky, kx, channel);
            for (uint32_t i = 0; i < count; i++) {
                means[i] += x[i];
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        means[i] /= (float)taps;
    }
}

trivet_status trivet_average_pool_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_average_pool_f32_record *p = (const trivet_average_pool_f32_record *)call->params;
    float values[CHUNK];
    for (uint32_t oy = row; oy < row + rows; oy++) {
        float *out = (float *)(void *)trivet_row(&call->outputs[0], oy);
        for (uint32_t ox = 0; ox < p->out_width; ox++, out += p->channels) {
            trivet_window w = TRIVET_WINDOW(p, &call->inputs[0], oy, ox);
            uint32_t taps = (w.rows.last - w.rows.first) * (w.columns.last - w.columns.first);
            taps = p->count_include_pad ? (uint32_t)p->kernel_h * p->kernel_w : taps;
            for (uint32_t channel = 0; channel < p->channels; channel += CHUNK) {
                uint32_t count = trivet_minimum(p->channels - channel, CHUNK);
                average_chunk(&w, taps, channel, count, values);
                clamp_chunk(values, count, p->lo, p->hi, out + channel);
            }
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_max_pool_f32_check(const trivet_check *check) {
    const trivet_max_pool_f32_record *p = (const trivet_max_pool_f32_record *)check->params;
    TRIVET_CHECK_POOL(p, check, sizeof(float), TRIVET_F32);
    return TRIVET_OK;
}

trivet_status trivet_average_pool_f32_check(const trivet_check *check) {
    const trivet_average_pool_f32_record *p = (const trivet_average_pool_f32_record *)check->params;
    TRIVET_CHECK_POOL(p, check, sizeof(float), TRIVET_F32);
    TRIVET_REQUIRE(trivet_product(p->kernel_h, p->kernel_w) <= 1u << 20);
    return TRIVET_OK;
}
