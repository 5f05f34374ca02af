/* What a kernel is: it makes a range of output rows from views of its operands.
 *
 * The executor calls `run` once for a layer that executes whole (row 0, all rows), or once per firing of a stream. It
 * loops over the batch itself: a kernel sees one image. Everything a kernel needs to know beside addresses is in its
 * parameter record, which `check` has validated when the plan was loaded; `run` trusts it.
 */
#ifndef TRIVET_KERNEL_H
#define TRIVET_KERNEL_H

#include <stdint.h>

#include "trivet/status.h"

/* A tensor of one image in memory: `height` rows of `row_bytes`, of which `depth` are kept; row r is in slot
 * r mod depth. A whole tensor has depth == height. Tensors of a rank other than 4 are one row. */
typedef struct trivet_view {
    uint8_t *data;
    uint32_t row_bytes;
    uint32_t height;
    uint32_t depth;
} trivet_view;

/* Address of a row; rows of a whole tensor, and rows of a ring within one slot cycle, are contiguous. */
static inline uint8_t *trivet_row(const trivet_view *view, uint32_t row) {
    uint32_t slot = view->depth == view->height ? row : row % view->depth;
    return view->data + (uintptr_t)slot * view->row_bytes;
}

/* How many rows from `row` on, at most `rows`, follow each other in memory. */
static inline uint32_t trivet_contiguous_rows(const trivet_view *view, uint32_t row, uint32_t rows) {
    uint32_t left = view->depth - (view->depth == view->height ? row : row % view->depth);
    return rows < left ? rows : left;
}

typedef struct trivet_call {
    const void *params;          /* the kernel's record, aligned to 4 */
    const uint8_t *constants;    /* blob fields of the record are offsets from here, aligned to 16 */
    const trivet_view *inputs;   /* activations, in the kernel's order */
    const trivet_view *outputs;
    uint8_t *scratch;            /* as many bytes as the plan declared, aligned to 16; NULL if none */
} trivet_call;

typedef trivet_status (*trivet_run_fn)(const trivet_call *call, uint32_t row, uint32_t rows);

#endif
