/* Comparisons of two operands; results are bytes that hold 0 or 1. */
#include "broadcast.h"
#include "compare.h"
#include "trivet/kernels/choice.h"

#define PLAIN(name, T, relation) TRIVET_PAIRS(name##_##T, T, T, uint8_t, (void)0, relation)
#define NAMES(T) {equal_##T, not_equal_##T, less_##T, not_greater_##T, greater_##T, not_less_##T}

TRIVET_FOR_RELATIONS(PLAIN, float)
TRIVET_FOR_RELATIONS(PLAIN, int32_t)
TRIVET_FOR_RELATIONS(PLAIN, int64_t)

static const trivet_pairs_fn FLOATS[TRIVET_RELATIONS] = NAMES(float);
static const trivet_pairs_fn WORDS[TRIVET_RELATIONS] = NAMES(int32_t);
static const trivet_pairs_fn LONG_WORDS[TRIVET_RELATIONS] = NAMES(int64_t);

trivet_status trivet_compare_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_compare_record *p = (const trivet_compare_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const uint32_t width = p->dtype == TRIVET_I64 ? 8 : 4;
    const trivet_pair_bytes bytes = {width, width, 1};
    const trivet_pairs_fn *relations = p->dtype == TRIVET_F32 ? FLOATS : p->dtype == TRIVET_I32 ? WORDS : LONG_WORDS;
    trivet_broadcast_run(&bc, call, row, rows, bytes, relations[p->relation], p);
    return TRIVET_OK;
}

trivet_status trivet_compare_check(const trivet_check *check) {
    const trivet_compare_record *p = (const trivet_compare_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(p->dtype == TRIVET_F32 || p->dtype == TRIVET_I32 || p->dtype == TRIVET_I64);
    TRIVET_REQUIRE(p->relation < TRIVET_RELATIONS);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, p->dtype, p->dtype, TRIVET_BOOL));
    return TRIVET_OK;
}
