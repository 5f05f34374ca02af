/* a where a condition holds, else b; all three broadcast. */
#include <string.h>

#include "trivet/kernels/choice.h"

enum { MAX_AXES = 8, COLUMNS = 4, SOURCES = 3 };

typedef struct axes {
    const uint32_t *data; /* [rank][COLUMNS] */
    uint32_t rank;
} axes;

static axes axes_of(const uint8_t *constants, const trivet_select_record *p) {
    axes found = {(const uint32_t *)(const void *)trivet_blob_data(constants, &p->axes),
                  p->axes.bytes / (COLUMNS * (uint32_t)sizeof(uint32_t))};
    return found;
}

/* Moves the sources, which are counted in elements, to the next element of the result; false after the last. */
static bool advance(const axes *n, uint32_t *index, uint32_t *at) {
    for (uint32_t axis = n->rank; axis-- > 0;) {
        const uint32_t *entry = n->data + axis * COLUMNS;
        for (uint32_t k = 0; k < SOURCES; k++) {
            at[k] += entry[1 + k];
        }
        if (++index[axis] < entry[0]) {
            return true;
        }
        index[axis] = 0;
        for (uint32_t k = 0; k < SOURCES; k++) {
            at[k] -= entry[1 + k] * entry[0];
        }
    }
    return false;
}

trivet_status trivet_select_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_select_record *p = (const trivet_select_record *)call->params;
    const trivet_blob *blobs[SOURCES] = {&p->condition, &p->a, &p->b};
    const uint8_t *x[SOURCES];
    const trivet_view *next = call->inputs;
    for (uint32_t k = 0; k < SOURCES; k++) {
        x[k] = blobs[k]->bytes != 0 ? trivet_blob_data(call->constants, blobs[k]) : (next++)->data;
    }
    const axes n = axes_of(call->constants, p);
    const uint32_t width = p->width;
    uint32_t index[MAX_AXES] = {0}, at[SOURCES] = {0};
    uint8_t *y = call->outputs[0].data;
    do {
        const uint8_t *chosen = x[0][at[0]] != 0 ? x[1] + (uintptr_t)at[1] * width : x[2] + (uintptr_t)at[2] * width;
        memcpy(y, chosen, width);
        y += width;
    } while (advance(&n, index, at));
    return TRIVET_OK;
}

/* Elements of source k that the loops reach, or the largest uint64_t. */
static uint64_t reach(const axes *n, uint32_t k) {
    uint64_t last = 0;
    for (uint32_t axis = 0; axis < n->rank; axis++) {
        const uint32_t *entry = n->data + axis * COLUMNS;
        last += (uint64_t)(entry[0] - 1) * entry[1 + k];
        if (last > UINT32_MAX) {
            return UINT64_MAX / 8;
        }
    }
    return last + 1;
}

static uint32_t width_of(uint32_t dtype) {
    static const uint32_t WIDTHS[] = TRIVET_DTYPE_BYTES;
    return dtype < sizeof WIDTHS / sizeof *WIDTHS ? WIDTHS[dtype] : 0;
}

static bool axes_are_sound(const axes *n, const trivet_select_record *p, uint32_t elements) {
    uint32_t product = 1;
    if (n->rank == 0 || n->rank > MAX_AXES || p->axes.bytes != n->rank * COLUMNS * sizeof(uint32_t)) {
        return false;
    }
    for (uint32_t axis = 0; axis < n->rank; axis++) {
        if (n->data[axis * COLUMNS] == 0) {
            return false;
        }
        product = trivet_product(product, n->data[axis * COLUMNS]);
    }
    return product == elements;
}

trivet_status trivet_select_check(const trivet_check *check) {
    const trivet_select_record *p = (const trivet_select_record *)check->params;
    const trivet_blob *blobs[SOURCES] = {&p->condition, &p->a, &p->b};
    TRIVET_REQUIRE(check->output_count == 1 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *y = &check->outputs[0];
    const axes n = axes_of(check->constants, p);
    uint32_t inputs = 0;
    TRIVET_REQUIRE(p->width >= 1 && width_of(y->dtype) == p->width && axes_are_sound(&n, p, trivet_elements(y)));
    for (uint32_t k = 0; k < SOURCES; k++) {
        uint32_t dtype = k == 0 ? TRIVET_BOOL : y->dtype;
        uint64_t have = blobs[k]->bytes / (k == 0 ? 1 : p->width);
        if (blobs[k]->bytes == 0) {
            TRIVET_REQUIRE(inputs < check->input_count && check->inputs[inputs].dtype == dtype);
            have = trivet_elements(&check->inputs[inputs++]);
        }
        TRIVET_REQUIRE(reach(&n, k) <= have);
    }
    TRIVET_REQUIRE(inputs == check->input_count);
    return TRIVET_OK;
}
