/* Debug builds only: runs a bound plan on marks instead of numbers. Every byte of memory knows which step made which row
 * of it; each kernel call must find, in every row that it reads, what the plan's producer of that row has made. So a
 * row is there before it is read and not overwritten before its last read, whatever shares memory with it. The same
 * proof as `trivet.proof` in Python, with code of its own. */
#include "model.h"

#ifdef TRIVET_DEBUG

/* Writers that are no steps; TRIVET_NONE is nobody. */
static const uint32_t FROM_CALLER = 0xFFFFFFFEu;
static const uint32_t FROM_WORK = 0xFFFFFFFDu;

typedef struct proof {
    const trivet_model *model;
    trivet_mark *const *marks;
    uint32_t image;
} proof;

/* Bytes of a region. */
typedef struct extent {
    uint32_t region;
    uint64_t start;
    uint64_t end;
} extent;

static extent whole(const trivet_model *model, const trivet_tensor_record *tensor) {
    uint64_t start = tensor->offset;
    extent result = {tensor->region, start, start + trivet_tensor_footprint(model, tensor)};
    return result;
}

static bool are_nested(extent a, extent b) {
    return a.region == b.region &&
           ((a.start <= b.start && b.end <= a.end) || (b.start <= a.start && a.end <= b.end));
}

static void mark(const proof *p, extent span, uint32_t writer, uint32_t row) {
    for (uint64_t byte = span.start; byte < span.end; byte++) {
        p->marks[span.region][byte].writer = writer;
        p->marks[span.region][byte].row = row;
    }
}

/* Where a row of the image lies that a step sees of a tensor. */
static extent row_extent(const proof *p, const trivet_tensor_record *tensor, trivet_image image, uint32_t row) {
    uint64_t slot = image.depth == image.height ? row : row % image.depth;
    uint64_t start = tensor->offset + (uint64_t)p->image * image.stride + slot * image.row_bytes;
    extent result = {tensor->region, start, start + image.row_bytes};
    return result;
}

/* A tensor has the very rows of a result of its producer, so that marks tell which row is there. */
static bool has_rows_of(const trivet_model *model, const trivet_step_record *step, const trivet_tensor_record *tensor) {
    trivet_geometry rows = trivet_tensor_geometry(model, tensor);
    for (uint32_t i = 0; i < step->outputs; i++) {
        const trivet_tensor_record *made = trivet_operand(model, step, step->inputs + i);
        trivet_geometry other = trivet_tensor_geometry(model, made);
        if (made->region == tensor->region && made->offset == tensor->offset && made->depth == tensor->depth &&
            other.row_bytes == rows.row_bytes && other.height == rows.height && other.bytes == rows.bytes) {
            return true;
        }
    }
    return false;
}

/* A byte of a view, which several steps or the caller may have made. */
static bool may_hold(const trivet_model *model, const trivet_tensor_record *tensor, uint32_t writer) {
    if (writer == FROM_CALLER) {
        for (uint32_t i = 0; i < model->header->tensors.count; i++) {
            const trivet_tensor_record *given = &trivet_tensors(model)[i];
            if (given->producer == TRIVET_EXTERNAL && are_nested(whole(model, tensor), whole(model, given))) {
                return true;
            }
        }
        return false;
    }
    if (tensor->producer == TRIVET_EXTERNAL || writer > tensor->producer) {
        return false;
    }
    const trivet_step_record *step = &trivet_steps(model)[writer];
    for (uint32_t i = 0; i < step->outputs; i++) {
        if (are_nested(whole(model, tensor), whole(model, trivet_operand(model, step, step->inputs + i)))) {
            return true;
        }
    }
    return false;
}

