/* Reductions over any axes of any element type, and the place of the largest or smallest element along one axis. */
#include "trivet/kernels/fold.h"

enum { MAX_AXES = 8, SUM = 0, MEAN, LARGEST, SMALLEST, PRODUCT, MODES };

typedef struct axes {
    const uint32_t *data; /* [rank][2]: extent, step */
    uint32_t rank;
} axes;

static axes axes_of(const uint8_t *constants, const trivet_blob *blob) {
    axes found = {(const uint32_t *)(const void *)trivet_blob_data(constants, blob),
                  blob->bytes / (2 * (uint32_t)sizeof(uint32_t))};
    return found;
}

/* Moves to the next element; false after the last, when everything is at the first again. */
static bool advance(const axes *n, uint32_t *index, uint32_t *at) {
    for (uint32_t axis = n->rank; axis-- > 0;) {
        uint32_t extent = n->data[2 * axis], step = n->data[2 * axis + 1];
        *at += step;
        if (++index[axis] < extent) {
            return true;
        }
        index[axis] = 0;
        *at -= step * extent;
    }
    return false;
}

static uint32_t count_of(const axes *n) {
    uint32_t count = 1;
    for (uint32_t axis = 0; axis < n->rank; axis++) {
        count = trivet_product(count, n->data[2 * axis]);
    }
    return count;
}

static int64_t load(uint32_t dtype, const uint8_t *x, uint32_t i) {
    switch (dtype) {
        case TRIVET_I8: return ((const int8_t *)x)[i];
        case TRIVET_I16: return ((const int16_t *)(const void *)x)[i];
        case TRIVET_I32: return ((const int32_t *)(const void *)x)[i];
        case TRIVET_I64: return ((const int64_t *)(const void *)x)[i];
        default: return x[i];
    }
}

static void store(uint32_t dtype, uint8_t *y, uint32_t i, int64_t v) {
    switch (dtype) {
        case TRIVET_I16: ((int16_t *)(void *)y)[i] = (int16_t)(uint64_t)v; break;
        case TRIVET_I32: ((int32_t *)(void *)y)[i] = (int32_t)(uint64_t)v; break;
        case TRIVET_I64: ((int64_t *)(void *)y)[i] = v; break;
        default: y[i] = (uint8_t)(uint64_t)v; break;
    }
}

