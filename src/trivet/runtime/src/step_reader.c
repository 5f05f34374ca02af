/* The loader's checks of steps, edges and streams. */
#include "model.h"
#include "trivet/kernels/border.h"

static bool in_range(uint32_t first, uint32_t count, uint32_t size) {
    return count <= size && first <= size - count;
}

/* Bytes [start, start + bytes) of a region. */
typedef struct extent {
    uint32_t region;
    uint32_t start;
    uint32_t bytes;
} extent;

static bool are_disjoint(extent a, extent b) {
    return a.region != b.region || a.bytes == 0 || b.bytes == 0 || a.start >= (uint64_t)b.start + b.bytes ||
           b.start >= (uint64_t)a.start + a.bytes;
}

static extent tensor_extent(const trivet_model *model, const trivet_tensor_record *tensor) {
    extent result = {tensor->region, tensor->offset, trivet_tensor_footprint(model, tensor)};
    return result;
}

/* Operands exist, and every batch is that of the step or, for operands, shared. */
static bool has_operands(const trivet_model *model, const trivet_step_record *step) {
    uint32_t count = (uint32_t)step->inputs + step->outputs;
    bool sends = step->kernel == TRIVET_SEND_KERNEL && count == 1;
    if ((step->outputs == 0 && !sends) || count > TRIVET_MAX_OPERANDS ||
        !in_range(step->operands, count, model->header->operands.count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (trivet_operands(model)[step->operands + i].tensor >= model->header->tensors.count) {
            return false;
        }
        const trivet_tensor_record *tensor = trivet_operand(model, step, i);
        uint32_t batch = tensor->rank == 0 ? 1u : trivet_shape(model, tensor)[0];
        bool is_result = i >= step->inputs;
        bool is_shared = !is_result && (tensor->rank != 4 || batch == 1);
        if (step->images != 1 && batch != step->images && !is_shared) {
            return false;
        }
        if (step->images == 1 && batch != 1 && trivet_is_ring(model, tensor)) {
            return false; /* a ring holds one image, not a batch as one */
        }
    }
    return true;
}

/* Results name this step as their producer; `is_covered` sees to it that operands have an earlier one. */
static trivet_status check_order(const trivet_model *model, uint32_t index) {
    const trivet_step_record *step = &trivet_steps(model)[index];
    for (uint32_t i = 0; i < step->outputs; i++) {
        if (trivet_operand(model, step, step->inputs + i)->producer != index) {
            return TRIVET_ERR_ORDER;
        }
    }
    return TRIVET_OK;
}

static bool has_scratch(const trivet_model *model, const trivet_step_record *step) {
    if (step->scratch_offset == TRIVET_NONE) {
        return step->scratch_bytes == 0;
    }
    return step->scratch_bytes != 0 && step->scratch_offset % TRIVET_ALIGNMENT == 0 &&
           step->scratch_offset >= model->header->reserved_bytes &&
           in_range(step->scratch_offset, step->scratch_bytes, trivet_regions(model)[0].size_bytes);
}

/* A result and an operand share no bytes, or all of them (computed in place). A step that makes row after row may
 * overwrite rows that it has read for the last time: `trivet_bind` looks at each of its firings. */
static bool may_share(const trivet_step_record *step, extent result, extent operand) {
    bool is_same = result.region == operand.region && result.start == operand.start && result.bytes == operand.bytes;
    return are_disjoint(result, operand) || is_same || (step->firings > 1 && step->images == 1);
}

/* A result lies apart from the scratch, or over it from no later than its start, which the kernel must allow. */
static bool is_off_scratch(const trivet_step_record *step, extent result, extent scratch) {
    bool may_meet = (step->flags & TRIVET_STEP_OVER_SUMS) != 0 && result.start <= scratch.start;
    return are_disjoint(result, scratch) || may_meet;
}

/* Scratch shares no bytes with operands, results none with each other; the rest is said above. */
static bool has_own_memory(const trivet_model *model, const trivet_step_record *step) {
    if (!has_scratch(model, step)) {
        return false;
    }
    extent scratch = {0, step->scratch_offset, step->scratch_bytes};
    for (uint32_t i = 0; i < (uint32_t)step->inputs + step->outputs; i++) {
        extent a = tensor_extent(model, trivet_operand(model, step, i));
        if (i < step->inputs ? !are_disjoint(a, scratch) : !is_off_scratch(step, a, scratch)) {
            return false;
        }
        for (uint32_t j = i < step->inputs ? step->inputs : i + 1; j < (uint32_t)step->inputs + step->outputs; j++) {
            extent result = tensor_extent(model, trivet_operand(model, step, j));
            if (i < step->inputs ? !may_share(step, result, a) : !are_disjoint(result, a)) {
                return false;
            }
        }
    }
    return true;
}

/* The firings stay inside the rows of every result. */
static bool has_firings(const trivet_model *model, const trivet_step_record *step) {
    bool accumulates = (step->flags & TRIVET_STEP_ACCUMULATES) != 0;
    if (step->rows == 0 || step->flags > (TRIVET_STEP_ACCUMULATES | TRIVET_STEP_OVER_SUMS) ||
        (accumulates ? step->inputs == 0 : step->flags != 0)) {
        return false;
    }
    uint32_t height = trivet_step_height(model, step);
    if ((uint64_t)(step->firings - 1) * step->rows >= height) {
        return false; /* also for 0 firings, which wrap around */
    }
    if (accumulates) {
        return (uint64_t)step->firings * step->rows >= height;
    }
    for (uint32_t i = 0; i < step->outputs; i++) {
        const trivet_tensor_record *result = trivet_operand(model, step, step->inputs + i);
        if (trivet_operand_height(model, result, step->images) != height) {
            return step->rows >= height; /* results of different heights are made whole */
        }
    }
    return true;
}

static bool is_streamed(const trivet_model *model, const trivet_step_record *step) {
    if (step->firings > 1 || step->rows < trivet_step_height(model, step) || step->flags != 0) {
        return true;
    }
    for (uint32_t i = 0; i < (uint32_t)step->inputs + step->outputs; i++) {
        if (trivet_is_ring(model, trivet_operand(model, step, i))) {
            return true;
        }
    }
    return false;
}

static bool has_blobs(const trivet_model *model, const trivet_step_record *step, const trivet_kernel *kernel,
                      uint32_t constant_bytes) {
    const uint32_t *words = (const uint32_t *)trivet_params(model, step);
    for (uint32_t word = 0; word < 32 && word < kernel->params_bytes / 4; word++) {
        if ((kernel->blobs >> word & 1u) == 0) {
            continue;
        }
        uint32_t offset = words[word];
        uint32_t bytes = words[word + 1];
        if (offset % TRIVET_ALIGNMENT != 0 || !in_range(offset, bytes, constant_bytes)) {
            return false;
        }
    }
    return true;
}

static void describe(const trivet_model *model, const trivet_step_record *step, trivet_tensor_info *infos) {
    for (uint32_t i = 0; i < (uint32_t)step->inputs + step->outputs; i++) {
        const trivet_tensor_record *tensor = trivet_operand(model, step, i);
        trivet_image image = trivet_operand_image(model, tensor, step->images, i >= step->inputs);
        infos[i].shape = trivet_shape(model, tensor);
        infos[i].rank = tensor->rank;
        infos[i].dtype = tensor->dtype;
        infos[i].row_bytes = image.row_bytes;
        infos[i].height = image.height;
        infos[i].depth = image.depth;
    }
}

static trivet_status check_kernel(const trivet_model *model, const trivet_step_record *step,
                                  const trivet_stream_record *stream) {
    const trivet_kernel *kernel = trivet_find_kernel(step->kernel);
    if (kernel == NULL) {
        return TRIVET_ERR_KERNEL;
    }
    if (step->params % 4 != 0 || !in_range(step->params, kernel->params_bytes, model->header->params.count) ||
        !has_blobs(model, step, kernel, trivet_stream_constant_bytes(model, stream))) {
        return TRIVET_ERR_PARAMS;
    }
    bool is_over_sums = (step->flags & TRIVET_STEP_OVER_SUMS) != 0;
    if ((kernel->by_rows == 0 && is_streamed(model, step)) ||
        (is_over_sums && kernel->by_rows != TRIVET_BY_ROWS_OVER_SUMS)) {
        return TRIVET_ERR_STEP;
    }
    if (stream->decoded_bytes != 0) {
        return TRIVET_OK; /* trivet_bind asks the kernel, when it can decode the block */
    }
    return trivet_check_kernel(model, step, trivet_constants(model));
}

trivet_status trivet_check_kernel(const trivet_model *model, const trivet_step_record *step, const uint8_t *constants) {
    trivet_tensor_info infos[TRIVET_MAX_OPERANDS];
    describe(model, step, infos);
    uint32_t height = trivet_step_height(model, step);
    trivet_check check = {
        .params = trivet_params(model, step),
        .constants = constants,
        .inputs = infos,
        .outputs = infos + step->inputs,
        .input_count = step->inputs,
        .output_count = step->outputs,
        .scratch_bytes = step->scratch_bytes,
        .images = step->images,
        .rows = step->rows < height ? step->rows : height,
        .accumulates = (step->flags & TRIVET_STEP_ACCUMULATES) != 0,
    };
    return trivet_find_kernel(step->kernel)->check(&check);
}

static uint32_t border_port(const trivet_model *model, const trivet_step_record *step) {
    return ((const trivet_border_record *)trivet_params(model, step))->port;
}

/* A step that calls the caller does so for all rows of a port that goes by rows, through the port's own tensor. */
static bool is_border(const trivet_model *model, const trivet_step_record *step) {
    bool receives = step->kernel == TRIVET_RECEIVE_KERNEL;
    if (!receives && step->kernel != TRIVET_SEND_KERNEL) {
        return true;
    }
    const trivet_section *section = receives ? &model->header->inputs : &model->header->outputs;
    const trivet_port_record *ports = (const trivet_port_record *)(const void *)(model->plan + section->offset);
    uint32_t port = border_port(model, step);
    return port < section->count && ports[port].by_rows != 0 &&
           trivet_operands(model)[step->operands].tensor == ports[port].tensor &&
           (uint64_t)step->firings * step->rows >= trivet_step_height(model, step);
}

/* Just one step calls the caller for every port that goes by rows. */
static trivet_status check_border(const trivet_model *model, const trivet_section *section, uint32_t kernel) {
    const trivet_port_record *ports = (const trivet_port_record *)(const void *)(model->plan + section->offset);
    for (uint32_t i = 0; i < section->count; i++) {
        uint32_t found = 0;
        for (uint32_t s = 0; ports[i].by_rows != 0 && s < model->header->steps.count; s++) {
            const trivet_step_record *step = &trivet_steps(model)[s];
            found += step->kernel == kernel && border_port(model, step) == i ? 1 : 0;
        }
        if (found != (ports[i].by_rows != 0 ? 1u : 0u)) {
            return TRIVET_ERR_PORT;
        }
    }
    return TRIVET_OK;
}

static trivet_status check_step(const trivet_model *model, const trivet_stream_record *stream, uint32_t index) {
    const trivet_step_record *step = &trivet_steps(model)[index];
    if (!has_operands(model, step) || !has_firings(model, step) || !has_own_memory(model, step)) {
        return TRIVET_ERR_STEP;
    }
    if (step->name != TRIVET_NONE && step->name >= model->header->names.count) {
        return TRIVET_ERR_NAME;
    }
    trivet_status status = check_order(model, index);
    status = status != TRIVET_OK ? status : check_kernel(model, step, stream);
    return status == TRIVET_OK && !is_border(model, step) ? TRIVET_ERR_PORT : status;
}

/* Divisors are positive, products of the schedule stay in 64 bits, and loops over gaps between taps are short. */
static bool is_rule(const trivet_edge_record *edge, uint32_t height) {
    return edge->stride <= TRIVET_MAX_WINDOW && edge->taps >= 1 && edge->taps <= TRIVET_MAX_WINDOW &&
           edge->dilation >= 1 && (edge->dilation <= height || edge->dilation <= TRIVET_MAX_GAP) &&
           edge->dilation <= TRIVET_MAX_WINDOW && edge->divisor >= 1 && edge->divisor <= TRIVET_MAX_WINDOW &&
           edge->clamped <= 1 && edge->column == 0 && edge->width == 0;
}

/* An edge of step `position` of a stream names an operand, and a source that makes rows of just that height. */
static bool is_edge(const trivet_model *model, const trivet_stream_record *stream, uint32_t position,
                    const trivet_edge_record *edge) {
    const trivet_step_record *step = &trivet_steps(model)[stream->first_step + position];
    if (edge->operand >= step->inputs) {
        return false;
    }
    const trivet_tensor_record *tensor = trivet_operand(model, step, edge->operand);
    uint32_t height = trivet_operand_height(model, tensor, step->images);
    if (!is_rule(edge, height)) {
        return false;
    }
    if (edge->source == TRIVET_NO_SOURCE) {
        return true;
    }
    if (edge->source >= position || tensor->producer != stream->first_step + edge->source) {
        return false;
    }
    const trivet_step_record *source = &trivet_steps(model)[tensor->producer];
    return (source->flags & TRIVET_STEP_ACCUMULATES) != 0 || trivet_step_height(model, source) == height;
}

/* An operand that is a ring, or made inside the stream, is covered by an edge with a source. */
static bool is_covered(const trivet_model *model, const trivet_stream_record *stream, const trivet_step_record *step,
                       uint32_t operand) {
    const trivet_tensor_record *tensor = trivet_operand(model, step, operand);
    if (!trivet_is_ring(model, tensor) && (tensor->producer == TRIVET_EXTERNAL || tensor->producer < stream->first_step)) {
        return true;
    }
    for (uint32_t e = 0; e < step->edge_count; e++) {
        const trivet_edge_record *edge = &trivet_edges(model)[step->edges + e];
        if (edge->operand == operand && edge->source != TRIVET_NO_SOURCE) {
            return true;
        }
    }
    return false;
}

static trivet_status check_edges(const trivet_model *model, const trivet_stream_record *stream, uint32_t position) {
    const trivet_step_record *step = &trivet_steps(model)[stream->first_step + position];
    if (!in_range(step->edges, step->edge_count, model->header->edges.count)) {
        return TRIVET_ERR_INDEX;
    }
    for (uint32_t e = 0; e < step->edge_count; e++) {
        if (!is_edge(model, stream, position, &trivet_edges(model)[step->edges + e])) {
            return TRIVET_ERR_STREAM;
        }
    }
    for (uint32_t i = 0; i < step->inputs; i++) {
        if (!is_covered(model, stream, step, i)) {
            return TRIVET_ERR_ORDER;
        }
    }
    return TRIVET_OK;
}

static trivet_status check_counters(const trivet_model *model, const trivet_stream_record *stream) {
    const trivet_step_record *first = &trivet_steps(model)[stream->first_step];
    if (stream->counters == TRIVET_NONE) {
        return stream->step_count == 1 && first->firings == 1 ? TRIVET_OK : TRIVET_ERR_STREAM;
    }
    return stream->counters % 4 == 0 && stream->counters >= model->header->reserved_bytes && in_range(stream->counters, 4 * stream->step_count,
                                                 trivet_regions(model)[0].size_bytes)
               ? TRIVET_OK
               : TRIVET_ERR_STREAM;
}

/* A block lies in the constants and decodes to no more than what is reserved for it. */
static bool has_block(const trivet_model *model, const trivet_stream_record *stream) {
    if (stream->decoded_bytes == 0) {
        return stream->block == 0 && stream->block_bytes == 0;
    }
    return stream->decoded_bytes <= model->header->reserved_bytes &&
           in_range(stream->block, stream->block_bytes, model->header->constants.count);
}

/* One stream whose steps begin where the last one's ended. `firings` counts those of the plan. */
static trivet_status check_stream(const trivet_model *model, const trivet_stream_record *stream, uint64_t *firings) {
    if (stream->step_count == 0 || stream->step_count > TRIVET_MAX_STREAM_STEPS ||
        !in_range(stream->first_step, stream->step_count, model->header->steps.count) || !has_block(model, stream)) {
        return TRIVET_ERR_STREAM;
    }
    const trivet_step_record *steps = trivet_steps(model) + stream->first_step;
    uint64_t sum = 0;
    for (uint32_t position = 0; position < stream->step_count; position++) {
        if (steps[position].images != steps[0].images) {
            return TRIVET_ERR_STREAM;
        }
        trivet_status status = check_step(model, stream, stream->first_step + position);
        status = status != TRIVET_OK ? status : check_edges(model, stream, position);
        if (status != TRIVET_OK) {
            return status;
        }
        sum += steps[position].firings;
    }
    *firings += sum;
    if (*firings > TRIVET_MAX_FIRINGS || sum * stream->step_count > TRIVET_MAX_SWEEP) {
        return TRIVET_ERR_LIMIT;
    }
    return check_counters(model, stream);
}

static trivet_status check_stages(const trivet_model *model) {
    const trivet_stage_record *stages = TRIVET_RECORDS(model, stages, trivet_stage_record);
    uint64_t next = 0;
    for (uint32_t i = 0; i < model->header->stages.count; i++) {
        if (stages[i].first_stream != next) {
            return TRIVET_ERR_INDEX;
        }
        next += stages[i].stream_count;
    }
    return next == model->header->streams.count ? TRIVET_OK : TRIVET_ERR_INDEX;
}

trivet_status trivet_check_steps(const trivet_model *model) {
    uint64_t firings = 0;
    uint64_t next = 0;
    for (uint32_t i = 0; i < model->header->streams.count; i++) {
        const trivet_stream_record *stream = &trivet_streams(model)[i];
        if (stream->first_step != next) {
            return TRIVET_ERR_STREAM;
        }
        trivet_status status = check_stream(model, stream, &firings);
        if (status != TRIVET_OK) {
            return status;
        }
        next += stream->step_count;
    }
    if (next != model->header->steps.count) {
        return TRIVET_ERR_STREAM;
    }
    trivet_status status = check_border(model, &model->header->inputs, TRIVET_RECEIVE_KERNEL);
    status = status != TRIVET_OK ? status : check_border(model, &model->header->outputs, TRIVET_SEND_KERNEL);
    return status != TRIVET_OK ? status : check_stages(model);
}
