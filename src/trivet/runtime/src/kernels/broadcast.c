#include "broadcast.h"

enum { LAST = TRIVET_BROADCAST_AXES - 1 };

static uint32_t element_bytes(uint32_t dtype) {
    static const uint32_t WIDTHS[] = TRIVET_DTYPE_BYTES;
    return dtype < sizeof WIDTHS / sizeof *WIDTHS ? WIDTHS[dtype] : 0;
}

/* One row, stretch by stretch along the last axis; `a`, `b` and `y` are its first elements. */
static void run_row(const trivet_broadcast *bc, const uint8_t *a, const uint8_t *b, uint8_t *y, trivet_pair_bytes bytes,
                    trivet_pairs_fn pairs, const void *context) {
    uint32_t index[TRIVET_BROADCAST_AXES] = {0};
    uint32_t at_a = 0, at_b = 0, axis;
    do {
        pairs(context, a + (uintptr_t)at_a * bytes.a, bc->a_steps[LAST], b + (uintptr_t)at_b * bytes.b,
              bc->b_steps[LAST], y, bc->extents[LAST]);
        y += (uintptr_t)bc->extents[LAST] * bytes.y;
        for (axis = LAST; axis-- > 0;) {
            at_a += bc->a_steps[axis];
            at_b += bc->b_steps[axis];
            if (++index[axis] < bc->extents[axis]) {
                break;
            }
            index[axis] = 0;
            at_a -= bc->a_steps[axis] * bc->extents[axis];
            at_b -= bc->b_steps[axis] * bc->extents[axis];
        }
    } while (axis != UINT32_MAX);
}

/* What row `row` of the result reads: of a constant, of an operand that is one row, or of one that has the same rows. */
static const uint8_t *operand_row(const trivet_view *view, const uint8_t *constant, uint32_t row, uint32_t row_bytes) {
    if (view != NULL && view->height > 1) {
        return trivet_row(view, row);
    }
    return (view == NULL ? constant : view->data) + (uintptr_t)row * row_bytes;
}

void trivet_broadcast_run(const trivet_broadcast *bc, const trivet_call *call, uint32_t row, uint32_t rows,
                          trivet_pair_bytes bytes, trivet_pairs_fn pairs, const void *context) {
    const uint8_t *a = trivet_blob_data(call->constants, bc->a);
    const uint8_t *b = trivet_blob_data(call->constants, bc->b);
    const trivet_view *view_a = a == NULL ? &call->inputs[0] : NULL;
    const trivet_view *view_b = b == NULL ? &call->inputs[a == NULL ? 1 : 0] : NULL;
    for (uint32_t r = row; r < row + rows; r++) {
        run_row(bc, operand_row(view_a, a, r, bc->a_row), operand_row(view_b, b, r, bc->b_row),
                trivet_row(&call->outputs[0], r), bytes, pairs, context);
    }
}

/* The bytes of a row that the steps reach; the largest uint32_t if that is no number of bytes. */
static uint32_t reach(const uint32_t *extents, const uint32_t *steps, uint32_t size) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < TRIVET_BROADCAST_AXES; i++) {
        last += (uint64_t)(extents[i] - 1) * steps[i];
        if (last > UINT32_MAX / 8) {
            return UINT32_MAX;
        }
    }
    return (uint32_t)(last + 1) * size;
}

static bool side_is_sound(const trivet_check *check, const uint32_t *extents, const uint32_t *steps,
                          const trivet_blob *blob, uint32_t row_bytes, uint32_t dtype, uint32_t *next) {
    const trivet_tensor_info *y = &check->outputs[0];
    uint32_t needed = reach(extents, steps, element_bytes(dtype));
    if (steps[LAST] > 1) {
        return false;
    }
    uint64_t last_row = (uint64_t)(y->height - 1) * row_bytes;
    if (row_bytes % element_bytes(dtype) != 0) {
        return false;
    }
    if (blob->bytes != 0) {
        return last_row + needed <= blob->bytes;
    }
    if (*next >= check->input_count) {
        return false;
    }
    const trivet_tensor_info *x = &check->inputs[(*next)++];
    if (x->dtype != dtype || (x->height != y->height && x->height != 1)) {
        return false;
    }
    return (x->height == 1 ? last_row : 0) + needed <= x->row_bytes;
}

bool trivet_broadcast_is_sound(const trivet_broadcast *bc, const trivet_check *check, uint32_t a_dtype, uint32_t b_dtype,
                               uint32_t y_dtype) {
    if (check->output_count != 1 || check->input_count < 1 || check->input_count > 2 || check->accumulates) {
        return false;
    }
    const trivet_tensor_info *y = &check->outputs[0];
    uint32_t elements = 1, next = 0;
    for (uint32_t i = 0; i < TRIVET_BROADCAST_AXES; i++) {
        elements = trivet_product(elements, bc->extents[i]);
    }
    return elements >= 1 && y->dtype == y_dtype && trivet_product(elements, element_bytes(y_dtype)) == y->row_bytes &&
           y->height >= 1 && side_is_sound(check, bc->extents, bc->a_steps, bc->a, bc->a_row, a_dtype, &next) &&
           side_is_sound(check, bc->extents, bc->b_steps, bc->b, bc->b_row, b_dtype, &next) &&
           next == check->input_count;
}
