#include "gemm_mve.h"

/* The sum of channel `c` of a group, of a pixel. `vectors` lie between those of one step and the next. */
static inline uint32_t sum_mve(const int8_t *x, const int8_t *w, uint32_t steps, uint32_t vectors) {
    uint32_t sum = 0;
    for (uint32_t step = 0; step < steps; step++, x += TRIVET_MVE_BYTES, w += vectors * TRIVET_MVE_BYTES) {
        for (uint32_t i = 0; i < TRIVET_MVE_BYTES; i++) {
            sum += (uint32_t)(x[i] * w[i]);
        }
    }
    return sum;
}

/* Where the weights of channel `c` of a group begin: channels 0 and 2 take turns, then 1 and 3. */
static inline const int8_t *paired_weights_mve(const int8_t *group, uint32_t steps, uint32_t c) {
    return group + (c % 2 * 2 * steps + c / 2) * TRIVET_MVE_BYTES;
}

/* Of the assembler: in all functions r8 is the zero point, and r7 walks through the numbers of 4 channels each, but where it is said. */
#define MVE_PLAIN(t) ""
#define MVE_SIGN(t) " vshr.s32 q3, " t ", #31\n vadd.i32 " t ", " t ", q3\n"
#define MVE_NUMBERS " vldrw.u32 q0, [r7], #16\n vldrw.u32 q1, [r7], #16\n vldrw.u32 q2, [r7], #16\n"
#define MVE_NEXT_GROUP " subs r12, r12, #1\n bne 3b\n"

/* r9, r11 run through the windows, r5 through the weights; the sums are r0, r2 of the first pixel, r4, r6 of the
 * second. */
#define MVE_PAIR_STEP(add)                                                                                         \
    " vldrb.u8 q0, [r9], #16\n vldrb.u8 q2, [r5], #16\n vmladav" add ".s8 r0, q0, q2\n"                            \
    " vldrb.u8 q3, [r5], #16\n vmladav" add ".s8 r2, q0, q3\n"                                                     \
    " vldrb.u8 q1, [r11], #16\n vmladav" add ".s8 r4, q1, q2\n vmladav" add ".s8 r6, q1, q3\n"
#define MVE_ODD_STEPS MVE_PAIR_STEP("")
#define MVE_EVEN_STEPS MVE_PAIR_STEP("") MVE_PAIR_STEP("a")
#define MVE_PAIR_BLOCK(begin, high, low)                                                                           \
    begin " wls lr, r10, 2f\n1:" MVE_PAIR_STEP("a") MVE_PAIR_STEP("a") " le lr, 1b\n"                              \
          "2: ldr lr, [sp]\n sub r9, r9, lr\n sub r11, r11, lr\n"                                                  \
          " vmov q4[" high "], q4[" low "], r0, r2\n vmov q5[" high "], q5[" low "], r4, r6\n"

#define MVE_PIXELS(name, left, begin, sign)                                                                        \
    __attribute__((naked, noinline)) static void name(const trivet_gemm_mve *g __attribute__((unused))) {          \
        __asm__ volatile(                                                                                          \
            " push {r4-r11, lr}\n vpush {d8-d15}\n ldrd r9, r11, [r0]\n ldrd r5, r7, [r0, #8]\n"                   \
            " ldrd r1, r3, [r0, #16]\n ldrd r8, r4, [r0, #24]\n ldr r6, [r0, #32]\n ldrd r10, r12, [r0, #40]\n"    \
            " vdup.32 q6, r4\n vdup.32 q7, r6\n lsl r4, r10, #4\n push {r4}\n"                                     \
            " sub r10, r10, #" left "\n lsr r10, r10, #1\n"                                                        \
            "3:" MVE_PAIR_BLOCK(begin, "2", "0") MVE_PAIR_BLOCK(begin, "3", "1") MVE_NUMBERS                       \
            " vadd.i32 q4, q4, q0\n vadd.i32 q5, q5, q0\n vqrdmulh.s32 q4, q4, q1\n vqrdmulh.s32 q5, q5, q1\n"     \
            sign("q4") sign("q5") " vrshl.s32 q4, q4, q2\n vrshl.s32 q5, q5, q2\n vadd.i32 q4, q4, r8\n"           \
            " vadd.i32 q5, q5, r8\n vmax.s32 q4, q4, q6\n vmax.s32 q5, q5, q6\n vmin.s32 q4, q4, q7\n"             \
            " vmin.s32 q5, q5, q7\n vstrb.32 q5, [r3], #4\n vstrb.32 q4, [r1], #4\n" MVE_NEXT_GROUP                \
            " add sp, sp, #4\n vpop {d8-d15}\n pop {r4-r11, pc}\n");                                               \
    }

