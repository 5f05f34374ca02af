/* depthwise_conv2d 3x3 on int8 for cores with the DSP extension.
 *
 * Four channels at a time, three rows of the operand become columns on the stack, of each channel a pair
 * p = (row 0, row 1) and a pair q = (row 2 of the column before, row 2), int16 times 256. Then one channel after the
 * other slides along the columns with its weights in registers: five instructions a result. A row beyond the operand is
 * any row, with weights of zero and what the padding adds in the sum. Wide rows are cut into strips. */
#include "dsp.h"
#include "trivet/kernels/depthwise_dsp.h"
#include "windows.h"

#define CHANNELS 4u    /* of a group */
#define COLUMNS 34u    /* of a strip */
#define GROUP_BYTES 36u /* of weights: of each channel w0 w1 w3 w4 w2 w6 w5 w7, then of each w8 */
#define COLUMN_WORDS (2 * CHANNELS)

/* Of a channel: pairs of weights (0, 3) (1, 4) (2, 5) (6, 7) and 8; the sum to begin with, and its rescaling. The
 * assembler below knows the order. */
typedef struct sliding {
    uint32_t weights[5];
    int32_t rescale[4];
    size_t out_stride;
} sliding;

/* Of a strip: `left` columns of padding, `count` from the rows, `right` of padding. */
typedef struct strip_rows {
    const int8_t *rows[3];
    size_t step; /* from column to column of the rows */
    uint32_t *to;
    size_t count, left, right;
    uint32_t zeros; /* four zero points, */
    uint32_t zero;  /* and the widened pair of one */
} strip_rows;

/* Results of one row, channel by channel. */
typedef struct strip_slide {
    const uint32_t *columns;
    int8_t *out;
    const sliding *channels, *channels_end;
    size_t length; /* bytes of the columns */
    size_t first;  /* of the results in the unrolled loop */
} strip_slide;

#ifdef TRIVET_DSP

__attribute__((naked, noinline)) static void expand_strip(strip_rows *s __attribute__((unused))) {
    __asm__ volatile(
        " push {r0, r4-r11, lr}\n"
        " ldr r12, [r0, #16]\n ldr lr, [r0, #20]\n ldr r6, [r0, #24]\n ldr r5, [r0, #32]\n"
        " cbz r6, 2f\n ldr r7, [r0, #36]\n mov r8, r7\n mov r9, r7\n mov r10, r7\n"
        "1: stmia r12!, {r7-r10}\n stmia r12!, {r7-r10}\n subs r6, r6, #1\n bne 1b\n"
        "2: ldmia r0, {r0-r3}\n mov.w r4, #0xFF00FF00\n"
        " cmp lr, #0\n beq 5f\n"
        "3: ldr r6, [r0]\n add r0, r0, r3\n ldr r7, [r1]\n add r1, r1, r3\n ldr r8, [r2]\n add r2, r2, r3\n"
        "4: pkhbt r10, r6, r7, lsl #16\n pkhtb r6, r7, r6, asr #16\n"
        " pkhbt r11, r5, r8, lsl #16\n pkhtb r7, r8, r5, asr #16\n mov r5, r8\n"
        " and r8, r4, r10, lsl #8\n and r9, r4, r11, lsl #8\n and r10, r10, r4\n and r11, r11, r4\n"
        " stmia r12!, {r8-r11}\n"
        " and r8, r4, r6, lsl #8\n and r9, r4, r7, lsl #8\n and r10, r6, r4\n and r11, r7, r4\n"
        " stmia r12!, {r8-r11}\n"
        " subs lr, lr, #1\n bne 3b\n"
        "5: ldr r6, [sp]\n ldr r7, [r6, #28]\n cbz r7, 6f\n subs r7, r7, #1\n str r7, [r6, #28]\n"
        " ldr r6, [r6, #32]\n mov r7, r6\n mov r8, r6\n mov.w lr, #1\n b 4b\n"
        "6: pop {r0, r4-r11, pc}\n");
}

