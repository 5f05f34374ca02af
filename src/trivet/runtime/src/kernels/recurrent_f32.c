/* Recurrent layers on float32. States live in the results from the first step on. */
#include <math.h>
#include <string.h>

#include "trivet/kernels/recurrent.h"

typedef trivet_recurrent_f32_record record;

enum { W, R, BIAS, H, CELL, PEEPHOLES, PART_COUNT };
enum { SIGMOID, TANH, RELU, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS,
       FUNCTION_COUNT };
enum { LANES = 8 };

typedef struct job {
    const record *p;
    const float *parts[PART_COUNT]; /* NULL: zeros */
    const float *x;
    float *y, *h, *cell, *sums;
} job;

static const trivet_blob *blob_of(const record *p, uint32_t index) {
    const trivet_blob *all[PART_COUNT] = {&p->w, &p->r, &p->bias, &p->h, &p->cell, &p->peepholes};
    return all[index];
}

/* Where a part is: a constant, the next operand, or nowhere. */
static const float *part(const trivet_call *call, const record *p, uint32_t index, uint32_t *next) {
    const trivet_blob *blob = blob_of(p, index);
    if ((p->operands >> index & 1u) != 0) {
        return (const float *)(const void *)call->inputs[(*next)++].data;
    }
    return (const float *)(const void *)trivet_blob_data(call->constants, blob);
}

static void copy_state(float *to, const float *from, size_t count) {
    if (from == NULL) {
        memset(to, 0, count * sizeof *to);
    } else if (from != to) {
        memmove(to, from, count * sizeof *to);
    }
}

static job set_up(const trivet_call *call) {
    const record *p = (const record *)call->params;
    job j = {p, {NULL}, (const float *)(const void *)call->inputs[0].data, NULL, NULL, NULL, NULL};
    uint32_t next = 1;
    for (uint32_t i = 0; i < PART_COUNT; i++) {
        j.parts[i] = part(call, p, i, &next);
    }
    j.y = (float *)(void *)call->outputs[0].data;
    j.h = (float *)(void *)call->outputs[1].data;
    j.sums = (float *)(void *)call->scratch;
    copy_state(j.h, j.parts[H], (size_t)p->batch * p->hidden);
    return j;
}

/* A sum in lanes, which compilers know instructions for. */
static float dot(const float *a, const float *b, uint32_t count) {
    float lanes[LANES] = {0};
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            lanes[k] += a[i + k] * b[i + k];
        }
    }
    float sum = 0.0f;
    for (uint32_t k = 0; k < LANES; k++) {
        sum += lanes[k];
    }
    for (; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* sums[i] += rows[first + i] * x for `count` rows. */
static void add_products(float *sums, const float *rows, uint32_t first, uint32_t count, const float *x, uint32_t width) {
    rows += (size_t)first * width;
    for (uint32_t i = 0; i < count; i++, rows += width) {
        sums[i] += dot(rows, x, width);
    }
}

static void start_sums(const job *j, uint32_t count) {
    copy_state(j->sums, j->parts[BIAS], count);
}

static float softplus(float x) { return x > 0.0f ? x + log1pf(expf(-x)) : log1pf(expf(x)); }

static float apply(const record *p, uint32_t index, float x) {
    const float a = p->alphas[index], b = p->betas[index];
    switch (p->functions[index]) {
        case SIGMOID: return 1.0f / (1.0f + expf(-x));
        case TANH: return tanhf(x);
        case RELU: return x > 0.0f ? x : 0.0f;
        case AFFINE: return a * x + b;
        case LEAKY_RELU: return x >= 0.0f ? x : a * x;
        case THRESHOLDED_RELU: return x > a ? x : 0.0f;
        case SCALED_TANH: return a * tanhf(b * x);
        case HARD_SIGMOID: return fminf(fmaxf(a * x + b, 0.0f), 1.0f);
        case ELU: return x >= 0.0f ? x : a * expm1f(x);
        case SOFTSIGN: return x / (1.0f + fabsf(x));
        default: return softplus(x);
    }
}

static float limited(float x, float limit) { return limit == 0.0f ? x : fminf(fmaxf(x, -limit), limit); }

static float function(const record *p, uint32_t index, float x) { return apply(p, index, limited(x, p->clip)); }

static float peephole(const job *j, uint32_t gate, uint32_t i, float cell) {
    return j->parts[PEEPHOLES] == NULL ? 0.0f : j->parts[PEEPHOLES][gate * j->p->hidden + i] * cell;
}

static void lstm_step(const job *j, const float *x, float *y, float *h, float *cell) {
    const record *p = j->p;
    const uint32_t n = p->hidden;
    start_sums(j, 4 * n);
    add_products(j->sums, j->parts[W], 0, 4 * n, x, p->inputs);
    add_products(j->sums, j->parts[R], 0, 4 * n, h, n);
    const float *in = j->sums, *out = in + n, *forget = out + n, *candidate = forget + n;
    for (uint32_t i = 0; i < n; i++) {
        float open = function(p, 0, in[i] + peephole(j, 0, i, cell[i]));
        float keep = p->variant != 0 ? 1.0f - open : function(p, 0, forget[i] + peephole(j, 2, i, cell[i]));
        cell[i] = limited(keep * cell[i] + open * function(p, 1, candidate[i]), p->cell_clip);
        h[i] = function(p, 0, out[i] + peephole(j, 1, i, cell[i])) * apply(p, 2, cell[i]);
        y[i] = h[i];
    }
}

static void gru_step(const job *j, const float *x, float *y, float *h, float *cell) {
    const record *p = j->p;
    const uint32_t n = p->hidden;
    float *update = j->sums, *reset = update + n, *candidate = reset + n, *state = candidate + n;
    (void)cell;
    start_sums(j, 4 * n);
    add_products(update, j->parts[W], 0, 3 * n, x, p->inputs);
    add_products(update, j->parts[R], 0, 2 * n, h, n);
    for (uint32_t i = 0; i < 2 * n; i++) {
        update[i] = function(p, 0, update[i]);
    }
    if (p->variant != 0) {
        add_products(state, j->parts[R], 2 * n, n, h, n);
        for (uint32_t i = 0; i < n; i++) {
            state[i] *= reset[i];
        }
    } else {
        for (uint32_t i = 0; i < n; i++) {
            reset[i] *= h[i];
        }
        add_products(state, j->parts[R], 2 * n, n, reset, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        h[i] = (1.0f - update[i]) * function(p, 1, candidate[i] + state[i]) + update[i] * h[i];
        y[i] = h[i];
    }
}

static void rnn_step(const job *j, const float *x, float *y, float *h, float *cell) {
    const record *p = j->p;
    (void)cell;
    start_sums(j, p->hidden);
    add_products(j->sums, j->parts[W], 0, p->hidden, x, p->inputs);
    add_products(j->sums, j->parts[R], 0, p->hidden, h, p->hidden);
    for (uint32_t i = 0; i < p->hidden; i++) {
        h[i] = function(p, 0, j->sums[i]);
        y[i] = h[i];
    }
}

static void run_steps(const job *j, void (*step)(const job *, const float *, float *, float *, float *)) {
    const record *p = j->p;
    for (uint32_t t = 0; t < p->steps; t++) {
        uint32_t at = p->reverse != 0 ? p->steps - 1 - t : t;
        for (uint32_t b = 0; b < p->batch; b++) {
            size_t row = (size_t)at * p->batch + b, state = (size_t)b * p->hidden;
            step(j, j->x + row * p->inputs, j->y + row * p->hidden, j->h + state,
                 j->cell == NULL ? NULL : j->cell + state);
        }
    }
}

trivet_status trivet_lstm_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    job j = set_up(call);
    (void)row, (void)rows;
    j.cell = (float *)(void *)call->outputs[2].data;
    copy_state(j.cell, j.parts[CELL], (size_t)j.p->batch * j.p->hidden);
    run_steps(&j, lstm_step);
    return TRIVET_OK;
}

trivet_status trivet_gru_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const job j = set_up(call);
    (void)row, (void)rows;
    run_steps(&j, gru_step);
    return TRIVET_OK;
}

