/* Arithmetic of two int8 operands, each kernel in one exact form. */
#include "broadcast.h"
#include "core_s8.h"
#include "fixedpoint.h"
#include "trivet/kernels/arithmetic.h"

static const trivet_pair_bytes BYTES = {1, 1, 1};

static bool limits_are_sound(int32_t lo, int32_t hi) { return lo >= -128 && lo <= hi && hi <= 127; }

static bool is_table(const trivet_blob *blob, uint32_t element_bytes) { return blob->bytes == 256 * element_bytes; }

/* ---- (a*A + b*B + C) >> S */

TRIVET_PAIRS(linear_steps, int8_t, int8_t, int8_t, const trivet_linear_s8_record *p = (const trivet_linear_s8_record *)context,
             trivet_clamp((x * p->a_factor + z * p->b_factor + p->constant) >> p->right_shift, p->lo, p->hi))

static void linear_pairs(const void *context, const void *a, uint32_t a_step, const void *b, uint32_t b_step, void *y,
                         uint32_t count) {
    const trivet_linear_s8_record *p = (const trivet_linear_s8_record *)context;
    const trivet_linear_s8 linear = {p->a_factor, p->b_factor, p->constant, p->lo, p->hi, p->right_shift};
    if (a_step != 0 && b_step != 0) {
        trivet_core_s8_get()->linear(&linear, (const int8_t *)a, (const int8_t *)b, (int8_t *)y, count);
    } else {
        linear_steps(context, a, a_step, b, b_step, y, count);
    }
}

trivet_status trivet_linear_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_linear_s8_record *p = (const trivet_linear_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    trivet_broadcast_run(&bc, call, row, rows, BYTES, linear_pairs, p);
    return TRIVET_OK;
}

trivet_status trivet_linear_s8_check(const trivet_check *check) {
    const trivet_linear_s8_record *p = (const trivet_linear_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    int64_t a = p->a_factor < 0 ? -(int64_t)p->a_factor : p->a_factor;
    int64_t b = p->b_factor < 0 ? -(int64_t)p->b_factor : p->b_factor;
    int64_t c = p->constant < 0 ? -(int64_t)p->constant : p->constant;
    TRIVET_REQUIRE(limits_are_sound(p->lo, p->hi) && p->right_shift < 31 && 128 * (a + b) + c <= INT32_MAX);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I8, TRIVET_I8, TRIVET_I8));
    return TRIVET_OK;
}

/* ---- sums of table entries */

typedef struct sum_context {
    const trivet_sum_s8_record *p;
    const int32_t *a, *b; /* indexed by the stored value */
} sum_context;

static int8_t sum_result(const trivet_sum_s8_record *p, uint32_t sum) {
    int32_t value = trivet_rescale_q31((int32_t)(p->square ? sum * sum : sum), p->mantissa, p->shift);
    return (int8_t)trivet_clamp(trivet_clamp(value, -(1 << 30), 1 << 30) + p->zero, p->lo, p->hi);
}

TRIVET_PAIRS(sum_pairs, int8_t, int8_t, int8_t, const sum_context *s = (const sum_context *)context,
             sum_result(s->p, (uint32_t)s->a[x] + (uint32_t)s->b[z]))

trivet_status trivet_sum_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_sum_s8_record *p = (const trivet_sum_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const int32_t *a = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->a_terms);
    const int32_t *b = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->b_terms);
    const sum_context context = {p, a + 128, b + 128};
    trivet_broadcast_run(&bc, call, row, rows, BYTES, sum_pairs, &context);
    return TRIVET_OK;
}

static bool q31_is_sound(int32_t mantissa, int32_t shift, int32_t zero) {
    return mantissa >= 0 && shift >= -31 && shift <= 30 && zero >= -128 && zero <= 127;
}

trivet_status trivet_sum_s8_check(const trivet_check *check) {
    const trivet_sum_s8_record *p = (const trivet_sum_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(is_table(&p->a_terms, 4) && is_table(&p->b_terms, 4) && limits_are_sound(p->lo, p->hi));
    TRIVET_REQUIRE(q31_is_sound(p->mantissa, p->shift, p->zero));
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I8, TRIVET_I8, TRIVET_I8));
    return TRIVET_OK;
}

/* ---- products */

static int8_t product_result(const trivet_product_s8_record *p, int32_t product) {
    int32_t value = trivet_rescale_q31(product, p->mantissa, p->shift);
    return (int8_t)trivet_clamp(trivet_clamp(value, -(1 << 30), 1 << 30) + p->zero, p->lo, p->hi);
}

TRIVET_PAIRS(product_pairs, int8_t, int8_t, int8_t, const trivet_product_s8_record *p = (const trivet_product_s8_record *)context,
             product_result(p, (x - p->a_zero) * (z - p->b_zero)))

