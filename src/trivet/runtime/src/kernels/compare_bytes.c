/* Comparisons of two operands of bytes by what their values stand for. */
#include "broadcast.h"
#include "compare.h"
#include "trivet/kernels/choice.h"

typedef struct ranks {
    const uint16_t *a, *b;
} ranks;

#define RANKED(name, T, relation_of_ranks)                                                                 \
    static inline bool name##_ranks(uint16_t x, uint16_t z) { return relation_of_ranks; }                  \
    TRIVET_PAIRS(name##_bytes, uint8_t, uint8_t, uint8_t, const ranks *r = (const ranks *)context, name##_ranks(r->a[x], r->b[z]))
TRIVET_FOR_RELATIONS(RANKED, uint8_t)

static const trivet_pairs_fn BYTES[TRIVET_RELATIONS] = {equal_bytes,       not_equal_bytes, less_bytes,
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
    TRIVET_REQUIRE(p->relation < TRIVET_RELATIONS && p->a_ranks.bytes == 512 && p->b_ranks.bytes == 512);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, p->dtype, p->dtype, TRIVET_BOOL));
    return TRIVET_OK;
}
