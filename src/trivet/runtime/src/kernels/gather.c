/* Slices chosen by index. An index of a run that is out of range ends the run: nothing outside is ever read. */
#include <string.h>

#include "trivet/kernels/gather.h"

/* The fields that both records share, and the index operand's element size. */
typedef struct choice {
    const uint8_t *indices;
    uint32_t index_bytes, outer, extent, count, slice_bytes;
} choice;

#define CHOICE(p, call)                                                                                               \
    {trivet_blob_data((call)->constants, &(p)->indices), 4, (p)->outer, (p)->extent, (p)->count, (p)->slice_bytes}

/* The index in [0, extent), or -1. */
static int64_t index_at(const choice *c, uint32_t i) {
    int64_t index;
    if (c->index_bytes == 8) {
        memcpy(&index, c->indices + (uintptr_t)i * 8, 8);
    } else {
        int32_t narrow;
        memcpy(&narrow, c->indices + (uintptr_t)i * 4, 4);
        index = narrow;
    }
    index += index < 0 ? c->extent : 0;
    return index < 0 || index >= c->extent ? -1 : index;
}

static trivet_status choose(const choice *c, const uint8_t *x, uint8_t *y) {
    for (uint32_t block = 0; block < c->outer; block++, x += (uintptr_t)c->extent * c->slice_bytes) {
        for (uint32_t i = 0; i < c->count; i++, y += c->slice_bytes) {
            int64_t index = index_at(c, i);
            if (index < 0) {
                return TRIVET_ERR_VALUE;
            }
            memmove(y, x + (uintptr_t)index * c->slice_bytes, c->slice_bytes);
        }
    }
    return TRIVET_OK;
}

/* Where the indices are an operand: the last one. Its bytes tell the size of an element. */
static void find_indices(choice *c, const trivet_view *indices) {
    if (c->indices == NULL) {
        c->indices = indices->data;
        c->index_bytes = indices->height * indices->row_bytes / c->count;
    }
}

trivet_status trivet_gather_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_gather_record *p = (const trivet_gather_record *)call->params;
    const uint8_t *table = trivet_blob_data(call->constants, &p->table);
    choice c = CHOICE(p, call);
    (void)row, (void)rows;
    find_indices(&c, &call->inputs[table == NULL ? 1 : 0]);
    return choose(&c, table == NULL ? call->inputs[0].data : table, call->outputs[0].data);
}

trivet_status trivet_gather_rows_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_gather_rows_record *p = (const trivet_gather_rows_record *)call->params;
    choice c = CHOICE(p, call);
    find_indices(&c, &call->inputs[1]);
    trivet_status status = TRIVET_OK;
    for (uint32_t r = row; r < row + rows && status == TRIVET_OK; r++) {
        status = choose(&c, trivet_row(&call->inputs[0], r), trivet_row(&call->outputs[0], r));
    }
    return status;
}

static bool constants_are_sound(const choice *c, const trivet_blob *indices) {
    if (indices->bytes == 0) {
        return true;
    }
    for (uint32_t i = 0; i < c->count && indices->bytes == trivet_product(c->count, 4); i++) {
        if (index_at(c, i) < 0) {
            return false;
        }
    }
    return indices->bytes == trivet_product(c->count, 4);
}

static bool operand_is_sound(const choice *c, const trivet_tensor_info *indices) {
    return (indices->dtype == TRIVET_I32 || indices->dtype == TRIVET_I64) && trivet_elements(indices) == c->count;
}

/* True iff blocks of `source` and `target` bytes, and the indices, are what the record says. */
static bool is_sound(const choice *c, const trivet_check *check, const trivet_blob *indices, uint32_t source,
                     uint32_t target) {
    uint32_t before = check->input_count - (indices->bytes == 0 ? 1u : 0u); /* operands before the indices */
    if (check->output_count != 1 || check->accumulates || c->count < 1 || c->extent < 1 || c->slice_bytes < 1 ||
        before > 1) {
        return false;
    }
    uint32_t slices = trivet_product(c->outer, c->slice_bytes);
    return trivet_product(slices, c->extent) == source && trivet_product(slices, c->count) == target &&
           constants_are_sound(c, indices) && (indices->bytes != 0 || operand_is_sound(c, &check->inputs[before]));
}

trivet_status trivet_gather_check(const trivet_check *check) {
    const trivet_gather_record *p = (const trivet_gather_record *)check->params;
    const choice c = CHOICE(p, check);
    const uint32_t activations = (p->table.bytes == 0 ? 1u : 0u) + (p->indices.bytes == 0 ? 1u : 0u);
    TRIVET_REQUIRE(check->input_count == activations && check->output_count == 1 && check->images == 1);
    const trivet_tensor_info *y = &check->outputs[0];
    uint32_t source = p->table.bytes;
    if (source == 0) {
        source = trivet_product(check->inputs[0].height, check->inputs[0].row_bytes);
    }
    TRIVET_REQUIRE(is_sound(&c, check, &p->indices, source, trivet_product(y->height, y->row_bytes)));
    return TRIVET_OK;
}

trivet_status trivet_gather_rows_check(const trivet_check *check) {
    const trivet_gather_rows_record *p = (const trivet_gather_rows_record *)check->params;
    const choice c = CHOICE(p, check);
    TRIVET_REQUIRE(check->input_count == (p->indices.bytes == 0 ? 2u : 1u) && check->output_count == 1);
    TRIVET_REQUIRE(p->table.bytes == 0 && check->inputs[0].height == check->outputs[0].height);
    TRIVET_REQUIRE(p->indices.bytes != 0 || check->inputs[1].rank != 4);
    TRIVET_REQUIRE(is_sound(&c, check, &p->indices, check->inputs[0].row_bytes, check->outputs[0].row_bytes));
    return TRIVET_OK;
}
