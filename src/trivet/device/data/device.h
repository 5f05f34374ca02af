/* What the program of a device is made of: the machine, the network, and the main program that joins them. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stddef.h>
#include <stdint.h>

/* The machine. Files are those of the directory that the emulator runs in. */
int32_t device_open(const char *name, uint32_t bytes_of_name, uint32_t mode);
void device_read(int32_t file, void *data, uint32_t bytes);   /* what is not there stays as it is */
void device_write(int32_t file, const void *data, uint32_t bytes);
void device_seek(int32_t file, uint32_t position);
uint32_t device_length(int32_t file);
void device_close(int32_t file);
void device_say(const char *text);
void device_exit(uint32_t code);
uintptr_t device_stack_pointer(void);

enum { DEVICE_READ = 1, DEVICE_WRITE = 5 }; /* modes "rb" and "wb" of the semihosting interface */

/* One instruction for each number, which the counter of instructions watches. */
void device_marks(void);

static inline void device_mark(uint32_t number) {
    ((void (*)(void))((uintptr_t)device_marks + 2u * number))();
}

/* Numbers of marks: two for each phase, and then two for each layer. */
enum { PHASE_NOTHING, PHASE_LOAD, PHASE_INIT, PHASE_RESET, PHASE_RUN, PHASES };

/* The network. Every function gives 0, or a status that the last one describes. */
typedef struct network_port {
    uint32_t bytes;
    uint32_t by_rows;
} network_port;

typedef struct network_memory {
    uint8_t *start; /* what the network may use, and the guard behind it */
    uint8_t *end;
} network_memory;

extern const uint32_t network_inputs, network_outputs, network_memories;
extern const network_port network_input_ports[], network_output_ports[];
extern const network_memory network_memory_map[];
extern const uint32_t network_layers; /* 0: there is no way to observe them */

void network_forget(uint8_t value); /* fills the state of the network, so that nothing of it can be used by mistake */
int network_load(void);
int network_init(void);
int network_reset(void);
int network_run(void);
void network_observe(uint32_t on); /* marks before and after every layer */
void *network_input(uint32_t index);
const void *network_output(uint32_t index);
const char *network_status_text(int status);

/* Rows of ports that go by rows. */
void device_receive(uint32_t port, uint32_t row, uint32_t rows, size_t bytes, void *data);
void device_send(uint32_t port, uint32_t row, uint32_t rows, size_t bytes, const void *data);

#endif
