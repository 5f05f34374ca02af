/* The k largest or smallest elements of every row, in order, by insertion: the first of equal ones stays first. */
#include "trivet/kernels/indexing.h"

/* True iff the element in column `a` comes before that in column `b`, of which `b` is the smaller number. */
typedef bool (*before_fn)(const uint8_t *row, uint32_t a, uint32_t b);
typedef void (*copy_fn)(uint8_t *y, uint32_t at, const uint8_t *row, uint32_t column);

#define ELEMENTS(name, type)                                                                       \
    static bool larger_##name(const uint8_t *row, uint32_t a, uint32_t b) {                        \
        return ((const type *)(const void *)row)[a] > ((const type *)(const void *)row)[b];        \
    }                                                                                              \
    static bool smaller_##name(const uint8_t *row, uint32_t a, uint32_t b) {                       \
        return ((const type *)(const void *)row)[a] < ((const type *)(const void *)row)[b];        \
    }                                                                                              \
    static void copy_##name(uint8_t *y, uint32_t at, const uint8_t *row, uint32_t column) {        \
        ((type *)(void *)y)[at] = ((const type *)(const void *)row)[column];                       \
    }

ELEMENTS(f32, float)
ELEMENTS(i8, int8_t)
ELEMENTS(u8, uint8_t)
ELEMENTS(i16, int16_t)
ELEMENTS(i32, int32_t)
ELEMENTS(i64, int64_t)
ELEMENTS(u16, uint16_t)
ELEMENTS(u32, uint32_t)
ELEMENTS(u64, uint64_t)

static const struct elements {
    before_fn larger, smaller;
    copy_fn copy;
    uint32_t bytes;
} ELEMENTS_OF[] = {
    /* by the codes of element types: i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64, bool */
    {NULL, NULL, NULL, 0},
    {larger_i8, smaller_i8, copy_i8, 1},
    {larger_u8, smaller_u8, copy_u8, 1},
    {larger_i16, smaller_i16, copy_i16, 2},
    {larger_u16, smaller_u16, copy_u16, 2},
    {larger_i32, smaller_i32, copy_i32, 4},
    {larger_u32, smaller_u32, copy_u32, 4},
    {larger_i64, smaller_i64, copy_i64, 8},
    {larger_u64, smaller_u64, copy_u64, 8},
    {NULL, NULL, NULL, 0},
    {larger_f32, smaller_f32, copy_f32, 4},
    {NULL, NULL, NULL, 0},
    {larger_u8, smaller_u8, copy_u8, 1},
};

static uint32_t column_at(const uint8_t *columns, uint32_t i, bool is_wide) {
    return is_wide ? (uint32_t)((const int64_t *)(const void *)columns)[i]
                   : (uint32_t)((const int32_t *)(const void *)columns)[i];
}

static void set_column(uint8_t *columns, uint32_t i, bool is_wide, uint32_t column) {
    if (is_wide) {
        ((int64_t *)(void *)columns)[i] = column;
    } else {
        ((int32_t *)(void *)columns)[i] = (int32_t)column;
    }
}

static void choose(const trivet_top_k_record *p, const uint8_t *row, uint8_t *columns, bool is_wide) {
    const before_fn before = p->largest != 0 ? ELEMENTS_OF[p->dtype].larger : ELEMENTS_OF[p->dtype].smaller;
    uint32_t found = 0;
    for (uint32_t column = 0; column < p->columns; column++) {
        uint32_t at = found;
        while (at > 0 && before(row, column, column_at(columns, at - 1, is_wide))) {
            at--;
        }
        if (at == p->k) {
            continue;
        }
        found += found < p->k ? 1 : 0;
        for (uint32_t i = found - 1; i > at; i--) {
            set_column(columns, i, is_wide, column_at(columns, i - 1, is_wide));
        }
        set_column(columns, at, is_wide, column);
    }
}

trivet_status trivet_top_k_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_top_k_record *p = (const trivet_top_k_record *)call->params;
    const struct elements *elements = &ELEMENTS_OF[p->dtype];
    const uint32_t row_bytes = p->columns * elements->bytes, count = call->inputs[0].row_bytes / row_bytes;
    const bool is_wide = call->outputs[1].row_bytes / (count * p->k) == 8;
    const uint32_t place_bytes = is_wide ? 8 : 4;
    (void)row, (void)rows;
    for (uint32_t r = 0; r < count; r++) {
        const uint8_t *x = call->inputs[0].data + (size_t)r * row_bytes;
        uint8_t *columns = call->outputs[1].data + (size_t)r * p->k * place_bytes;
        choose(p, x, columns, is_wide);
        for (uint32_t i = 0; i < p->k; i++) {
            elements->copy(call->outputs[0].data + (size_t)r * p->k * elements->bytes, i, x,
                           column_at(columns, i, is_wide));
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_top_k_check(const trivet_check *check) {
    const trivet_top_k_record *p = (const trivet_top_k_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 2 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *values = &check->outputs[0], *columns = &check->outputs[1];
    TRIVET_REQUIRE(p->dtype < sizeof ELEMENTS_OF / sizeof ELEMENTS_OF[0] && ELEMENTS_OF[p->dtype].bytes != 0);
    TRIVET_REQUIRE(x->dtype == p->dtype && values->dtype == p->dtype && x->rank == 2 && x->shape[1] == p->columns);
    TRIVET_REQUIRE(columns->dtype == TRIVET_I32 || columns->dtype == TRIVET_I64);
    TRIVET_REQUIRE(p->k >= 1 && p->k <= p->columns && x->shape[0] >= 1);
    const uint32_t results = trivet_product(x->shape[0], p->k);
    TRIVET_REQUIRE(trivet_elements(values) == results && trivet_elements(columns) == results);
    return TRIVET_OK;
}
