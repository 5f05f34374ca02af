/* The portable inner loops of the float32 kernels, and the choice between the sets. */
#include "core_f32.h"

static float clamp(float v, float lo, float hi) {
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* All 16 lanes: a loop of known length becomes vectors. */
static void add_full(float *sums, const float *x, const float *w, uint32_t length) {
    for (uint32_t k = 0; k < length; k++, w += TRIVET_LANES) {
        for (uint32_t lane = 0; lane < TRIVET_LANES; lane++) {
            sums[lane] += x[k] * w[lane];
        }
    }
}

static void add_part(float *sums, const float *x, const float *w, uint32_t length, uint32_t lanes) {
    for (uint32_t k = 0; k < length; k++, w += lanes) {
        for (uint32_t lane = 0; lane < lanes; lane++) {
            sums[lane] += x[k] * w[lane];
        }
    }
}

static void gemm_block(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixel, uint32_t channel,
                       uint32_t count, float *out) {
    uint32_t lanes = (count + 3) & ~3u;
    const float *weights = g->weights + (size_t)channel * g->products;
    float sums[TRIVET_LANES] = {0};
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const float *x = segments[i].data + pixel * segments[i].stride;
        const float *w = weights + (size_t)segments[i].first * lanes;
        if (lanes == TRIVET_LANES) {
            add_full(sums, x, w, segments[i].length);
        } else {
            add_part(sums, x, w, segments[i].length, lanes);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        float sum = g->bias == NULL ? sums[i] : sums[i] + g->bias[channel + i];
        out[channel + i] = clamp(sum, g->lo, g->hi);
    }
}

static void gemm(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixels, float *out,
                 size_t out_stride) {
    for (uint32_t channel = 0; channel < g->channels; channel += TRIVET_LANES) {
        uint32_t left = g->channels - channel;
        for (uint32_t p = 0; p < pixels; p++) {
            gemm_block(g, segments, p, channel, left < TRIVET_LANES ? left : TRIVET_LANES, out + p * out_stride);
        }
    }
}

static void depthwise_block(const trivet_depthwise_f32 *g, const trivet_tap_f32 *taps, size_t offset, uint32_t channel,
                            uint32_t count, float *out) {
    float sums[TRIVET_LANES] = {0};
    for (uint32_t t = 0; t < g->taps; t++) {
        const float *x = taps[t].data + offset + channel, *w = taps[t].weights + channel;
        for (uint32_t i = 0; i < count; i++) {
            sums[i] += x[i] * w[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        float sum = g->bias == NULL ? sums[i] : sums[i] + g->bias[channel + i];
        out[channel + i] = clamp(sum, g->lo, g->hi);
    }
}

static void depthwise(const trivet_depthwise_f32 *g, const trivet_tap_f32 *taps, uint32_t pixels, float *out) {
    for (uint32_t p = 0; p < pixels; p++, out += g->channels) {
        for (uint32_t channel = 0; channel < g->channels; channel += TRIVET_LANES) {
            uint32_t left = g->channels - channel;
            depthwise_block(g, taps, p * g->stride, channel, left < TRIVET_LANES ? left : TRIVET_LANES, out);
        }
    }
}

static const trivet_core_f32 portable = {gemm, depthwise};

const trivet_core_f32 *trivet_core_f32_get(void) {
#ifdef TRIVET_X86
    switch (trivet_core_s8_get()->level) {
    case 2: return &trivet_core_f32_avx512;
    case 1: return &trivet_core_f32_avx2;
    default: break;
    }
#endif
    return &portable;
}
