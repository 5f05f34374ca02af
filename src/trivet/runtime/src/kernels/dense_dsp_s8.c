/* A dense layer on int8 for cores with the DSP extension: the operand is widened once, then meets four channels at a
 * time, 16 products in 18 instructions. */
#include "dsp.h"
#include "trivet/kernels/dense_dsp.h"
#include "windows.h"

#define GROUP 4u          /* channels */
#define UNIT 8u           /* products of the loop: operand and weights are filled up with zeros */
#define STACK_BYTES 2304u /* widened operands up to this size are on the stack (kernels/dense_dsp.py) */

/* The assembler below knows the order. */
typedef struct dense_groups {
    const uint32_t *x, *x_end; /* widened: [steps][2 words] */
    int8_t *out;
    const int32_t *rescale; /* [groups][numbers of the form][4] */
    const int8_t *weights;  /* [groups][steps][4 channels][4] */
    size_t groups;
    int32_t constant;
    uint32_t form;
} dense_groups;

#ifdef TRIVET_DSP

#define DENSE_CHANNEL(w, acc)                                                                        \
    " sxtb16 r6, " w "\n sxtb16 " w ", " w ", ror #8\n"                                              \
    " smlad " acc ", r0, r6, " acc "\n smlad " acc ", r1, " w ", " acc "\n"
#define DENSE_STEP                                                                                   \
    " ldmia r11!, {r0, r1}\n ldmia r12!, {r2-r5}\n" DENSE_CHANNEL("r2", "r7")                        \
    DENSE_CHANNEL("r3", "r8") DENSE_CHANNEL("r4", "r9") DENSE_CHANNEL("r5", "r10")
/* r1 to r4 are factors, r5 the constant. */
#define DENSE_FOLDED(shift)                                                                          \
    " smmla r7, r7, r1, r5\n smmla r8, r8, r2, r5\n smmla r9, r9, r3, r5\n smmla r10, r10, r4, r5\n"  \
    " ssat r7, #8, r7, asr " shift "\n ssat r8, #8, r8, asr " shift "\n"                              \
    " ssat r9, #8, r9, asr " shift "\n ssat r10, #8, r10, asr " shift "\n"
#define DENSE_EXACT(acc, mantissa, half, shift)                                                      \
    " ldr r5, [r0, " half "]\n add r5, r5, " acc ", asr #31\n asr " acc ", " acc ", #7\n"             \
    " smmlar " acc ", " acc ", " mantissa ", r5\n ldr r5, [r0, " shift "]\n"                          \
    " asr " acc ", " acc ", r5\n ssat " acc ", #8, " acc "\n"

/* r11 runs through the operand up to lr, r12 through the weights; r7 to r10 are sums. The frame: operand, place of the
 * results, rescaling, groups left, constant and form. */
__attribute__((naked, noinline)) static void run_groups(const dense_groups *g __attribute__((unused))) {
    __asm__ volatile(
        " push {r4-r11, lr}\n sub sp, sp, #28\n ldmia r0, {r1-r8}\n mov lr, r2\n mov r12, r5\n"
        " strd r1, r3, [sp]\n strd r4, r6, [sp, #8]\n strd r7, r8, [sp, #16]\n"
        "1: ldr r0, [sp, #8]\n ldmia r0!, {r7-r10}\n str r0, [sp, #8]\n ldr r11, [sp]\n"
        "2:\n" DENSE_STEP DENSE_STEP " cmp r11, lr\n bne 2b\n"
        " ldr r0, [sp, #8]\n ldmia r0!, {r1-r4}\n ldrd r5, r6, [sp, #16]\n cmp r6, #1\n beq 4f\n bhi 5f\n"
        DENSE_FOLDED("#8")
        "3: str r0, [sp, #8]\n ldr r0, [sp, #4]\n"
        " strb r7, [r0]\n strb r8, [r0, #1]\n strb r9, [r0, #2]\n strb r10, [r0, #3]\n adds r0, r0, #4\n"
        " str r0, [sp, #4]\n ldr r0, [sp, #12]\n subs r0, r0, #1\n str r0, [sp, #12]\n bne 1b\n"
        " add sp, sp, #28\n pop {r4-r11, pc}\n"
        "4:\n" DENSE_FOLDED("#12") " b 3b\n"
        "5:\n" DENSE_EXACT("r7", "r1", "#0", "#16") DENSE_EXACT("r8", "r2", "#4", "#20")
        DENSE_EXACT("r9", "r3", "#8", "#24") DENSE_EXACT("r10", "r4", "#12", "#28")
        " adds r0, r0, #32\n b 3b\n");
}

#else

