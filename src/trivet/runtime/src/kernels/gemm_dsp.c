/* Two pixels by two channels: 16 products in 10 instructions where weights are widened once for several pixels, in 14
 * where they are not. */
#include "gemm_dsp.h"

#ifdef TRIVET_DSP

/* The frame of the function below, in bytes from sp; what is loaded together lies together. */
#define GEMM_FACTORS "#0"     /* 2 factors, */
#define GEMM_CONSTANT "#8"    /* the constant, */
#define GEMM_PLACE "#12"      /* where the next pixel goes, */
#define GEMM_OUT_STRIDE "#16"
#define GEMM_X_END "#20"
#define GEMM_ENTRY "#24"      /* into the unrolled loop, */
#define GEMM_SUMS "#28"       /* the sums to begin with, twice, */
#define GEMM_SUMS_AGAIN "#36"
#define GEMM_PAIR "#44"       /* and where the weights of the pair begin */
#define GEMM_PAIR_END "#48"
#define GEMM_TAIL "#52"       /* the code of the form */
#define GEMM_X "#56"
#define GEMM_OUT "#60"
#define GEMM_RESCALE "#64"
#define GEMM_WEIGHTS "#68"
#define GEMM_STEPS "#72"
#define GEMM_PAIRS "#76"
#define GEMM_WIDENED "#80"
#define GEMM_MORE "#84"       /* bytes of `rescale` behind sums and factors */
#define GEMM_FRAME "#92"

#define GEMM_MULTIPLY                                                                                               \
    " smlad r8, r0, r4, r8\n smlad r9, r0, r6, r9\n smlad r10, r2, r4, r10\n smlad r11, r2, r6, r11\n"          \
    " smlad r8, r1, r5, r8\n smlad r9, r1, r7, r9\n smlad r10, r3, r5, r10\n smlad r11, r3, r7, r11\n"
/* 40 bytes: widened weights. 56 bytes: weights as they are. */
#define GEMM_STEP " ldmia r12!, {r0-r3}\n ldmia lr!, {r4-r7}\n" GEMM_MULTIPLY
#define GEMM_WIDENING_STEP                                                                                          \
    " ldmia r12!, {r0-r3}\n ldrd r4, r6, [lr], #8\n sxtb16 r5, r4, ror #8\n sxtb16 r4, r4\n"                    \
    " sxtb16 r7, r6, ror #8\n sxtb16 r6, r6\n" GEMM_MULTIPLY
#define GEMM_EIGHT(step) " .rept 8\n" step " .endr\n"
#define GEMM_NEXT_STEPS(loop) " ldrd r0, r1, [sp, " GEMM_PAIR_END "]\n cmp lr, r0\n bne " loop "\n bx r1\n"

/* Of a sum in `acc`: r1, r2 factors, r3 the constant. */
#define GEMM_FOLDED(shift)                                                                                          \
    " ldmia sp, {r1-r6}\n"                                                                                     \
    " smmla r8, r8, r1, r3\n smmla r9, r9, r2, r3\n smmla r10, r10, r1, r3\n smmla r11, r11, r2, r3\n"          \
    " ssat r8, #8, r8, asr " shift "\n ssat r9, #8, r9, asr " shift "\n"                                        \
    " ssat r10, #8, r10, asr " shift "\n ssat r11, #8, r11, asr " shift "\n"
#define GEMM_EXACT(acc, mantissa, half, shift)                                                                      \
    " add r0, " half ", " acc ", asr #31\n asr " acc ", " acc ", #7\n"                                          \
    " smmlar " acc ", " acc ", " mantissa ", r0\n asr " acc ", " acc ", " shift "\n ssat " acc ", #8, " acc "\n"

