/* Rows that the caller gives and takes. */
#include "trivet/kernels/border.h"

trivet_status trivet_receive_check(const trivet_check *check) {
    TRIVET_REQUIRE(check->input_count == 0 && check->output_count == 1 && check->images == 1 && !check->accumulates);
    return TRIVET_OK;
}

trivet_status trivet_receive_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_border_record *params = (const trivet_border_record *)call->params;
    const trivet_view *out = &call->outputs[0];
    while (rows > 0) {
        uint32_t some = trivet_contiguous_rows(out, row, rows);
        trivet_rows piece = {params->port, row, some, (size_t)some * out->row_bytes};
        trivet_status status = call->border->receive(call->border->context, &piece, trivet_row(out, row));
        if (status != TRIVET_OK) {
            return status;
        }
        row += some;
        rows -= some;
    }
    return TRIVET_OK;
}

trivet_status trivet_send_check(const trivet_check *check) {
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 0 && check->images == 1);
    return TRIVET_OK;
}

trivet_status trivet_send_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_border_record *params = (const trivet_border_record *)call->params;
    const trivet_view *in = &call->inputs[0];
    while (rows > 0) {
        uint32_t some = trivet_contiguous_rows(in, row, rows);
        trivet_rows piece = {params->port, row, some, (size_t)some * in->row_bytes};
        trivet_status status = call->border->send(call->border->context, &piece, trivet_row(in, row));
        if (status != TRIVET_OK) {
            return status;
        }
        row += some;
        rows -= some;
    }
    return TRIVET_OK;
}