static void run_groups(const dense_groups *g) {
    const uint32_t numbers = trivet_dsp_rescale_numbers(g->form);
    const int8_t *w = g->weights;
    for (size_t group = 0; group < g->groups; group++) {
        const int32_t *rescale = g->rescale + group * GROUP * numbers;
        uint32_t sums[GROUP];
        for (uint32_t i = 0; i < GROUP; i++) {
            sums[i] = (uint32_t)rescale[i];
        }
        for (const uint32_t *x = g->x; x != g->x_end; x += 2) {
            for (uint32_t i = 0; i < GROUP; i++, w += 4) {
                sums[i] = trivet_dsp_smlad(x[0], (uint16_t)w[0] | (uint32_t)(uint16_t)w[2] << 16, sums[i]);
                sums[i] = trivet_dsp_smlad(x[1], (uint16_t)w[1] | (uint32_t)(uint16_t)w[3] << 16, sums[i]);
            }
        }
        for (uint32_t i = 0; i < GROUP; i++) {
            g->out[group * GROUP + i] = trivet_dsp_rescale(g->form, rescale, GROUP, i, g->constant, sums[i]);
        }
    }
}

#endif

static uint32_t padded_inputs(const trivet_dense_dsp_s8_record *p) { return (p->inputs + UNIT - 1) / UNIT * UNIT; }

static uint32_t *widen_word(uint32_t *to, const int8_t *from) {
    const uint32_t word = trivet_dsp_load(from);
    to[0] = trivet_dsp_even(word);
    to[1] = trivet_dsp_odd(word);
    return to + 2;
}

/* The operand in whole units; returns their end. */
static uint32_t *widen_operand(const trivet_dense_dsp_s8_record *p, const int8_t *x, uint32_t *to) {
    int8_t rest[UNIT] = {0};
    uint32_t k = 0;
    for (; k + UNIT <= p->inputs; k += UNIT) {
        to = widen_word(to, x + k);
        to = widen_word(to, x + k + 4);
    }
    if (k < p->inputs) {
        memcpy(rest, x + k, p->inputs - k);
        to = widen_word(widen_word(to, rest), rest + 4);
    }
    return to;
}

trivet_status trivet_dense_dsp_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dense_dsp_s8_record *p = (const trivet_dense_dsp_s8_record *)call->params;
    uint32_t stack[STACK_BYTES / 4];
    const uint32_t padded = padded_inputs(p);
    uint32_t *x = padded <= STACK_BYTES / 2 ? stack : (uint32_t *)(void *)call->scratch;
    int8_t *out = (int8_t *)trivet_row(&call->outputs[0], row);
    dense_groups g;
    (void)rows;
    g.x = x;
    g.x_end = widen_operand(p, (const int8_t *)trivet_row(&call->inputs[0], row), x);
    g.out = out;
    g.rescale = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->rescale);
    g.weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    g.groups = p->outputs / GROUP;
    g.constant = p->constant;
    g.form = p->form;
    run_groups(&g);
    if (p->outputs % GROUP != 0) {
        g.out += p->outputs - GROUP;
        g.weights += g.groups * GROUP * padded;
        g.rescale += g.groups * GROUP * trivet_dsp_rescale_numbers(p->form);
        g.groups = 1;
        run_groups(&g);
    }
    for (uint32_t i = 0; (p->lo > -128 || p->hi < 127) && i < p->outputs; i++) {
        out[i] = (int8_t)(out[i] < p->lo ? p->lo : out[i] > p->hi ? p->hi : out[i]);
    }
    return TRIVET_OK;
}

trivet_status trivet_dense_dsp_s8_check(const trivet_check *check) {
    const trivet_dense_dsp_s8_record *p = (const trivet_dense_dsp_s8_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && x->height == 1 && y->height == 1);
    TRIVET_REQUIRE(p->inputs > 0 && p->inputs <= TRIVET_MAX_POSITION / 2 && x->row_bytes == p->inputs);
    TRIVET_REQUIRE(p->outputs >= GROUP && p->outputs <= TRIVET_MAX_POSITION && y->row_bytes == p->outputs);
    TRIVET_REQUIRE(p->lo >= -128 && p->lo <= p->hi && p->hi <= 127);
    const uint32_t padded = padded_inputs(p);
    TRIVET_REQUIRE(padded <= STACK_BYTES / 2 || check->scratch_bytes >= 2 * padded);
    const uint32_t channels = (p->outputs + GROUP - 1) / GROUP * GROUP;
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(channels, padded));
    TRIVET_REQUIRE(trivet_dsp_rescale_is_sound(check->constants, &p->rescale, p->form, GROUP, channels));
    return TRIVET_OK;
}
