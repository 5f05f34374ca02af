/* Between float32 and stored integers, and between stored integers. */
#include "fixedpoint.h"
#include "trivet/kernels/quantize.h"

/* Codes of stored element types, with their C type, range and file code. */
#define STORED_TYPES(X)                     \
    X(0, int8_t, -128, 127, TRIVET_I8)      \
    X(1, uint8_t, 0, 255, TRIVET_U8)        \
    X(2, int16_t, -32768, 32767, TRIVET_I16) \
    X(3, uint16_t, 0, 65535, TRIVET_U16)    \
    X(4, int32_t, INT32_MIN, INT32_MAX, TRIVET_I32)

enum { STORED_COUNT = 5 };

static const uint32_t DTYPES[STORED_COUNT] = {TRIVET_I8, TRIVET_U8, TRIVET_I16, TRIVET_U16, TRIVET_I32};
static const uint32_t BYTES[STORED_COUNT] = {1, 1, 2, 2, 4};

/* round(x / scale) + zero as an integer within [lo, hi]; not a number is the least. */
static inline int32_t quantized(float x, float scale, int32_t zero, bool half_even, double lo, double hi) {
    double steps = (double)(x / scale);
    if (!(steps > -1e18)) {
        return (int32_t)lo;
    }
    steps = steps > 1e15 ? 1e15 : steps;
    double size = steps < 0 ? -steps : steps;
    double whole = (double)(int64_t)(size + 0.5);
    if (half_even && whole - size == 0.5 && ((int64_t)whole & 1) != 0) {
        whole -= 1.0;
    }
    double value = (steps < 0 ? -whole : whole) + (double)zero;
    return (int32_t)(value < lo ? lo : value > hi ? hi : value);
}

#define QUANTIZE_ROW(code, type, lo, hi, dtype)                                         \
    case code:                                                                          \
        for (uint32_t i = 0; i < count; i++) {                                          \
            ((type *)y)[i] = (type)quantized(x[i], scale, zero, half_even, (lo), (hi)); \
        }                                                                               \
        break;

static void quantize_run(const float *x, void *y, uint32_t count, uint32_t stored, float scale, int32_t zero,
                         bool half_even) {
    switch (stored) { STORED_TYPES(QUANTIZE_ROW) }
}

#define DEQUANTIZE_ROW(code, type, lo, hi, dtype)                                                     \
    case code:                                                                                        \
        for (uint32_t i = 0; i < count; i++) {                                                        \
            y[i] = (float)((double)scale * (double)((int64_t)((const type *)x)[i] - (int64_t)zero)); \
        }                                                                                             \
        break;

static void dequantize_run(const void *x, float *y, uint32_t count, uint32_t stored, float scale, int32_t zero) {
    switch (stored) { STORED_TYPES(DEQUANTIZE_ROW) }
}

#define LOAD(code, type, lo, hi, dtype) \
    case code: return ((const type *)x)[i];

static int64_t load(const void *x, uint32_t stored, uint32_t i) {
    switch (stored) {
        STORED_TYPES(LOAD)
        default: return 0;
    }
}

#define STORE(code, type, lo, hi, dtype)                                            \
    case code:                                                                      \
        ((type *)y)[i] = (type)(v < (lo) ? (lo) : v > (hi) ? (hi) : v);             \
        break;

static void store(void *y, uint32_t stored, uint32_t i, int64_t v) {
    switch (stored) { STORED_TYPES(STORE) }
}

/* ---- per tensor */

trivet_status trivet_quantize_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_quantize_record *p = (const trivet_quantize_record *)call->params;
    for (uint32_t r = row; r < row + rows; r++) {
        const float *x = (const float *)(const void *)trivet_row(&call->inputs[0], r);
        uint32_t count = call->inputs[0].row_bytes / (uint32_t)sizeof(float);
        quantize_run(x, trivet_row(&call->outputs[0], r), count, p->stored, p->scale, p->zero, p->half_even != 0);
    }
    return TRIVET_OK;
}

static bool is_elementwise(const trivet_check *check, uint32_t from, uint32_t to) {
    return check->input_count == 1 && check->output_count == 1 && !check->accumulates &&
           check->inputs[0].dtype == from && check->outputs[0].dtype == to &&
           trivet_same_shape(&check->inputs[0], &check->outputs[0]);
}

trivet_status trivet_quantize_check(const trivet_check *check) {
    const trivet_quantize_record *p = (const trivet_quantize_record *)check->params;
    TRIVET_REQUIRE(p->stored < STORED_COUNT && is_elementwise(check, TRIVET_F32, DTYPES[p->stored]));
    return TRIVET_OK;
}

trivet_status trivet_dequantize_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dequantize_record *p = (const trivet_dequantize_record *)call->params;
    for (uint32_t r = row; r < row + rows; r++) {
        float *y = (float *)(void *)trivet_row(&call->outputs[0], r);
        uint32_t count = call->outputs[0].row_bytes / (uint32_t)sizeof(float);
        dequantize_run(trivet_row(&call->inputs[0], r), y, count, p->stored, p->scale, p->zero);
    }
    return TRIVET_OK;
}

trivet_status trivet_dequantize_check(const trivet_check *check) {
    const trivet_dequantize_record *p = (const trivet_dequantize_record *)check->params;
    TRIVET_REQUIRE(p->stored < STORED_COUNT && is_elementwise(check, DTYPES[p->stored], TRIVET_F32));
    return TRIVET_OK;
}

/* ---- per axis: whole tensors */

