/* SVDF: filters over features, whose last results are remembered, and filters over those. */
#include "fixedpoint.h"
#include "trivet/kernels/recurrent_stored.h"

/* The state that is read. */
static const uint8_t *old_state(const trivet_call *call, const trivet_blob *blob) {
    const uint8_t *constant = trivet_blob_data(call->constants, blob);
    return constant == NULL ? call->inputs[1].data : constant;
}

static int32_t load(const uint8_t *state, size_t index, uint32_t is_wide) {
    return is_wide != 0 ? ((const int16_t *)(const void *)state)[index] : ((const int8_t *)state)[index];
}

static void store(uint8_t *state, size_t index, uint32_t is_wide, int32_t value) {
    if (is_wide != 0) {
        ((int16_t *)(void *)state)[index] = (int16_t)value;
    } else {
        ((int8_t *)state)[index] = (int8_t)value;
    }
}

/* Moves the memory of a filter on by one, with the newest result at its end. */
static void remember_s8(const trivet_svdf_s8_record *p, const int8_t *x, const int8_t *features, const uint8_t *from,
                        uint8_t *to, size_t at) {
    const int32_t most = p->is_wide != 0 ? 32767 : 127;
    int32_t sum = 0;
    for (uint32_t i = 0; i < p->inputs; i++) {
        sum += (int16_t)(x[i] - p->in_zero) * (int16_t)features[i];
    }
    for (uint32_t t = 0; t + 1 < p->memory; t++) {
        store(to, at + t, p->is_wide, load(from, at + t + 1, p->is_wide));
    }
    int32_t newest = trivet_rescale_q31(sum, p->feature_mantissa, p->feature_shift);
    store(to, at + p->memory - 1, p->is_wide, trivet_clamp(newest, -most - 1, most) + p->state_zero);
}

