/* Rows and pixels copied from places in tables. */
#include <string.h>

#include "trivet/kernels/take.h"

static const uint16_t *places(const uint8_t *constants, const trivet_blob *blob) {
    return (const uint16_t *)(const void *)trivet_blob_data(constants, blob);
}

static void take_pixels(const uint16_t *columns, uint32_t count, uint32_t bytes, const uint8_t *x, uint8_t *y) {
    if (bytes == 1) {
        for (uint32_t i = 0; i < count; i++) {
            y[i] = x[columns[i]];
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++, y += bytes) {
        memmove(y, x + (uintptr_t)columns[i] * bytes, bytes);
    }
}

trivet_status trivet_take_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_take_record *p = (const trivet_take_record *)call->params;
    const uint16_t *sources = places(call->constants, &p->rows);
    const uint16_t *columns = places(call->constants, &p->columns);
    for (uint32_t r = row; r < row + rows; r++) {
        const uint8_t *x = trivet_row(&call->inputs[0], sources[r]);
        uint8_t *y = trivet_row(&call->outputs[0], r);
        if (columns == NULL) {
            memmove(y, x, call->outputs[0].row_bytes);
        } else {
            take_pixels(columns, p->columns.bytes / 2, p->pixel_bytes, x, y);
        }
    }
    return TRIVET_OK;
}

/* True iff the table has `count` places below `size`. */
static bool are_sound(const uint16_t *table, const trivet_blob *blob, uint32_t count, uint32_t size) {
    if (blob->bytes % 2 != 0 || blob->bytes / 2 != count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (table[i] >= size) {
            return false;
        }
    }
    return true;
}

trivet_status trivet_take_check(const trivet_check *check) {
    const trivet_take_record *p = (const trivet_take_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    TRIVET_REQUIRE(are_sound(places(check->constants, &p->rows), &p->rows, y->height, x->height));
    if (p->columns.bytes == 0) {
        TRIVET_REQUIRE(x->row_bytes == y->row_bytes);
        return TRIVET_OK;
    }
    TRIVET_REQUIRE(p->pixel_bytes >= 1 && y->row_bytes % p->pixel_bytes == 0);
    uint32_t pixels = y->row_bytes / p->pixel_bytes;
    TRIVET_REQUIRE(
        are_sound(places(check->constants, &p->columns), &p->columns, pixels, x->row_bytes / p->pixel_bytes));
    return TRIVET_OK;
}
