/* What the host adds to the runtime for the Python package: sizes for its buffers, and time per step. */
#define _POSIX_C_SOURCE 199309L

#include <string.h>
#include <time.h>

#include "trivet/trivet.h"

/* Whole arrays whose rows are given or taken; by port, NULL where a port does not go by rows. */
typedef struct trivet_host_arrays {
    const uint8_t *const *inputs;
    uint8_t *const *outputs;
} trivet_host_arrays;

uint32_t trivet_host_model_bytes(void);
void trivet_host_border(trivet_model *model, trivet_host_arrays *arrays);
uint64_t trivet_host_nanoseconds(void);
trivet_status trivet_host_profile(void *context, const trivet_event *event);

uint32_t trivet_host_model_bytes(void) {
    return (uint32_t)sizeof(trivet_model);
}

static trivet_status give_rows(void *context, const trivet_rows *rows, uint8_t *data) {
    const trivet_host_arrays *arrays = context;
    memcpy(data, arrays->inputs[rows->port] + rows->row * (rows->bytes / rows->rows), rows->bytes);
    return TRIVET_OK;
}

static trivet_status take_rows(void *context, const trivet_rows *rows, const uint8_t *data) {
    const trivet_host_arrays *arrays = context;
    memcpy(arrays->outputs[rows->port] + rows->row * (rows->bytes / rows->rows), data, rows->bytes);
    return TRIVET_OK;
}

/* Rows of whole arrays, which must stay where they are while the model runs. */
void trivet_host_border(trivet_model *model, trivet_host_arrays *arrays) {
    trivet_border border = {give_rows, take_rows, arrays};
    trivet_set_border(model, &border);
}

uint64_t trivet_host_nanoseconds(void) {
#ifdef CLOCK_MONOTONIC
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#else
    return (uint64_t)clock() * (1000000000u / CLOCKS_PER_SEC);
#endif
}

/* An observer. Its context is [0]: start of the kernel that runs; [1 + step]: nanoseconds of that step so far. */
trivet_status trivet_host_profile(void *context, const trivet_event *event) {
    uint64_t *times = context;
    if (event->done) {
        times[1 + event->step] += trivet_host_nanoseconds() - times[0];
    } else {
        times[0] = trivet_host_nanoseconds();
    }
    return TRIVET_OK;
}
