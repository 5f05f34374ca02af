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

/* Parameters of HALF_BYTES channels in the order of the lanes. */
INLINE void set_params(unit *u, const trivet_requant_s8 *r) {
    u->bias[0] = LOW_LANES(LOAD(r->bias), LOAD(r->bias + LANES));
    u->bias[1] = HIGH_LANES(LOAD(r->bias), LOAD(r->bias + LANES));
    u->params[0] = PARAMS(SET_WORDS(0), SET_WORDS(0));
    u->params[1] = u->params[0];
    if (r->rounding == TRIVET_ROUND_Q31) {
        VECTOR mantissas[2] = {LOAD(r->mantissas), LOAD(r->mantissas + LANES)};
        VECTOR shifts[2] = {LOAD_SHIFTS(r->shifts), LOAD_SHIFTS(r->shifts + LANES)};
        u->params[0] =
            PARAMS(LOW_LANES(mantissas[0], mantissas[1]), LOW_LANES(shifts[0], shifts[1]));
        u->params[1] =
            PARAMS(HIGH_LANES(mantissas[0], mantissas[1]), HIGH_LANES(shifts[0], shifts[1]));
    }
}

/* The same for fewer channels, which repeat. */
TARGET static void set_repeated_params(unit *u, const trivet_requant_s8 *r, uint32_t channel, uint32_t channels) {
    int32_t bias[HALF_BYTES], mantissas[HALF_BYTES] = {0};
    int8_t shifts[HALF_BYTES] = {0};
    trivet_requant_s8 repeated = *r;
    for (uint32_t i = 0, from = channel; i < HALF_BYTES; i++) {
        bias[i] = r->bias[from];
        if (r->rounding == TRIVET_ROUND_Q31) {
            mantissas[i] = r->mantissas[from];
            shifts[i] = r->shifts[from];
        }
        from = from + 1 == channel + channels ? channel : from + 1;
    }
    repeated.bias = bias;
    repeated.mantissas = mantissas;
    repeated.shifts = shifts;
    set_params(u, &repeated);
}

