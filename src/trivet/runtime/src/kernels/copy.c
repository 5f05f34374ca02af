/* Bytes that move unchanged. */
#include <string.h>

#include "trivet/kernels/copy.h"

static uint32_t whole_bytes(const trivet_tensor_info *tensor) {
    return trivet_product(tensor->height, tensor->row_bytes);
}

trivet_status trivet_copy_check(const trivet_check *check) {
    const trivet_copy_record *params = (const trivet_copy_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(check->inputs[0].height == check->outputs[0].height);
    TRIVET_REQUIRE(check->inputs[0].row_bytes == params->row_bytes && check->outputs[0].row_bytes == params->row_bytes);
    return TRIVET_OK;
}

trivet_status trivet_copy_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_view *x = &call->inputs[0];
    const trivet_view *y = &call->outputs[0];
    while (rows > 0) {
        uint32_t run = trivet_contiguous_rows(x, row, trivet_contiguous_rows(y, row, rows));
        memmove(trivet_row(y, row), trivet_row(x, row), (size_t)run * x->row_bytes);
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

trivet_status trivet_constant_check(const trivet_check *check) {
    const trivet_constant_record *params = (const trivet_constant_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 0 && check->output_count == 1 && check->images == 1);
    TRIVET_REQUIRE(whole_bytes(&check->outputs[0]) == params->data.bytes);
    return TRIVET_OK;
}

trivet_status trivet_constant_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_constant_record *params = (const trivet_constant_record *)call->params;
    (void)row;
    (void)rows;
    memcpy(call->outputs[0].data, trivet_blob_data(call->constants, &params->data), params->data.bytes);
    return TRIVET_OK;
}
