/* The memory of a model: what is bound, what comes in and goes out, what survives. */
#include <string.h>

#include "model.h"

uint32_t trivet_region_count(const trivet_model *model) {
    return model->header->regions.count;
}

uint32_t trivet_region_bytes(const trivet_model *model, uint32_t region) {
    return trivet_regions(model)[region].size_bytes;
}

uint32_t trivet_region_alignment(const trivet_model *model, uint32_t region) {
    return trivet_regions(model)[region].alignment;
}

uint32_t trivet_arena_bytes(const trivet_model *model) {
    return trivet_region_bytes(model, 0);
}

/* Bytes of a region. */
typedef struct extent {
    uint64_t start;
    uint64_t end;
} extent;

/* Where rows of an image lie; all of a ring, whose rows wrap around. */
static extent rows_extent(const trivet_tensor_record *tensor, trivet_image image, trivet_firing rows) {
    uint64_t first = image.depth == image.height ? rows.row : 0;
    uint64_t count = image.depth == image.height ? rows.rows : image.depth;
    extent result = {tensor->offset + first * image.row_bytes, tensor->offset + (first + count) * image.row_bytes};
    return result;
}

/* What a firing writes shares no bytes with what it reads, or is exactly that (in place). */
static trivet_status prove_firing(void *context, uint32_t index, trivet_firing firing) {
    const trivet_model *model = (const trivet_model *)context;
    const trivet_step_record *step = &trivet_steps(model)[index];
    bool accumulates = (step->flags & TRIVET_STEP_ACCUMULATES) != 0;
    if (accumulates && firing.row + firing.rows < trivet_step_height(model, step)) {
        return TRIVET_OK; /* sums stay in the work space until the last row */
    }
    for (uint32_t j = 0; j < step->outputs; j++) {
        const trivet_tensor_record *result = trivet_operand(model, step, step->inputs + j);
        trivet_image written = trivet_operand_image(model, result, step->images, true);
        trivet_firing all = {0, written.height};
        extent write = rows_extent(result, written, accumulates || step->firings == 1 ? all : firing);
        for (uint32_t i = 0; i < step->inputs; i++) {
            const trivet_tensor_record *operand = trivet_operand(model, step, i);
            trivet_image image = trivet_operand_image(model, operand, step->images, false);
            extent read = rows_extent(operand, image, trivet_rows_read(model, step, i, firing));
            bool is_apart = read.start >= write.end || write.start >= read.end;
            bool is_same = read.start == write.start && read.end == write.end && image.depth == written.depth;
            if (result->region == operand->region && !is_apart && !is_same) {
                return TRIVET_ERR_STREAM;
            }
        }
    }
    return TRIVET_OK;
}

static uint32_t *stream_counters(const trivet_model *model, const trivet_stream_record *stream) {
    return (uint32_t *)(void *)(model->memory[0] + stream->counters);
}

trivet_status trivet_decode_block(const trivet_model *model, const trivet_stream_record *stream) {
    if (stream->decoded_bytes == 0) {
        return TRIVET_OK;
    }
    const uint8_t *block = trivet_constants(model) + stream->block;
    return trivet_lz4_decode(block, stream->block_bytes, model->memory[0], stream->decoded_bytes);
}

/* Kernels check constants that come from a block once it can be decoded; it is the same in every run. */
static trivet_status check_blocks(const trivet_model *model) {
    for (uint32_t s = 0; s < model->header->streams.count; s++) {
        const trivet_stream_record *stream = &trivet_streams(model)[s];
        trivet_status status = trivet_decode_block(model, stream);
        for (uint32_t i = 0; status == TRIVET_OK && stream->decoded_bytes != 0 && i < stream->step_count; i++) {
            const trivet_step_record *step = &trivet_steps(model)[stream->first_step + i];
            status = trivet_check_kernel(model, step, model->memory[0]);
        }
        if (status != TRIVET_OK) {
            return status;
        }
    }
    return TRIVET_OK;
}

/* Runs the loop of every stream without its kernels. */
static trivet_status prove_streams(trivet_model *model) {
    for (uint32_t s = 0; s < model->header->streams.count; s++) {
        const trivet_stream_record *stream = &trivet_streams(model)[s];
        if (stream->counters == TRIVET_NONE) {
            continue;
        }
        trivet_status status = trivet_schedule(model, stream, stream_counters(model, stream), prove_firing, model);
        if (status != TRIVET_OK) {
            return status;
        }
    }
    return TRIVET_OK;
}