/* Fills the unit of channels [channel, channel + channels), for `pixels` pixels each. */
INLINE void fill_unit(unit *u, const trivet_depthwise_s8 *g, uint32_t channel, uint32_t channels, uint32_t pixels) {
    const VECTOR zero = SET_WORDS(g->weight_zero);
    u->pairs = (g->taps + 1) / 2;
    for (uint32_t i = 0; i < u->pairs; i++) {
        const int8_t *w = g->weights + (size_t)(2 * i) * g->channels + channel;
        VECTOR a = SUB_WORDS(gather(w, 0, channels, pixels), zero);
        VECTOR b = 2 * i + 1 == g->taps ? SET_WORDS(0) : SUB_WORDS(gather(w + g->channels, 0, channels, pixels), zero);
        u->weights[i][0] = UNPACK_LOW(a, b);
        u->weights[i][1] = UNPACK_HIGH(a, b);
    }
    if (channels == HALF_BYTES) {
        trivet_requant_s8 here = g->requant;
        here.bias += channel;
        here.mantissas = here.mantissas == NULL ? NULL : here.mantissas + channel;
        here.shifts = here.shifts == NULL ? NULL : here.shifts + channel;
        set_params(u, &here);
    } else {
        set_repeated_params(u, &g->requant, channel, channels);
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

/* One unit at `pixel`: of one pixel, or of `pixels` neighbours, which are one run of bytes unless `gathered`. */
INLINE void run_unit(const trivet_depthwise_s8 *g, const unit *u, const int8_t *const *taps, uint32_t pixel,
                     uint32_t channel, uint32_t channels, uint32_t pixels, bool gathered, uint32_t tap_count,
                     const manner how, int8_t *out) {
    const size_t offset = pixel * g->stride + channel;
    VECTOR sums[2] = {u->bias[0], u->bias[1]};
#pragma GCC unroll 5
    for (uint32_t t = 0; t < tap_count; t += 2) {
        const int8_t *x = taps[t] + offset, *y = taps[t + 1 < tap_count ? t + 1 : t] + offset;
        VECTOR a = gathered ? gather(x, g->stride, channels, pixels) : WIDEN(x);
        VECTOR b = gathered ? gather(y, g->stride, channels, pixels) : WIDEN(y);
        sums[0] = MULTIPLY_ADD(sums[0], UNPACK_LOW(a, b), u->weights[t / 2][0]);
        sums[1] = MULTIPLY_ADD(sums[1], UNPACK_HIGH(a, b), u->weights[t / 2][1]);
    }
    if (how == MANNER_FLOAT) {
        requantize_unit(g, sums, channel, channels, pixels, out);
        return;
    }
    sums[0] = rescale(sums[0], &u->params[0], how);
    sums[1] = rescale(sums[1], &u->params[1], how);
    if (pixels * channels == HALF_BYTES) {
        pack_store(sums[0], sums[1], &g->requant, out);
    } else {
        int8_t bytes[HALF_BYTES];
        pack_store(sums[0], sums[1], &g->requant, bytes);
        memcpy(out, bytes, (size_t)pixels * channels);
    }
}

/* The same pixels and channels of every row. */
typedef struct area {
    const int8_t *const *taps;
    uint32_t rows, pixels; /* of the result */
    uint32_t first, last;  /* pixels to be made */
    uint32_t channel;
    int8_t *out;
} area;

INLINE void run_area(const trivet_depthwise_s8 *g, const unit *u, const area *a, uint32_t channels, uint32_t step,
                     bool gathered, uint32_t tap_count, const manner how) {
    for (uint32_t r = 0; r < a->rows; r++) {
        const int8_t *const *taps = a->taps + r * tap_count;
        int8_t *out = a->out + (size_t)r * a->pixels * g->channels + a->channel;
        for (uint32_t p = a->first; p < a->last; p += step) {
            run_unit(g, u, taps, p, a->channel, channels, step, gathered, tap_count, how,
                     out + (size_t)p * g->channels);
        }
    }
}

/* With everything known where it is usual: 3x3 taps before a ReLU, or without one. */
INLINE void run_taps(const trivet_depthwise_s8 *g, const unit *u, const area *a, uint32_t channels, uint32_t step,
                     bool gathered) {
    const manner how = manner_of(&g->requant);
    if (g->taps == 9 && how == MANNER_RELU) {
        run_area(g, u, a, channels, step, gathered, 9, MANNER_RELU);
    } else if (g->taps == 9 && how == MANNER_USUAL) {
        run_area(g, u, a, channels, step, gathered, 9, MANNER_USUAL);
    } else {
        run_area(g, u, a, channels, step, gathered, g->taps, how);
    }
}

/* Units of all channels of a few pixels. */
TARGET static void shared_units(const trivet_depthwise_s8 *g, const area *a) {
    uint32_t step = HALF_BYTES / g->channels;
    unit u;
    if (g->channels == 8) {
        fill_unit(&u, g, 0, 8, HALF_BYTES / 8);
    } else {
        fill_unit(&u, g, 0, g->channels, step);
    }
    if (g->stride == g->channels) {
        run_taps(g, &u, a, g->channels, step, false);
    } else if (g->channels == 8) {
        run_taps(g, &u, a, 8, HALF_BYTES / 8, true);
    } else if (g->channels == 16) {
        run_taps(g, &u, a, 16, HALF_BYTES / 16, true);
    } else {
        run_taps(g, &u, a, g->channels, step, true);
    }
}

/* Channels that fill a unit, pixel by pixel. */
TARGET static void full_unit(const trivet_depthwise_s8 *g, const area *a) {
    unit u;
    fill_unit(&u, g, a->channel, HALF_BYTES, 1);
    run_taps(g, &u, a, HALF_BYTES, 1, false);
}

/* Channels that do not fill a unit, pixel by pixel. */
TARGET static void part_unit(const trivet_depthwise_s8 *g, const area *a) {
    unit u;
    fill_unit(&u, g, a->channel, g->channels - a->channel, 1);
    run_area(g, &u, a, g->channels - a->channel, 1, true, g->taps, manner_of(&g->requant));
}

TARGET static void depthwise(const trivet_depthwise_s8 *g, const int8_t *const *taps, uint32_t rows, uint32_t pixels,
                             int8_t *out) {
    area a = {taps, rows, pixels, 0, pixels, 0, out};
    for (; a.channel + HALF_BYTES <= g->channels; a.channel += HALF_BYTES) {
        full_unit(g, &a);
    }
    if (a.channel == g->channels) {
        return;
    }
    if (g->channels < HALF_BYTES && HALF_BYTES % g->channels == 0 && pixels >= HALF_BYTES / g->channels) {
        a.last = pixels - pixels % (HALF_BYTES / g->channels);
        shared_units(g, &a);
        a.first = a.last;
        a.last = pixels;
    }
    if (a.first < a.last) {
        part_unit(g, &a);
    }
}
