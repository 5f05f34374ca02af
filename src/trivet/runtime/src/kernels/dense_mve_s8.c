/* dense on int8 of one pixel for Helium. */
#include "gemm_mve.h"
#include "trivet/kernels/conv_mve.h"
#include "windows.h"

/* Features that are no whole vectors are copied: up to this size on the stack (backends/plan/kernels/conv_mve.py). */
#define STACK_BYTES 512u

static uint32_t vectors(uint32_t features) { return (features + TRIVET_MVE_BYTES - 1) / TRIVET_MVE_BYTES; }

/* Whole vectors with the features; `room` is the work space. */
static const int8_t *padded(const trivet_dense_mve_s8_record *p, const int8_t *x, int8_t *room) {
    const uint32_t rest = p->features % TRIVET_MVE_BYTES;
    if (rest == 0) {
        return x;
    }
    memset(room + (p->features - rest), 0, TRIVET_MVE_BYTES);
    memcpy(room, x, p->features);
    return room;
}

trivet_status trivet_dense_mve_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dense_mve_s8_record *p = (const trivet_dense_mve_s8_record *)call->params;
    int8_t stack[STACK_BYTES];
    trivet_dense_mve g;
    (void)row;
    (void)rows;
    g.steps = vectors(p->features);
    g.x = padded(p, (const int8_t *)call->inputs[0].data,
                 g.steps * TRIVET_MVE_BYTES <= STACK_BYTES ? stack : (int8_t *)call->scratch);
    g.weights = (const int8_t *)trivet_blob_data(call->constants, &p->weights);
    g.numbers = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->numbers);
    g.out = (int8_t *)call->outputs[0].data;
    g.rescale.zero = p->out_zero;
    g.rescale.lo = p->lo;
    g.rescale.hi = p->hi;
    g.rescale.is_signed = p->is_signed;
    g.groups = p->outputs / TRIVET_MVE_LANES;
    trivet_dense_mve_pixel(&g);
    if (p->outputs % TRIVET_MVE_LANES != 0) {
        g.weights += (size_t)g.groups * TRIVET_MVE_LANES * TRIVET_MVE_BYTES * g.steps;
        g.numbers += (size_t)g.groups * TRIVET_MVE_LANES * TRIVET_MVE_NUMBERS;
        g.out += p->outputs - TRIVET_MVE_LANES;
        g.groups = 1;
        trivet_dense_mve_pixel(&g);
    }
    return TRIVET_OK;
}

trivet_status trivet_dense_mve_s8_check(const trivet_check *check) {
    const trivet_dense_mve_s8_record *p = (const trivet_dense_mve_s8_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_I8 && y->dtype == TRIVET_I8 && p->features > 0 && p->outputs >= TRIVET_MVE_LANES);
    TRIVET_REQUIRE(p->features <= TRIVET_MAX_POSITION / 16 && p->outputs <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(x->height == 1 && x->row_bytes == p->features && y->height == 1 && y->row_bytes == p->outputs);
    const uint32_t bytes = vectors(p->features) * TRIVET_MVE_BYTES;
    TRIVET_REQUIRE(p->features % TRIVET_MVE_BYTES == 0 || bytes <= STACK_BYTES || check->scratch_bytes >= bytes);
    const uint32_t channels = (p->outputs + TRIVET_MVE_LANES - 1) / TRIVET_MVE_LANES * TRIVET_MVE_LANES;
    const trivet_mve_rescale rescale = {p->out_zero, p->lo, p->hi, p->is_signed};
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(channels, bytes));
    TRIVET_REQUIRE(trivet_mve_rescale_is_sound(&rescale, check->constants, &p->numbers, channels));
    return TRIVET_OK;
}