/* Sums and products wrap modulo 2^64, and so modulo any smaller power of two. */
static int64_t folded(uint32_t mode, int64_t a, int64_t b) {
    switch (mode) {
        case LARGEST: return b > a ? b : a;
        case SMALLEST: return b < a ? b : a;
        case PRODUCT: return (int64_t)((uint64_t)a * (uint64_t)b);
        default: return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static float folded_real(uint32_t mode, float a, float b) {
    switch (mode) {
        case LARGEST: return b > a || b != b ? b : a; /* what is no number stays */
        case SMALLEST: return b < a || b != b ? b : a;
        case PRODUCT: return a * b;
        default: return a + b;
    }
}

static int64_t integer_result(const trivet_fold_record *p, const axes *n, const uint8_t *x, uint32_t at) {
    uint32_t index[MAX_AXES] = {0};
    int64_t result = load(p->dtype, x, at);
    while (advance(n, index, &at)) {
        result = folded(p->mode, result, load(p->dtype, x, at));
    }
    return p->mode == MEAN ? result / (int64_t)count_of(n) : result;
}

static float real_result(const trivet_fold_record *p, const axes *n, const float *x, uint32_t at) {
    uint32_t index[MAX_AXES] = {0};
    float result = x[at];
    while (advance(n, index, &at)) {
        result = folded_real(p->mode, result, x[at]);
    }
    return p->mode == MEAN ? result / (float)count_of(n) : result;
}

trivet_status trivet_fold_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_fold_record *p = (const trivet_fold_record *)call->params;
    const axes kept = axes_of(call->constants, &p->kept), gone = axes_of(call->constants, &p->folded);
    const uint8_t *x = call->inputs[0].data;
    uint8_t *y = call->outputs[0].data;
    uint32_t index[MAX_AXES] = {0}, at = 0, i = 0;
    do {
        if (p->dtype == TRIVET_F32) {
            ((float *)(void *)y)[i++] = real_result(p, &gone, (const float *)(const void *)x, at);
        } else {
            store(p->dtype, y, i++, integer_result(p, &gone, x, at));
        }
    } while (advance(&kept, index, &at));
    return TRIVET_OK;
}

static bool axes_are_sound(const axes *n, const trivet_blob *blob, uint64_t *last) {
    if (n->rank == 0 || n->rank > MAX_AXES || blob->bytes != n->rank * 2 * sizeof(uint32_t)) {
        return false;
    }
    for (uint32_t axis = 0; axis < n->rank; axis++) {
        uint64_t extent = n->data[2 * axis], step = n->data[2 * axis + 1];
        if (extent == 0 || extent > UINT32_MAX / 2 || step > UINT32_MAX / 2) {
            return false;
        }
        *last += (extent - 1) * step;
        if (*last > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static bool is_ordered(uint32_t dtype) {
    return dtype == TRIVET_F32 || dtype == TRIVET_I8 || dtype == TRIVET_U8 || dtype == TRIVET_I16 ||
           dtype == TRIVET_I32 || dtype == TRIVET_I64;
}

trivet_status trivet_fold_check(const trivet_check *check) {
    const trivet_fold_record *p = (const trivet_fold_record *)check->params;
    const axes kept = axes_of(check->constants, &p->kept), gone = axes_of(check->constants, &p->folded);
    uint64_t last = 0;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    uint32_t dtype = check->inputs[0].dtype;
    TRIVET_REQUIRE(dtype == check->outputs[0].dtype && (dtype == TRIVET_BOOL ? TRIVET_U8 : dtype) == p->dtype);
    TRIVET_REQUIRE(is_ordered(p->dtype) && p->mode < MODES);
    TRIVET_REQUIRE(axes_are_sound(&kept, &p->kept, &last) && axes_are_sound(&gone, &p->folded, &last));
    TRIVET_REQUIRE(last < trivet_elements(&check->inputs[0]));
    TRIVET_REQUIRE(count_of(&kept) == trivet_elements(&check->outputs[0]));
    return TRIVET_OK;
}

/* True iff `v` comes before `best`; the first that is no number wins, and of equal ones the first. */
static bool real_wins(float v, float best, uint32_t smallest) {
    if (best != best) {
        return false;
    }
    return v != v || (smallest != 0 ? v < best : v > best);
}

static bool wins(const trivet_argument_record *p, const uint8_t *x, uint32_t at, uint32_t best) {
    if (p->dtype == TRIVET_F32) {
        const float *reals = (const float *)(const void *)x;
        return real_wins(reals[at], reals[best], p->smallest);
    }
    int64_t v = load(p->dtype, x, at), found = load(p->dtype, x, best);
    return p->smallest != 0 ? v < found : v > found;
}

trivet_status trivet_argument_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    (void)row, (void)rows;
    const trivet_argument_record *p = (const trivet_argument_record *)call->params;
    const uint8_t *x = call->inputs[0].data;
    uint8_t *y = call->outputs[0].data;
    uint32_t result = 0;
    for (uint32_t block = 0; block < p->outer; block++) {
        for (uint32_t i = 0; i < p->inner; i++, result++) {
            uint32_t first = block * p->extent * p->inner + i, best = 0;
            for (uint32_t k = 1; k < p->extent; k++) {
                best = wins(p, x, first + k * p->inner, first + best * p->inner) ? k : best;
            }
            store(p->wide != 0 ? TRIVET_I64 : TRIVET_I32, y, result, best);
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_argument_check(const trivet_check *check) {
    const trivet_argument_record *p = (const trivet_argument_record *)check->params;
    uint32_t results = trivet_product(p->outer, p->inner);
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    TRIVET_REQUIRE(check->inputs[0].dtype == p->dtype && is_ordered(p->dtype) && p->extent >= 1);
    TRIVET_REQUIRE(check->outputs[0].dtype == (p->wide != 0 ? TRIVET_I64 : TRIVET_I32));
    TRIVET_REQUIRE(trivet_elements(&check->outputs[0]) == results);
    TRIVET_REQUIRE(trivet_elements(&check->inputs[0]) == trivet_product(results, p->extent));
    return TRIVET_OK;
}
