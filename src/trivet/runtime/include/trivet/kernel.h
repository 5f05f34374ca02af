/* What a kernel is: it makes a range of output rows from views of its operands.
 *
 * The executor calls `run` once for a layer that executes whole (row 0, all rows), or once per firing of a stream. It
 * loops over the batch itself: a kernel sees one image. Everything a kernel needs to know beside addresses is in its
 * parameter record, which `check` has validated when the plan was loaded; `run` trusts it.
 */
#ifndef TRIVET_KERNEL_H
#define TRIVET_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trivet/format.h"
#include "trivet/status.h"

/* A field of a parameter record: bytes of the section of constants. The loader has checked that they lie inside, and
 * that the offset is a multiple of 16. `bytes` 0 means absent. */
typedef struct trivet_blob {
    uint32_t offset;
    uint32_t bytes;
} trivet_blob;

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

/* Rows [row, row + rows) of input or output number `port`, `bytes` in all, in storage order. */
typedef struct trivet_rows {
    uint32_t port;
    uint32_t row;
    uint32_t rows;
    size_t bytes;
} trivet_rows;

/* Called for the rows of what goes by rows, in rising order, each row once a run. `receive` fills `data`, `send` reads
 * it; anything but TRIVET_OK ends the run with that status. */
typedef struct trivet_border {
    trivet_status (*receive)(void *context, const trivet_rows *rows, uint8_t *data);
    trivet_status (*send)(void *context, const trivet_rows *rows, const uint8_t *data);
    void *context;
} trivet_border;

typedef struct trivet_call {
    const void *params;          /* the kernel's record, aligned to 4 */
    const uint8_t *constants;    /* blob fields of the record are offsets from here, aligned to 16 */
    const trivet_view *inputs;   /* activations, in the kernel's order */
    const trivet_view *outputs;
    uint8_t *scratch;            /* as many bytes as the plan declared, aligned to 16; NULL if none */
    const trivet_border *border; /* the caller's side of rows that come in and go out */
} trivet_call;

/* Makes output rows [row, row + rows). A call that accumulates counts rows of input 0 instead: it starts anew at row 0
 * and gives its result after the last row. */
typedef trivet_status (*trivet_run_fn)(const trivet_call *call, uint32_t row, uint32_t rows);

/* A tensor as the loader knows it. `shape` is the tensor's, batch included; the rest describes one image as `run`
 * gets it: rank 4 has shape[1] rows of shape[2] * shape[3] elements; every other rank is one row. */
typedef struct trivet_tensor_info {
    const uint32_t *shape;
    uint32_t rank;
    uint32_t dtype;
    uint32_t row_bytes;
    uint32_t height;
    uint32_t depth;
} trivet_tensor_info;

/* What `check` sees. It must return OK only if no `run` with these operands can touch memory outside of them, its
 * constants and its scratch, or has undefined behaviour, whatever the operands hold. */
typedef struct trivet_check {
    const void *params;
    const uint8_t *constants;
    const trivet_tensor_info *inputs;
    const trivet_tensor_info *outputs;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t scratch_bytes;
    uint32_t images;
    uint32_t rows;        /* of one firing */
    bool accumulates;
} trivet_check;

typedef trivet_status (*trivet_check_fn)(const trivet_check *check);

typedef struct trivet_kernel {
    trivet_run_fn run;      /* NULL: there is no such kernel */
    trivet_check_fn check;
    uint32_t params_bytes;
    uint32_t blobs;         /* bit i: word i of the record starts a blob */
    uint32_t by_rows;       /* 0: whole operands and one firing; 2: and results may lie over sums */
} trivet_kernel;

/* The kernel with that id, or NULL. */
const trivet_kernel *trivet_find_kernel(uint32_t id);

/* For the first lines of a `check`. */
#define TRIVET_REQUIRE(claim)          \
    do {                               \
        if (!(claim)) {                \
            return TRIVET_ERR_PARAMS;  \
        }                              \
    } while (0)

/* The product, or the largest uint32_t if it does not fit: no size that is compared with it can be that large. */
uint32_t trivet_product(uint32_t a, uint32_t b);

/* Elements of the whole tensor. */
uint32_t trivet_elements(const trivet_tensor_info *tensor);

/* True iff rank and every extent are equal. */
bool trivet_same_shape(const trivet_tensor_info *a, const trivet_tensor_info *b);

/* The bytes of a blob field; NULL if it is absent. */
static inline const uint8_t *trivet_blob_data(const uint8_t *constants, const trivet_blob *blob) {
    return blob->bytes == 0 ? NULL : constants + blob->offset;
}

#endif