/* In the loops r12 runs through x, lr through the weights; r8 to r11 are the sums of two pixels by two channels. */
__attribute__((naked, noinline)) static void gemm_pairs_dsp(const trivet_gemm_dsp *g __attribute__((unused))) {
    __asm__ volatile(
        " push {r4-r11, lr}\n sub sp, sp, " GEMM_FRAME "\n"
        " ldmia r0!, {r1-r8}\n"
        " str r1, [sp, " GEMM_X "]\n str r2, [sp, " GEMM_X_END "]\n str r3, [sp, " GEMM_OUT "]\n str r4, [sp, " GEMM_OUT_STRIDE "]\n"
        " str r5, [sp, " GEMM_RESCALE "]\n str r6, [sp, " GEMM_WEIGHTS "]\n strd r7, r8, [sp, " GEMM_STEPS "]\n"
        " ldmia r0, {r1-r3}\n"
        " str r1, [sp, " GEMM_CONSTANT "]\n str r2, [sp, " GEMM_WIDENED "]\n"
        /* The code of the form, and where the unrolled loop is entered: steps modulo 8 come first. */
        " movs r0, #0\n str r0, [sp, " GEMM_MORE "]\n"
        " adr.w r0, 50f\n"
        " cmp r3, #0\n beq 10f\n adr.w r0, 51f\n cmp r3, #1\n beq 10f\n"
        " movs r0, #16\n str r0, [sp, " GEMM_MORE "]\n adr.w r0, 52f\n"
        "10: orr r0, r0, #1\n str r0, [sp, " GEMM_TAIL "]\n"
        " rsb r0, r7, #8\n and r0, r0, #7\n"
        " adr.w r1, 30f\n movs r3, #40\n"
        " cbnz r2, 11f\n adr.w r1, 40f\n movs r3, #56\n"
        "11: mla r0, r0, r3, r1\n orr r0, r0, #1\n str r0, [sp, " GEMM_ENTRY "]\n"

        /* A pair of channels. */
        "20: ldr r0, [sp, " GEMM_RESCALE "]\n ldmia r0!, {r4-r7}\n str r0, [sp, " GEMM_RESCALE "]\n"
        " strd r4, r5, [sp, " GEMM_SUMS "]\n strd r4, r5, [sp, " GEMM_SUMS_AGAIN "]\n strd r6, r7, [sp, " GEMM_FACTORS "]\n"
        " ldr r0, [sp, " GEMM_OUT "]\n str r0, [sp, " GEMM_PLACE "]\n adds r0, r0, #2\n str r0, [sp, " GEMM_OUT "]\n"
        " ldr r12, [sp, " GEMM_X "]\n ldr r1, [sp, " GEMM_WEIGHTS "]\n ldr r3, [sp, " GEMM_STEPS "]\n ldr r0, [sp, " GEMM_WIDENED "]\n"
        " cbnz r0, 21f\n"
        " str r1, [sp, " GEMM_PAIR "]\n add r1, r1, r3, lsl #3\n str r1, [sp, " GEMM_PAIR_END "]\n str r1, [sp, " GEMM_WEIGHTS "]\n"
        " b 25f\n"
        "21: str r0, [sp, " GEMM_PAIR "]\n add r2, r0, r3, lsl #4\n str r2, [sp, " GEMM_PAIR_END "]\n"
        " lsrs r3, r3, #1\n bcc 22f\n"
        " ldmia r1!, {r4, r6}\n sxtb16 r5, r4, ror #8\n sxtb16 r4, r4\n sxtb16 r7, r6, ror #8\n sxtb16 r6, r6\n"
        " stmia r0!, {r4-r7}\n"
        "22: cbz r3, 24f\n"
        "23: ldmia r1!, {r4, r6, r8, r10}\n"
        " sxtb16 r5, r4, ror #8\n sxtb16 r4, r4\n sxtb16 r7, r6, ror #8\n sxtb16 r6, r6\n"
        " sxtb16 r9, r8, ror #8\n sxtb16 r8, r8\n sxtb16 r11, r10, ror #8\n sxtb16 r10, r10\n"
        " stmia r0!, {r4-r11}\n subs r3, r3, #1\n bne 23b\n"
        "24: str r1, [sp, " GEMM_WEIGHTS "]\n"

        /* A pair of pixels. */
        "25: add r0, sp, " GEMM_ENTRY "\n ldmia r0, {r7-r11, lr}\n bx r7\n"
        " .balign 4\n"
        "30:\n" GEMM_EIGHT(GEMM_STEP) GEMM_NEXT_STEPS("30b")
        " .balign 4\n"
        "40:\n" GEMM_EIGHT(GEMM_WIDENING_STEP) GEMM_NEXT_STEPS("40b")
        " .balign 4\n"
        "50:\n" GEMM_FOLDED("#8")
        /* r4 the place of the first pixel, r5 the stride, r6 the end of x. The second pixel is written first, as it is
         * none where the stride is 0. */
        "55: add r7, r4, r5\n strb r10, [r7]\n strb r11, [r7, #1]\n strb r8, [r4]\n strb r9, [r4, #1]\n"
        " add r7, r7, r5\n str r7, [sp, " GEMM_PLACE "]\n cmp r12, r6\n bne 25b\n"
        " ldr r0, [sp, " GEMM_RESCALE "]\n ldr r1, [sp, " GEMM_MORE "]\n add r0, r0, r1\n str r0, [sp, " GEMM_RESCALE "]\n"
        " ldr r0, [sp, " GEMM_PAIRS "]\n subs r0, r0, #1\n str r0, [sp, " GEMM_PAIRS "]\n bne.w 20b\n"
        " add sp, sp, " GEMM_FRAME "\n pop {r4-r11, pc}\n"
        " .balign 4\n"
        "51:\n" GEMM_FOLDED("#12") " b 55b\n"
        " .balign 4\n"
        "52: ldr r0, [sp, " GEMM_RESCALE "]\n ldmia r0, {r3-r6}\n ldrd r1, r2, [sp, " GEMM_FACTORS "]\n"
        GEMM_EXACT("r8", "r1", "r3", "r5") GEMM_EXACT("r9", "r2", "r4", "r6")
        GEMM_EXACT("r10", "r1", "r3", "r5") GEMM_EXACT("r11", "r2", "r4", "r6")
        " ldrd r4, r5, [sp, " GEMM_PLACE "]\n ldr r6, [sp, " GEMM_X_END "]\n b 55b\n");
}

