/* Products of pixels with packed weights, on Helium: 64 products in 8 instructions. */
#ifndef TRIVET_GEMM_MVE_H
#define TRIVET_GEMM_MVE_H

#include "mve.h"

/* All channels of two pixels, or of one that is given twice. A window is `steps` vectors; bytes beyond its end meet
 * weights of 0. The assembler knows where the fields are. */
typedef struct trivet_gemm_mve {
    const int8_t *x0, *x1;
    const int8_t *weights;  /* i8 [groups][2][steps][2][16]: of 4 channels first 0 and 2, then 1 and 3 */
    const int32_t *numbers; /* i32 [groups][3][4] */
    int8_t *out0, *out1;
    trivet_mve_rescale rescale;
    uint32_t steps, groups;
} trivet_gemm_mve;

void trivet_gemm_mve_pixels(const trivet_gemm_mve *g);

/* All channels of one pixel, whose weights lie otherwise. */
typedef struct trivet_dense_mve {
    const int8_t *x;
    const int8_t *weights; /* i8 [groups][steps][4][16] */
    const int32_t *numbers;
    int8_t *out;
    trivet_mve_rescale rescale;
    uint32_t steps, groups;
} trivet_dense_mve;

void trivet_dense_mve_pixel(const trivet_dense_mve *g);

/* Four channels of many pixels whose windows are one vector each. */
typedef struct trivet_column_mve {
    const int8_t *x;
    const int8_t *weights; /* as above, steps 1, of one group */
    const int32_t *numbers;
    int8_t *out;
    trivet_mve_rescale rescale;
    uint32_t pixels, x_stride, out_stride;
} trivet_column_mve;

void trivet_column_mve_run(const trivet_column_mve *g);

#endif