/* Weights in r0 to r4, the first sum in r5, columns at r12, results at lr, the sum in r11. The frame: what rescaling
 * takes, then as the numbers say. */
#define SLIDE_END "#16"
#define SLIDE_PLACE "#20" /* of columns, and of results */
#define SLIDE_CHANNEL "#28"
#define SLIDE_CHANNELS_END "#32"
#define SLIDE_LENGTH "#36"
#define SLIDE_ENTRY "#40"
#define SLIDE_FRAME "#44"

#define SLIDE_KEEP_FOLDED " strd r6, r9, [sp]\n"
#define SLIDE_KEEP_EXACT " strd r6, r7, [sp]\n strd r8, r9, [sp, #8]\n"
/* After the first three of five products `a` and `b` are free; `last` are the other two. */
#define SLIDE_FOLDED(shift, a, b, last)                                                                        \
    " ldrd " a ", " b ", [sp]\n" last " smmul r11, r11, " a "\n ssat r11, #8, r11, asr " shift "\n"             \
    " strb r11, [lr]\n add lr, lr, " b "\n"
#define SLIDE_FOLDED_8(a, b, last) SLIDE_FOLDED("#8", a, b, last)
#define SLIDE_FOLDED_12(a, b, last) SLIDE_FOLDED("#12", a, b, last)
#define SLIDE_EXACT(a, b, last)                                                                                \
    " ldrd " a ", " b ", [sp]\n" last " add " b ", " b ", r11, asr #31\n asr r11, r11, #7\n"                     \
    " smmlar r11, r11, " a ", " b "\n ldrd " a ", " b ", [sp, #8]\n asr r11, r11, " a "\n ssat r11, #8, r11\n"   \
    " strb r11, [lr]\n add lr, lr, " b "\n"

/* A column a result: p0 p1 q0 are there. Two columns a result: p0 is there. */
#define SLIDE_BY_1(rescale, p0, p1, p2, q0, q1)                                                                \
    " ldrd " p2 ", " q1 ", [r12], #32\n smlad r11, " p0 ", r0, r5\n smlad r11, " p1 ", r1, r11\n"               \
    " smlad r11, " q0 ", r3, r11\n"                                                                            \
    rescale(p0, q0, " smlad r11, " p2 ", r2, r11\n smlatb r11, " q1 ", r4, r11\n")
#define SLIDE_BY_2(rescale, p0, p1, p2, q1, q2)                                                                \
    " ldrd " p1 ", " q1 ", [r12], #32\n ldrd " p2 ", " q2 ", [r12], #32\n smlad r11, " p0 ", r0, r5\n"          \
    " smlad r11, " p1 ", r1, r11\n smlad r11, " q1 ", r3, r11\n"                                               \
    rescale(p1, q1, " smlad r11, " p2 ", r2, r11\n smlatb r11, " q2 ", r4, r11\n")

/* The unrolled loop is entered where the rest of the results is a whole round; `size` are the bytes of an entry. */
#define SLIDE_FUNCTION(name, keep, size, entries, round)                                                       \
    __attribute__((naked, noinline)) static void name(const strip_slide *s __attribute__((unused))) {          \
        __asm__ volatile(                                                                                      \
            " push {r4-r11, lr}\n sub sp, sp, " SLIDE_FRAME "\n ldmia r0, {r1-r6}\n"                           \
            " str r1, [sp, " SLIDE_PLACE "]\n str r2, [sp, #24]\n strd r3, r4, [sp, " SLIDE_CHANNEL "]\n"       \
            " str r5, [sp, " SLIDE_LENGTH "]\n adr.w r7, 8f\n movs r8, #" size "\n mla r7, r6, r8, r7\n"        \
            " orr r7, r7, #1\n str r7, [sp, " SLIDE_ENTRY "]\n"                                                \
            "7: ldr r11, [sp, " SLIDE_CHANNEL "]\n ldmia r11!, {r0-r5}\n ldmia r11!, {r6-r9}\n"                 \
            " str r11, [sp, " SLIDE_CHANNEL "]\n" keep                                                         \
            " ldrd r12, lr, [sp, " SLIDE_PLACE "]\n add r6, r12, #8\n add r7, lr, #1\n"                         \
            " strd r6, r7, [sp, " SLIDE_PLACE "]\n ldrd r6, r7, [sp, " SLIDE_LENGTH "]\n add r6, r6, r12\n"     \
            " str r6, [sp, " SLIDE_END "]\n bx r7\n .balign 4\n"                                               \
            "8:\n" entries round                                                                               \
            " ldr r11, [sp, " SLIDE_END "]\n cmp r12, r11\n bne 10b\n"                                         \
            " ldrd r6, r7, [sp, " SLIDE_CHANNEL "]\n cmp r6, r7\n bne 7b\n"                                     \
            " add sp, sp, " SLIDE_FRAME "\n pop {r4-r11, pc}\n");                                              \
    }

