/* y = table[x + 128] on int8: any function of one stored value. */
#include "trivet/kernels/lookup.h"

trivet_status trivet_lookup_s8_check(const trivet_check *check) {
    const trivet_lookup_record *params = (const trivet_lookup_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1);
    TRIVET_REQUIRE(check->inputs[0].dtype == TRIVET_I8 && check->outputs[0].dtype == TRIVET_I8);
    TRIVET_REQUIRE(trivet_same_shape(&check->inputs[0], &check->outputs[0]));
    TRIVET_REQUIRE(params->table.bytes == 256 && !check->accumulates);
    return TRIVET_OK;
}

static void map_bytes(const uint8_t *table, const uint8_t *x, uint8_t *y, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) {
        y[i] = table[x[i] ^ 0x80u]; /* stored v is at v + 128 */
    }
}

trivet_status trivet_lookup_s8_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_lookup_record *params = (const trivet_lookup_record *)call->params;
    const uint8_t *table = trivet_blob_data(call->constants, &params->table);
    const trivet_view *x = &call->inputs[0];
    const trivet_view *y = &call->outputs[0];
    while (rows > 0) {
        uint32_t run = trivet_contiguous_rows(x, row, trivet_contiguous_rows(y, row, rows));
        map_bytes(table, trivet_row(x, row), trivet_row(y, row), run * y->row_bytes);
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}
