/* dense on int8 for one vector: sums of products of packed weights with it, without windows.
 *
 * Where processors have no wide instructions, weights are read once from flash, as they are: that is small, and for one
 * vector faster than to widen them first. */
#include <string.h>

#include "requant_s8.h"
#include "trivet/kernels/conv.h"
#include "windows.h"

#define PATCH_BYTES 1024u /* a vector up to this size is copied where the result lies over it (PATCH_BYTES of conv.py) */

/* What the sums start from: the zero point of the weights, which the loops leave out, times the sum of the vector. */
static uint32_t zero_product(const trivet_dense_s8_record *p, const int8_t *x) {
    uint32_t sum = 0;
    for (uint32_t k = 0; p->weight_zero != 0 && k < p->in_features; k++) {
        const int32_t value = x[k];
        sum += (uint32_t)value;
    }
    return sum * (uint32_t)p->weight_zero;
}

/* The products of one channel, whose weights lie in fours that are `pitch` bytes apart, modulo 2^32. */
static uint32_t channel_sum(const int8_t *x, const int8_t *w, size_t pitch, uint32_t features) {
    const int8_t *const end = x + (features & ~3u);
    uint32_t sum = 0;
    for (; x < end; x += 4, w += pitch) {
        sum += (uint32_t)(x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3]);
    }
    for (uint32_t k = 0; k < (features & 3u); k++) {
        sum += (uint32_t)(x[k] * w[k]);
    }
    return sum;
}

static void multiply_plainly(const trivet_dense_s8_record *p, const int8_t *w, const trivet_requant_s8 *r,
                             const int8_t *x, int8_t *y) {
    const uint32_t zero = zero_product(p, x), features = p->in_features;
    for (uint32_t channel = 0; channel < p->out_features; channel += TRIVET_LANES) {
        const uint32_t left = p->out_features - channel, count = left < TRIVET_LANES ? left : TRIVET_LANES;
        const size_t pitch = 4 * (size_t)((count + 3) & ~3u);
        int32_t sums[TRIVET_LANES];
        for (uint32_t i = 0; i < count; i++) {
            sums[i] = (int32_t)((uint32_t)r->bias[channel + i] + channel_sum(x, w + (size_t)4 * i, pitch, features) - zero);
        }
        w += (features + 3) / 4 * pitch;
        trivet_requantize_s8(r, channel, sums, count, y + channel);
    }
}

#ifdef TRIVET_X86
/* With wide instructions weights are best read as they are packed; `x` has room for whole words. */
static void multiply(const trivet_dense_s8_record *p, const int8_t *w, const trivet_requant_s8 *r, const int8_t *x,
                     int8_t *y) {
    const trivet_core_s8 *core = trivet_core_s8_get();
    if (core->level == 0) {
        multiply_plainly(p, w, r, x, y);
        return;
    }
    trivet_gemm_s8 g = {0};
    g.weights = w;
    g.requant = *r;
    g.channels = p->out_features;
    g.steps = g.segment_steps = (p->in_features + 3) / 4;
    g.segment_count = g.rows = 1;
    g.weight_zero = p->weight_zero;
    const trivet_segment_s8 segment = {x, 0, 0};
    core->gemm(&g, &segment, 1, y, 0);
}

static bool has_whole_words(const trivet_dense_s8_record *p) { return p->in_features % 4 == 0; }
#else
#define multiply multiply_plainly
#define has_whole_words(p) true
#endif

trivet_status trivet_dense_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dense_s8_record *p = (const trivet_dense_s8_record *)call->params;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, call->constants);
    const trivet_requant_s8 r = trivet_requant_at(&fields, 0, 0);
    const int8_t *x = (const int8_t *)call->inputs[0].data;
    int8_t *const y = (int8_t *)call->outputs[0].data;
    int8_t patch[PATCH_BYTES];
    (void)row;
    (void)rows; /* there is one */
    if ((x == y || !has_whole_words(p)) && p->in_features <= PATCH_BYTES) {
        memcpy(patch, x, p->in_features);
        x = patch;
    }
    multiply(p, (const int8_t *)trivet_blob_data(call->constants, &p->weights), &r, x, y);
    return TRIVET_OK;
}

static bool is_vector(const trivet_tensor_info *t, uint32_t features) {
    return t->dtype == TRIVET_I8 && t->height == 1 && t->row_bytes == features;
}

trivet_status trivet_dense_s8_check(const trivet_check *check) {
    const trivet_dense_s8_record *p = (const trivet_dense_s8_record *)check->params;
    const trivet_requant_fields fields = TRIVET_REQUANT_FIELDS(p, check->constants);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(p->in_features > 0 && p->in_features <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(p->out_features > 0 && p->out_features <= TRIVET_MAX_POSITION);
    TRIVET_REQUIRE(p->in_features % 4 == 0 || p->in_features <= PATCH_BYTES);
    TRIVET_REQUIRE(is_vector(&check->inputs[0], p->in_features) && is_vector(&check->outputs[0], p->out_features));
    TRIVET_REQUIRE(p->weight_zero >= -128 && p->weight_zero <= 127);
    uint32_t steps = (p->in_features + 3) / 4, lanes = (p->out_features + 3) / 4;
    TRIVET_REQUIRE(p->weights.bytes == trivet_product(trivet_product(steps, lanes), 16));
    TRIVET_REQUIRE(trivet_requant_is_sound(&fields, p->out_features, 1));
    return TRIVET_OK;
}
