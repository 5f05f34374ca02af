/* The portable inner loops of the int8 kernels, and the choice between the sets. */
#include "core_s8.h"
#include "mve.h"

#include <string.h>

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

/* The same for shifts to the right by e >= 1, which one addition and one shift make: core_s8_avx512.c says why. */
static void requantize_usual(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                             int8_t *out) {
    const int32_t *mantissas = r->mantissas + channel;
    const int8_t *shifts = r->shifts + channel;
    const int64_t zero = r->zero, lo = r->lo, hi = r->hi;
    for (uint32_t i = 0; i < count; i++) {
        int32_t e = -shifts[i];
        int64_t v = (int64_t)sums[i] * mantissas[i];
        v -= (v < 0 ? INT64_C(1) : 0) << 31;
        v = ((v + (INT64_C(1) << 30) + (INT64_C(1) << (30 + e))) >> (31 + e)) + zero;
        v = v < lo ? lo : v;
        out[i] = (int8_t)(v > hi ? hi : v);
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

/* Bit i: rounding i, and shift range i of Q0.31, are in this build. One for a single network needs few, and without the
 * others no arithmetic on float64. */
#ifndef TRIVET_ROUNDINGS
#define TRIVET_ROUNDINGS 7u
#endif
#ifndef TRIVET_SHIFT_RANGES
#define TRIVET_SHIFT_RANGES 3u
#endif
#define IS_ROUNDING(kind) (TRIVET_ROUNDINGS == 1u << (kind) || ((TRIVET_ROUNDINGS >> (kind) & 1u) != 0 && r->rounding == (kind)))
#define IS_RANGE(kind) \
    (TRIVET_SHIFT_RANGES == 1u << (kind) || ((TRIVET_SHIFT_RANGES >> (kind) & 1u) != 0 && r->shift_range == (kind)))

void trivet_requantize_s8(const trivet_requant_s8 *r, uint32_t channel, const int32_t *sums, uint32_t count,
                          int8_t *out) {
    if (IS_ROUNDING(TRIVET_ROUND_Q31)) {
        if (IS_RANGE(TRIVET_SHIFTS_USUAL)) {
            requantize_usual(r, channel, sums, count, out);
        } else {
            requantize_q31(r, channel, sums, count, out);
        }
    } else if (IS_ROUNDING(TRIVET_ROUND_AWAY)) {
        requantize_away(r, channel, sums, count, out);
    } else {
        requantize_even(r, channel, sums, count, out);
    }
}

/* Sums are kept modulo 2^32, as the contracts do. */
static uint32_t product(int32_t x, int32_t w) { return (uint32_t)(x * w); }

/* Steps that a tile adds at a time: they are widened on the stack, where small machines have little room. */
#ifndef TRIVET_CHUNK_STEPS
#if UINTPTR_MAX > 0xFFFFFFFFu
#define TRIVET_CHUNK_STEPS 16
#else
#define TRIVET_CHUNK_STEPS 4
#endif
#endif

enum {
    PIXELS = 8, /* of a tile */
    CHUNK = 4 * TRIVET_CHUNK_STEPS
};

/* Operands of a chunk as int16, products side by side: sums of products of two int16 are what compilers make vectors
 * of. */
typedef struct chunk {
    int16_t x[PIXELS][CHUNK];
    int16_t w[TRIVET_LANES][CHUNK];
    uint32_t products; /* a multiple of 8; those beyond the last are zero */
    bool has_weights;  /* the weights of the only chunk are there from the tile before */
} chunk;

/* Where the steps of all segments are read, one after the other. */
typedef struct cursor {
    uint32_t segment, step;
} cursor;

/* A tile: some pixels of a row, and the channels of a block. */
typedef struct tile {
    uint32_t row, pixel, pixels;
    uint32_t channel, channels, lanes;
} tile;

static void widen_operand(int16_t (*to)[CHUNK], uint32_t at, const int8_t *x, size_t stride, uint32_t pixels) {
    for (uint32_t p = 0; p < pixels; p++, x += stride) {
        for (uint32_t k = 0; k < 4; k++) {
            to[p][at + k] = x[k];
        }
    }
}

static void widen_weights(int16_t (*to)[CHUNK], uint32_t at, const int8_t *w, uint32_t lanes, int16_t zero) {
    for (uint32_t lane = 0; lane < lanes; lane++, w += 4) {
        for (uint32_t k = 0; k < 4; k++) {
            to[lane][at + k] = (int16_t)(w[k] - zero);
        }
    }
}

/* The next steps of the segments; returns false when there are none left. */
static bool fill_chunk(chunk *c, const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, const tile *t,
                       cursor *from) {
    const int8_t *weights = g->weights + (size_t)t->channel * g->steps * 4;
    uint32_t at = 0;
    for (; at < CHUNK && from->segment < g->segment_count; at += 4) {
        const trivet_segment_s8 *s = &segments[from->segment];
        const int8_t *x = s->data + t->row * g->row_stride + t->pixel * s->stride + 4 * (size_t)from->step;
        const int8_t *w = weights + (size_t)(s->first_step + from->step) * t->lanes * 4;
        widen_operand(c->x, at, x, s->stride, t->pixels);
        if (!c->has_weights) {
            widen_weights(c->w, at, w, t->lanes, (int16_t)g->weight_zero);
        }
        if (++from->step == g->segment_steps) {
            from->step = 0;
            from->segment++;
        }
    }
    c->products = at;
    if (at % 8 != 0) {
        for (uint32_t p = 0; p < t->pixels; p++) {
            memset(c->x[p] + at, 0, 4 * sizeof(int16_t));
        }
        for (uint32_t lane = 0; lane < t->lanes; lane++) {
            memset(c->w[lane] + at, 0, 4 * sizeof(int16_t));
        }
        c->products += 4;
    }
    return at > 0;
}

/* Adds the products of 2 pixels and 4 channels. */
static void add_2x4(const int16_t *x, const int16_t *y, const int16_t (*w)[CHUNK], uint32_t products, uint32_t *a,
                    uint32_t *b) {
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
    for (uint32_t k = 0; k < products; k++) {
        a0 += x[k] * w[0][k];
        a1 += x[k] * w[1][k];
        a2 += x[k] * w[2][k];
        a3 += x[k] * w[3][k];
        b0 += y[k] * w[0][k];
        b1 += y[k] * w[1][k];
        b2 += y[k] * w[2][k];
        b3 += y[k] * w[3][k];
    }
    a[0] += (uint32_t)a0;
    a[1] += (uint32_t)a1;
    a[2] += (uint32_t)a2;
    a[3] += (uint32_t)a3;
    b[0] += (uint32_t)b0;
    b[1] += (uint32_t)b1;
    b[2] += (uint32_t)b2;
    b[3] += (uint32_t)b3;
}

static void gemm_tile(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, const tile *t, chunk *c, int8_t *out,
                      size_t out_stride) {
    uint32_t sums[PIXELS][TRIVET_LANES] = {{0}};
    cursor from = {0, 0};
    while (fill_chunk(c, g, segments, t, &from)) {
        for (uint32_t p = 0; p < t->pixels; p += 2) {
            uint32_t next = p + 1 < t->pixels ? p + 1 : p, unused[4] = {0};
            for (uint32_t lane = 0; lane < t->lanes; lane += 4) {
                add_2x4(c->x[p], c->x[next], (const int16_t(*)[CHUNK])c->w + lane, c->products, sums[p] + lane,
                        next == p ? unused : sums[next] + lane);
            }
        }
    }
    for (uint32_t p = 0; p < t->pixels; p++) {
        int32_t total[TRIVET_LANES];
        for (uint32_t i = 0; i < t->channels; i++) {
            total[i] = (int32_t)(sums[p][i] + (uint32_t)g->requant.bias[t->channel + i]);
        }
        trivet_requantize_s8(&g->requant, t->channel, total, t->channels,
                             out + t->row * g->out_row_stride + (t->pixel + p) * out_stride + t->channel);
    }
}

static void gemm(const trivet_gemm_s8 *g, const trivet_segment_s8 *segments, uint32_t pixels, int8_t *out,
                 size_t out_stride) {
    for (uint32_t channel = 0; channel < g->channels; channel += TRIVET_LANES) {
        chunk c;
        c.has_weights = false;
        tile t = {0, 0, 0, channel, g->channels - channel, TRIVET_LANES};
        if (t.channels < TRIVET_LANES) {
            t.lanes = (t.channels + 3) & ~3u;
        } else {
            t.channels = TRIVET_LANES;
        }
        for (t.row = 0; t.row < g->rows; t.row++) {
            for (t.pixel = 0; t.pixel < pixels; t.pixel += PIXELS) {
                t.pixels = pixels - t.pixel < PIXELS ? pixels - t.pixel : (uint32_t)PIXELS;
                gemm_tile(g, segments, &t, &c, out, out_stride);
                c.has_weights = g->segment_count * g->segment_steps <= TRIVET_CHUNK_STEPS;
            }
        }
    }
}

enum { CHANNELS = 64 }; /* of a depthwise block */

/* Adds the products of one tap. A count that compilers do not know keeps them from building vectors byte by byte. */
static void add_tap(uint32_t *TRIVET_RESTRICT sums, const int8_t *TRIVET_RESTRICT x,
                    const int8_t *TRIVET_RESTRICT w, int16_t zero,
                    uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        int16_t factor = (int16_t)(w[i] - zero);
        sums[i] += product(x[i], factor);
    }
}

static void depthwise_block(const trivet_depthwise_s8 *g, const int8_t *const *taps, uint32_t pixel, uint32_t channel,
                            uint32_t count, int8_t *out) {
    uint32_t sums[CHANNELS];
    int32_t total[CHANNELS];
    for (uint32_t i = 0; i < count; i++) {
        sums[i] = (uint32_t)g->requant.bias[channel + i];
    }
    for (uint32_t t = 0; t < g->taps; t++) {
        const int8_t *x = taps[t] + pixel * g->stride + channel;
        add_tap(sums, x, g->weights + (size_t)t * g->channels + channel, (int16_t)g->weight_zero, count);
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
            for (uint32_t channel = 0; channel < g->channels; channel += CHANNELS) {
                uint32_t left = g->channels - channel;
                depthwise_block(g, taps, p, channel, left < CHANNELS ? left : (uint32_t)CHANNELS, out);
            }
        }
    }
}

