/* Audio features in integers: channels of energies, noise, gain, logarithms. */
#include "trivet/kernels/filter_bank.h"

enum { GAIN_BYTES = 250, LOG_TABLE_BYTES = 258 };
enum { SNR_BITS = 12, FEATURE_BITS = 6, LN2_Q16 = 45426 };

static const int16_t *shorts(const uint8_t *constants, const trivet_blob *blob) {
    return (const int16_t *)(const void *)trivet_blob_data(constants, blob);
}

static uint32_t bit_length(uint32_t v) {
    uint32_t length = 0;
    for (; v != 0; v >>= 1) {
        length++;
    }
    return length;
}

trivet_status trivet_filter_bank_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_filter_bank_record *p = (const trivet_filter_bank_record *)call->params;
    const int16_t *weights = shorts(call->constants, &p->weights), *unweights = shorts(call->constants, &p->unweights);
    const int16_t *first = shorts(call->constants, &p->frequencies), *places = shorts(call->constants, &p->places);
    const int16_t *counts = shorts(call->constants, &p->counts);
    const uint32_t *x = (const uint32_t *)(const void *)call->inputs[0].data;
    uint64_t *y = (uint64_t *)(void *)call->outputs[0].data;
    uint64_t sum = 0;
    (void)row, (void)rows;
    for (uint32_t channel = 0; channel < p->counts.bytes / 2; channel++) {
        uint64_t carried = 0;
        for (int32_t i = 0; i < counts[channel]; i++) {
            const uint64_t energy = x[first[channel] + i];
            sum += (uint64_t)(int64_t)weights[places[channel] + i] * energy;
            carried += (uint64_t)(int64_t)unweights[places[channel] + i] * energy;
        }
        if (channel > 0) {
            y[channel - 1] = sum;
        }
        sum = carried;
    }
    return TRIVET_OK;
}

static bool lies_inside(int32_t start, int32_t count, uint32_t size) {
    return start >= 0 && count >= 0 && (uint32_t)start + (uint32_t)count <= size;
}

trivet_status trivet_filter_bank_check(const trivet_check *check) {
    const trivet_filter_bank_record *p = (const trivet_filter_bank_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_U32 && y->dtype == TRIVET_U64 && x->rank == 1 && y->rank == 1);
    const uint32_t bytes = p->counts.bytes;
    TRIVET_REQUIRE(bytes % 2 == 0 && bytes >= 4 && bytes / 2 - 1 == y->shape[0]);
    TRIVET_REQUIRE(p->frequencies.bytes == bytes && p->places.bytes == bytes);
    TRIVET_REQUIRE(p->weights.bytes == p->unweights.bytes && p->weights.bytes % 2 == 0 && p->weights.bytes > 0);
    const int16_t *first = shorts(check->constants, &p->frequencies), *places = shorts(check->constants, &p->places);
    const int16_t *counts = shorts(check->constants, &p->counts);
    for (uint32_t i = 0; i < bytes / 2; i++) {
        TRIVET_REQUIRE(lies_inside(first[i], counts[i], x->shape[0]));
        TRIVET_REQUIRE(lies_inside(places[i], counts[i], p->weights.bytes / 2));
    }
    return TRIVET_OK;
}

/* The root, rounded to nearest; roots of numbers below 2^32 stay below 2^16. */
static uint32_t rounded_root(uint64_t v) {
    const uint64_t most = v >> 32 == 0 ? 0xFFFFu : 0xFFFFFFFFu;
    uint64_t root = 0, bit = (uint64_t)1 << 62;
    for (; bit != 0; bit >>= 2) {
        const uint64_t trial = root + bit;
        root >>= 1;
        if (v >= trial) {
            v -= trial;
            root += bit;
        }
    }
    return (uint32_t)(v > root && root != most ? root + 1 : root);
}

