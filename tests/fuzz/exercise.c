#define _POSIX_C_SOURCE 200112L

#include "exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

void exercise_repair(uint8_t *plan, size_t bytes) {
    static const uint8_t zeros[4] = {0};
    const size_t size_at = offsetof(trivet_header_record, size_bytes);
    const size_t at = offsetof(trivet_header_record, checksum);
    if (bytes < sizeof(trivet_header_record)) {
        return;
    }
    uint32_t size = (uint32_t)bytes;
    memcpy(plan + size_at, &size, sizeof size);
    uint32_t crc = trivet_crc32(0, plan, at);
    crc = trivet_crc32(crc, zeros, sizeof zeros);
    crc = trivet_crc32(crc, plan + at + 4, bytes - at - 4);
    memcpy(plan + at, &crc, sizeof crc);
}

static void *block(size_t bytes, size_t alignment) {
    void *data = NULL;
    if (posix_memalign(&data, alignment < 16 ? 16 : alignment, bytes) != 0) {
        abort();
    }
    return data;
}

static void fill_inputs(trivet_model *model) {
    for (uint32_t i = 0; i < trivet_input_count(model); i++) {
        trivet_port port;
        if (trivet_input(model, i, &port) != TRIVET_OK) {
            abort();
        }
        for (uint32_t b = 0; !port.by_rows && b < port.bytes; b++) {
            port.data[b] = (uint8_t)(b * 37u + i);
        }
    }
}

static void read_outputs(const trivet_model *model) {
    for (uint32_t i = 0; i < trivet_output_count(model); i++) {
        trivet_port port;
        if (trivet_output(model, i, &port) != TRIVET_OK) {
            abort();
        }
        if (port.by_rows) {
            continue;
        }
        void *copy = block(port.bytes, 16);
        if (trivet_get_output(model, i, copy, port.bytes) != TRIVET_OK) {
            abort();
        }
        free(copy);
    }
}

static trivet_status give_rows(void *context, const trivet_rows *rows, uint8_t *data) {
    (void)context;
    memset(data, (int)(rows->row * 37u + rows->port) & 0xFF, rows->bytes);
    return TRIVET_OK;
}

/* Reads every byte, so that the sanitizers see what is handed out. */
static trivet_status take_rows(void *context, const trivet_rows *rows, const uint8_t *data) {
    uint32_t *sum = context;
    for (size_t b = 0; b < rows->bytes; b++) {
        *sum += data[b];
    }
    return TRIVET_OK;
}

static trivet_status run(trivet_model *model) {
    uint32_t sum = 0;
    trivet_border border = {give_rows, take_rows, &sum};
    trivet_set_border(model, &border);
    trivet_memory memories[TRIVET_MAX_REGIONS];
    uint32_t count = trivet_region_count(model);
    for (uint32_t r = 0; r < count; r++) {
        memories[r].bytes = trivet_region_bytes(model, r);
        memories[r].data = block(memories[r].bytes, trivet_region_alignment(model, r));
    }
    trivet_status status = trivet_bind(model, memories, count);
    if (status == TRIVET_OK) {
        fill_inputs(model);
        status = trivet_run(model);
        read_outputs(model);
    }
    for (uint32_t r = 0; r < count; r++) {
        free(memories[r].data);
    }
    return status;
}

static int is_small(const trivet_model *model) {
    size_t sum = 0;
    for (uint32_t r = 0; r < trivet_region_count(model); r++) {
        sum += trivet_region_bytes(model, r);
        if (trivet_region_alignment(model, r) > 4096) {
            return 0;
        }
    }
    return sum <= EXERCISE_MEMORY;
}

trivet_status exercise(const uint8_t *plan, size_t bytes) {
    uint8_t *copy = block(bytes, 16);
    memcpy(copy, plan, bytes);
    trivet_model model;
    trivet_status status = trivet_open(&model, copy, bytes);
    if (status == TRIVET_OK && is_small(&model)) {
        status = run(&model);
    }
    if (memcmp(copy, plan, bytes) != 0) {
        fprintf(stderr, "the plan was changed\n");
        abort();
    }
    free(copy);
    return status;
}
