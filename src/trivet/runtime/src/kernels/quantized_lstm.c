/* TensorFlow Lite's LSTM on stored integers with an int16 cell. States live in the results from the first step on. */
#include <string.h>

#include "fixedpoint16.h"
#include "trivet/kernels/recurrent_stored.h"

typedef trivet_quantized_lstm_record record;

enum { GATES = 4, LARGEST_WIDTH = 32768 };

typedef struct job {
    const record *p;
    const int8_t *w, *r;
    const int64_t *bias;
    const uint16_t *table; /* NULL: LiteRT's fixed point */
    int16_t *gates;
} job;

static int64_t dot(const uint8_t *x, const int8_t *w, uint32_t count, int32_t zero, uint32_t is_wide) {
    int64_t sum = 0;
    if (is_wide != 0) {
        const int16_t *wide = (const int16_t *)(const void *)x;
        for (uint32_t i = 0; i < count; i++) {
            sum += (wide[i] - zero) * w[i];
        }
        return sum;
    }
    int32_t narrow = 0;
    for (uint32_t i = 0; i < count; i++) {
        narrow += (int16_t)((int8_t)x[i] - zero) * (int16_t)w[i];
    }
    return narrow;
}

static int32_t scaled(const job *j, int64_t sum, int32_t mantissa, int32_t shift) {
    return j->p->is_wide != 0 ? (int32_t)trivet_rescale_q15(sum, mantissa, shift)
                              : trivet_rescale_q31((int32_t)(uint32_t)(uint64_t)sum, mantissa, shift);
}

/* The sums of all gates in Q3.12. */
static void sum_gates(const job *j, const uint8_t *x, const uint8_t *h) {
    const record *p = j->p;
    for (uint32_t row = 0; row < GATES * p->hidden; row++) {
        const uint32_t gate = row / p->hidden;
        int64_t sum = dot(x, j->w + (size_t)row * p->inputs, p->inputs, p->in_zero, p->is_wide) + j->bias[row];
        int64_t state = dot(h, j->r + (size_t)row * p->hidden, p->hidden, p->state_zero, p->is_wide);
        int32_t from_x = trivet_saturate16(scaled(j, sum, p->w_mantissas[gate], p->w_shifts[gate]));
        int64_t from_h = scaled(j, state, p->r_mantissas[gate], p->r_shifts[gate]);
        if (j->table != NULL) {
            from_h = trivet_saturate16(from_h);
        }
        j->gates[row] = (int16_t)trivet_saturate16(from_h + from_x);
    }
}

static int32_t logistic(const job *j, int32_t x) {
    return j->table == NULL ? trivet_logistic16(x, 3) : trivet_table_logistic16(j->table, 3 * x);
}

static int32_t candidate_tanh(const job *j, int32_t x) {
    return j->table == NULL ? trivet_tanh16(x, 3) : trivet_table_tanh16(j->table, 3 * x);
}

static int32_t cell_tanh(const job *j, int32_t cell) {
    const record *p = j->p;
    if (j->table != NULL) {
        return trivet_table_tanh16(j->table, trivet_table_argument16(cell, p->tanh_factor, p->tanh_shift));
    }
    const int32_t bits = 15 + p->cell_log2;
    if (bits > 6) {
        return trivet_tanh16(trivet_saturate16((int64_t)cell * (1 << (bits - 6))), 6);
    }
    return bits >= 0 ? trivet_tanh16(cell, bits) : trivet_tanh16((int32_t)trivet_rdbp(cell, (uint32_t)-bits), 0);
}

static int32_t next_cell(const job *j, int32_t kept, int32_t added) {
    const record *p = j->p;
    int64_t keep, add;
    if (j->table == NULL) {
        keep = trivet_rdbp(kept, 15);
        add = trivet_rdbp(added, (uint32_t)(30 + p->cell_log2));
    } else {
        keep = trivet_rescale_q31(kept, p->keep_mantissa, p->keep_shift);
        add = trivet_rescale_q31(added, p->add_mantissa, p->add_shift);
    }
    int32_t cell = trivet_saturate16(trivet_saturate16(keep) + trivet_saturate16(add));
    return p->cell_limit > 0 ? trivet_clamp(cell, -p->cell_limit, p->cell_limit) : cell;
}

static void run_step(const job *j, const uint8_t *x, uint8_t *y, uint8_t *h, int16_t *cell) {
    const record *p = j->p;
    const int16_t *in = j->gates, *forget = in + p->hidden, *candidate = forget + p->hidden, *out = candidate + p->hidden;
    sum_gates(j, x, h);
    for (uint32_t i = 0; i < p->hidden; i++) {
        int32_t added = logistic(j, in[i]) * candidate_tanh(j, candidate[i]);
        cell[i] = (int16_t)next_cell(j, logistic(j, forget[i]) * cell[i], added);
        int32_t product = cell_tanh(j, cell[i]) * logistic(j, out[i]);
        int64_t value = (int64_t)trivet_rescale_q31(product, p->out_mantissa, p->out_shift) + p->out_zero;
        if (p->is_wide != 0) {
            ((int16_t *)(void *)h)[i] = (int16_t)trivet_saturate16(value);
        } else {
            ((int8_t *)h)[i] = (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
        }
    }
    memcpy(y, h, (size_t)p->hidden << p->is_wide);
}

trivet_status trivet_quantized_lstm_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const record *p = (const record *)call->params;
    const job j = {p,
                   (const int8_t *)trivet_blob_data(call->constants, &p->w),
                   (const int8_t *)trivet_blob_data(call->constants, &p->r),
                   (const int64_t *)(const void *)trivet_blob_data(call->constants, &p->bias),
                   (const uint16_t *)(const void *)trivet_blob_data(call->constants, &p->sigmoid),
                   (int16_t *)(void *)call->scratch};
    const size_t states = (size_t)p->batch * p->hidden;
    uint8_t *h = call->outputs[1].data;
    int16_t *cell = (int16_t *)(void *)call->outputs[2].data;
    (void)row, (void)rows;
    const uint8_t *first_h = trivet_blob_data(call->constants, &p->h);
    const uint8_t *first_cell = trivet_blob_data(call->constants, &p->cell);
    uint32_t next = 1;
    if (first_h == NULL) {
        first_h = call->inputs[next++].data;
    }
    if (first_cell == NULL) {
        first_cell = call->inputs[next].data;
    }
    memmove(h, first_h, states << p->is_wide);
    memmove(cell, first_cell, states * sizeof *cell);
    for (uint32_t step = 0; step < p->steps; step++) {
        for (uint32_t b = 0; b < p->batch; b++) {
            size_t at = (size_t)step * p->batch + b, state = (size_t)b * p->hidden;
            run_step(&j, call->inputs[0].data + (at * p->inputs << p->is_wide),
                     call->outputs[0].data + (at * p->hidden << p->is_wide), h + (state << p->is_wide), cell + state);
        }
    }
    return TRIVET_OK;
}

