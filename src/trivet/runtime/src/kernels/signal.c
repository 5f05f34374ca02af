/* Audio features in integers: windows, scaling, spectra, energies. */
#include "trivet/kernels/signal.h"

#define HALF (1 << 14)

typedef struct complex16 {
    int16_t re, im;
} complex16;

static const complex16 *circle(const uint8_t *constants, const trivet_blob *blob) {
    return (const complex16 *)(const void *)trivet_blob_data(constants, blob);
}

/* The low 16 bits. */
static int16_t wrap16(int32_t v) { return (int16_t)(uint16_t)((uint32_t)v & 0xFFFFu); }

static uint32_t words(const trivet_view *view) { return view->row_bytes / 2 * view->height; }

trivet_status trivet_signal_window_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_signal_window_record *p = (const trivet_signal_window_record *)call->params;
    const int16_t *window = (const int16_t *)(const void *)trivet_blob_data(call->constants, &p->window);
    const int16_t *x = (const int16_t *)(const void *)call->inputs[0].data;
    int16_t *y = (int16_t *)(void *)call->outputs[0].data;
    const uint32_t columns = p->window.bytes / 2, count = words(&call->inputs[0]);
    (void)row, (void)rows;
    for (uint32_t i = 0, column = 0; i < count; i++, column = column + 1 < columns ? column + 1 : 0) {
        int32_t v = ((int32_t)x[i] * window[column]) >> p->shift;
        y[i] = (int16_t)(v < -32768 ? -32768 : v > 32767 ? 32767 : v);
    }
    return TRIVET_OK;
}

trivet_status trivet_signal_window_check(const trivet_check *check) {
    const trivet_signal_window_record *p = (const trivet_signal_window_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_I16 && y->dtype == TRIVET_I16 && trivet_same_shape(x, y) && x->rank >= 1);
    TRIVET_REQUIRE(check->images == (x->rank == 4 ? x->shape[0] : 1));
    TRIVET_REQUIRE(p->window.bytes == trivet_product(2, x->shape[x->rank - 1]) && p->shift <= 31);
    return TRIVET_OK;
}

/* The largest magnitude. The magnitude of -32768 is stored as itself, and the search starts again from there. */
static int32_t largest_magnitude(const int16_t *x, uint32_t count) {
    int32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (x[i] > largest) {
            largest = x[i];
        } else if (-(int32_t)x[i] > largest) {
            largest = wrap16(-(int32_t)x[i]);
        }
    }
    return largest;
}

trivet_status trivet_fft_auto_scale_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_fft_auto_scale_record *p = (const trivet_fft_auto_scale_record *)call->params;
    const int16_t *x = (const int16_t *)(const void *)call->inputs[0].data;
    int16_t *y = (int16_t *)(void *)call->outputs[0].data;
    const int32_t largest = largest_magnitude(x, p->samples);
    int32_t bits = 0;
    (void)row, (void)rows;
    while (largest > 0 && (largest << (bits + 1)) < 1 << 15) {
        bits++;
    }
    for (uint32_t i = 0; i < p->samples; i++) {
        y[i] = wrap16(x[i] * (1 << bits));
    }
    *(int32_t *)(void *)call->outputs[1].data = bits;
    return TRIVET_OK;
}

trivet_status trivet_fft_auto_scale_check(const trivet_check *check) {
    const trivet_fft_auto_scale_record *p = (const trivet_fft_auto_scale_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 2 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0], *bits = &check->outputs[1];
    TRIVET_REQUIRE(x->dtype == TRIVET_I16 && y->dtype == TRIVET_I16 && trivet_same_shape(x, y) && x->rank == 1);
    TRIVET_REQUIRE(bits->dtype == TRIVET_I32 && trivet_elements(bits) == 1 && trivet_elements(x) == p->samples);
    return TRIVET_OK;
}

static complex16 add(complex16 a, complex16 b) {
    complex16 c = {wrap16(a.re + b.re), wrap16(a.im + b.im)};
    return c;
}

static complex16 subtract(complex16 a, complex16 b) {
    complex16 c = {wrap16(a.re - b.re), wrap16(a.im - b.im)};
    return c;
}

/* Q0.15, halves up; the sums of two products wrap in 32 bits. */
static complex16 multiply(complex16 a, complex16 b) {
    int32_t re = (int32_t)((uint32_t)(a.re * b.re) - (uint32_t)(a.im * b.im) + HALF);
    int32_t im = (int32_t)((uint32_t)(a.re * b.im) + (uint32_t)(a.im * b.re) + HALF);
    complex16 c = {wrap16(re >> 15), wrap16(im >> 15)};
    return c;
}

static complex16 divide(complex16 a, int32_t divisor) {
    const int32_t factor = 32767 / divisor;
    complex16 c = {wrap16((a.re * factor + HALF) >> 15), wrap16((a.im * factor + HALF) >> 15)};
    return c;
}

/* a + b * i and a - b * i. */
static complex16 add_quarter(complex16 a, complex16 b, int32_t sign) {
    complex16 c = {wrap16(a.re + sign * b.im), wrap16(a.im - sign * b.re)};
    return c;
}

static void radix_2(complex16 *y, const complex16 *around, uint32_t inner, uint32_t step) {
    for (uint32_t k = 0; k < inner; k++) {
        complex16 a = divide(y[k], 2), b = multiply(divide(y[k + inner], 2), around[k * step]);
        y[k + inner] = subtract(a, b);
        y[k] = add(a, b);
    }
}