trivet_status trivet_filter_bank_square_root_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_filter_bank_square_root_record *p = (const trivet_filter_bank_square_root_record *)call->params;
    const uint64_t *x = (const uint64_t *)(const void *)call->inputs[0].data;
    const int32_t bits = *(const int32_t *)(const void *)call->inputs[1].data;
    uint32_t *y = (uint32_t *)(void *)call->outputs[0].data;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < p->channels; i++) {
        y[i] = bits < 0 || bits > 31 ? 0 : rounded_root(x[i]) >> bits;
    }
    return TRIVET_OK;
}

trivet_status trivet_filter_bank_square_root_check(const trivet_check *check) {
    const trivet_filter_bank_square_root_record *p = (const trivet_filter_bank_square_root_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 2 && check->output_count == 1 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_U64 && y->dtype == TRIVET_U32 && x->rank == 1 && trivet_same_shape(x, y));
    TRIVET_REQUIRE(check->inputs[1].dtype == TRIVET_I32 && trivet_elements(&check->inputs[1]) == 1);
    TRIVET_REQUIRE(p->channels == x->shape[0]);
    return TRIVET_OK;
}

trivet_status trivet_spectral_subtraction_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_spectral_subtraction_record *p = (const trivet_spectral_subtraction_record *)call->params;
    const uint32_t *x = (const uint32_t *)(const void *)call->inputs[0].data;
    const uint32_t *noise = (const uint32_t *)(const void *)call->inputs[1].data;
    uint32_t *y = (uint32_t *)(void *)call->outputs[0].data, *next = (uint32_t *)(void *)call->outputs[1].data;
    const uint32_t count = call->inputs[0].row_bytes / 4;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *c = p->coefficients + 2 * (i & 1u), input = x[i], signal = input << p->extra_bits;
        const uint32_t found = (uint32_t)(((uint64_t)signal * c[0] + (uint64_t)noise[i] * c[1]) >> p->bits);
        const uint32_t taken = found < signal ? found : signal;
        const uint32_t floor = (uint32_t)(((uint64_t)input * p->floor) >> p->bits);
        const uint32_t left = (signal - taken) >> p->extra_bits;
        next[i] = p->clamping != 0 ? taken : found;
        y[i] = left > floor ? left : floor;
    }
    return TRIVET_OK;
}

trivet_status trivet_spectral_subtraction_check(const trivet_check *check) {
    const trivet_spectral_subtraction_record *p = (const trivet_spectral_subtraction_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 2 && check->output_count == 2 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_U32 && x->rank == 1 && check->inputs[1].dtype == TRIVET_U32);
    TRIVET_REQUIRE(trivet_same_shape(x, &check->inputs[1]) && p->bits <= 31 && p->extra_bits <= 31);
    for (uint32_t i = 0; i < 2; i++) {
        TRIVET_REQUIRE(check->outputs[i].dtype == TRIVET_U32 && trivet_same_shape(x, &check->outputs[i]));
    }
    return TRIVET_OK;
}

/* A polynomial of the ten bits behind the highest one, in 32 bits that wrap. */
static int16_t gain_for(uint32_t noise, const int16_t *gains) {
    if (noise <= 2) {
        return gains[noise];
    }
    const uint32_t length = bit_length(noise);
    const int16_t *entry = gains + 4 * length - 6;
    const int32_t fraction = (int32_t)((length < 11 ? noise << (11 - length) : noise >> (length - 11)) & 0x3FFu);
    const int32_t slope = ((entry[2] * fraction) >> 5) + entry[1] * 32;
    const int32_t sum = (int32_t)((uint32_t)slope * (uint32_t)fraction + (1u << 14));
    return (int16_t)(uint16_t)((uint32_t)((sum >> 15) + entry[0]) & 0xFFFFu);
}

/* x^2 / 4 below 2, x - 1 from there on. */
static uint32_t shrunk(uint32_t snr) {
    if (snr < 2u << SNR_BITS) {
        return (snr * snr) >> (2 + 2 * SNR_BITS - FEATURE_BITS);
    }
    return (snr >> (SNR_BITS - FEATURE_BITS)) - (1u << FEATURE_BITS);
}

