/* Operands one after the other, whatever their elements are. */
#include <string.h>

#include "trivet/kernels/concat.h"

#define NEXT_OPERAND 0xFFFFFFFFu

/* Bytes of a part in a block, or rows of it in a period; and where a constant starts. */
typedef struct part {
    uint32_t length, place;
} part;

static const part *parts_of(const uint8_t *constants, const trivet_blob *blob) {
    return (const part *)(const void *)trivet_blob_data(constants, blob);
}

trivet_status trivet_concat_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_concat_record *p = (const trivet_concat_record *)call->params;
    const part *parts = parts_of(call->constants, &p->parts);
    const uint8_t *data = trivet_blob_data(call->constants, &p->data);
    uint32_t block_bytes = call->outputs[0].row_bytes / p->blocks;
    for (uint32_t r = row; r < row + rows; r++) {
        uint8_t *start = trivet_row(&call->outputs[0], r);
        uint32_t next = 0;
        for (uint32_t i = 0; i < p->parts.bytes / sizeof(part); i++) {
            uint32_t bytes = parts[i].length;
            const uint8_t *x = parts[i].place == NEXT_OPERAND
                                   ? trivet_row(&call->inputs[next++], r)
                                   : data + parts[i].place + (uintptr_t)r * bytes * p->blocks;
            uint8_t *y = start;
            for (uint32_t block = 0; block < p->blocks; block++, x += bytes, y += block_bytes) {
                memmove(y, x, bytes);
            }
            start += bytes;
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_concat_check(const trivet_check *check) {
    const trivet_concat_record *p = (const trivet_concat_record *)check->params;
    const part *parts = parts_of(check->constants, &p->parts);
    TRIVET_REQUIRE(check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(p->blocks >= 1 && p->parts.bytes % sizeof(part) == 0);
    const trivet_tensor_info *y = &check->outputs[0];
    uint64_t row_bytes = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < p->parts.bytes / sizeof(part); i++) {
        uint32_t bytes = trivet_product(parts[i].length, p->blocks);
        if (parts[i].place == NEXT_OPERAND) {
            TRIVET_REQUIRE(next < check->input_count && check->inputs[next].row_bytes == bytes);
            TRIVET_REQUIRE(check->inputs[next].height == y->height);
            next++;
        } else {
            uint64_t end = (uint64_t)parts[i].place + trivet_product(bytes, y->height);
            TRIVET_REQUIRE(check->images == 1 && end <= p->data.bytes);
        }
        row_bytes += bytes;
    }
    TRIVET_REQUIRE(next == check->input_count && row_bytes == y->row_bytes && p->blocks <= row_bytes);
    return TRIVET_OK;
}

trivet_status trivet_concat_rows_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_concat_rows_record *p = (const trivet_concat_rows_record *)call->params;
    const part *parts = parts_of(call->constants, &p->parts);
    const uint8_t *data = trivet_blob_data(call->constants, &p->data);
    const uint32_t row_bytes = call->outputs[0].row_bytes;
    for (uint32_t r = row; r < row + rows; r++) {
        uint32_t period = r / p->period, within = r % p->period, i = 0, next = 0;
        for (; within >= parts[i].length; i++) {
            within -= parts[i].length;
            next += parts[i].place == NEXT_OPERAND;
        }
        uint32_t source = period * parts[i].length + within;
        const uint8_t *x = parts[i].place == NEXT_OPERAND ? trivet_row(&call->inputs[next], source)
                                                          : data + parts[i].place + (uintptr_t)source * row_bytes;
        memmove(trivet_row(&call->outputs[0], r), x, row_bytes);
    }
    return TRIVET_OK;
}

trivet_status trivet_concat_rows_check(const trivet_check *check) {
    const trivet_concat_rows_record *p = (const trivet_concat_rows_record *)check->params;
    const part *parts = parts_of(check->constants, &p->parts);
    TRIVET_REQUIRE(check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(p->period >= 1 && p->parts.bytes % sizeof(part) == 0);
    const trivet_tensor_info *y = &check->outputs[0];
    TRIVET_REQUIRE(y->height % p->period == 0);
    uint64_t period = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < p->parts.bytes / sizeof(part); i++) {
        uint32_t height = trivet_product(parts[i].length, y->height / p->period);
        if (parts[i].place == NEXT_OPERAND) {
            TRIVET_REQUIRE(next < check->input_count && check->inputs[next].row_bytes == y->row_bytes);
            TRIVET_REQUIRE(check->inputs[next].height == height);
            next++;
        } else {
            uint64_t end = (uint64_t)parts[i].place + trivet_product(height, y->row_bytes);
            TRIVET_REQUIRE(check->images == 1 && end <= p->data.bytes);
        }
        period += parts[i].length;
    }
    TRIVET_REQUIRE(next == check->input_count && period == p->period);
    return TRIVET_OK;
}