static void radix_4(complex16 *y, const complex16 *around, uint32_t inner, uint32_t step) {
    for (uint32_t k = 0; k < inner; k++) {
        complex16 a = divide(y[k], 4);
        complex16 b = multiply(divide(y[k + inner], 4), around[k * step]);
        complex16 c = multiply(divide(y[k + 2 * inner], 4), around[2 * k * step]);
        complex16 d = multiply(divide(y[k + 3 * inner], 4), around[3 * k * step]);
        complex16 difference = subtract(a, c), total = add(b, d), across = subtract(b, d);
        a = add(a, c);
        y[k] = add(a, total);
        y[k + inner] = add_quarter(difference, across, 1);
        y[k + 2 * inner] = subtract(a, total);
        y[k + 3 * inner] = add_quarter(difference, across, -1);
    }
}

/* Where the number that comes at `place` stands in the operand: digits of radix 4 (the last one 2) reversed. */
static uint32_t input_place(uint32_t place, uint32_t points) {
    uint32_t found = 0, weight = 1;
    for (uint32_t block = points; block > 1;) {
        const uint32_t radix = block % 4 == 0 ? 4 : 2;
        block /= radix;
        found += place / block * weight;
        place %= block;
        weight *= radix;
    }
    return found;
}

static int16_t sample(const int16_t *x, uint32_t index, uint32_t count) { return index < count ? x[index] : 0; }

/* The spectrum of `points` complex numbers, each two samples. */
static void transform(const int16_t *x, uint32_t samples, complex16 *y, const complex16 *around, uint32_t points) {
    for (uint32_t i = 0; i < points; i++) {
        const uint32_t from = 2 * input_place(i, points);
        y[i].re = sample(x, from, samples);
        y[i].im = sample(x, from + 1, samples);
    }
    uint32_t inner = 1;
    uint32_t fours = points;
    while (fours % 4 == 0) {
        fours /= 4;
    }
    if (fours == 2) {
        for (uint32_t start = 0; start < points; start += 2) {
            radix_2(y + start, around, 1, points / 2);
        }
        inner = 2;
    }
    for (; inner < points; inner *= 4) {
        for (uint32_t start = 0; start < points; start += 4 * inner) {
            radix_4(y + start, around, inner, points / (4 * inner));
        }
    }
}

/* The spectrum of the samples, from that of their pairs, in place. */
static void take_apart(complex16 *y, const complex16 *split, uint32_t half) {
    const complex16 first = divide(y[0], 2);
    for (uint32_t k = 1; k <= half / 2; k++) {
        complex16 near = divide(y[k], 2), far = y[half - k];
        far.im = wrap16(-far.im);
        far = divide(far, 2);
        const complex16 even = add(near, far), turned = multiply(subtract(near, far), split[k - 1]);
        y[k].re = wrap16((even.re + turned.re) >> 1);
        y[k].im = wrap16((even.im + turned.im) >> 1);
        y[half - k].re = wrap16((even.re - turned.re) >> 1);
        y[half - k].im = wrap16((turned.im - even.im) >> 1);
    }
    y[0].re = wrap16(first.re + first.im);
    y[half].re = wrap16(first.re - first.im);
    y[0].im = y[half].im = 0;
}

trivet_status trivet_rfft_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_rfft_record *p = (const trivet_rfft_record *)call->params;
    const complex16 *around = circle(call->constants, &p->twiddles), *split = circle(call->constants, &p->split);
    const int16_t *x = (const int16_t *)(const void *)call->inputs[0].data;
    complex16 *y = (complex16 *)(void *)call->outputs[0].data;
    const uint32_t half = p->length / 2, spectra = words(&call->inputs[0]) / p->samples;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < spectra; i++, x += p->samples, y += half + 1) {
        transform(x, p->samples, y, around, half);
        take_apart(y, split, half);
    }
    return TRIVET_OK;
}

trivet_status trivet_rfft_check(const trivet_check *check) {
    const trivet_rfft_record *p = (const trivet_rfft_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_I16 && y->dtype == TRIVET_I16 && x->rank >= 1 && x->rank == y->rank);
    for (uint32_t axis = 0; axis + 1 < x->rank; axis++) {
        TRIVET_REQUIRE(x->shape[axis] == y->shape[axis]);
    }
    TRIVET_REQUIRE(p->length >= 8 && p->length <= 1u << 14 && (p->length & (p->length - 1)) == 0);
    TRIVET_REQUIRE(p->samples >= 1 && p->samples <= p->length && x->shape[x->rank - 1] == p->samples);
    TRIVET_REQUIRE(y->shape[y->rank - 1] == p->length + 2);
    TRIVET_REQUIRE(p->twiddles.bytes == 2 * p->length && p->split.bytes == p->length);
    return TRIVET_OK;
}

trivet_status trivet_spectrum_energy_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_spectrum_energy_record *p = (const trivet_spectrum_energy_record *)call->params;
    const complex16 *x = (const complex16 *)(const void *)call->inputs[0].data;
    uint32_t *y = (uint32_t *)(void *)call->outputs[0].data;
    const uint32_t count = words(&call->inputs[0]) / 2;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_wanted = i >= p->start && i < p->stop;
        y[i] = is_wanted ? (uint32_t)(x[i].re * x[i].re) + (uint32_t)(x[i].im * x[i].im) : 0;
    }
    return TRIVET_OK;
}

trivet_status trivet_spectrum_energy_check(const trivet_check *check) {
    const trivet_spectrum_energy_record *p = (const trivet_spectrum_energy_record *)check->params;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == TRIVET_I16 && y->dtype == TRIVET_U32 && x->rank == 1 && y->rank == 1);
    TRIVET_REQUIRE(x->shape[0] == trivet_product(2, y->shape[0]));
    TRIVET_REQUIRE(p->start <= p->stop && p->stop <= y->shape[0]);
    return TRIVET_OK;
}
