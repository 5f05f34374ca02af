/* Operators on bits: bytes are read as unsigned numbers of their width. */
#include "broadcast.h"
#include "trivet/kernels/indexing.h"

enum { KINDS = 6, WIDTHS = 4 };

#define BIT_PAIRS(bits, type, signed_type)                                                             \
    TRIVET_PAIRS(and_##bits, type, type, type, (void)0, x &z)                             \
    TRIVET_PAIRS(or_##bits, type, type, type, (void)0, x | z)                             \
    TRIVET_PAIRS(xor_##bits, type, type, type, (void)0, x ^ z)                            \
    TRIVET_PAIRS(left_##bits, type, type, type, (void)0, z < bits ? (uint64_t)x << z : 0) \
    TRIVET_PAIRS(right_##bits, type, type, type, (void)0, z < bits ? (uint64_t)x >> z : 0) \
    TRIVET_PAIRS(signed_##bits, type, type, type, (void)0, (int64_t)(signed_type)x >> (z < bits ? z : bits - 1))

BIT_PAIRS(8, uint8_t, int8_t)
BIT_PAIRS(16, uint16_t, int16_t)
BIT_PAIRS(32, uint32_t, int32_t)
BIT_PAIRS(64, uint64_t, int64_t)

#define ROW(bits) {and_##bits, or_##bits, xor_##bits, left_##bits, right_##bits, signed_##bits}

static const trivet_pairs_fn BY_WIDTH[WIDTHS][KINDS] = {ROW(8), ROW(16), ROW(32), ROW(64)};

static uint32_t width_code(uint32_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3; }

trivet_status trivet_bitwise_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_bitwise_record *p = (const trivet_bitwise_record *)call->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    const trivet_pair_bytes bytes = {p->bytes, p->bytes, p->bytes};
    trivet_broadcast_run(&bc, call, row, rows, bytes, BY_WIDTH[width_code(p->bytes)][p->kind], NULL);
    return TRIVET_OK;
}

trivet_status trivet_bitwise_check(const trivet_check *check) {
    static const uint32_t BYTES[] = TRIVET_DTYPE_BYTES;
    const trivet_bitwise_record *p = (const trivet_bitwise_record *)check->params;
    const trivet_broadcast bc = TRIVET_BROADCAST(p);
    TRIVET_REQUIRE(p->kind < KINDS && p->dtype < sizeof BYTES / sizeof BYTES[0] && p->bytes == BYTES[p->dtype]);
    TRIVET_REQUIRE(p->bytes == 1 || p->bytes == 2 || p->bytes == 4 || p->bytes == 8);
    TRIVET_REQUIRE(trivet_broadcast_is_sound(&bc, check, p->dtype, p->dtype, p->dtype));
    return TRIVET_OK;
}
