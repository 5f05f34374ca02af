/* Runs a plan: stream after stream, image after image, in the order of the schedule. */
#include "model.h"

typedef struct execution {
    const trivet_model *model;
    const uint8_t *constants;
    uint32_t image;
} execution;

static void make_views(const execution *run, const trivet_step_record *step, trivet_view *views) {
    const trivet_model *model = run->model;
    for (uint32_t i = 0; i < (uint32_t)step->inputs + step->outputs; i++) {
        const trivet_tensor_record *tensor = trivet_operand(model, step, i);
        trivet_image image = trivet_operand_image(model, tensor, step->images, i >= step->inputs);
        views[i].data = model->memory[tensor->region] + tensor->offset + (size_t)run->image * image.stride;
        views[i].row_bytes = image.row_bytes;
        views[i].height = image.height;
        views[i].depth = image.depth;
    }
}

static trivet_status notify(const execution *run, uint32_t index, trivet_firing firing, bool done) {
    if (run->model->observer == NULL) {
        return TRIVET_OK;
    }
    trivet_event event = {index, run->image, firing.row, firing.rows, done};
    return run->model->observer(run->model->observer_context, &event);
}

static trivet_status fire(void *context, uint32_t index, trivet_firing firing) {
    const execution *run = (const execution *)context;
    const trivet_model *model = run->model;
    const trivet_step_record *step = &trivet_steps(model)[index];
    trivet_view views[TRIVET_MAX_OPERANDS];
    make_views(run, step, views);
    trivet_call call = {
        .params = trivet_params(model, step),
        .constants = run->constants,
        .inputs = views,
        .outputs = views + step->inputs,
        .scratch = step->scratch_offset == TRIVET_NONE ? NULL : model->memory[0] + step->scratch_offset,
        .border = &model->border,
    };
    trivet_status status = notify(run, index, firing, false);
    status = status != TRIVET_OK ? status : trivet_find_kernel(step->kernel)->run(&call, firing.row, firing.rows);
    return status != TRIVET_OK ? status : notify(run, index, firing, true);
}

static trivet_status run_stream(const trivet_model *model, const trivet_stream_record *stream) {
    const trivet_step_record *first = &trivet_steps(model)[stream->first_step];
    execution run = {model, trivet_stream_constants(model, stream), 0};
    trivet_status decoded = trivet_decode_block(model, stream);
    if (decoded != TRIVET_OK) {
        return decoded;
    }
    for (; run.image < first->images; run.image++) {
        trivet_status status;
        if (stream->counters == TRIVET_NONE) {
            status = fire(&run, stream->first_step, trivet_step_firing(first, trivet_step_height(model, first), 0));
        } else {
            uint32_t *counters = (uint32_t *)(void *)(model->memory[0] + stream->counters);
            status = trivet_schedule(model, stream, counters, fire, &run);
        }
        if (status != TRIVET_OK) {
            return status;
        }
    }
    return TRIVET_OK;
}

static bool is_accepted(const trivet_port *port) {
    if (port->lowest == INT32_MIN && port->highest == INT32_MAX) {
        return true;
    }
    const int32_t *values = (const void *)port->data;
    for (uint32_t i = 0; i < port->bytes / sizeof *values; i++) {
        if (values[i] < port->lowest || values[i] > port->highest) {
            return false;
        }
    }
    return true;
}

/* The proof that nothing overflows assumes what the ports of i32 inputs state. */
static trivet_status check_inputs(const trivet_model *model) {
    for (uint32_t i = 0; i < trivet_input_count(model); i++) {
        trivet_port port;
        trivet_status status = trivet_input(model, i, &port);
        if (status != TRIVET_OK || !is_accepted(&port)) {
            return status != TRIVET_OK ? status : TRIVET_ERR_RANGE;
        }
    }
    return TRIVET_OK;
}

static bool has_rows(const trivet_port_record *ports, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (ports[i].by_rows != 0) {
            return true;
        }
    }
    return false;
}

/* Every callback that the plan will make is there. */
static bool has_callbacks(const trivet_model *model) {
    const trivet_header_record *header = model->header;
    bool receives = has_rows(TRIVET_RECORDS(model, inputs, trivet_port_record), header->inputs.count);
    bool sends = has_rows(TRIVET_RECORDS(model, outputs, trivet_port_record), header->outputs.count);
    return (!receives || model->border.receive != NULL) && (!sends || model->border.send != NULL);
}

trivet_status trivet_run(trivet_model *model) {
    if (model == NULL || !model->is_bound) {
        return TRIVET_ERR_UNBOUND;
    }
    if (!has_callbacks(model)) {
        return TRIVET_ERR_ROWS;
    }
    trivet_status accepted = check_inputs(model);
    if (accepted != TRIVET_OK) {
        return accepted;
    }
    for (uint32_t s = 0; s < model->header->streams.count; s++) {
        trivet_status status = run_stream(model, &trivet_streams(model)[s]);
        if (status != TRIVET_OK) {
            return status;
        }
    }
    return TRIVET_OK;
}

void trivet_observe(trivet_model *model, trivet_observer observer, void *context) {
    model->observer = observer;
    model->observer_context = context;
}