trivet_status trivet_quantize_axis_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_quantize_axis_record *p = (const trivet_quantize_axis_record *)call->params;
    const float *scales = (const float *)(const void *)trivet_blob_data(call->constants, &p->scales);
    const int32_t *zeros = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->zeros);
    const float *x = (const float *)(const void *)call->inputs[0].data;
    uint8_t *y = call->outputs[0].data;
    uint32_t stretches = call->outputs[0].row_bytes * call->outputs[0].height / (p->inner * BYTES[p->stored]);
    (void)row, (void)rows;
    for (uint32_t i = 0; i < stretches; i++) {
        uint32_t c = i % p->channels;
        quantize_run(x, y, p->inner, p->stored, scales[c], zeros[c], p->half_even != 0);
        x += p->inner;
        y += (uintptr_t)p->inner * BYTES[p->stored];
    }
    return TRIVET_OK;
}

static bool axis_is_sound(const trivet_check *check, uint32_t channels, uint32_t inner, const trivet_blob *scales,
                          const trivet_blob *zeros) {
    uint32_t block = trivet_product(channels, inner);
    return check->images == 1 && block >= 1 && trivet_elements(&check->outputs[0]) % block == 0 &&
           scales->bytes == trivet_product(channels, 4) && zeros->bytes == trivet_product(channels, 4);
}

trivet_status trivet_quantize_axis_check(const trivet_check *check) {
    const trivet_quantize_axis_record *p = (const trivet_quantize_axis_record *)check->params;
    TRIVET_REQUIRE(p->stored < STORED_COUNT && is_elementwise(check, TRIVET_F32, DTYPES[p->stored]));
    TRIVET_REQUIRE(axis_is_sound(check, p->channels, p->inner, &p->scales, &p->zeros));
    return TRIVET_OK;
}

trivet_status trivet_dequantize_axis_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_dequantize_axis_record *p = (const trivet_dequantize_axis_record *)call->params;
    const float *scales = (const float *)(const void *)trivet_blob_data(call->constants, &p->scales);
    const int32_t *zeros = (const int32_t *)(const void *)trivet_blob_data(call->constants, &p->zeros);
    const uint8_t *x = call->inputs[0].data;
    float *y = (float *)(void *)call->outputs[0].data;
    uint32_t stretches = call->outputs[0].row_bytes * call->outputs[0].height / (p->inner * (uint32_t)sizeof(float));
    (void)row, (void)rows;
    for (uint32_t i = 0; i < stretches; i++) {
        uint32_t c = i % p->channels;
        dequantize_run(x, y, p->inner, p->stored, scales[c], zeros[c]);
        x += (uintptr_t)p->inner * BYTES[p->stored];
        y += p->inner;
    }
    return TRIVET_OK;
}

trivet_status trivet_dequantize_axis_check(const trivet_check *check) {
    const trivet_dequantize_axis_record *p = (const trivet_dequantize_axis_record *)check->params;
    TRIVET_REQUIRE(p->stored < STORED_COUNT && is_elementwise(check, DTYPES[p->stored], TRIVET_F32));
    TRIVET_REQUIRE(axis_is_sound(check, p->channels, p->inner, &p->scales, &p->zeros));
    return TRIVET_OK;
}

/* ---- between stored integers */

trivet_status trivet_requantize_q31_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_requantize_q31_record *p = (const trivet_requantize_q31_record *)call->params;
    for (uint32_t r = row; r < row + rows; r++) {
        const void *x = trivet_row(&call->inputs[0], r);
        void *y = trivet_row(&call->outputs[0], r);
        uint32_t count = call->outputs[0].row_bytes / BYTES[p->stored];
        for (uint32_t i = 0; i < count; i++) {
            uint32_t centered = (uint32_t)(load(x, p->from, i) - p->in_zero);
            int64_t v = trivet_rescale_q31((int32_t)centered, p->mantissa, p->shift);
            store(y, p->stored, i, v + p->out_zero);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_requantize_q31_check(const trivet_check *check) {
    const trivet_requantize_q31_record *p = (const trivet_requantize_q31_record *)check->params;
    TRIVET_REQUIRE(p->from < STORED_COUNT && p->stored < STORED_COUNT);
    TRIVET_REQUIRE(is_elementwise(check, DTYPES[p->from], DTYPES[p->stored]));
    TRIVET_REQUIRE(p->mantissa >= 0 && p->shift >= -31 && p->shift <= 30);
    return TRIVET_OK;
}

trivet_status trivet_lookup_bytes_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_lookup_bytes_record *p = (const trivet_lookup_bytes_record *)call->params;
    const uint8_t *table = trivet_blob_data(call->constants, &p->table);
    for (uint32_t r = row; r < row + rows; r++) {
        const uint8_t *x = trivet_row(&call->inputs[0], r);
        uint8_t *y = trivet_row(&call->outputs[0], r);
        for (uint32_t i = 0; i < call->outputs[0].row_bytes; i++) {
            y[i] = table[x[i]];
        }
    }
    return TRIVET_OK;
}

static bool is_byte(uint32_t dtype) { return dtype == TRIVET_I8 || dtype == TRIVET_U8; }

trivet_status trivet_lookup_bytes_check(const trivet_check *check) {
    const trivet_lookup_bytes_record *p = (const trivet_lookup_bytes_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && p->table.bytes == 256);
    TRIVET_REQUIRE(is_byte(check->inputs[0].dtype) && is_byte(check->outputs[0].dtype));
    TRIVET_REQUIRE(is_elementwise(check, check->inputs[0].dtype, check->outputs[0].dtype));
    return TRIVET_OK;
}