#define SLIDE_ENTRY_1(p0, q0, p1, q1, to)                                                                      \
    " ldrd " p0 ", " q0 ", [r12], #32\n ldrd " p1 ", " q1 ", [r12], #32\n b.w " to "\n"
#define SLIDE_ENTRIES_1                                                                                        \
    SLIDE_ENTRY_1("r6", "r10", "r7", "r9", "10f") SLIDE_ENTRY_1("r7", "r9", "r8", "r10", "11f")                \
    SLIDE_ENTRY_1("r8", "r10", "r6", "r9", "12f") SLIDE_ENTRY_1("r6", "r9", "r7", "r10", "13f")                \
    SLIDE_ENTRY_1("r7", "r10", "r8", "r9", "14f") SLIDE_ENTRY_1("r8", "r9", "r6", "r10", "15f")
#define SLIDE_ROUND_1(rescale)                                                                                 \
    "10:" SLIDE_BY_1(rescale, "r6", "r7", "r8", "r9", "r10") "11:" SLIDE_BY_1(rescale, "r7", "r8", "r6", "r10", "r9") \
    "12:" SLIDE_BY_1(rescale, "r8", "r6", "r7", "r9", "r10") "13:" SLIDE_BY_1(rescale, "r6", "r7", "r8", "r10", "r9") \
    "14:" SLIDE_BY_1(rescale, "r7", "r8", "r6", "r9", "r10") "15:" SLIDE_BY_1(rescale, "r8", "r6", "r7", "r10", "r9")
#define SLIDE_ENTRIES_2 " ldr r6, [r12], #32\n b.w 10f\n ldr r8, [r12], #32\n b.w 11f\n"
#define SLIDE_ROUND_2(rescale)                                                                                 \
    "10:" SLIDE_BY_2(rescale, "r6", "r7", "r8", "r9", "r10") "11:" SLIDE_BY_2(rescale, "r8", "r7", "r6", "r9", "r10")

SLIDE_FUNCTION(slide_1_folded_8, SLIDE_KEEP_FOLDED, "12", SLIDE_ENTRIES_1, SLIDE_ROUND_1(SLIDE_FOLDED_8))
SLIDE_FUNCTION(slide_1_folded_12, SLIDE_KEEP_FOLDED, "12", SLIDE_ENTRIES_1, SLIDE_ROUND_1(SLIDE_FOLDED_12))
SLIDE_FUNCTION(slide_1_exact, SLIDE_KEEP_EXACT, "12", SLIDE_ENTRIES_1, SLIDE_ROUND_1(SLIDE_EXACT))
SLIDE_FUNCTION(slide_2_folded_8, SLIDE_KEEP_FOLDED, "8", SLIDE_ENTRIES_2, SLIDE_ROUND_2(SLIDE_FOLDED_8))
SLIDE_FUNCTION(slide_2_folded_12, SLIDE_KEEP_FOLDED, "8", SLIDE_ENTRIES_2, SLIDE_ROUND_2(SLIDE_FOLDED_12))
SLIDE_FUNCTION(slide_2_exact, SLIDE_KEEP_EXACT, "8", SLIDE_ENTRIES_2, SLIDE_ROUND_2(SLIDE_EXACT))

