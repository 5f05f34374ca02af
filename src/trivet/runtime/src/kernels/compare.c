/* Comparisons of two operands; results are bytes that hold 0 or 1. */
#include "broadcast.h"
#include "trivet/kernels/choice.h"

enum { RELATIONS = 6 };

#define FOR_RELATIONS(DEFINE, T)  \
    DEFINE(equal, T, x == z)      \
    DEFINE(not_equal, T, x != z)  \
    DEFINE(less, T, x < z)        \
    DEFINE(not_greater, T, x <= z) \
    DEFINE(greater, T, x > z)     \
    DEFINE(not_less, T, x >= z)

#define PLAIN(name, T, relation) TRIVET_PAIRS(name##_##T, T, T, uint8_t, (void)0, relation)
#define NAMES(T) {equal_##T, not_equal_##T, less_##T, not_greater_##T, greater_##T, not_less_##T}

FOR_RELATIONS(PLAIN, float)
FOR_RELATIONS(PLAIN, int32_t)
FOR_RELATIONS(PLAIN, int64_t)

static const trivet_pairs_fn FLOATS[RELATIONS] = NAMES(float);
static const trivet_pairs_fn WORDS[RELATIONS] = NAMES(int32_t);
static const trivet_pairs_fn LONG_WORDS[RELATIONS] = NAMES(int64_t);

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
    TRIVET_REQUIRE(p->relation < RELATIONS);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, p->dtype, p->dtype, TRIVET_BOOL));
    return TRIVET_OK;
}

typedef struct ranks {
    const uint16_t *a, *b;
} ranks;

#define RANKED(name, T, relation_of_ranks)                                                                 \
    static inline bool name##_ranks(uint16_t x, uint16_t z) { return relation_of_ranks; }                  \
    TRIVET_PAIRS(name##_bytes, uint8_t, uint8_t, uint8_t, const ranks *r = (const ranks *)context, name##_ranks(r->a[x], r->b[z]))
FOR_RELATIONS(RANKED, uint8_t)

static const trivet_pairs_fn BYTES[RELATIONS] = {equal_bytes,       not_equal_bytes, less_bytes,
                                                 not_greater_bytes, greater_bytes,   not_less_bytes};

trivet_status trivet_compare_bytes_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_compare_bytes_record *p = (const trivet_compare_bytes_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {1, 1, 1};
    const ranks context = {(const uint16_t *)(const void *)trivet_blob_data(call->constants, &p->a_ranks),
                           (const uint16_t *)(const void *)trivet_blob_data(call->constants, &p->b_ranks)};
    trivet_broadcast_run(&bc, call, row, rows, bytes, BYTES[p->relation], &context);
    return TRIVET_OK;
}

trivet_status trivet_compare_bytes_check(const trivet_check *check) {
    const trivet_compare_bytes_record *p = (const trivet_compare_bytes_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(p->dtype == TRIVET_I8 || p->dtype == TRIVET_U8 || p->dtype == TRIVET_BOOL);
    TRIVET_REQUIRE(p->relation < RELATIONS && p->a_ranks.bytes == 512 && p->b_ranks.bytes == 512);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, p->dtype, p->dtype, TRIVET_BOOL));
    return TRIVET_OK;
}
