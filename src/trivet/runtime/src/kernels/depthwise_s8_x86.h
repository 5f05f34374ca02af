/* Depthwise sums with 16-bit multiply-add of tap pairs, channels in lanes. Included by the files of the x86 sets, which
 * define the vector type and its operations; there is no include guard for that reason.
 *
 * A unit is HALF_BYTES channels: of one pixel, or of several neighbouring pixels where a pixel has few. Two taps are
 * interleaved channel by channel, so each 32-bit lane sums both. */

enum { MAX_PAIRS = (TRIVET_MAX_TAPS + 1) / 2 };

/* What a unit needs beside the operand, replicated for every pixel of the unit. */
typedef struct unit {
    VECTOR weights[MAX_PAIRS][2];
    VECTOR bias[2];
    params_vector params[2];
    uint32_t pairs;
} unit;

/* `channels` bytes from each of the pixels of a unit; lanes beyond them are zero. */
INLINE VECTOR gather(const int8_t *data, size_t stride, uint32_t channels, uint32_t pixels) {
    if (pixels == 1) {
        return WIDEN_SOME(data, channels);
    }
    if (channels == 16 && pixels == HALF_BYTES / 16) {
        return GATHER_16(data, stride);
    }
    if (channels == 8 && pixels == HALF_BYTES / 8) {
        return GATHER_8(data, stride);
    }
    int8_t bytes[HALF_BYTES] = {0};
    for (uint32_t p = 0; p < pixels; p++) {
        memcpy(bytes + p * channels, data + p * stride, channels);
    }
    return WIDEN(bytes);
}

/* Fills the unit of channels [channel, channel + channels), for `pixels` pixels each. */
TARGET static void fill_unit(unit *u, const trivet_depthwise_s8 *g, uint32_t channel, uint32_t channels,
                             uint32_t pixels) {
    int8_t none[HALF_BYTES];
    int32_t bias[HALF_BYTES], mantissas[HALF_BYTES];
    int8_t shifts[HALF_BYTES];
    memset(none, (int8_t)g->weight_zero, sizeof none);
    u->pairs = (g->taps + 1) / 2;
    for (uint32_t i = 0; i < u->pairs; i++) {
        const int8_t *first = g->weights + (size_t)(2 * i) * g->channels + channel;
        VECTOR a = SUB_WORDS(gather(first, 0, channels, pixels), SET_WORDS(g->weight_zero));
        bool last = 2 * i + 1 == g->taps;
        VECTOR b = SUB_WORDS(gather(last ? none : first + g->channels, 0, channels, pixels), SET_WORDS(g->weight_zero));
        u->weights[i][0] = UNPACK_LOW(a, b);
        u->weights[i][1] = UNPACK_HIGH(a, b);
    }
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            uint32_t from = channel + CHANNEL_OF(half, lane) % channels;
            bias[lane] = g->requant.bias[from];
            mantissas[lane] = g->requant.rounding == TRIVET_ROUND_Q31 ? g->requant.mantissas[from] : 0;
            shifts[lane] = g->requant.rounding == TRIVET_ROUND_Q31 ? g->requant.shifts[from] : 0;
        }
        trivet_requant_s8 permuted = g->requant;
        permuted.bias = bias;
        permuted.mantissas = mantissas;
        permuted.shifts = shifts;
        u->params[half] = LOAD_PARAMS(&permuted);
        u->bias[half] = LOAD(bias);
    }
}

/* Requantizes by the portable code: sums in the order of channels. */
TARGET static void requantize_unit(const trivet_depthwise_s8 *g, const VECTOR sums[2], uint32_t channel,
                                   uint32_t channels, uint32_t pixels, int8_t *out) {
    int32_t halves[2][LANES], ordered[HALF_BYTES];
    STORE(halves[0], sums[0]);
    STORE(halves[1], sums[1]);
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            ordered[CHANNEL_OF(half, lane)] = halves[half][lane];
        }
    }
    for (uint32_t p = 0; p < pixels; p++) {
        trivet_requantize_s8(&g->requant, channel, ordered + p * channels, channels, out + (size_t)p * channels);
    }
}