trivet_status trivet_product_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_product_s8_record *p = (const trivet_product_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    trivet_broadcast_run(&bc, call, row, rows, BYTES, product_pairs, p);
    return TRIVET_OK;
}

trivet_status trivet_product_s8_check(const trivet_check *check) {
    const trivet_product_s8_record *p = (const trivet_product_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(limits_are_sound(p->lo, p->hi) && q31_is_sound(p->mantissa, p->shift, p->zero));
    TRIVET_REQUIRE(p->a_zero >= -128 && p->a_zero <= 127 && p->b_zero >= -128 && p->b_zero <= 127);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I8, TRIVET_I8, TRIVET_I8));
    return TRIVET_OK;
}

/* ---- operations on real numbers */

typedef struct real_context {
    const trivet_real_s8_record *p;
    const float *a, *b; /* indexed by the stored value */
} real_context;

static int8_t real_result(const trivet_real_s8_record *p, float real) {
    float steps = real / p->scale;
    if (!(steps > -1e9f)) { /* not a number counts as the least */
        return (int8_t)p->lo;
    }
    return (int8_t)trivet_clamp(trivet_round_half_even((double)steps) + p->zero, p->lo, p->hi);
}

#define REAL_PAIRS(name, expression)                                                 \
    TRIVET_PAIRS(name, int8_t, int8_t, int8_t, const real_context *c = (const real_context *)context,      \
                 real_result(c->p, (expression)))

REAL_PAIRS(real_sums, c->a[x] + c->b[z])
REAL_PAIRS(real_differences, c->a[x] - c->b[z])
REAL_PAIRS(real_products, c->a[x] * c->b[z])
REAL_PAIRS(real_quotients, c->a[x] / c->b[z])
REAL_PAIRS(real_squares, (c->a[x] - c->b[z]) * (c->a[x] - c->b[z]))

static const trivet_pairs_fn REAL_MODES[] = {real_sums, real_differences, real_products, real_quotients, real_squares};

trivet_status trivet_real_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_real_s8_record *p = (const trivet_real_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const float *a = (const float *)(const void *)trivet_blob_data(call->constants, &p->a_reals);
    const float *b = (const float *)(const void *)trivet_blob_data(call->constants, &p->b_reals);
    const real_context context = {p, a + 128, b + 128};
    trivet_broadcast_run(&bc, call, row, rows, BYTES, REAL_MODES[p->mode], &context);
    return TRIVET_OK;
}

trivet_status trivet_real_s8_check(const trivet_check *check) {
    const trivet_real_s8_record *p = (const trivet_real_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(is_table(&p->a_reals, 4) && is_table(&p->b_reals, 4) && limits_are_sound(p->lo, p->hi));
    TRIVET_REQUIRE(p->mode < sizeof REAL_MODES / sizeof *REAL_MODES && p->zero >= -128 && p->zero <= 127);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I8, TRIVET_I8, TRIVET_I8));
    return TRIVET_OK;
}

/* ---- a table of all pairs */

TRIVET_PAIRS(table_pairs, int8_t, int8_t, int8_t, const int8_t *table = (const int8_t *)context,
             table[((uint32_t)(x + 128) << 8) + (uint32_t)(z + 128)])

trivet_status trivet_pairs_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_pairs_s8_record *p = (const trivet_pairs_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    trivet_broadcast_run(&bc, call, row, rows, BYTES, table_pairs, trivet_blob_data(call->constants, &p->table));
    return TRIVET_OK;
}

trivet_status trivet_pairs_s8_check(const trivet_check *check) {
    const trivet_pairs_s8_record *p = (const trivet_pairs_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(is_table(&p->table, 256));
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I8, TRIVET_I8, TRIVET_I8));
    return TRIVET_OK;
}

/* ---- the larger or the smaller */

TRIVET_PAIRS(larger_pairs, int8_t, int8_t, int8_t, , x > z ? x : z)
TRIVET_PAIRS(smaller_pairs, int8_t, int8_t, int8_t, , x < z ? x : z)

trivet_status trivet_extremum_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_extremum_s8_record *p = (const trivet_extremum_s8_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    trivet_broadcast_run(&bc, call, row, rows, BYTES, p->smaller ? smaller_pairs : larger_pairs, NULL);
    return TRIVET_OK;
}

trivet_status trivet_extremum_s8_check(const trivet_check *check) {
    const trivet_extremum_s8_record *p = (const trivet_extremum_s8_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const uint32_t dtype = check->outputs[0].dtype; /* of bytes that compare as signed ones do */
    TRIVET_REQUIRE(check->output_count == 1 && (dtype == TRIVET_I8 || dtype == TRIVET_BOOL));
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, dtype, dtype, dtype));
    return TRIVET_OK;
}
