/* Runs a network in memory full of garbage, twice, measures what it touches, and then runs it on every input that there
 * is. What it needs and gives is in files beside the emulator: inputs.bin, outputs.bin, measures.bin. */
#include <stdbool.h>

#include "device.h"

extern uint8_t device_stack_limit[], device_stack_top[];

static int32_t inputs, outputs, measures;
static uint32_t run_start; /* of the current run's inputs in their file */
static uint32_t sent_start;

/* Where the data of a port begins in those of a run. */
static uint32_t start_of(const network_port *ports, uint32_t index) {
    uint32_t start = 0;
    for (uint32_t i = 0; i < index; i++) {
        start += ports[i].bytes;
    }
    return start;
}

static void check(const char *phase, int status) {
    if (status != 0) {
        device_say("REFUSED ");
        device_say(phase);
        device_say(": ");
        device_say(network_status_text(status));
        device_say("\n");
        device_exit(1);
    }
}

static void record(uint32_t value) {
    device_write(measures, &value, sizeof value);
}

static void fill(volatile uint8_t *at, const volatile uint8_t *end, uint8_t value) {
    while (at < end) {
        *at++ = value;
    }
}

/* How much of a memory was changed, from its start. */
static uint32_t touched(const network_memory *memory, uint8_t poison) {
    const volatile uint8_t *end = memory->end;
    while (end > memory->start && end[-1] == poison) {
        end--;
    }
    return (uint32_t)(end - memory->start);
}

void device_receive(uint32_t port, uint32_t row, uint32_t rows, size_t bytes, void *data) {
    const uint32_t row_bytes = (uint32_t)bytes / rows;
    device_seek(inputs, run_start + start_of(network_input_ports, port) + row * row_bytes);
    device_read(inputs, data, (uint32_t)bytes);
}

void device_send(uint32_t port, uint32_t row, uint32_t rows, size_t bytes, const void *data) {
    const uint32_t row_bytes = (uint32_t)bytes / rows;
    device_seek(outputs, sent_start + start_of(network_output_ports, port) + row * row_bytes);
    device_write(outputs, data, (uint32_t)bytes);
}

static void load_inputs(uint32_t run, uint32_t bytes_of_run) {
    run_start = run * bytes_of_run;
    for (uint32_t i = 0; i < network_inputs; i++) {
        if (network_input_ports[i].by_rows == 0) {
            device_seek(inputs, run_start + start_of(network_input_ports, i));
            device_read(inputs, network_input(i), network_input_ports[i].bytes);
        }
    }
}

static void store_outputs(void) {
    for (uint32_t i = 0; i < network_outputs; i++) {
        if (network_output_ports[i].by_rows == 0) {
            device_seek(outputs, sent_start + start_of(network_output_ports, i));
            device_write(outputs, network_output(i), network_output_ports[i].bytes);
        }
    }
    sent_start += start_of(network_output_ports, network_outputs);
}

static int phase(uint32_t number, int (*function)(void)) {
    device_mark(2 * number);
    const int status = function();
    device_mark(2 * number + 1);
    return status;
}

static int nothing(void) {
    return 0;
}

/* A first run in memory that holds `poison`: stack and working memory that it used are recorded. */
static void probe(uint8_t poison, bool observed) {
    for (uint32_t i = 0; i < network_memories; i++) {
        fill(network_memory_map[i].start, network_memory_map[i].end, poison);
    }
    network_forget(poison);
    const uintptr_t used = device_stack_pointer();
    fill(device_stack_limit, (const uint8_t *)(used - 64), poison);
    check("loading", phase(PHASE_LOAD, network_load));
    check("initializing", phase(PHASE_INIT, network_init));
    network_observe(observed);
    load_inputs(0, start_of(network_input_ports, network_inputs));
    check("running", observed ? network_run() : phase(PHASE_RUN, network_run));
    network_observe(false);
    const volatile uint8_t *deepest = device_stack_limit;
    while ((uintptr_t)deepest < used && *deepest == poison) {
        deepest++;
    }
    record((uint32_t)(used - (uintptr_t)deepest));
    for (uint32_t i = 0; i < network_memories; i++) {
        record(touched(&network_memory_map[i], poison));
    }
    store_outputs();
}

int device_main(void) {
    inputs = device_open("inputs.bin", 10, DEVICE_READ);
    outputs = device_open("outputs.bin", 11, DEVICE_WRITE);
    measures = device_open("measures.bin", 12, DEVICE_WRITE);
    const uint32_t bytes = start_of(network_input_ports, network_inputs);
    const uint32_t runs = bytes == 0 ? 1 : device_length(inputs) / bytes;
    (void)phase(PHASE_NOTHING, nothing);
    probe(0xA5, false);
    probe(0x5A, true);
    check("resetting", phase(PHASE_RESET, network_reset));
    for (uint32_t run = 0; run < runs; run++) {
        load_inputs(run, bytes);
        check("running", phase(PHASE_RUN, network_run));
        store_outputs();
    }
    device_close(inputs);
    device_close(outputs);
    device_close(measures);
    return 0;
}
