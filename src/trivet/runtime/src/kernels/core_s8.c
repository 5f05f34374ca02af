/* The portable inner loops of the int8 kernels, and the choice between the sets. */
#include "core_s8.h"

static int32_t clamp(int32_t v, int32_t lo, int32_t hi) { return v < lo ? lo : v > hi ? hi : v; }

static int32_t clamped_sum(int64_t v, const trivet_requant_s8 *r) {
    v += r->zero;
    return (int32_t)(v < r->lo ? r->lo : v > r->hi ? r->hi : v);
}

/* Rounding right shift of an int32 in 64 bits, half away from zero. */
static int64_t rounding_shift(int64_t v, int32_t shift) {
    return shift == 0 ? v : (v + (v >> 63) + (INT64_C(1) << (shift - 1))) >> shift;
}

static void requantize_q31(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                           int8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t shift = r->shifts[channel + i];
        int32_t sum = shift > 0 ? (int32_t)((uint32_t)sums[i] << shift) : sums[i];
        int64_t high = ((int64_t)sum * r->mantissas[channel + i] + (INT64_C(1) << 30)) >> 31;
        out[i] = (int8_t)clamped_sum(rounding_shift(high, shift > 0 ? 0 : -shift), r);
    }
}

/* Far beyond every stored integer, and small enough for the roundings below to be exact. */
static const double limit = 1073741824.0;

static double limited(double v) { return v < -limit ? -limit : v > limit ? limit : v; }

static void requantize_away(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                            int8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        double v = limited(sums[i] * r->scales[channel + i]);
        int32_t whole = (int32_t)v;
        double rest = v - whole;
        whole += (rest >= 0.5) - (rest <= -0.5);
        out[i] = (int8_t)clamp(whole + r->zero, r->lo, r->hi);
    }
}

static void requantize_even(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                            int8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        double v = limited(sums[i] * r->scales[channel + i]);
        int32_t whole = (int32_t)v;
        double rest = v - whole;
        int32_t odd = whole & 1;
        whole += ((rest > 0.5) | ((rest == 0.5) & odd)) - ((rest < -0.5) | ((rest == -0.5) & odd));
        out[i] = (int8_t)clamp(whole + r->zero, r->lo, r->hi);
    }
}

void trivet_requantize_s8(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                          int8_t *out) {
    switch (r->rounding) {
    case TRIVET_ROUND_Q31: requantize_q31(r, channel, sums, count, out); break;
    case TRIVET_ROUND_AWAY: requantize_away(r, channel, sums, count, out); break;
    default: requantize_even(r, channel, sums, count, out); break;
    }
}

/* Sums are kept modulo 2^32, as the contracts do. */
static uint32_t product(int32_t x, int32_t w) { return (uint32_t)(x * w); }

static void add_segment(uint32_t *sums, const int8_t *x, const int8_t *weights, uint32_t lanes, uint32_t steps,
                        int32_t zero) {
    for (uint32_t s = 0; s < steps; s++) {
        int32_t x0 = x[4 * s], x1 = x[4 * s + 1], x2 = x[4 * s + 2], x3 = x[4 * s + 3];
        const int8_t *w = weights + (size_t)s * lanes * 4;
        for (uint32_t lane = 0; lane < lanes; lane++, w += 4) {
            sums[lane] += product(x0, w[0] - zero) + product(x1, w[1] - zero) + product(x2, w[2] - zero) +
                          product(x3, w[3] - zero);
        }
    }
}

/* Some channels of one pixel. */
static void gemm_block(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t row, uint32_t pixel,
                       uint32_t channel, uint32_t count, int8_t *out) {
    uint32_t lanes = (count + 3) & ~3u;
    const int8_t *weights = g->weights + (size_t)channel * g->steps * 4;
    uint32_t sums[TRIVET_LANES] = {0};
    int32_t total[TRIVET_LANES];
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const trivet_segment_s8 *segment = &segments[i];
        add_segment(sums, segment->data + row * g->row_stride + pixel * segment->stride, weights + (size_t)segment->first_step * lanes * 4,
                    lanes, g->segment_steps, g->weight_zero);
    }
    for (uint32_t i = 0; i < count; i++) {
        total[i] = (int32_t)(sums[i] + (uint32_t)g->requant.bias[channel + i]);
    }
    trivet_requantize_s8(&g->requant, channel, total, count, out + channel);
}