/* Bit i: stride i is in this build. */
#ifndef TRIVET_DSP_STRIDES
#define TRIVET_DSP_STRIDES 6u
#endif
#define IS_STRIDE(stride, kind) \
    (TRIVET_DSP_STRIDES == 1u << (kind) || ((TRIVET_DSP_STRIDES >> (kind) & 1u) != 0 && (stride) == (kind)))

static void slide_strip(const strip_slide *s, uint32_t stride, uint32_t form) {
    if (IS_STRIDE(stride, 1u)) {
        if (TRIVET_IS_DSP_FORM(form, TRIVET_DSP_FOLDED_8)) {
            slide_1_folded_8(s);
        } else if (TRIVET_IS_DSP_FORM(form, TRIVET_DSP_FOLDED_12)) {
            slide_1_folded_12(s);
        } else {
            slide_1_exact(s);
        }
    } else {
        if (TRIVET_IS_DSP_FORM(form, TRIVET_DSP_FOLDED_8)) {
            slide_2_folded_8(s);
        } else if (TRIVET_IS_DSP_FORM(form, TRIVET_DSP_FOLDED_12)) {
            slide_2_folded_12(s);
        } else {
            slide_2_exact(s);
        }
    }
}

#else

static uint32_t column_byte(uint32_t word, uint32_t channel) { return word >> 8 * channel << 8 & 0xFF00u; }

static void expand_strip(strip_rows *s) {
    uint32_t *to = s->to, before = s->zeros;
    for (size_t x = 0; x < s->left + s->count + s->right; x++) {
        uint32_t rows[3] = {s->zeros, s->zeros, s->zeros};
        if (x >= s->left && x < s->left + s->count) {
            for (uint32_t r = 0; r < 3; r++) {
                rows[r] = trivet_dsp_load(s->rows[r] + (x - s->left) * s->step);
            }
        }
        for (uint32_t k = 0; k < CHANNELS; k++) {
            *to++ = column_byte(rows[0], k) | column_byte(rows[1], k) << 16;
            *to++ = column_byte(before, k) | column_byte(rows[2], k) << 16;
        }
        before = rows[2];
    }
}

static uint32_t window_sum(const sliding *c, const uint32_t *column) {
    uint32_t sum = (uint32_t)c->rescale[0];
    for (uint32_t x = 0; x < 3; x++) {
        sum = trivet_dsp_smlad(column[x * COLUMN_WORDS], c->weights[x], sum);
    }
    sum = trivet_dsp_smlad(column[COLUMN_WORDS + 1], c->weights[3], sum);
    return sum + (uint32_t)(trivet_dsp_high(column[2 * COLUMN_WORDS + 1]) * trivet_dsp_low(c->weights[4]));
}

static void slide_strip(const strip_slide *s, uint32_t stride, uint32_t form) {
    const size_t words = s->length / sizeof *s->columns;
    for (const sliding *c = s->channels; c < s->channels_end; c++) {
        const size_t channel = (size_t)(c - s->channels);
        int8_t *out = s->out + channel;
        for (size_t x = 0; x + 3 * COLUMN_WORDS <= words; x += stride * COLUMN_WORDS, out += c->out_stride) {
            *out = trivet_dsp_rescale(form, c->rescale, 1, 0, 0, window_sum(c, s->columns + x + 2 * channel));
        }
    }
}

#endif

typedef struct job {
    const trivet_depthwise_dsp_s8_record *p;
    const trivet_view *x, *y;
    uint32_t *columns;
    sliding whole[CHANNELS], cut[CHANNELS]; /* of a group: all rows, and without the rows beyond the operand */
    uint32_t strip;                         /* results of a strip */
    uint32_t group;                         /* its first channel */
} job;

