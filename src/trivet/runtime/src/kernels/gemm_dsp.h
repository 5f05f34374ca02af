/* Products of widened windows with packed int8 weights, two pixels by two channels at a time: the inner loop of the
 * convolutions for cores with the DSP extension (Cortex-M4, M7, M33). There is a portable body, which gives the same
 * bytes.
 *
 * A step is four products of a pixel and a channel. Operands are widened to int16 times 256, `[k0 k2][k1 k3]` in two
 * words, which costs one instruction a word; sums are therefore 256 times what they stand for.
 */
#ifndef TRIVET_GEMM_DSP_H
#define TRIVET_GEMM_DSP_H

#include "dsp.h"

/* Channels of a pair. */
#define TRIVET_PAIR 2u

typedef struct trivet_gemm_dsp {
    const uint32_t *x; /* [pairs of pixels][steps][2 pixels][2 words] */
    const uint32_t *x_end;
    int8_t *out;
    size_t out_stride; /* from pixel to pixel; 0: there is one pixel, the first of a pair */
    const int32_t *rescale;  /* of a pair: 2 sums to begin with, then as the form takes them */
    const int8_t *weights;   /* [pairs of channels][steps][2 channels][4] */
    size_t steps;
    size_t pairs;            /* of channels */
    int32_t constant;        /* of the folded forms: (zero << shift) + (1 << (shift - 1)) */
    uint32_t *widened;       /* room for the widened weights of a pair, [steps][4] words; NULL: widened at each use */
    uint32_t form;           /* trivet_dsp_form */
} trivet_gemm_dsp;

void trivet_gemm_dsp_run(const trivet_gemm_dsp *g);

#endif