trivet_status trivet_pcan_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_pcan_record *p = (const trivet_pcan_record *)call->params;
    const int16_t *constant = shorts(call->constants, &p->gains);
    const int16_t *gains = constant != NULL ? constant : (const int16_t *)(const void *)call->inputs[2].data;
    const uint32_t *x = (const uint32_t *)(const void *)call->inputs[0].data;
    const uint32_t *noise = (const uint32_t *)(const void *)call->inputs[1].data;
    uint32_t *y = (uint32_t *)(void *)call->outputs[0].data;
    const uint32_t count = call->inputs[0].row_bytes / 4;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t gain = (uint32_t)(int32_t)gain_for(noise[i], gains);
        y[i] = shrunk((uint32_t)(((uint64_t)x[i] * gain) >> p->snr_shift));
    }
    return TRIVET_OK;
}

trivet_status trivet_pcan_check(const trivet_check *check) {
    const trivet_pcan_record *p = (const trivet_pcan_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 2u + (p->gains.bytes == 0) && check->output_count == 1);
    TRIVET_REQUIRE(!check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0], *gains = &check->inputs[2];
    TRIVET_REQUIRE(x->dtype == TRIVET_U32 && y->dtype == TRIVET_U32 && check->inputs[1].dtype == TRIVET_U32);
    TRIVET_REQUIRE(x->rank == 1 && trivet_same_shape(x, y) && trivet_same_shape(x, &check->inputs[1]));
    TRIVET_REQUIRE(p->snr_shift <= 63);
    TRIVET_REQUIRE(p->gains.bytes == 0 ? gains->dtype == TRIVET_I16 && trivet_elements(gains) == GAIN_BYTES / 2
                                       : p->gains.bytes == GAIN_BYTES);
    return TRIVET_OK;
}

/* scale * ln(v) for v > 1, in 32 bits that wrap. */
static uint32_t scaled_log(uint32_t v, const uint16_t *table, uint32_t scale) {
    const uint32_t whole = bit_length(v) - 1, rest = v - (1u << whole);
    const uint32_t fraction = whole < 16 ? rest << (16 - whole) : rest >> (whole - 16);
    const uint32_t segment = fraction >> 9;
    const int32_t low = table[segment], rise = table[segment + 1] - low;
    const int32_t inside = (rise * (int32_t)(fraction & 511u)) >> 16;
    const uint32_t log2 = (whole << 16) + fraction + (uint32_t)(low + inside);
    const uint32_t natural = (uint32_t)(((uint64_t)LN2_Q16 * log2 + (1u << 15)) >> 16);
    return (scale * natural + (1u << 15)) >> 16;
}

trivet_status trivet_filter_bank_log_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_filter_bank_log_record *p = (const trivet_filter_bank_log_record *)call->params;
    const uint16_t *table = (const uint16_t *)(const void *)trivet_blob_data(call->constants, &p->table);
    const uint32_t *x = (const uint32_t *)(const void *)call->inputs[0].data;
    int16_t *y = (int16_t *)(void *)call->outputs[0].data;
    const uint32_t count = call->inputs[0].row_bytes / 4;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t v = x[i] << p->correction_bits, log = v > 1 ? scaled_log(v, table, p->scale) : 0;
        y[i] = (int16_t)(log < 32767 ? log : 32767);
    }
    return TRIVET_OK;
}

trivet_status trivet_filter_bank_log_check(const trivet_check *check) {
    const trivet_filter_bank_log_record *p = (const trivet_filter_bank_log_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_U32 && y->dtype == TRIVET_I16 && x->rank == 1 && trivet_same_shape(x, y));
    TRIVET_REQUIRE(p->table.bytes == LOG_TABLE_BYTES && p->correction_bits <= 31);
    return TRIVET_OK;
}
