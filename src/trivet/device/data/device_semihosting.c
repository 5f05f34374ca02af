/* Files, text and the end of the program, by semihosting: the same numbers and blocks on Arm and RISC-V. */
#include "device.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_SEEK = 0x0A,
       SYS_FLEN = 0x0C, SYS_EXIT_EXTENDED = 0x20 };

#define APPLICATION_EXIT 0x20026u

static int32_t call(int32_t number, const void *block) {
#if defined(__riscv)
    register int32_t a0 __asm__("a0") = number;
    register const void *a1 __asm__("a1") = block;
    __asm__ volatile(".option push\n .option norvc\n slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n .option pop"
                     : "+r"(a0) : "r"(a1) : "memory");
    return a0;
#else
    register int32_t r0 __asm__("r0") = number;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}

int32_t device_open(const char *name, uint32_t bytes_of_name, uint32_t mode) {
    const uint32_t block[3] = {(uint32_t)(uintptr_t)name, mode, bytes_of_name};
    return call(SYS_OPEN, block);
}

void device_read(int32_t file, void *data, uint32_t bytes) {
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, bytes};
    (void)call(SYS_READ, block);
}

void device_write(int32_t file, const void *data, uint32_t bytes) {
    const uint32_t block[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, bytes};
    (void)call(SYS_WRITE, block);
}

void device_seek(int32_t file, uint32_t position) {
    const uint32_t block[2] = {(uint32_t)file, position};
    (void)call(SYS_SEEK, block);
}

uint32_t device_length(int32_t file) {
    const uint32_t block[1] = {(uint32_t)file};
    return (uint32_t)call(SYS_FLEN, block);
}

void device_close(int32_t file) {
    const uint32_t block[1] = {(uint32_t)file};
    (void)call(SYS_CLOSE, block);
}

void device_say(const char *text) {
    (void)call(SYS_WRITE0, text);
}

void device_exit(uint32_t code) {
    const uint32_t block[2] = {APPLICATION_EXIT, code};
    (void)call(SYS_EXIT_EXTENDED, block);
    for (;;) {
    }
}
