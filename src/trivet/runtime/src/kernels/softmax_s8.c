/* TensorFlow Lite's integer softmax over the last axis of int8, to int8 or int16: powers from a table, one reciprocal a
 * vector. */
#include "fixedpoint.h"
#include "trivet/kernels/softmax.h"

enum { SUM_SHIFT = 12, MAX_FEATURES = 4095 };

typedef struct job {
    const int32_t *powers;
    uint32_t features, bits; /* bits of a result */
} job;

static void softmax_vector(const job *j, const int8_t *x, uint8_t *y) {
    int32_t largest = -128;
    for (uint32_t i = 0; i < j->features; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    const int32_t *power_of = j->powers + 255 - largest; /* indexed by the stored value */
    int32_t total = 0;
    for (uint32_t i = 0; i < j->features; i++) {
        int32_t power = power_of[x[i]];
        total += power < 0 ? 0 : (int32_t)trivet_rdbp(power, SUM_SHIFT);
    }
    const uint32_t zeros = trivet_leading_zeros((uint32_t)total), shift = SUM_SHIFT + 31 - j->bits - zeros;
    const int32_t reciprocal = trivet_one_over_one_plus((int32_t)(((uint32_t)total << zeros) ^ 0x80000000u));
    const int32_t half = 1 << (j->bits - 1);
    for (uint32_t i = 0; i < j->features; i++) {
        int32_t power = power_of[x[i]];
        int32_t scaled = power < 0 ? 0 : (int32_t)trivet_rdbp(trivet_srdhm(reciprocal, power), shift);
        int32_t value = trivet_clamp(scaled - half, -half, half - 1);
        if (j->bits == 8) {
            ((int8_t *)y)[i] = (int8_t)value;
        } else {
            ((int16_t *)(void *)y)[i] = (int16_t)value;
        }
    }
}

trivet_status trivet_softmax_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_softmax_s8_record *p = (const trivet_softmax_s8_record *)call->params;
    const job j = {(const int32_t *)(const void *)trivet_blob_data(call->constants, &p->powers), p->features,
                   p->wide != 0 ? 16u : 8u};
    for (uint32_t r = row; r < row + rows; r++) {
        const int8_t *x = (const int8_t *)trivet_row(&call->inputs[0], r);
        uint8_t *y = trivet_row(&call->outputs[0], r);
        for (uint32_t at = 0; at < call->inputs[0].row_bytes; at += p->features) {
            softmax_vector(&j, x + at, y + ((size_t)at << p->wide));
        }
    }
    return TRIVET_OK;
}

/* Any table is safe except one whose sums leave int32, or that lets a sum be zero. */
static bool powers_are_sound(const int32_t *powers) {
    for (uint32_t i = 0; i < 256; i++) {
        if (powers[i] < -1) {
            return false;
        }
    }
    return powers[255] >= 1 << 30;
}

trivet_status trivet_softmax_s8_check(const trivet_check *check) {
    const trivet_softmax_s8_record *p = (const trivet_softmax_s8_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(p->wide <= 1 && check->inputs[0].dtype == TRIVET_I8);
    TRIVET_REQUIRE(check->outputs[0].dtype == (p->wide != 0 ? TRIVET_I16 : TRIVET_I8));
    TRIVET_REQUIRE(trivet_same_shape(&check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(p->features >= 1 && p->features <= MAX_FEATURES && check->inputs[0].row_bytes % p->features == 0);
    TRIVET_REQUIRE(p->powers.bytes == 256 * sizeof(int32_t));
    TRIVET_REQUIRE(powers_are_sound((const int32_t *)(const void *)trivet_blob_data(check->constants, &p->powers)));
    return TRIVET_OK;
}
