#include "mve.h"

bool trivet_mve_rescale_is_sound(const trivet_mve_rescale *r, const uint8_t *constants, const trivet_blob *numbers,
                                 uint32_t channels) {
    const uint32_t group = TRIVET_MVE_NUMBERS * TRIVET_MVE_LANES;
    const uint32_t groups = channels / TRIVET_MVE_LANES;
    if (numbers->bytes == 0 || numbers->bytes != trivet_product(groups, 4 * group) || r->zero < -128 || r->zero > 127 ||
        r->lo < -128 || r->lo > r->hi || r->hi > 127 || r->is_signed > 1) {
        return false;
    }
    const int32_t *first = (const int32_t *)(const void *)trivet_blob_data(constants, numbers);
    for (uint32_t i = 0; i < channels; i++) {
        const int32_t *n = first + i / TRIVET_MVE_LANES * group + i % TRIVET_MVE_LANES;
        if (n[TRIVET_MVE_LANES] < 0 || n[2 * TRIVET_MVE_LANES] > -1 || n[2 * TRIVET_MVE_LANES] < -31) {
            return false;
        }
    }
    return true;
}
