/* Arithmetic of two plain int32 operands, modulo 2^32; sums also take int8 operands. */
#include "broadcast.h"
#include "fixedpoint.h"
#include "trivet/kernels/arithmetic.h"

enum { SUM = 0 };

/* Unsigned arithmetic wraps; the conversion back is modulo 2^32 on every machine that has int32_t. */
#define INTEGER_PAIRS(name, A, B, expression)                                        \
    TRIVET_PAIRS(name, A, B, int32_t, const trivet_arithmetic_i32_record *p = (const trivet_arithmetic_i32_record *)context, \
                 trivet_clamp((int32_t)(expression), p->lo, p->hi))

static uint32_t quotient(int32_t a, int32_t b) {
    if (b == 0) {
        return 0;
    }
    return b == -1 ? 0u - (uint32_t)a : (uint32_t)(a / b); /* INT32_MIN / -1 wraps */
}

INTEGER_PAIRS(sums, int32_t, int32_t, (uint32_t)x + (uint32_t)z)
INTEGER_PAIRS(sums_narrow_a, int8_t, int32_t, (uint32_t)x + (uint32_t)z)
INTEGER_PAIRS(sums_narrow_b, int32_t, int8_t, (uint32_t)x + (uint32_t)z)
INTEGER_PAIRS(sums_narrow, int8_t, int8_t, x + z)
INTEGER_PAIRS(differences, int32_t, int32_t, (uint32_t)x - (uint32_t)z)
INTEGER_PAIRS(products, int32_t, int32_t, (uint32_t)x * (uint32_t)z)
INTEGER_PAIRS(quotients, int32_t, int32_t, quotient(x, z))
INTEGER_PAIRS(squares, int32_t, int32_t, ((uint32_t)x - (uint32_t)z) * ((uint32_t)x - (uint32_t)z))
INTEGER_PAIRS(larger, int32_t, int32_t, x > z ? x : z)
INTEGER_PAIRS(smaller, int32_t, int32_t, x < z ? x : z)

static const trivet_pairs_fn MODES[] = {sums, differences, products, quotients, squares, larger, smaller};

static trivet_pairs_fn chosen(const trivet_arithmetic_i32_record *p) {
    if (p->a_narrow) {
        return p->b_narrow ? sums_narrow : sums_narrow_a;
    }
    return p->b_narrow ? sums_narrow_b : MODES[p->mode];
}

trivet_status trivet_arithmetic_i32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_arithmetic_i32_record *p = (const trivet_arithmetic_i32_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {p->a_narrow ? 1u : 4u, p->b_narrow ? 1u : 4u, 4};
    trivet_broadcast_run(&bc, call, row, rows, bytes, chosen(p), p);
    return TRIVET_OK;
}

trivet_status trivet_arithmetic_i32_check(const trivet_check *check) {
    const trivet_arithmetic_i32_record *p = (const trivet_arithmetic_i32_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(p->mode < sizeof MODES / sizeof *MODES && p->lo <= p->hi);
    TRIVET_REQUIRE(p->mode == SUM || (!p->a_narrow && !p->b_narrow));
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, p->a_narrow ? TRIVET_I8 : TRIVET_I32,
                                             p->b_narrow ? TRIVET_I8 : TRIVET_I32, TRIVET_I32));
    return TRIVET_OK;
}