trivet_status trivet_svdf_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_svdf_s8_record *p = (const trivet_svdf_s8_record *)call->params;
    const int8_t *features = (const int8_t *)trivet_blob_data(call->constants, &p->features);
    const int16_t *times = (const int16_t *)(const void *)trivet_blob_data(call->constants, &p->times);
    const int32_t *bias = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->bias);
    const int8_t *x = (const int8_t *)call->inputs[0].data;
    int8_t *y = (int8_t *)call->outputs[0].data;
    uint8_t *state = call->outputs[1].data;
    const uint8_t *old = old_state(call, &p->state);
    (void)row, (void)rows;
    for (uint32_t b = 0; b < p->batch; b++, x += p->inputs) {
        uint32_t sum = 0;
        for (uint32_t f = 0; f < p->filters; f++) {
            const size_t at = ((size_t)b * p->filters + f) * p->memory;
            remember_s8(p, x, features + (size_t)f * p->inputs, old, state, at);
            sum = f % p->rank == 0 ? (uint32_t)bias[f / p->rank] : sum;
            for (uint32_t t = 0; t < p->memory; t++) {
                int64_t product = (int64_t)times[(size_t)f * p->memory + t] *
                                  (load(state, at + t, p->is_wide) - p->state_zero);
                sum += (uint32_t)(uint64_t)product;
            }
            if ((f + 1) % p->rank == 0) {
                int64_t value = (int64_t)trivet_rescale_q31((int32_t)sum, p->mantissa, p->shift) + p->out_zero;
                *y++ = (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
            }
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_svdf_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_svdf_f32_record *p = (const trivet_svdf_f32_record *)call->params;
    const float *features = (const float *)(const void *)trivet_blob_data(call->constants, &p->features);
    const float *times = (const float *)(const void *)trivet_blob_data(call->constants, &p->times);
    const float *bias = (const float *)(const void *)trivet_blob_data(call->constants, &p->bias);
    const float *x = (const float *)(const void *)call->inputs[0].data;
    const float *old = (const float *)(const void *)old_state(call, &p->state);
    float *y = (float *)(void *)call->outputs[0].data, *state = (float *)(void *)call->outputs[1].data;
    (void)row, (void)rows;
    for (uint32_t b = 0; b < p->batch; b++, x += p->inputs) {
        float sum = 0.0f;
        for (uint32_t f = 0; f < p->filters; f++, old += p->memory, state += p->memory) {
            float newest = 0.0f, filtered = 0.0f;
            for (uint32_t i = 0; i < p->inputs; i++) {
                newest += features[(size_t)f * p->inputs + i] * x[i];
            }
            for (uint32_t t = 0; t < p->memory; t++) {
                state[t] = t + 1 < p->memory ? old[t + 1] : newest;
                filtered += times[(size_t)f * p->memory + t] * state[t];
            }
            sum = f % p->rank == 0 ? filtered : sum + filtered;
            if ((f + 1) % p->rank == 0) {
                float value = sum + bias[f / p->rank];
                *y++ = value < p->lo ? p->lo : value > p->hi ? p->hi : value;
            }
        }
    }
    return TRIVET_OK;
}

typedef struct sizes {
    uint32_t batch, inputs, filters, memory, rank;
} sizes;

#define SIZES(p) {(p)->batch, (p)->inputs, (p)->filters, (p)->memory, (p)->rank}

/* True iff operands and results are of those sizes, the state that is read too, with elements of so many bytes. */
static bool shapes_are_sound(const trivet_check *check, const sizes *s, const trivet_blob *blob, uint32_t width) {
    if (check->input_count != (blob->bytes == 0 ? 2u : 1u) || check->output_count != 2 || check->accumulates || check->images != 1 ||
        s->batch < 1 || s->inputs < 1 || s->filters < 1 || s->memory < 1 || s->rank < 1 || s->filters % s->rank != 0) {
        return false;
    }
    const uint32_t state = trivet_product(trivet_product(s->batch, s->filters), s->memory);
    return trivet_elements(&check->inputs[0]) == trivet_product(s->batch, s->inputs) &&
           trivet_elements(&check->outputs[0]) == trivet_product(s->batch, s->filters / s->rank) &&
           (blob->bytes == 0 ? trivet_elements(&check->inputs[1]) == state &&
                                   check->inputs[1].dtype == check->outputs[1].dtype
                             : blob->bytes == trivet_product(state, width)) &&
           trivet_elements(&check->outputs[1]) == state;
}

static bool is_byte(int32_t zero) { return zero >= -128 && zero <= 127; }

trivet_status trivet_svdf_s8_check(const trivet_check *check) {
    const trivet_svdf_s8_record *p = (const trivet_svdf_s8_record *)check->params;
    const sizes s = SIZES(p);
    const uint32_t dtype = p->is_wide != 0 ? TRIVET_I16 : TRIVET_I8;
    TRIVET_REQUIRE(shapes_are_sound(check, &s, &p->state, p->is_wide != 0 ? 2 : 1) && p->inputs <= 65536);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_I8 && check->outputs[0].dtype == TRIVET_I8);
    TRIVET_REQUIRE(check->outputs[1].dtype == dtype);
    TRIVET_REQUIRE(p->features.bytes == trivet_product(p->filters, p->inputs));
    TRIVET_REQUIRE(p->times.bytes == trivet_product(trivet_product(p->filters, p->memory), 2));
    TRIVET_REQUIRE(p->bias.bytes == trivet_product(p->filters / p->rank, 4));
    TRIVET_REQUIRE(is_byte(p->in_zero) && is_byte(p->state_zero) && is_byte(p->out_zero));
    TRIVET_REQUIRE(p->feature_shift >= -31 && p->feature_shift <= 30 && p->shift >= -31 && p->shift <= 30);
    return TRIVET_OK;
}

trivet_status trivet_svdf_f32_check(const trivet_check *check) {
    const trivet_svdf_f32_record *p = (const trivet_svdf_f32_record *)check->params;
    const sizes s = SIZES(p);
    TRIVET_REQUIRE(shapes_are_sound(check, &s, &p->state, 4) && check->inputs[0].dtype == TRIVET_F32);
    TRIVET_REQUIRE(check->outputs[0].dtype == TRIVET_F32 && check->outputs[1].dtype == TRIVET_F32);
    TRIVET_REQUIRE(p->features.bytes == trivet_product(trivet_product(p->filters, p->inputs), 4));
    TRIVET_REQUIRE(p->times.bytes == trivet_product(trivet_product(p->filters, p->memory), 4));
    TRIVET_REQUIRE(p->bias.bytes == trivet_product(p->filters / p->rank, 4));
    return TRIVET_OK;
}