static bool is_shift(int32_t shift, int32_t most) { return shift >= -31 && shift <= most; }

static bool multipliers_are_sound(const record *p) {
    for (uint32_t gate = 0; gate < GATES; gate++) {
        if (!is_shift(p->w_shifts[gate], 7) || !is_shift(p->r_shifts[gate], 7) || p->w_mantissas[gate] < 0 ||
            p->r_mantissas[gate] < 0) {
            return false;
        }
    }
    return is_shift(p->keep_shift, 30) && is_shift(p->add_shift, 30) && is_shift(p->out_shift, 30) &&
           p->cell_log2 >= -20 && p->cell_log2 <= 0 && p->cell_limit >= 0 && p->cell_limit <= 32767 &&
           p->tanh_factor >= 0 && p->tanh_factor <= 3 << 12 && p->tanh_shift <= 15;
}

static bool is_zero_point(const record *p, int32_t zero) {
    return p->is_wide != 0 ? zero >= -32768 && zero <= 32767 : zero >= -128 && zero <= 127;
}

static bool blobs_are_sound(const record *p) {
    const uint32_t height = trivet_product(GATES, p->hidden);
    return p->w.bytes == trivet_product(height, p->inputs) && p->r.bytes == trivet_product(height, p->hidden) &&
           p->bias.bytes == trivet_product(height, 8) && (p->sigmoid.bytes == 0 || p->sigmoid.bytes == 512);
}

/* True iff biases leave room for sums in 64 bits. */
static bool biases_are_sound(const record *p, const int64_t *bias) {
    for (uint32_t i = 0; i < GATES * p->hidden; i++) {
        if (bias[i] > (int64_t)1 << 45 || bias[i] < -((int64_t)1 << 45)) {
            return false;
        }
    }
    return true;
}

/* True iff a state that is read, a constant or the next operand, has so many elements. */
static bool state_is_sound(const trivet_check *check, const trivet_blob *blob, uint32_t dtype, uint32_t elements,
                           uint32_t *next) {
    if (blob->bytes != 0) {
        return blob->bytes == trivet_product(elements, dtype == TRIVET_I16 ? 2 : 1);
    }
    if (*next >= check->input_count) {
        return false;
    }
    const trivet_tensor_info *operand = &check->inputs[(*next)++];
    return operand->dtype == dtype && trivet_elements(operand) == elements;
}

trivet_status trivet_quantized_lstm_check(const trivet_check *check) {
    const record *p = (const record *)check->params;
    const uint32_t dtype = p->is_wide != 0 ? TRIVET_I16 : TRIVET_I8;
    TRIVET_REQUIRE(check->output_count == 3 && !check->accumulates && check->images == 1);
    TRIVET_REQUIRE(p->is_wide <= 1 && p->steps >= 1 && p->batch >= 1 && p->inputs >= 1 && p->hidden >= 1);
    TRIVET_REQUIRE(p->inputs <= LARGEST_WIDTH && p->hidden <= LARGEST_WIDTH);
    const uint32_t rows = trivet_product(p->steps, p->batch), state = trivet_product(p->batch, p->hidden);
    const trivet_tensor_info *y = check->outputs;
    TRIVET_REQUIRE(y[0].dtype == dtype && y[1].dtype == dtype && y[2].dtype == TRIVET_I16);
    TRIVET_REQUIRE(trivet_elements(&y[0]) == trivet_product(rows, p->hidden));
    TRIVET_REQUIRE(trivet_elements(&y[1]) == state && trivet_elements(&y[2]) == state);
    TRIVET_REQUIRE(check->input_count >= 1 && check->inputs[0].dtype == dtype);
    TRIVET_REQUIRE(trivet_elements(&check->inputs[0]) == trivet_product(rows, p->inputs));
    uint32_t next = 1;
    TRIVET_REQUIRE(state_is_sound(check, &p->h, dtype, state, &next));
    TRIVET_REQUIRE(state_is_sound(check, &p->cell, TRIVET_I16, state, &next) && next == check->input_count);
    TRIVET_REQUIRE(is_zero_point(p, p->in_zero) && is_zero_point(p, p->state_zero) && is_zero_point(p, p->out_zero));
    TRIVET_REQUIRE(multipliers_are_sound(p) && blobs_are_sound(p) && check->scratch_bytes / 8 >= p->hidden);
    TRIVET_REQUIRE(biases_are_sound(p, (const int64_t *)(const void *)trivet_blob_data(check->constants, &p->bias)));
    return TRIVET_OK;
}