/* One unit: P pixels of it if it is contiguous in the operand, else gathered. */
INLINE void run_unit(const trivet_depthwise_s8 *g, const unit *u, const trivet_segment_s8 *taps, uint32_t pixel,
                     uint32_t channel, uint32_t channels, uint32_t pixels, bool gathered, uint32_t tap_count,
                     int8_t *out) {
    VECTOR sums[2] = {u->bias[0], u->bias[1]};
    for (uint32_t t = 0; t < tap_count; t += 2) {
        const trivet_segment_s8 *first = &taps[t], *second = &taps[t + 1 < tap_count ? t + 1 : t];
        const int8_t *x = first->data + pixel * first->stride + channel;
        const int8_t *y = second->data + pixel * second->stride + channel;
        VECTOR a = gathered ? gather(x, first->stride, channels, pixels) : WIDEN(x);
        VECTOR b = gathered ? gather(y, second->stride, channels, pixels) : WIDEN(y);
        sums[0] = MULTIPLY_ADD(sums[0], UNPACK_LOW(a, b), u->weights[t / 2][0]);
        sums[1] = MULTIPLY_ADD(sums[1], UNPACK_HIGH(a, b), u->weights[t / 2][1]);
    }
    if (g->requant.rounding != TRIVET_ROUND_Q31) {
        requantize_unit(g, sums, channel, channels, pixels, out);
        return;
    }
    bool left = g->requant.left_shifts;
    sums[0] = rescale(sums[0], &u->params[0], left);
    sums[1] = rescale(sums[1], &u->params[1], left);
    if (pixels * channels == HALF_BYTES) {
        pack_store(sums[0], sums[1], &g->requant, out);
    } else {
        int8_t bytes[HALF_BYTES];
        pack_store(sums[0], sums[1], &g->requant, bytes);
        memcpy(out, bytes, (size_t)pixels * channels);
    }
}

INLINE void run_pixels(const trivet_depthwise_s8 *g, const unit *u, const trivet_segment_s8 *taps, uint32_t pixels,
                       uint32_t channel, uint32_t channels, uint32_t step, bool gathered, uint32_t tap_count,
                       int8_t *out) {
    for (uint32_t p = 0; p < pixels; p += step) {
        run_unit(g, u, taps, p, channel, channels, step, gathered, tap_count, out + (size_t)p * g->channels + channel);
    }
}

/* Channels that fill a unit, pixel by pixel. */
TARGET static void full_units(const trivet_depthwise_s8 *g, const trivet_segment_s8 *taps, uint32_t pixels,
                              uint32_t channel, int8_t *out) {
    unit u;
    fill_unit(&u, g, channel, HALF_BYTES, 1);
    if (g->taps == 9) {
        run_pixels(g, &u, taps, pixels, channel, HALF_BYTES, 1, false, 9, out);
    } else {
        run_pixels(g, &u, taps, pixels, channel, HALF_BYTES, 1, false, g->taps, out);
    }
}

/* True iff every tap's pixels follow each other without gaps. */
TARGET static bool is_dense(const trivet_depthwise_s8 *g, const trivet_segment_s8 *taps) {
    for (uint32_t t = 0; t < g->taps; t++) {
        if (taps[t].stride != g->channels) {
            return false;
        }
    }
    return true;
}

/* All channels of a few pixels in each unit; returns how many pixels were made. */
TARGET static uint32_t shared_units(const trivet_depthwise_s8 *g, const trivet_segment_s8 *taps, uint32_t pixels,
                                    int8_t *out) {
    uint32_t step = HALF_BYTES / g->channels;
    uint32_t count = pixels - pixels % step;
    unit u;
    fill_unit(&u, g, 0, g->channels, step);
    if (!is_dense(g, taps)) {
        if (g->channels == 16) {
            run_pixels(g, &u, taps, count, 0, 16, HALF_BYTES / 16, true, g->taps, out);
        } else if (g->channels == 8) {
            run_pixels(g, &u, taps, count, 0, 8, HALF_BYTES / 8, true, g->taps, out);
        } else {
            run_pixels(g, &u, taps, count, 0, g->channels, step, true, g->taps, out);
        }
    } else if (g->taps == 9) {
        run_pixels(g, &u, taps, count, 0, g->channels, step, false, 9, out);
    } else {
        run_pixels(g, &u, taps, count, 0, g->channels, step, false, g->taps, out);
    }
    return count;
}

/* Channels that do not fill a unit, pixel by pixel. */
TARGET static void part_units(const trivet_depthwise_s8 *g, const trivet_segment_s8 *taps, uint32_t first,
                              uint32_t pixels, uint32_t channel, int8_t *out) {
    unit u;
    uint32_t channels = g->channels - channel;
    fill_unit(&u, g, channel, channels, 1);
    for (uint32_t p = first; p < pixels; p++) {
        run_unit(g, &u, taps, p, channel, channels, 1, true, g->taps, out + (size_t)p * g->channels + channel);
    }
}

TARGET static void depthwise(const trivet_depthwise_s8 *g, const trivet_segment_s8 *taps, uint32_t pixels,
                             int8_t *out) {
    uint32_t channel = 0, first = 0;
    for (; channel + HALF_BYTES <= g->channels; channel += HALF_BYTES) {
        full_units(g, taps, pixels, channel, out);
    }
    if (g->channels < HALF_BYTES && HALF_BYTES % g->channels == 0 && pixels >= HALF_BYTES / g->channels) {
        first = shared_units(g, taps, pixels, out);
    }
    if (channel < g->channels && first < pixels) {
        part_units(g, taps, first, pixels, channel, out);
    }
}
