/* The network of a `.tgrs` plan: the plan is a constant, read in place by the runtime. */
#include <string.h>

#include "device.h"
#include "device_network.h"
#include "trivet/trivet.h"

extern const uint8_t device_plan[];

static trivet_model model;

void network_forget(uint8_t value) {
    memset(&model, value, sizeof model);
}

int network_load(void) {
    return (int)trivet_open(&model, device_plan, DEVICE_PLAN_BYTES);
}

static trivet_status receive(void *context, const trivet_rows *rows, uint8_t *data) {
    (void)context;
    device_receive(rows->port, rows->row, rows->rows, rows->bytes, data);
    return TRIVET_OK;
}

static trivet_status send(void *context, const trivet_rows *rows, const uint8_t *data) {
    (void)context;
    device_send(rows->port, rows->row, rows->rows, rows->bytes, data);
    return TRIVET_OK;
}

int network_init(void) {
    static const uint32_t sizes[] = {DEVICE_REGION_BYTES};
    trivet_memory memories[DEVICE_REGIONS];
    for (uint32_t i = 0; i < DEVICE_REGIONS; i++) {
        memories[i].data = network_memory_map[i].start;
        memories[i].bytes = sizes[i];
    }
    const trivet_border border = {receive, send, NULL};
    trivet_set_border(&model, &border);
    return (int)trivet_bind(&model, memories, DEVICE_REGIONS);
}

int network_reset(void) {
    return (int)trivet_reset(&model);
}

int network_run(void) {
    return (int)trivet_run(&model);
}

#ifdef DEVICE_DUMP_LAYERS
/* What was made, and all memories as they are now. */
static void dump(const trivet_event *event) {
    static int32_t file = -1;
    file = file < 0 ? device_open("layers.bin", 10, DEVICE_WRITE) : file;
    const uint32_t made[4] = {event->step, event->image, event->row, event->rows};
    device_write(file, made, sizeof made);
    for (uint32_t i = 0; i < DEVICE_REGIONS; i++) {
        device_write(file, network_memory_map[i].start, trivet_region_bytes(&model, i));
    }
}
#endif

static trivet_status observe(void *context, const trivet_event *event) {
    (void)context;
    device_mark(2 * (PHASES + event->step) + (event->done ? 1u : 0u));
#ifdef DEVICE_DUMP_LAYERS
    if (event->done) {
        dump(event);
    }
#endif
    return TRIVET_OK;
}

void network_observe(uint32_t on) {
    trivet_observe(&model, on != 0 ? observe : NULL, NULL);
}

void *network_input(uint32_t index) {
    trivet_port port;
    return trivet_input(&model, index, &port) == TRIVET_OK ? port.data : NULL;
}

const void *network_output(uint32_t index) {
    trivet_port port;
    return trivet_output(&model, index, &port) == TRIVET_OK ? port.data : NULL;
}

const char *network_status_text(int status) {
    return trivet_status_text((trivet_status)status);
}
