/* Kernels by id, from the generated lists, and what their checks share. */
#include "trivet/kernels.h"

#define DECLARE(id, name, record, by_rows, blobs)                                            \
    trivet_status trivet_##name##_run(const trivet_call *call, uint32_t row, uint32_t rows); \
    trivet_status trivet_##name##_check(const trivet_check *check);
TRIVET_KERNELS(DECLARE)
#undef DECLARE

#define ENTRY(id, name, record, by_rows, blobs) \
    [id] = {trivet_##name##_run, trivet_##name##_check, (uint32_t)sizeof(record), (blobs), (by_rows)},
static const trivet_kernel kernels[TRIVET_KERNEL_COUNT] = {TRIVET_KERNELS(ENTRY)};
#undef ENTRY

const trivet_kernel *trivet_find_kernel(uint32_t id) {
    if (id >= TRIVET_KERNEL_COUNT || kernels[id].run == NULL) {
        return NULL;
    }
    return &kernels[id];
}

uint32_t trivet_product(uint32_t a, uint32_t b) {
    uint64_t product = (uint64_t)a * b;
    return product > UINT32_MAX ? UINT32_MAX : (uint32_t)product;
}

uint32_t trivet_elements(const trivet_tensor_info *tensor) {
    uint32_t elements = 1;
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        elements = trivet_product(elements, tensor->shape[axis]);
    }
    return elements;
}

bool trivet_same_shape(const trivet_tensor_info *a, const trivet_tensor_info *b) {
    if (a->rank != b->rank) {
        return false;
    }
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        if (a->shape[axis] != b->shape[axis]) {
            return false;
        }
    }
    return true;
}
