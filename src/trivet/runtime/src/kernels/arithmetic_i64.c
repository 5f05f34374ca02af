/* Arithmetic of plain int64, modulo 2^64. */
#include "broadcast.h"
#include "trivet/kernels/wide.h"

enum { MODES = 7 };

static inline int64_t within(const int64_t *limits, int64_t v) {
    v = v < limits[0] ? limits[0] : v;
    return v > limits[1] ? limits[1] : v;
}

static uint64_t quotient(int64_t a, int64_t b) {
    if (b == 0) {
        return 0;
    }
    return b == -1 ? 0u - (uint64_t)a : (uint64_t)(a / b); /* INT64_MIN / -1 wraps */
}

#define INTEGER_PAIRS(name, expression) \
    TRIVET_PAIRS(name, int64_t, int64_t, int64_t, const int64_t *limits = (const int64_t *)context, within(limits, (int64_t)(expression)))

INTEGER_PAIRS(sums, (uint64_t)x + (uint64_t)z)
INTEGER_PAIRS(differences, (uint64_t)x - (uint64_t)z)
INTEGER_PAIRS(products, (uint64_t)x *(uint64_t)z)
INTEGER_PAIRS(quotients, quotient(x, z))
INTEGER_PAIRS(squares, ((uint64_t)x - (uint64_t)z) * ((uint64_t)x - (uint64_t)z))
INTEGER_PAIRS(larger, x > z ? x : z)
INTEGER_PAIRS(smaller, x < z ? x : z)

static const trivet_pairs_fn BY_MODE[MODES] = {sums, differences, products, quotients, squares, larger, smaller};

trivet_status trivet_arithmetic_i64_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_arithmetic_i64_record *p = (const trivet_arithmetic_i64_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {8, 8, 8};
    trivet_broadcast_run(&bc, call, row, rows, bytes, BY_MODE[p->mode], trivet_blob_data(call->constants, &p->limits));
    return TRIVET_OK;
}

trivet_status trivet_arithmetic_i64_check(const trivet_check *check) {
    const trivet_arithmetic_i64_record *p = (const trivet_arithmetic_i64_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(p->mode < MODES && p->limits.bytes == 2 * sizeof(int64_t));
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_I64, TRIVET_I64, TRIVET_I64));
    return TRIVET_OK;
}
