/* Bytes that move unchanged. */
#include <string.h>

#include "trivet/kernels/copy.h"

static uint32_t whole_bytes(const trivet_tensor_info *tensor) {
    return trivet_product(tensor->height, tensor->row_bytes);
}

trivet_status trivet_copy_check(const trivet_check *check) {
    const trivet_copy_record *params = (const trivet_copy_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && check->images == 1);
    TRIVET_REQUIRE(whole_bytes(&check->inputs[0]) == params->size_bytes);
    TRIVET_REQUIRE(whole_bytes(&check->outputs[0]) == params->size_bytes);
    return TRIVET_OK;
}

trivet_status trivet_copy_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_copy_record *params = (const trivet_copy_record *)call->params;
    (void)row;
    (void)rows;
    memmove(call->outputs[0].data, call->inputs[0].data, params->size_bytes);
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