/* Bytes 0 and 2 of a word, sign extended. */
static uint32_t two_weights(uint32_t word) {
    return (uint32_t)(uint16_t)(int16_t)(int8_t)(uint8_t)(word & 0xFFu) |
           (uint32_t)(uint16_t)(int16_t)(int8_t)(uint8_t)(word >> 16 & 0xFFu) << 16;
}

static void set_group(job *j, const uint8_t *constants, uint32_t group) {
    const uint32_t numbers = trivet_dsp_rescale_numbers(j->p->form);
    const int8_t *weights = (const int8_t *)trivet_blob_data(constants, &j->p->weights) + (size_t)group * GROUP_BYTES;
    const int32_t *rescale = (const int32_t *)(const void *)trivet_blob_data(constants, &j->p->rescale);
    rescale += (size_t)group * CHANNELS * numbers;
    j->group = group * CHANNELS;
    for (uint32_t k = 0; k < CHANNELS; k++) {
        sliding *c = &j->whole[k];
        uint32_t first = trivet_dsp_load(weights + 8 * k), second = trivet_dsp_load(weights + 8 * k + 4);
        c->weights[0] = two_weights(first);
        c->weights[1] = two_weights(first >> 8);
        c->weights[2] = two_weights(second);
        c->weights[3] = two_weights(second >> 8);
        c->weights[4] = (uint32_t)(int32_t)weights[8 * CHANNELS + k];
        for (uint32_t i = 0; i < 4; i++) {
            c->rescale[i] = i < numbers ? rescale[i * CHANNELS + k] : 0;
        }
        c->out_stride = j->p->channels;
    }
}

/* The channels of the group without the rows that `missing` says: these add what zero points do. */
static const sliding *cut_rows(job *j, uint32_t missing) {
    if (missing == 0) {
        return j->whole;
    }
    for (uint32_t k = 0; k < CHANNELS; k++) {
        sliding *c = &j->cut[k];
        int32_t lost = 0;
        *c = j->whole[k];
        for (uint32_t i = 0; i < 3; i++) {
            lost += (missing & 1u) != 0 ? trivet_dsp_low(c->weights[i]) : 0;
            lost += (missing & 2u) != 0 ? trivet_dsp_high(c->weights[i]) : 0;
            c->weights[i] &= ((missing & 1u) != 0 ? 0xFFFF0000u : ~0u) & ((missing & 2u) != 0 ? 0xFFFFu : ~0u);
        }
        if ((missing & 4u) != 0) {
            lost += trivet_dsp_low(c->weights[3]) + trivet_dsp_high(c->weights[3]) + trivet_dsp_low(c->weights[4]);
            c->weights[3] = c->weights[4] = 0;
        }
        c->rescale[0] = (int32_t)((uint32_t)c->rescale[0] + (uint32_t)(256 * j->p->in_zero * lost));
    }
    return j->cut;
}

static void run_strip(const job *j, const int8_t *const *rows, const sliding *channels, int8_t *out, uint32_t ox,
                      uint32_t count) {
    const trivet_depthwise_dsp_s8_record *p = j->p;
    const int32_t ix = (int32_t)(ox * p->stride_w) - p->pad_left;
    const uint32_t columns = (count - 1) * p->stride_w + 3;
    const trivet_range inside = trivet_taps_inside(ix, p->in_width, columns, 1);
    strip_rows e;
    for (uint32_t r = 0; r < 3; r++) {
        e.rows[r] = rows[r] + (ptrdiff_t)(ix + (int32_t)inside.first) * (ptrdiff_t)p->channels + j->group;
    }
    e.step = p->channels;
    e.to = j->columns;
    e.left = inside.first;
    e.count = inside.last - inside.first;
    e.right = columns - inside.last;
    e.zeros = (uint32_t)(p->in_zero & 0xFF) * 0x01010101u;
    e.zero = trivet_dsp_both(p->in_zero);
    expand_strip(&e);
    const uint32_t round = p->stride_w == 1 ? 6 : 2;
    const strip_slide s = {j->columns,
                           out + (size_t)ox * p->channels + j->group,
                           channels,
                           channels + CHANNELS,
                           (size_t)columns * COLUMN_WORDS * 4,
                           (round - count % round) % round};
    slide_strip(&s, p->stride_w, p->form);
}

