/* Another element type: floats truncate and saturate, integers wrap, what is not zero is true. */
#include "trivet/kernels/choice.h"

static const uint32_t WIDTHS[] = TRIVET_DTYPE_BYTES;

static int64_t load(uint32_t dtype, const void *x, uint32_t i) {
    switch (dtype) {
        case TRIVET_I8: return ((const int8_t *)x)[i];
        case TRIVET_I16: return ((const int16_t *)x)[i];
        case TRIVET_U16: return ((const uint16_t *)x)[i];
        case TRIVET_I32: return ((const int32_t *)x)[i];
        case TRIVET_U32: return ((const uint32_t *)x)[i];
        case TRIVET_I64: return ((const int64_t *)x)[i];
        default: return ((const uint8_t *)x)[i];
    }
}

static void store(uint32_t dtype, void *y, uint32_t i, int64_t v) {
    switch (dtype) {
        case TRIVET_F32: ((float *)y)[i] = (float)v; break;
        case TRIVET_F64: ((double *)y)[i] = (double)v; break;
        case TRIVET_BOOL: ((uint8_t *)y)[i] = v != 0; break;
        case TRIVET_I16:
        case TRIVET_U16: ((uint16_t *)y)[i] = (uint16_t)(uint64_t)v; break;
        case TRIVET_I32:
        case TRIVET_U32: ((uint32_t *)y)[i] = (uint32_t)(uint64_t)v; break;
        case TRIVET_I64: ((int64_t *)y)[i] = v; break;
        default: ((uint8_t *)y)[i] = (uint8_t)(uint64_t)v; break;
    }
}

/* A float as an integer of the type; what is no number becomes the smallest. `over` is one above the largest. */
static int64_t truncated(uint32_t dtype, double v) {
    static const struct {
        double lo, over;
    } LIMITS[] = {
        {0.0, 0.0}, /* no element type has the code 0 */
        /* I8 */ {-128.0, 128.0},
        /* U8 */ {0.0, 256.0},
        /* I16 */ {-32768.0, 32768.0},
        /* U16 */ {0.0, 65536.0},
        /* I32 */ {-2147483648.0, 2147483648.0},
        /* U32 */ {0.0, 4294967296.0},
        /* I64 */ {-9223372036854775808.0, 9223372036854775808.0},
    };
    if (!(v > LIMITS[dtype].lo)) {
        return dtype == TRIVET_I64 ? INT64_MIN : (int64_t)LIMITS[dtype].lo;
    }
    if (v < LIMITS[dtype].over) {
        return (int64_t)v;
    }
    return dtype == TRIVET_I64 ? INT64_MAX : (int64_t)LIMITS[dtype].over - 1;
}

static bool is_real(uint32_t dtype) { return dtype == TRIVET_F32 || dtype == TRIVET_F64; }

static void cast_reals(uint32_t from, uint32_t to, const void *x, void *y, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        double v = from == TRIVET_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
        if (to == TRIVET_F32) {
            ((float *)y)[i] = (float)v;
        } else if (to == TRIVET_F64) {
            ((double *)y)[i] = v;
        } else {
            store(to, y, i, to == TRIVET_BOOL ? v != 0.0 : truncated(to, v));
        }
    }
}

trivet_status trivet_cast_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_cast_record *p = (const trivet_cast_record *)call->params;
    const trivet_view *to = &call->outputs[0];
    while (rows > 0) {
        uint32_t run = trivet_contiguous_rows(&call->inputs[0], row, trivet_contiguous_rows(to, row, rows));
        const void *x = trivet_row(&call->inputs[0], row);
        void *y = trivet_row(to, row);
        uint32_t count = run * (to->row_bytes / WIDTHS[p->to]);
        if (is_real(p->from)) {
            cast_reals(p->from, p->to, x, y, count);
        } else {
            for (uint32_t i = 0; i < count; i++) {
                store(p->to, y, i, load(p->from, x, i));
            }
        }
        row += run;
        rows -= run;
    }
    return TRIVET_OK;
}

static bool is_castable(uint32_t dtype) {
    return (dtype >= TRIVET_I8 && dtype <= TRIVET_I64) || is_real(dtype) || dtype == TRIVET_BOOL;
}

trivet_status trivet_cast_check(const trivet_check *check) {
    const trivet_cast_record *p = (const trivet_cast_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    TRIVET_REQUIRE(is_castable(p->from) && is_castable(p->to));
    TRIVET_REQUIRE(check->inputs[0].dtype == p->from && check->outputs[0].dtype == p->to);
    TRIVET_REQUIRE(trivet_same_shape(&check->inputs[0], &check->outputs[0]));
    return TRIVET_OK;
}