#else

static uint32_t widened_pair_dsp(const int8_t *w, uint32_t odd) {
    return (uint32_t)(uint16_t)w[odd] | (uint32_t)(uint16_t)w[odd + 2] << 16;
}

/* Sums of two pixels by two channels, pixels first. */
static void add_products_dsp(const trivet_gemm_dsp *g, const uint32_t *x, const int8_t *w, uint32_t sums[4]) {
    for (size_t k = 0; k < g->steps; k++, x += 4, w += 8) {
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t *pixel = x + i / 2 * 2;
            const int8_t *channel = w + i % 2 * 4;
            sums[i] = trivet_dsp_smlad(pixel[0], widened_pair_dsp(channel, 0), sums[i]);
            sums[i] = trivet_dsp_smlad(pixel[1], widened_pair_dsp(channel, 1), sums[i]);
        }
    }
}

static void gemm_pairs_dsp(const trivet_gemm_dsp *g) {
    const size_t pair_words = 4 * g->steps;
    const uint32_t numbers = TRIVET_PAIR * trivet_dsp_rescale_numbers(g->form);
    for (size_t pair = 0; pair < g->pairs; pair++) {
        const int32_t *rescale = g->rescale + pair * numbers;
        int8_t *out = g->out + TRIVET_PAIR * pair;
        for (const uint32_t *x = g->x; x != g->x_end; x += pair_words, out += 2 * g->out_stride) {
            uint32_t sums[4] = {(uint32_t)rescale[0], (uint32_t)rescale[1], (uint32_t)rescale[0], (uint32_t)rescale[1]};
            add_products_dsp(g, x, g->weights + 2 * pair_words * pair, sums);
            for (uint32_t i = 4; i-- > 0;) {
                out[i / 2 * g->out_stride + i % 2] =
                    trivet_dsp_rescale(g->form, rescale, TRIVET_PAIR, i % 2, g->constant, sums[i]);
            }
        }
    }
}

#endif

void trivet_gemm_dsp_run(const trivet_gemm_dsp *g) { gemm_pairs_dsp(g); }