trivet_status trivet_rnn_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const job j = set_up(call);
    (void)row, (void)rows;
    run_steps(&j, rnn_step);
    return TRIVET_OK;
}

/* True iff every part has the size it must have, is absent, or is an operand of that size. */
static bool parts_are_sound(const trivet_check *check, const uint32_t *sizes) {
    const record *p = (const record *)check->params;
    uint32_t next = 1;
    for (uint32_t i = 0; i < PART_COUNT; i++) {
        bool is_operand = (p->operands >> i & 1u) != 0;
        if (is_operand) {
            if (blob_of(p, i)->bytes != 0 || next >= check->input_count || check->inputs[next].dtype != TRIVET_F32 ||
                trivet_elements(&check->inputs[next]) != sizes[i] || sizes[i] == 0) {
                return false;
            }
            next++;
        } else if (blob_of(p, i)->bytes != 0 && (sizes[i] == 0 || blob_of(p, i)->bytes != trivet_product(sizes[i], 4))) {
            return false;
        } else if (blob_of(p, i)->bytes == 0 && i <= R) {
            return false;
        }
    }
    return next == check->input_count && p->operands >> PART_COUNT == 0;
}

static trivet_status check_recurrent(const trivet_check *check, uint32_t gates, uint32_t biases, uint32_t states) {
    const record *p = (const record *)check->params;
    TRIVET_REQUIRE(check->input_count >= 1 && check->output_count == 1 + states && !check->accumulates);
    TRIVET_REQUIRE(check->images == 1 && p->steps >= 1 && p->batch >= 1 && p->inputs >= 1 && p->hidden >= 1);
    for (uint32_t i = 0; i < 3; i++) {
        TRIVET_REQUIRE(p->functions[i] < FUNCTION_COUNT);
    }
    const uint32_t rows = trivet_product(p->steps, p->batch), state = trivet_product(p->batch, p->hidden);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_F32);
    TRIVET_REQUIRE(trivet_elements(&check->inputs[0]) == trivet_product(rows, p->inputs));
    TRIVET_REQUIRE(trivet_elements(&check->outputs[0]) == trivet_product(rows, p->hidden));
    for (uint32_t i = 0; i <= states; i++) {
        TRIVET_REQUIRE(check->outputs[i].dtype == TRIVET_F32);
        TRIVET_REQUIRE(i == 0 || trivet_elements(&check->outputs[i]) == state);
    }
    const uint32_t height = trivet_product(gates, p->hidden);
    const uint32_t sizes[PART_COUNT] = {trivet_product(height, p->inputs), trivet_product(height, p->hidden),
                                        trivet_product(biases, p->hidden), state, states > 1 ? state : 0,
                                        states > 1 ? trivet_product(3, p->hidden) : 0};
    TRIVET_REQUIRE(parts_are_sound(check, sizes) && check->scratch_bytes / 16 >= p->hidden);
    return TRIVET_OK;
}

trivet_status trivet_lstm_f32_check(const trivet_check *check) { return check_recurrent(check, 4, 4, 2); }

trivet_status trivet_gru_f32_check(const trivet_check *check) { return check_recurrent(check, 3, 4, 1); }

trivet_status trivet_rnn_f32_check(const trivet_check *check) { return check_recurrent(check, 1, 1, 1); }
