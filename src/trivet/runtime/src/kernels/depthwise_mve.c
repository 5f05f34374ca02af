#include "depthwise_mve.h"

/* Of the assembler: r0 to r8 run through the taps, r9 through the weights, r10 through the numbers, r11 through the
 * results; r12 is the zero point. At sp are the struct, the pixels left, and the bounds as vectors. */
#define MVE_TWO_TAPS(a, b)                                                                                          \
    " vldrb.u8 q0, [" a "], #16\n vldrb.u8 q1, [r9], #16\n vmullb.s8 q2, q0, q1\n vmullt.s8 q0, q0, q1\n"           \
    " vldrb.u8 q1, [" b "], #16\n vldrb.u8 q3, [r9], #16\n vmullb.s8 q3, q1, q3\n vadd.i16 q2, q2, q3\n"            \
    " vldrb.u8 q3, [r9, #-16]\n vmullt.s8 q3, q1, q3\n vadd.i16 q0, q0, q3\n"
#define MVE_LAST_TAP " vldrb.u8 q0, [r8], #16\n vldrb.u8 q1, [r9], #16\n vmullb.s8 q2, q0, q1\n vmullt.s8 q0, q0, q1\n"
#define MVE_BEGIN_SUMS " vmovlb.s16 q4, q2\n vmovlt.s16 q5, q2\n vmovlb.s16 q6, q0\n vmovlt.s16 q7, q0\n"
#define MVE_ADD_SUMS                                                                                                \
    " vmovlb.s16 q1, q2\n vadd.i32 q4, q4, q1\n vmovlt.s16 q1, q2\n vadd.i32 q5, q5, q1\n"                          \
    " vmovlb.s16 q1, q0\n vadd.i32 q6, q6, q1\n vmovlt.s16 q1, q0\n vadd.i32 q7, q7, q1\n"
#define MVE_NO_SIGN(t) ""
#define MVE_TAKE_SIGN(t) " vshr.s32 q1, " t ", #31\n vadd.i32 " t ", " t ", q1\n"
#define MVE_RESCALED(t, sign)                                                                                       \
    " vldrw.u32 q0, [r10], #16\n vadd.i32 " t ", " t ", q0\n vldrw.u32 q0, [r10], #16\n vqrdmulh.s32 " t ", " t ", q0\n" \
    sign(t) " vldrw.u32 q0, [r10], #16\n vrshl.s32 " t ", " t ", q0\n"
#define MVE_NO_BOUNDS ""
#define MVE_BOUNDS                                                                                                  \
    " vldrb.u8 q0, [sp, #8]\n vmax.s8 q4, q4, q0\n vldrb.u8 q0, [sp, #24]\n vmin.s8 q4, q4, q0\n"

#define MVE_DEPTHWISE(name, sign, bounds)                                                                           \
    __attribute__((naked, noinline)) static void name(const trivet_depthwise_mve *g __attribute__((unused))) {      \
        __asm__ volatile(                                                                                           \
            " push {r4-r11, lr}\n vpush {d8-d15}\n ldr r1, [r0, #52]\n ldr r2, [r0, #56]\n vdup.8 q0, r1\n"         \
            " vdup.8 q1, r2\n vpush {d0-d3}\n ldr r8, [r0, #68]\n push {r0, r8}\n"                                  \
            " ldrd r11, r12, [r0, #44]\n ldm r0, {r0-r8}\n"                                                         \
            "2: ldr r9, [sp]\n ldr lr, [r9, #64]\n ldrd r9, r10, [r9, #36]\n dls lr, lr\n"                          \
            "1:" MVE_TWO_TAPS("r0", "r1") MVE_BEGIN_SUMS MVE_TWO_TAPS("r2", "r3") MVE_ADD_SUMS                      \
            MVE_TWO_TAPS("r4", "r5") MVE_ADD_SUMS MVE_TWO_TAPS("r6", "r7") MVE_ADD_SUMS MVE_LAST_TAP MVE_ADD_SUMS   \
            MVE_RESCALED("q4", sign) MVE_RESCALED("q5", sign) MVE_RESCALED("q6", sign) MVE_RESCALED("q7", sign)     \
            " vqmovnb.s32 q4, q4\n vqmovnt.s32 q4, q5\n vqmovnb.s32 q6, q6\n vqmovnt.s32 q6, q7\n"                  \
            " vqadd.s16 q4, q4, r12\n vqadd.s16 q6, q6, r12\n vqmovnb.s16 q4, q4\n vqmovnt.s16 q4, q6\n" bounds     \
            " vstrb.8 q4, [r11], #16\n le lr, 1b\n"                                                                 \
            " ldrd r9, r10, [sp]\n subs r10, r10, #1\n beq 9f\n str r10, [sp, #4]\n"                                \
            " ldr r10, [r9, #84]\n add r11, r11, r10\n ldrd r10, lr, [r9, #72]\n ldr r9, [r9, #80]\n"               \
            " add r0, r0, r10\n add r1, r1, r10\n add r2, r2, r10\n add r3, r3, lr\n add r4, r4, lr\n"              \
            " add r5, r5, lr\n add r6, r6, r9\n add r7, r7, r9\n add r8, r8, r9\n b 2b\n"                           \
            "9: add sp, sp, #40\n vpop {d8-d15}\n pop {r4-r11, pc}\n");                                             \
    }

#ifdef TRIVET_MVE

MVE_DEPTHWISE(pixels_plain_mve, MVE_NO_SIGN, MVE_NO_BOUNDS)
MVE_DEPTHWISE(pixels_signed_mve, MVE_TAKE_SIGN, MVE_BOUNDS)

/* To take the sign off is right for every layer, if it is not for nothing. */
static void run_taps_mve(const trivet_depthwise_mve *g) {
    const bool plain = g->rescale.is_signed == 0 && g->rescale.lo == -128 && g->rescale.hi == 127;
    (plain ? pixels_plain_mve : pixels_signed_mve)(g);
}

#else

/* Where the numbers of channel `c` of a block begin. */
static const int32_t *channel_numbers_mve(const int32_t *block, uint32_t c) {
    static const uint8_t order[4] = {0, 2, 1, 3};
    return block + order[c % 4] * TRIVET_MVE_NUMBERS * TRIVET_MVE_LANES + c / 4;
}

static void run_taps_mve(const trivet_depthwise_mve *g) {
    const size_t pixel_bytes = (size_t)g->blocks * TRIVET_MVE_BYTES;
    for (uint32_t pixel = 0; pixel < g->pixels; pixel++) {
        int8_t *out = g->out + pixel * (pixel_bytes + g->out_skip);
        for (size_t c = 0; c < pixel_bytes; c++) {
            const size_t block = c / TRIVET_MVE_BYTES, lane = c % TRIVET_MVE_BYTES;
            uint32_t sum = 0;
            for (uint32_t t = 0; t < TRIVET_MVE_TAPS; t++) {
                const ptrdiff_t step = (ptrdiff_t)pixel_bytes + g->skips[t / 3];
                const int8_t x = g->taps[t][(ptrdiff_t)pixel * step + (ptrdiff_t)c];
                sum += (uint32_t)(x * g->weights[(block * TRIVET_MVE_TAPS + t) * TRIVET_MVE_BYTES + lane]);
            }
            const int32_t *numbers = g->numbers + block * TRIVET_MVE_BYTES * TRIVET_MVE_NUMBERS;
            out[c] = trivet_mve_stored(&g->rescale, channel_numbers_mve(numbers, (uint32_t)lane), sum);
        }
    }
}

#endif

void trivet_depthwise_mve_run(const trivet_depthwise_mve *g) { run_taps_mve(g); }
