/* Float32 inner loops with fused multiply-add. Included by the files of the x86 sets, which define the vector type and
 * its operations; there is no include guard for that reason.
 *
 * PART is what says which lanes of a vector exist: a mask. */

/* Sums of P pixels and V vectors of channels; `part` masks the last vector. `lanes` is the pitch of the weights. */
INLINE void multiply(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixel, uint32_t channel,
                     uint32_t lanes, size_t vector_pitch, PART part, float *out, size_t out_stride, const uint32_t P,
                     const uint32_t V) {
    VECTOR acc[MAX_P][MAX_V];
#pragma GCC unroll 12
    for (uint32_t p = 0; p < P; p++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < V; v++) {
            acc[p][v] = SET(0.0f);
        }
    }
    const float *block = g->weights + (size_t)(channel / TRIVET_LANES) * TRIVET_LANES * g->products + channel % TRIVET_LANES;
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const size_t stride = segments[i].stride;
        const float *x = segments[i].data + pixel * stride;
        const float *w = block + (size_t)segments[i].first * lanes;
        for (uint32_t k = 0; k < segments[i].length; k++, x++, w += lanes) {
            VECTOR weights[MAX_V];
#pragma GCC unroll 4
            for (uint32_t v = 0; v < V; v++) {
                weights[v] = V == 1 ? LOAD_PART(w, part) : LOAD(w + v * vector_pitch);
            }
#pragma GCC unroll 12
            for (uint32_t p = 0; p < P; p++) {
                VECTOR operand = SET(x[p * stride]);
#pragma GCC unroll 4
                for (uint32_t v = 0; v < V; v++) {
                    acc[p][v] = MULTIPLY_ADD(operand, weights[v], acc[p][v]);
                }
            }
        }
    }
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; v++) {
        uint32_t here = channel + v * WIDTH;
        VECTOR bias = g->bias == NULL ? SET(0.0f) : V == 1 ? LOAD_PART(g->bias + here, part) : LOAD(g->bias + here);
#pragma GCC unroll 12
        for (uint32_t p = 0; p < P; p++) {
            VECTOR sum = MINIMUM(MAXIMUM(ADD(acc[p][v], bias), SET(g->lo)), SET(g->hi));
            float *to = out + (pixel + p) * out_stride + here;
            if (V == 1) {
                STORE_PART(to, sum, part);
            } else {
                STORE(to, sum);
            }
        }
    }
}

/* All pixels of some channels: P at a time, then 4, then 1. */
INLINE void multiply_pixels(const trivet_gemm_f32 *g, const trivet_segment_f32 *segments, uint32_t pixels,
                            uint32_t channel, uint32_t lanes, size_t vector_pitch, PART part, float *out,
                            size_t out_stride, const uint32_t P, const uint32_t V) {
    uint32_t p = 0;
    for (; p + P <= pixels; p += P) {
        multiply(g, segments, p, channel, lanes, vector_pitch, part, out, out_stride, P, V);
    }
    for (; p + 4 <= pixels; p += 4) {
        multiply(g, segments, p, channel, lanes, vector_pitch, part, out, out_stride, 4, V);
    }
    for (; p < pixels; p++) {
        multiply(g, segments, p, channel, lanes, vector_pitch, part, out, out_stride, 1, V);
    }
}

INLINE VECTOR depthwise_vector(const trivet_depthwise_f32 *g, const trivet_tap_f32 *taps, size_t offset, PART part,
                               uint32_t channel) {
    VECTOR sum = g->bias == NULL ? SET(0.0f) : LOAD_PART(g->bias + channel, part);
    for (uint32_t t = 0; t < g->taps; t++) {
        VECTOR x = LOAD_PART(taps[t].data + offset + channel, part);
        sum = MULTIPLY_ADD(x, LOAD_PART(taps[t].weights + channel, part), sum);
    }
    return MINIMUM(MAXIMUM(sum, SET(g->lo)), SET(g->hi));
}

TARGET static void depthwise(const trivet_depthwise_f32 *g, const trivet_tap_f32 *taps, uint32_t pixels, float *out) {
    for (uint32_t p = 0; p < pixels; p++, out += g->channels) {
        for (uint32_t channel = 0; channel < g->channels; channel += WIDTH) {
            PART part = PART_OF(g->channels - channel);
            STORE_PART(out + channel, depthwise_vector(g, taps, p * g->stride, part, channel), part);
        }
    }
}
