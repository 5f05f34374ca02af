/* What makes the numbers with which sums are rescaled safe to use. */
#include "dsp.h"

bool trivet_dsp_rescale_is_sound(const uint8_t *constants, const trivet_blob *rescale, uint32_t form, uint32_t group,
                                 uint32_t channels) {
    const uint32_t numbers = trivet_dsp_rescale_numbers(form);
    if (form > TRIVET_DSP_EXACT || rescale->bytes != trivet_product(trivet_product(channels, numbers), 4)) {
        return false;
    }
    const int32_t *of_group = (const int32_t *)(const void *)trivet_blob_data(constants, rescale);
    for (uint32_t channel = 0; form == TRIVET_DSP_EXACT && channel < channels; channel += group) {
        for (uint32_t i = 0; i < group; i++) {
            int32_t shift = of_group[3 * group + i];
            if (shift < 1 || shift > 31) {
                return false;
            }
        }
        of_group += group * numbers;
    }
    return true;
}