#ifdef TRIVET_MVE

MVE_PIXELS(pixels_odd_mve, "1", MVE_ODD_STEPS, MVE_PLAIN)
MVE_PIXELS(pixels_even_mve, "2", MVE_EVEN_STEPS, MVE_PLAIN)
MVE_PIXELS(pixels_odd_signed_mve, "1", MVE_ODD_STEPS, MVE_SIGN)
MVE_PIXELS(pixels_even_signed_mve, "2", MVE_EVEN_STEPS, MVE_SIGN)

static void run_pixels_mve(const trivet_gemm_mve *g) {
    if (g->steps % 2 != 0) {
        (g->rescale.is_signed ? pixels_odd_signed_mve : pixels_odd_mve)(g);
    } else {
        (g->rescale.is_signed ? pixels_even_signed_mve : pixels_even_mve)(g);
    }
}

#else

static void pixel_mve(const trivet_gemm_mve *g, const int8_t *x, int8_t *out) {
    const size_t group_bytes = (size_t)TRIVET_MVE_LANES * TRIVET_MVE_BYTES * g->steps;
    const int32_t *numbers = g->numbers;
    for (uint32_t group = 0; group < g->groups; group++, numbers += TRIVET_MVE_NUMBERS * TRIVET_MVE_LANES) {
        for (uint32_t c = 0; c < TRIVET_MVE_LANES; c++) {
            const int8_t *w = paired_weights_mve(g->weights + group * group_bytes, g->steps, c);
            *out++ = trivet_mve_stored(&g->rescale, numbers + c, sum_mve(x, w, g->steps, 2));
        }
    }
}

static void run_pixels_mve(const trivet_gemm_mve *g) {
    pixel_mve(g, g->x1, g->out1);
    pixel_mve(g, g->x0, g->out0);
}

#endif

void trivet_gemm_mve_pixels(const trivet_gemm_mve *g) { run_pixels_mve(g); }

/* r9 runs through the pixel, r11 through the weights; the sums are r0, r2, r4, r6. */
#define MVE_DENSE_STEP(add)                                                                                        \
    " vldrb.u8 q0, [r9], #16\n vldrb.u8 q1, [r11], #16\n vmladav" add ".s8 r0, q0, q1\n"                           \
    " vldrb.u8 q2, [r11], #16\n vmladav" add ".s8 r2, q0, q2\n vldrb.u8 q1, [r11], #16\n"                          \
    " vmladav" add ".s8 r4, q0, q1\n vldrb.u8 q2, [r11], #16\n vmladav" add ".s8 r6, q0, q2\n"

#define MVE_DENSE(name, sign)                                                                                      \
    __attribute__((naked, noinline)) static void name(const trivet_dense_mve *g __attribute__((unused))) {         \
        __asm__ volatile(                                                                                          \
            " push {r4-r11, lr}\n vpush {d8-d15}\n ldrd r9, r11, [r0]\n ldrd r7, r1, [r0, #8]\n"                   \
            " ldrd r8, r4, [r0, #16]\n ldr r6, [r0, #24]\n ldrd r10, r12, [r0, #32]\n"                             \
            " vdup.32 q6, r4\n vdup.32 q7, r6\n lsl r5, r10, #4\n sub r10, r10, #1\n"                              \
            "3:" MVE_DENSE_STEP("") " wls lr, r10, 2f\n1:" MVE_DENSE_STEP("a") " le lr, 1b\n"                      \
            "2: sub r9, r9, r5\n vmov q4[2], q4[0], r0, r4\n vmov q4[3], q4[1], r2, r6\n" MVE_NUMBERS              \
            " vadd.i32 q4, q4, q0\n vqrdmulh.s32 q4, q4, q1\n" sign("q4")                                          \
            " vrshl.s32 q4, q4, q2\n vadd.i32 q4, q4, r8\n vmax.s32 q4, q4, q6\n vmin.s32 q4, q4, q7\n"            \
            " vstrb.32 q4, [r1], #4\n" MVE_NEXT_GROUP " vpop {d8-d15}\n pop {r4-r11, pc}\n");                      \
    }

#ifdef TRIVET_MVE

MVE_DENSE(dense_mve, MVE_PLAIN)
MVE_DENSE(dense_signed_mve, MVE_SIGN)

static void run_pixel_mve(const trivet_dense_mve *g) { (g->rescale.is_signed ? dense_signed_mve : dense_mve)(g); }

#else