static void run_row(job *j, uint32_t oy) {
    const trivet_depthwise_dsp_s8_record *p = j->p;
    int8_t *out = (int8_t *)trivet_row(j->y, oy);
    const int8_t *rows[3];
    uint32_t missing = 0;
    for (uint32_t ky = 0; ky < 3; ky++) {
        int32_t iy = (int32_t)(oy * p->stride_h + ky) - p->pad_top;
        const uint8_t *row = trivet_window_row(j->x, iy);
        missing |= row == NULL ? 1u << ky : 0;
        rows[ky] = (const int8_t *)(row == NULL ? j->x->data : row);
    }
    const sliding *channels = cut_rows(j, missing);
    for (uint32_t ox = 0; ox < p->out_width; ox += j->strip) {
        run_strip(j, rows, channels, out, ox, trivet_minimum(j->strip, p->out_width - ox));
    }
    if (p->lo > -128 || p->hi < 127) {
        for (uint32_t ox = 0; ox < p->out_width; ox++) {
            int8_t *of_group = out + (size_t)ox * p->channels + j->group;
            for (uint32_t k = 0; k < CHANNELS; k++) {
                of_group[k] = (int8_t)(of_group[k] < p->lo ? p->lo : of_group[k] > p->hi ? p->hi : of_group[k]);
            }
        }
    }
}

/* All rows of a group before the next group: nothing is written over what a firing reads. */
trivet_status trivet_depthwise_dsp_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    uint32_t columns[COLUMNS * COLUMN_WORDS];
    job j;
    j.p = (const trivet_depthwise_dsp_s8_record *)call->params;
    j.x = &call->inputs[0];
    j.y = &call->outputs[0];
    j.columns = columns;
    const uint32_t most = (COLUMNS - 3) / j.p->stride_w + 1;
    const uint32_t strips = (j.p->out_width - 1) / most + 1;
    j.strip = (j.p->out_width - 1) / strips + 1;
    for (uint32_t group = 0; group < j.p->channels / CHANNELS; group++) {
        set_group(&j, call->constants, group);
        for (uint32_t oy = row; oy < row + rows; oy++) {
            run_row(&j, oy);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_depthwise_dsp_s8_check(const trivet_check *check) {
    const trivet_depthwise_dsp_s8_record *p = (const trivet_depthwise_dsp_s8_record *)check->params;
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8);
    TRIVET_REQUIRE(p->channels > 0 && p->channels % CHANNELS == 0 && p->channels <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(x->row_bytes == trivet_product(p->in_width, p->channels));
    TRIVET_REQUIRE(y->row_bytes == trivet_product(p->out_width, p->channels));
    TRIVET_REQUIRE(p->kernel_h == 3 && p->kernel_w == 3 && p->dilation_h == 1 && p->dilation_w == 1);
    TRIVET_REQUIRE((p->stride_w == 1 || p->stride_w == 2) &&
                   trivet_window_is_sound(x->height, y->height, 3, p->stride_h, 1, p->pad_top) &&
                   trivet_window_is_sound(p->in_width, p->out_width, 3, p->stride_w, 1, p->pad_left));
    TRIVET_REQUIRE(p->in_zero >= -128 && p->in_zero <= 127 && p->lo >= -128 && p->lo <= p->hi && p->hi <= 127);
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(p->channels / CHANNELS, GROUP_BYTES));
    TRIVET_REQUIRE(trivet_dsp_rescale_is_sound(check->constants, &p->rescale, p->form, CHANNELS, p->channels));
    return TRIVET_OK;
}
