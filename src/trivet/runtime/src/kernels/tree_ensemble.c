/* Decision trees: every tree leads a row to a leaf, which gives its weights to targets. */
#include "trivet/kernels/trees.h"

enum { SUM, AVERAGE, LEAST, LARGEST, AGGREGATE_COUNT };
enum { COMPARISON_COUNT = 6, MISSING_IS_TRUE = 8 };

typedef struct forest {
    const int8_t *codes;
    const int32_t *features, *children, *roots, *starts, *targets;
    const uint8_t *splits, *weights;
    uint32_t nodes, trees, leaves, entries;
    bool is_double;
} forest;

static const int32_t *integers(const uint8_t *constants, const trivet_blob *blob) {
    return (const int32_t *)(const void *)trivet_blob_data(constants, blob);
}

static forest forest_of(const trivet_tree_ensemble_record *p, const uint8_t *constants) {
    forest f = {(const int8_t *)trivet_blob_data(constants, &p->codes),
                integers(constants, &p->features),
                integers(constants, &p->children),
                integers(constants, &p->roots),
                integers(constants, &p->starts),
                integers(constants, &p->targets),
                trivet_blob_data(constants, &p->splits),
                trivet_blob_data(constants, &p->weights),
                p->codes.bytes,
                p->roots.bytes / 4,
                p->starts.bytes / 4,
                p->targets.bytes / 4,
                p->is_double != 0};
    f.leaves = f.leaves > 0 ? f.leaves - 1 : 0;
    return f;
}

static double number(const uint8_t *data, int32_t index, bool is_double) {
    return is_double ? ((const double *)(const void *)data)[index] : (double)((const float *)(const void *)data)[index];
}

static bool answer(const forest *f, int32_t node, double value) {
    double split = number(f->splits, node, f->is_double);
    if (value != value && f->codes[node] >= MISSING_IS_TRUE) {
        return true;
    }
    switch (f->codes[node] & (MISSING_IS_TRUE - 1)) {
        case 0: return value <= split;
        case 1: return value < split;
        case 2: return value >= split;
        case 3: return value > split;
        case 4: return value == split;
        default: return value != split;
    }
}

/* The leaf of a row. Children stand behind their parents, so that this ends. */
static int32_t leaf_of(const forest *f, int32_t at, const uint8_t *row) {
    while (at >= 0) {
        at = f->children[2 * at + answer(f, at, number(row, f->features[at], f->is_double))];
    }
    return -1 - at;
}

static double joined(uint32_t aggregate, double total, double weight, bool is_first) {
    switch (aggregate) {
        case LEAST: return is_first || weight < total ? weight : total;
        case LARGEST: return is_first || weight > total ? weight : total;
        default: return total + weight;
    }
}

/* One target of one row. */
static double target_of(const forest *f, uint32_t aggregate, const uint8_t *row, int32_t target) {
    double total = 0.0;
    bool is_first = true;
    for (uint32_t tree = 0; tree < f->trees; tree++) {
        int32_t leaf = leaf_of(f, f->roots[tree], row);
        for (int32_t entry = f->starts[leaf]; entry < f->starts[leaf + 1]; entry++) {
            if (f->targets[entry] == target) {
                total = joined(aggregate, total, number(f->weights, entry, f->is_double), is_first);
                is_first = false;
            }
        }
    }
    return aggregate == AVERAGE ? total / f->trees : total;
}

trivet_status trivet_tree_ensemble_run(const trivet_call *call, uint32_t row, uint32_t rows) {
    const trivet_tree_ensemble_record *p = (const trivet_tree_ensemble_record *)call->params;
    const forest f = forest_of(p, call->constants);
    const uint32_t bytes = f.is_double ? 8 : 4, count = call->inputs[0].row_bytes / bytes / p->columns;
    (void)row, (void)rows;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *x = call->inputs[0].data + (size_t)i * p->columns * bytes;
        for (uint32_t target = 0; target < p->target_count; target++) {
            double result = target_of(&f, p->aggregate, x, (int32_t)target);
            size_t place = (size_t)i * p->target_count + target;
            if (f.is_double) {
                ((double *)(void *)call->outputs[0].data)[place] = result;
            } else {
                ((float *)(void *)call->outputs[0].data)[place] = (float)result;
            }
        }
    }
    return TRIVET_OK;
}

/* True iff `child` is a leaf, or a node behind `node`. */
static bool is_child(const forest *f, int64_t child, int64_t node) {
    return child < 0 ? -1 - child < (int64_t)f->leaves : child > node && child < (int64_t)f->nodes;
}

static bool nodes_are_sound(const forest *f, uint32_t columns) {
    for (uint32_t i = 0; i < f->nodes; i++) {
        int32_t asked = f->codes[i] & (MISSING_IS_TRUE - 1);
        if (f->codes[i] < 0 || f->codes[i] >= 2 * MISSING_IS_TRUE || asked >= COMPARISON_COUNT || f->features[i] < 0 ||
            (uint32_t)f->features[i] >= columns || !is_child(f, f->children[2 * i], i) ||
            !is_child(f, f->children[2 * i + 1], i)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < f->trees; i++) {
        if (!is_child(f, f->roots[i], -1)) {
            return false;
        }
    }
    return true;
}

static bool leaves_are_sound(const forest *f, uint32_t target_count) {
    for (uint32_t i = 0; i < f->leaves; i++) {
        if (f->starts[i] > f->starts[i + 1]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < f->entries; i++) {
        if (f->targets[i] < 0 || (uint32_t)f->targets[i] >= target_count) {
            return false;
        }
    }
    return f->starts[0] == 0 && (uint32_t)f->starts[f->leaves] == f->entries;
}

trivet_status trivet_tree_ensemble_check(const trivet_check *check) {
    const trivet_tree_ensemble_record *p = (const trivet_tree_ensemble_record *)check->params;
    const forest f = forest_of(p, check->constants);
    const uint32_t bytes = f.is_double ? 8 : 4, dtype = f.is_double ? TRIVET_F64 : TRIVET_F32;
    TRIVET_REQUIRE(check->input_count == 1 && check->output_count == 1 && !check->accumulates && check->images == 1);
    const trivet_tensor_info *x = &check->inputs[0], *y = &check->outputs[0];
    TRIVET_REQUIRE(x->dtype == dtype && y->dtype == dtype && x->rank == 2 && y->rank == 2);
    TRIVET_REQUIRE(x->shape[0] == y->shape[0] && x->shape[1] == p->columns && y->shape[1] == p->target_count);
    TRIVET_REQUIRE(p->columns >= 1 && p->target_count >= 1 && p->aggregate < AGGREGATE_COUNT);
    TRIVET_REQUIRE(f.nodes >= 1 && f.trees >= 1 && f.leaves >= 1 && f.entries >= 1 && f.nodes <= 1u << 28);
    TRIVET_REQUIRE(p->splits.bytes == trivet_product(f.nodes, bytes) && p->features.bytes == 4 * f.nodes);
    TRIVET_REQUIRE(p->children.bytes == 8 * f.nodes && p->roots.bytes % 4 == 0 && p->starts.bytes % 4 == 0);
    TRIVET_REQUIRE(p->targets.bytes % 4 == 0 && p->weights.bytes == trivet_product(f.entries, bytes));
    TRIVET_REQUIRE(nodes_are_sound(&f, p->columns) && leaves_are_sound(&f, p->target_count));
    return TRIVET_OK;
}