trivet_status trivet_bind(trivet_model *model, const trivet_memory *memories, uint32_t count) {
    if (model == NULL || model->header == NULL || memories == NULL || count != trivet_region_count(model)) {
        return TRIVET_ERR_ARGUMENT;
    }
    model->is_bound = false;
    for (uint32_t i = 0; i < count; i++) {
        if (memories[i].data == NULL) {
            return TRIVET_ERR_ARGUMENT;
        }
        if ((uintptr_t)memories[i].data % trivet_region_alignment(model, i) != 0) {
            return TRIVET_ERR_ALIGNMENT;
        }
        if (memories[i].bytes < trivet_region_bytes(model, i)) {
            return TRIVET_ERR_MEMORY;
        }
        model->memory[i] = (uint8_t *)memories[i].data;
    }
    if (model->header->warm_region != TRIVET_NONE) {
        memcpy(model->memory[model->header->warm_region], trivet_constants(model), model->header->constants.count);
    }
    trivet_status status = check_blocks(model);
    status = status != TRIVET_OK ? status : prove_streams(model);
    if (status != TRIVET_OK) {
        return status;
    }
    model->is_bound = true;
    return trivet_reset(model);
}

trivet_status trivet_bind_arena(trivet_model *model, void *arena, size_t bytes) {
    trivet_memory memory = {arena, bytes};
    return trivet_bind(model, &memory, 1);
}

trivet_status trivet_reset(trivet_model *model) {
    if (model == NULL || !model->is_bound) {
        return TRIVET_ERR_UNBOUND;
    }
    const trivet_state_record *states = TRIVET_RECORDS(model, states, trivet_state_record);
    for (uint32_t i = 0; i < model->header->states.count; i++) {
        const trivet_tensor_record *tensor = &trivet_tensors(model)[states[i].tensor];
        memcpy(model->memory[tensor->region] + tensor->offset, trivet_constants(model) + states[i].initial,
               trivet_tensor_footprint(model, tensor));
    }
    return TRIVET_OK;
}

uint32_t trivet_input_count(const trivet_model *model) {
    return model->header->inputs.count;
}

uint32_t trivet_output_count(const trivet_model *model) {
    return model->header->outputs.count;
}

static trivet_status describe_port(const trivet_model *model, const trivet_section *section, uint32_t index,
                                   trivet_port *port) {
    if (index >= section->count || port == NULL) {
        return TRIVET_ERR_ARGUMENT;
    }
    const trivet_port_record *record = &((const trivet_port_record *)(const void *)(model->plan + section->offset))[index];
    const trivet_tensor_record *tensor = &trivet_tensors(model)[record->tensor];
    uint8_t *memory = model->memory[tensor->region];
    port->name = (const char *)(model->plan + model->header->names.offset + record->name);
    port->by_rows = record->by_rows != 0;
    port->data = memory == NULL || port->by_rows ? NULL : memory + tensor->offset;
    port->bytes = trivet_tensor_geometry(model, tensor).bytes;
    port->dtype = tensor->dtype;
    port->rank = tensor->rank;
    port->shape = trivet_shape(model, tensor);
    port->scale = record->scale;
    port->zero_point = record->zero_point;
    port->lowest = record->lowest;
    port->highest = record->highest;
    port->perm = record->has_perm == 1 ? record->perm : NULL;
    return TRIVET_OK;
}

trivet_status trivet_input(const trivet_model *model, uint32_t index, trivet_port *port) {
    return model == NULL || model->header == NULL ? TRIVET_ERR_ARGUMENT
                                                  : describe_port(model, &model->header->inputs, index, port);
}

trivet_status trivet_output(const trivet_model *model, uint32_t index, trivet_port *port) {
    return model == NULL || model->header == NULL ? TRIVET_ERR_ARGUMENT
                                                  : describe_port(model, &model->header->outputs, index, port);
}

void trivet_set_border(trivet_model *model, const trivet_border *border) {
    trivet_border none = {NULL, NULL, NULL};
    model->border = border == NULL ? none : *border;
}

trivet_status trivet_set_input(trivet_model *model, uint32_t index, const void *data, size_t bytes) {
    trivet_port port;
    trivet_status status = trivet_input(model, index, &port);
    if (status != TRIVET_OK) {
        return status;
    }
    if (!model->is_bound) {
        return TRIVET_ERR_UNBOUND;
    }
    if (port.by_rows) {
        return TRIVET_ERR_ROWS;
    }
    if (data == NULL || bytes != port.bytes) {
        return TRIVET_ERR_ARGUMENT;
    }
    memcpy(port.data, data, bytes);
    return TRIVET_OK;
}

trivet_status trivet_get_output(const trivet_model *model, uint32_t index, void *data, size_t bytes) {
    trivet_port port;
    trivet_status status = trivet_output(model, index, &port);
    if (status != TRIVET_OK) {
        return status;
    }
    if (!model->is_bound) {
        return TRIVET_ERR_UNBOUND;
    }
    if (port.by_rows) {
        return TRIVET_ERR_ROWS;
    }
    if (data == NULL || bytes != port.bytes) {
        return TRIVET_ERR_ARGUMENT;
    }
    memcpy(data, port.data, bytes);
    return TRIVET_OK;
}
