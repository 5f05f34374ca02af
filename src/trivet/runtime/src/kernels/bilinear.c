/* Where the pixels of a bilinear resize come from. */
#include "bilinear.h"

void trivet_bilinear_run(const trivet_taps *taps, const trivet_call *call, uint32_t row, uint32_t rows, uint32_t bytes,
                         trivet_mix_fn mix, const void *context) {
    const uintptr_t pixel = (uintptr_t)taps->channels * bytes;
    for (uint32_t r = row; r < row + rows; r++) {
        const trivet_tap_pair down = taps->rows[r];
        const uint8_t *upper = trivet_row(&call->inputs[0], down.lower);
        const uint8_t *lower = trivet_row(&call->inputs[0], down.upper);
        uint8_t *y = trivet_row(&call->outputs[0], r);
        for (uint32_t column = 0; column < taps->column_count; column++, y += pixel) {
            const trivet_tap_pair right = taps->columns[column];
            const trivet_corners corners = {upper + right.lower * pixel, lower + right.lower * pixel,
                                            upper + right.upper * pixel, lower + right.upper * pixel, down, right};
            mix(context, &corners, taps->channels, y);
        }
    }
}

static bool are_inside(const trivet_tap_pair *pairs, uint32_t count, uint32_t size) {
    for (uint32_t i = 0; i < count; i++) {
        if (pairs[i].lower >= size || pairs[i].upper >= size) {
            return false;
        }
    }
    return true;
}

bool trivet_taps_are_sound(const trivet_taps *taps, const trivet_check *check, uint32_t dtype, uint32_t bytes) {
    if (check->input_count != 1 || check->output_count != 1 || check->accumulates || taps->channels < 1) {
        return false;
    }
    const trivet_tensor_info *x = &check->inputs[0];
    const trivet_tensor_info *y = &check->outputs[0];
    const uint32_t pixel = trivet_product(taps->channels, bytes);
    return x->dtype == dtype && y->dtype == dtype && x->row_bytes % pixel == 0 && taps->row_count == y->height &&
           trivet_product(taps->column_count, pixel) == y->row_bytes &&
           are_inside(taps->rows, taps->row_count, x->height) &&
           are_inside(taps->columns, taps->column_count, x->row_bytes / pixel);
}
