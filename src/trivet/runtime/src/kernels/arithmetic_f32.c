/* Arithmetic of two float32 operands. */
#include <math.h>

#include "broadcast.h"
#include "trivet/kernels/arithmetic.h"

typedef struct bounds {
    float lo, hi;
} bounds;

static inline float within(const bounds *b, float v) {
    v = v < b->lo ? b->lo : v;
    return v > b->hi ? b->hi : v;
}

#define FLOAT_PAIRS(name, expression) \
    TRIVET_PAIRS(name, float, float, float, const bounds limits = *(const bounds *)context, within(&limits, (expression)))

FLOAT_PAIRS(sums, x + z)
FLOAT_PAIRS(differences, x - z)
FLOAT_PAIRS(products, x * z)
FLOAT_PAIRS(quotients, x / z)
FLOAT_PAIRS(squares, (x - z) * (x - z))
FLOAT_PAIRS(larger, x > z || x != x ? x : z)
FLOAT_PAIRS(smaller, x < z || x != x ? x : z)
FLOAT_PAIRS(powers, powf(x, z))

static const trivet_pairs_fn MODES[] = {sums, differences, products, quotients, squares, larger, smaller, powers};

trivet_status trivet_arithmetic_f32_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_arithmetic_f32_record *p = (const trivet_arithmetic_f32_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {sizeof(float), sizeof(float), sizeof(float)};
    const bounds limits = {p->lo, p->hi};
    trivet_broadcast_run(&bc, call, row, rows, bytes, MODES[p->mode], &limits);
    return TRIVET_OK;
}

trivet_status trivet_arithmetic_f32_check(const trivet_check *check) {
    const trivet_arithmetic_f32_record *p = (const trivet_arithmetic_f32_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(p->mode < sizeof MODES / sizeof *MODES);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, TRIVET_F32, TRIVET_F32, TRIVET_F32));
    return TRIVET_OK;
}
