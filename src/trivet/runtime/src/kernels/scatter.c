/* Rows that updates meet. A row of a run that is out of range ends the run: nothing outside is ever written. */
#include <string.h>

#include "trivet/kernels/indexing.h"

enum { SET, ADD, MULTIPLY, SMALLER, LARGER, COMBINE_COUNT };

static const uint32_t WIDTHS[] = TRIVET_DTYPE_BYTES;

typedef struct job {
    const uint8_t *x, *places, *updates;
} job;

static job set_up(const trivet_call *call) {
    const trivet_scatter_record *p = (const trivet_scatter_record *)call->params;
    const trivet_blob *blobs[] = {&p->x, &p->places, &p->updates};
    const uint8_t *data[3];
    uint32_t next = 0;
    for (uint32_t i = 0; i < 3; i++) {
        data[i] = trivet_blob_data(call->constants, blobs[i]);
        if (data[i] == NULL) {
            data[i] = call->inputs[next++].data;
        }
    }
    job j = {data[0], data[1], data[2]};
    return j;
}

static int64_t place_at(const trivet_scatter_record *p, const uint8_t *places, uint32_t i) {
    int64_t place;
    if (p->place_bytes == 8) {
        memcpy(&place, places + (size_t)i * 8, 8);
    } else {
        int32_t narrow;
        memcpy(&narrow, places + (size_t)i * 4, 4);
        place = narrow;
    }
    place += place < 0 ? p->rows : 0;
    return place < 0 || place >= p->rows ? -1 : place;
}

#define COMBINE(type, wide)                                                            \
    for (uint32_t i = 0; i < p->row_bytes / sizeof(type); i++) {                       \
        type a = ((type *)(void *)y)[i], b = ((const type *)(const void *)update)[i];  \
        switch (p->combine) {                                                          \
            case ADD: a = (type)((wide)a + (wide)b); break;                            \
            case MULTIPLY: a = (type)((wide)a * (wide)b); break;                       \
            case SMALLER: a = b < a ? b : a; break;                                    \
            default: a = b > a ? b : a; break;                                         \
        }                                                                              \
        ((type *)(void *)y)[i] = a;                                                    \
    }

static void combine(const trivet_scatter_record *p, uint8_t *y, const uint8_t *update) {
    if (p->combine == SET) {
        memcpy(y, update, p->row_bytes);
    } else if (p->dtype == TRIVET_F32) {
        COMBINE(float, float)
    } else if (p->dtype == TRIVET_I32) {
        COMBINE(int32_t, uint32_t)
    } else {
        COMBINE(int64_t, uint64_t)
    }
}

trivet_status trivet_scatter_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_scatter_record *p = (const trivet_scatter_record *)call->params;
    const job j = set_up(call);
    uint8_t *y = call->outputs[0].data;
    (void)row, (void)rows;
    memmove(y, j.x, (size_t)p->rows * p->row_bytes);
    for (uint32_t i = 0; i < p->count; i++) {
        int64_t place = place_at(p, j.places, i);
        if (place < 0) {
            return TRIVET_ERR_VALUE;
        }
        combine(p, y + (size_t)place * p->row_bytes, j.updates + (size_t)i * p->row_bytes);
    }
    return TRIVET_OK;
}

/* True iff a part has so many bytes, as a constant or as the next activation of that element type. */
static bool part_is_sound(const trivet_check *check, const trivet_blob *blob, uint32_t dtype, uint32_t bytes,
                          uint32_t *next) {
    if (blob->bytes != 0) {
        return blob->bytes == bytes;
    }
    if (*next >= check->input_count) {
        return false;
    }
    const trivet_tensor_info *operand = &check->inputs[(*next)++];
    return operand->dtype == dtype && trivet_product(operand->height, operand->row_bytes) == bytes;
}

trivet_status trivet_scatter_check(const trivet_check *check) {
    const trivet_scatter_record *p = (const trivet_scatter_record *)check->params;
    TRIVET_REQUIRE(check->output_count == 1 && !check->accumulates && check->images == 1);
    TRIVET_REQUIRE(p->rows >= 1 && p->row_bytes >= 1 && p->count >= 1 && p->combine < COMBINE_COUNT);
    TRIVET_REQUIRE(p->dtype < sizeof WIDTHS / sizeof WIDTHS[0] && WIDTHS[p->dtype] != 0);
    TRIVET_REQUIRE(p->row_bytes % WIDTHS[p->dtype] == 0 && (p->place_bytes == 4 || p->place_bytes == 8));
    TRIVET_REQUIRE(p->combine == SET || p->dtype == TRIVET_F32 || p->dtype == TRIVET_I32 || p->dtype == TRIVET_I64);
    const uint32_t size = trivet_product(p->rows, p->row_bytes);
    const trivet_tensor_info *y = &check->outputs[0];
    TRIVET_REQUIRE(y->dtype == p->dtype && trivet_product(y->height, y->row_bytes) == size && size != UINT32_MAX);
    uint32_t next = 0;
    TRIVET_REQUIRE(part_is_sound(check, &p->x, p->dtype, size, &next));
    TRIVET_REQUIRE(part_is_sound(check, &p->places, p->place_bytes == 8 ? TRIVET_I64 : TRIVET_I32,
                                 trivet_product(p->count, p->place_bytes), &next));
    TRIVET_REQUIRE(part_is_sound(check, &p->updates, p->dtype, trivet_product(p->count, p->row_bytes), &next));
    TRIVET_REQUIRE(next == check->input_count);
    return TRIVET_OK;
}