static void gemm(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                 size_t out_stride) {
    for (uint32_t channel = 0; channel < g->channels; channel += TRIVET_LANES) {
        uint32_t left = g->channels - channel;
        for (uint32_t i = 0; i < g->rows * pixels; i++) {
            uint32_t row = i / pixels, p = i % pixels;
            gemm_block(g, segments, row, p, channel, left < TRIVET_LANES ? left : TRIVET_LANES,
                       out + row * g->out_row_stride + p * out_stride);
        }
    }
}

static void depthwise_block(const trivet_depthwise_s8 *g, const int8_t *const *taps, uint32_t pixel,
                            uint32_t channel, uint32_t count, int8_t *out) {
    uint32_t sums[TRIVET_LANES];
    int32_t total[TRIVET_LANES];
    for (uint32_t i = 0; i < count; i++) {
        sums[i] = (uint32_t)g->requant.bias[channel + i];
    }
    for (uint32_t t = 0; t < g->taps; t++) {
        const int8_t *x = taps[t] + pixel * g->stride + channel;
        const int8_t *w = g->weights + (size_t)t * g->channels + channel;
        for (uint32_t i = 0; i < count; i++) {
            sums[i] += product(x[i], w[i] - g->weight_zero);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        total[i] = (int32_t)sums[i];
    }
    trivet_requantize_s8(&g->requant, channel, total, count, out + channel);
}

static void depthwise(const trivet_depthwise_s8 *g, const int8_t *const *taps, uint32_t rows, uint32_t pixels,
                      int8_t *out) {
    for (uint32_t r = 0; r < rows; r++, taps += g->taps) {
        for (uint32_t p = 0; p < pixels; p++, out += g->channels) {
            for (uint32_t channel = 0; channel < g->channels; channel += TRIVET_LANES) {
                uint32_t left = g->channels - channel;
                depthwise_block(g, taps, p, channel, left < TRIVET_LANES ? left : TRIVET_LANES, out);
            }
        }
    }
}

static void linear(const trivet_linear_s8 *g, const int8_t *a, const int8_t *b, int8_t *out, uint32_t count) {
    const trivet_linear_s8 c = *g; /* a copy that no store can change */
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (int8_t)clamp((a[i] * c.a_factor + b[i] * c.b_factor + c.constant) >> c.shift, c.lo, c.hi);
    }
}

const trivet_core_s8 trivet_core_s8_portable = {"portable", 0, gemm, depthwise, linear};

#ifdef TRIVET_X86
static uint32_t available(const trivet_core_s8 **sets) {
    uint32_t count = 0;
    sets[count++] = &trivet_core_s8_portable;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sets[count++] = &trivet_core_s8_avx2;
    }
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        sets[count++] = &trivet_core_s8_avx512;
    }
    return count;
}

static const trivet_core_s8 *chosen; /* set once to the same value by whichever thread comes first */

const trivet_core_s8 *trivet_core_s8_at(uint32_t index) {
    const trivet_core_s8 *sets[3];
    return index < available(sets) ? sets[index] : NULL;
}

void trivet_core_s8_choose(uint32_t index) {
    const trivet_core_s8 *sets[3];
    uint32_t count = available(sets);
    chosen = sets[index < count ? index : count - 1];
}

const trivet_core_s8 *trivet_core_s8_get(void) {
    if (chosen == NULL) {
        trivet_core_s8_choose(UINT32_MAX);
    }
    return chosen;
}
#else
const trivet_core_s8 *trivet_core_s8_at(uint32_t index) { return index == 0 ? &trivet_core_s8_portable : NULL; }

void trivet_core_s8_choose(uint32_t index) { (void)index; }

const trivet_core_s8 *trivet_core_s8_get(void) { return &trivet_core_s8_portable; }
#endif
