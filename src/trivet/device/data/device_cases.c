/* Runs many plans, one after the other, from the file inputs.bin: how many there are, and for each the bytes of its plan,
 * the plan, and the inputs. Outputs go to outputs.bin. */
#include <string.h>

#include "device.h"
#include "trivet/trivet.h"

static trivet_model model;

static void check(uint32_t number, trivet_status status) {
    if (status != TRIVET_OK) {
        char digits[11] = "0000000000";
        for (uint32_t i = 10; i-- > 0; number /= 10) {
            digits[i] = (char)('0' + number % 10);
        }
        device_say("REFUSED case ");
        device_say(digits);
        device_say(": ");
        device_say(trivet_status_text(status));
        device_say("\n");
        device_exit(1);
    }
}

static void run_case(uint32_t number, int32_t cases, int32_t outputs) {
    uint32_t plan_bytes = 0;
    const network_memory arena = network_memory_map[0], plan = network_memory_map[1];
    device_read(cases, &plan_bytes, sizeof plan_bytes);
    memset(arena.start, 0xA5, (size_t)(arena.end - arena.start));
    device_read(cases, plan.start, plan_bytes);
    check(number, trivet_open(&model, plan.start, plan_bytes));
    check(number, trivet_bind_arena(&model, arena.start, (size_t)(arena.end - arena.start)));
    trivet_port port;
    for (uint32_t i = 0; i < trivet_input_count(&model); i++) {
        check(number, trivet_input(&model, i, &port));
        device_read(cases, port.data, port.bytes);
    }
    device_mark(2 * PHASE_RUN);
    const trivet_status status = trivet_run(&model);
    device_mark(2 * PHASE_RUN + 1);
    check(number, status);
    for (uint32_t i = 0; i < trivet_output_count(&model); i++) {
        check(number, trivet_output(&model, i, &port));
        device_write(outputs, port.data, port.bytes);
    }
}

int device_main(void) {
    const int32_t cases = device_open("inputs.bin", 10, DEVICE_READ);
    const int32_t outputs = device_open("outputs.bin", 11, DEVICE_WRITE);
    const int32_t measures = device_open("measures.bin", 12, DEVICE_WRITE);
    uint32_t count = 0;
    device_read(cases, &count, sizeof count);
    device_mark(2 * PHASE_NOTHING);
    device_mark(2 * PHASE_NOTHING + 1);
    for (uint32_t i = 0; i < count; i++) {
        run_case(i, cases, outputs);
    }
    device_close(outputs);
    device_close(measures);
    return 0;
}
