/* What the host adds to the runtime for the Python package: sizes for its buffers, and time per step. */
#define _POSIX_C_SOURCE 199309L

#include <time.h>

#include "trivet/trivet.h"

uint32_t trivet_host_model_bytes(void);
uint64_t trivet_host_nanoseconds(void);
trivet_status trivet_host_profile(void *context, const trivet_event *event);

uint32_t trivet_host_model_bytes(void) {
    return (uint32_t)sizeof(trivet_model);
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
