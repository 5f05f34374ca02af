/* Windows of nine taps, 16 channels at a time, on Helium. */
#ifndef TRIVET_DEPTHWISE_MVE_H
#define TRIVET_DEPTHWISE_MVE_H

#include "mve.h"

#define TRIVET_MVE_TAPS 9u

/* Pixels of a row: each reads `blocks` vectors of every tap, and writes as many. The assembler knows where the fields
 * are. */
typedef struct trivet_depthwise_mve {
    const int8_t *taps[TRIVET_MVE_TAPS];
    const int8_t *weights;  /* i8 [blocks][9][16], none of them -128 */
    const int32_t *numbers; /* i32 [blocks][4][3][4]: channels 0, 4, 8, 12; 2, 6, ...; 1, 5, ...; 3, 7, ... */
    int8_t *out;
    trivet_mve_rescale rescale;
    uint32_t blocks, pixels;
    int32_t skips[3]; /* bytes from behind the last vector of a pixel to the first of the next, by kernel row */
    uint32_t out_skip;
} trivet_depthwise_mve;

void trivet_depthwise_mve_run(const trivet_depthwise_mve *g);

#endif