static bool row_is_there(const proof *p, const trivet_step_record *step, uint32_t operand, uint32_t row) {
    const trivet_tensor_record *tensor = trivet_operand(p->model, step, operand);
    extent span = row_extent(p, tensor, trivet_operand_image(p->model, tensor, step->images, false), row);
    const trivet_step_record *maker =
        tensor->producer == TRIVET_EXTERNAL ? NULL : &trivet_steps(p->model)[tensor->producer];
    bool is_exact = maker != NULL && maker->images == step->images && has_rows_of(p->model, maker, tensor);
    for (uint64_t byte = span.start; byte < span.end; byte++) {
        const trivet_mark *found = &p->marks[span.region][byte];
        bool is_right = is_exact ? found->writer == tensor->producer && found->row == row
                                 : may_hold(p->model, tensor, found->writer);
        if (!is_right) {
            return false;
        }
    }
    return true;
}

/* A kernel call: what it reads is there; its work space and its results take the place of what was. */
static trivet_status prove_call(void *context, uint32_t index, trivet_firing firing) {
    const proof *p = (const proof *)context;
    const trivet_step_record *step = &trivet_steps(p->model)[index];
    for (uint32_t i = 0; i < step->inputs; i++) {
        trivet_firing read = trivet_rows_read(p->model, step, i, firing);
        for (uint32_t row = read.row; row < read.row + read.rows; row++) {
            if (!row_is_there(p, step, i, row)) {
                return TRIVET_ERR_ORDER;
            }
        }
    }
    if (step->scratch_bytes != 0) {
        extent work = {0, step->scratch_offset, (uint64_t)step->scratch_offset + step->scratch_bytes};
        mark(p, work, FROM_WORK, index);
    }
    bool accumulates = (step->flags & TRIVET_STEP_ACCUMULATES) != 0;
    if (accumulates && firing.row + firing.rows < trivet_step_height(p->model, step)) {
        return TRIVET_OK;
    }
    for (uint32_t i = 0; i < step->outputs; i++) {
        const trivet_tensor_record *result = trivet_operand(p->model, step, step->inputs + i);
        trivet_image image = trivet_operand_image(p->model, result, step->images, true);
        trivet_firing all = {0, image.height};
        trivet_firing made = accumulates || step->firings == 1 ? all : firing;
        for (uint32_t row = made.row; row < made.row + made.rows; row++) {
            mark(p, row_extent(p, result, image, row), index, row);
        }
    }
    return TRIVET_OK;
}

static trivet_status prove_stream(proof *p, const trivet_stream_record *stream) {
    const trivet_step_record *first = &trivet_steps(p->model)[stream->first_step];
    for (p->image = 0; p->image < first->images; p->image++) {
        uint32_t *counters = (uint32_t *)(void *)(p->model->memory[0] + stream->counters);
        trivet_status status =
            stream->counters == TRIVET_NONE
                ? prove_call(p, stream->first_step, trivet_step_firing(first, trivet_step_height(p->model, first), 0))
                : trivet_schedule(p->model, stream, counters, prove_call, p);
        if (status != TRIVET_OK) {
            return status;
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_prove(const trivet_model *model, trivet_mark *const *marks) {
    if (model == NULL || !model->is_bound || marks == NULL) {
        return TRIVET_ERR_UNBOUND;
    }
    proof p = {model, marks, 0};
    for (uint32_t region = 0; region < model->header->regions.count; region++) {
        extent all = {region, 0, trivet_regions(model)[region].size_bytes};
        mark(&p, all, TRIVET_NONE, 0);
    }
    for (uint32_t i = 0; i < model->header->tensors.count; i++) {
        const trivet_tensor_record *tensor = &trivet_tensors(model)[i];
        if (tensor->producer == TRIVET_EXTERNAL) {
            mark(&p, whole(model, tensor), FROM_CALLER, 0);
        }
    }
    for (uint32_t s = 0; s < model->header->streams.count; s++) {
        trivet_status status = prove_stream(&p, &trivet_streams(model)[s]);
        if (status != TRIVET_OK) {
            return status;
        }
    }
    return TRIVET_OK;
}

#endif
