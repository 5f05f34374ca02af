/* What makes the requantization fields of a record safe to use. */
#include "requant_s8.h"

static bool shifts_are_sound(const trivet_requant_fields *f, uint32_t channels) {
    const int8_t *shifts = (const int8_t *)trivet_blob_data(f->constants, f->shifts);
    int32_t most = f->shift_range == TRIVET_SHIFTS_USUAL ? -1 : 30;
    for (uint32_t i = 0; i < channels; i++) {
        if (shifts[i] < -31 || shifts[i] > most) {
            return false;
        }
    }
    return true;
}

static bool mantissas_are_sound(const trivet_requant_fields *f, uint32_t channels) {
    const int32_t *mantissas = (const int32_t *)(const void *)trivet_blob_data(f->constants, f->multipliers);
    for (uint32_t i = 0; i < channels; i++) {
        if (mantissas[i] < 0) {
            return false;
        }
    }
    return true;
}

static bool scales_are_sound(const trivet_requant_fields *f, uint32_t channels) {
    const double *scales = (const double *)(const void *)trivet_blob_data(f->constants, f->multipliers);
    for (uint32_t i = 0; i < channels; i++) {
        if (!(scales[i] >= 0.0 && scales[i] <= 1e30)) {
            return false;
        }
    }
    return true;
}

bool trivet_requant_is_sound(const trivet_requant_fields *f, uint32_t channels, uint32_t biases) {
    if (f->lo > f->hi || f->lo < -128 || f->hi > 127 || f->zero < -128 || f->zero > 127 ||
        f->rounding > TRIVET_ROUND_EVEN || f->shift_range > TRIVET_SHIFTS_ANY || f->bias->bytes != trivet_product(trivet_product(channels, biases), 4)) {
        return false;
    }
    if (f->rounding == TRIVET_ROUND_Q31) {
        return f->multipliers->bytes == trivet_product(channels, 4) && f->shifts->bytes == channels &&
               shifts_are_sound(f, channels) && mantissas_are_sound(f, channels);
    }
    return f->multipliers->bytes == trivet_product(channels, 8) && scales_are_sound(f, channels);
}