static void run_pixel_mve(const trivet_dense_mve *g) {
    const int8_t *w = g->weights;
    const int32_t *numbers = g->numbers;
    for (uint32_t group = 0; group < g->groups; group++, numbers += TRIVET_MVE_NUMBERS * TRIVET_MVE_LANES) {
        for (uint32_t c = 0; c < TRIVET_MVE_LANES; c++) {
            const uint32_t sum = sum_mve(g->x, w + c * TRIVET_MVE_BYTES, g->steps, TRIVET_MVE_LANES);
            g->out[group * TRIVET_MVE_LANES + c] = trivet_mve_stored(&g->rescale, numbers + c, sum);
        }
        w += (size_t)TRIVET_MVE_LANES * TRIVET_MVE_BYTES * g->steps;
    }
}

#endif

void trivet_dense_mve_pixel(const trivet_dense_mve *g) { run_pixel_mve(g); }

/* The weights of 4 channels stay in q0 to q3, their numbers in q5 to q7: there is no room for bounds other than those
 * of int8. r5 is where the numbers are, r1 runs through the pixels. */
#define MVE_COLUMN_SIGN(t) " vshr.s32 q7, q4, #31\n vadd.i32 q4, q4, q7\n vldrw.u32 q7, [r5, #32]\n"

#define MVE_COLUMN(name, sign)                                                                                     \
    __attribute__((naked, noinline)) static void name(const trivet_column_mve *g __attribute__((unused))) {        \
        __asm__ volatile(                                                                                          \
            " push {r4-r11, lr}\n vpush {d8-d15}\n ldrd r1, r3, [r0]\n ldrd r5, r7, [r0, #8]\n"                    \
            " ldr r8, [r0, #16]\n ldrd r10, r11, [r0, #32]\n ldr r9, [r0, #40]\n"                                  \
            " vldrb.u8 q0, [r3]\n vldrb.u8 q1, [r3, #16]\n vldrb.u8 q2, [r3, #32]\n vldrb.u8 q3, [r3, #48]\n"      \
            " vldrw.u32 q5, [r5]\n vldrw.u32 q6, [r5, #16]\n vldrw.u32 q7, [r5, #32]\n dls lr, r10\n"              \
            "1: vldrb.u8 q4, [r1]\n add r1, r1, r11\n vmladav.s8 r0, q4, q0\n vmladav.s8 r2, q4, q1\n"             \
            " vmladav.s8 r4, q4, q2\n vmladav.s8 r6, q4, q3\n"                                                     \
            " vmov q4[2], q4[0], r0, r2\n vmov q4[3], q4[1], r4, r6\n vadd.i32 q4, q4, q5\n"                       \
            " vqrdmulh.s32 q4, q4, q6\n" sign("q4") " vrshl.s32 q4, q4, q7\n vqmovnb.s32 q4, q4\n"                 \
            " vqadd.s16 q4, q4, r8\n vqmovnb.s16 q4, q4\n vstrb.32 q4, [r7]\n add r7, r7, r9\n le lr, 1b\n"        \
            " vpop {d8-d15}\n pop {r4-r11, pc}\n");                                                                \
    }

#ifdef TRIVET_MVE

MVE_COLUMN(column_mve, MVE_PLAIN)
MVE_COLUMN(column_signed_mve, MVE_COLUMN_SIGN)

static void run_column_mve(const trivet_column_mve *g) {
    (g->rescale.is_signed ? column_signed_mve : column_mve)(g);
    if (g->rescale.lo > -128 || g->rescale.hi < 127) {
        for (uint32_t i = 0; i < g->pixels; i++) {
            int8_t *out = g->out + i * g->out_stride;
            for (uint32_t c = 0; c < TRIVET_MVE_LANES; c++) {
                const int32_t v = out[c];
                out[c] = (int8_t)(v < g->rescale.lo ? g->rescale.lo : v > g->rescale.hi ? g->rescale.hi : v);
            }
        }
    }
}

#else

static void run_column_mve(const trivet_column_mve *g) {
    for (uint32_t i = 0; i < g->pixels; i++) {
        for (uint32_t c = 0; c < TRIVET_MVE_LANES; c++) {
            const int8_t *w = paired_weights_mve(g->weights, 1, c);
            const uint32_t sum = sum_mve(g->x + i * g->x_stride, w, 1, 2);
            g->out[i * g->out_stride + c] = trivet_mve_stored(&g->rescale, g->numbers + c, sum);
        }
    }
}

#endif

void trivet_column_mve_run(const trivet_column_mve *g) { run_column_mve(g); }
