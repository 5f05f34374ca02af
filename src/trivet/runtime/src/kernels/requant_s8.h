/* Requantization fields, which the parameter records of several int8 kernels share. */
#ifndef TRIVET_REQUANT_S8_H
#define TRIVET_REQUANT_S8_H

#include "core_s8.h"
#include "trivet/kernel.h"

typedef struct trivet_requant_fields {
    const uint8_t *constants;
    const trivet_blob *bias, *multipliers, *shifts;
    int32_t zero, lo, hi;
    uint32_t rounding, shift_range;
} trivet_requant_fields;

#define TRIVET_REQUANT_FIELDS(p, constants)                                                                     \
    {(constants), &(p)->bias, &(p)->multipliers, &(p)->shifts, (p)->out_zero, (p)->lo, (p)->hi, (p)->rounding, \
     (p)->shift_range}

/* The parameters of the channels from `channel` on; `bias` may start elsewhere. */
static inline trivet_requant_s8 trivet_requant_at(const trivet_requant_fields *f, uint32_t channel, uint32_t bias) {
    trivet_requant_s8 r;
    const uint8_t *multipliers = trivet_blob_data(f->constants, f->multipliers);
    bool q31 = f->rounding == TRIVET_ROUND_Q31;
    r.bias = (const int32_t *)(const void *)trivet_blob_data(f->constants, f->bias) + bias;
    r.mantissas = q31 ? (const int32_t *)(const void *)multipliers + channel : NULL;
    r.shifts = q31 ? (const int8_t *)trivet_blob_data(f->constants, f->shifts) + channel : NULL;
    r.scales = q31 ? NULL : (const double *)(const void *)multipliers + channel;
    r.zero = f->zero;
    r.lo = f->lo;
    r.hi = f->hi;
    r.rounding = f->rounding;
    r.shift_range = f->shift_range;
    return r;
}

/* True iff the fields are whole and in range for `channels`, with `biases` for each of them. */
bool trivet_requant_is_sound(const trivet_requant_fields *f, uint32_t channels, uint32_t biases);

#endif