#ifdef TRIVET_MVE

__attribute__((naked, noinline)) static void linear(const trivet_linear_s8 *g __attribute__((unused)),
                                                    const int8_t *a __attribute__((unused)),
                                                    const int8_t *b __attribute__((unused)),
                                                    int8_t *out __attribute__((unused)),
                                                    uint32_t count __attribute__((unused))) {
    __asm__ volatile(
        " push {r4-r7, lr}\n vpush {d8-d11}\n ldrd r4, r5, [r0]\n ldr r6, [r0, #8]\n vdup.32 q3, r6\n"
        " ldr r6, [r0, #12]\n vdup.32 q4, r6\n ldr r6, [r0, #16]\n vdup.32 q5, r6\n ldr r7, [r0, #20]\n"
        " rsbs r7, r7, #0\n ldr r12, [sp, #52]\n wlstp.32 lr, r12, 2f\n"
        "1: vldrb.s32 q0, [r1], #4\n vldrb.s32 q1, [r2], #4\n vmul.i32 q0, q0, r4\n vmul.i32 q1, q1, r5\n"
        " vadd.i32 q0, q0, q3\n vadd.i32 q0, q0, q1\n vshl.s32 q0, r7\n vmax.s32 q0, q0, q4\n vmin.s32 q0, q0, q5\n"
        " vstrb.32 q0, [r3], #4\n letp lr, 1b\n"
        "2: vpop {d8-d11}\n pop {r4-r7, pc}\n");
}

#else

static void linear(const trivet_linear_s8 *g, const int8_t *a, const int8_t *b, int8_t *out, uint32_t count) {
    const trivet_linear_s8 c = *g; /* a copy that no store can change */
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (int8_t)clamp((a[i] * c.a_factor + b[i] * c.b_factor + c.constant) >> c.shift, c.lo, c.hi);
    }
}

#endif

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
