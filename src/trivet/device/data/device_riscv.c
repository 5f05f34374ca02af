/* Start of a RISC-V program: memory as C expects it; traps are reported. */
#include "device.h"

extern uint32_t device_data_start[], device_data_end[], device_data_load[], device_bss_start[], device_bss_end[];

int device_main(void);
void device_reset(void);
void device_start(void);
void device_trap(void);
void device_fault(uint32_t cause, uint32_t value, uint32_t address);

static void say_hex(uint32_t value) {
    char text[10] = {' '};
    for (uint32_t i = 0; i < 8; i++) {
        text[1 + i] = "0123456789abcdef"[(value >> (28 - 4 * i)) & 15u];
    }
    device_say(text);
}

__attribute__((used)) void device_fault(uint32_t cause, uint32_t value, uint32_t address) {
    device_say("FAULT");
    say_hex(cause);
    say_hex(value);
    say_hex(address);
    device_say("\n");
    device_exit(100);
}

__attribute__((naked, used, aligned(4))) void device_trap(void) {
    __asm__ volatile("csrr a0, mcause\n csrr a1, mtval\n csrr a2, mepc\n j device_fault");
}

uintptr_t device_stack_pointer(void) {
    uintptr_t pointer;
    __asm__ volatile("mv %0, sp" : "=r"(pointer));
    return pointer;
}

__attribute__((used, noreturn)) void device_start(void) {
    for (uint32_t *to = device_data_start, *from = device_data_load; to != device_data_end; to++, from++) {
        *to = *from;
    }
    for (volatile uint32_t *to = device_bss_start; to != device_bss_end; to++) {
        *to = 0;
    }
    device_exit((uint32_t)device_main());
    for (;;) {
    }
}

__attribute__((naked, used, section(".vectors"))) void device_reset(void) {
    __asm__ volatile("la sp, device_stack_top\n la t0, device_trap\n csrw mtvec, t0\n j device_start");
}

__asm__(".section .text.device_marks,\"ax\",@progbits\n"
        ".option push\n .option rvc\n .align 2\n .global device_marks\n .type device_marks, @function\n"
        "device_marks:\n .rept " DEVICE_MARKS "\n c.jr ra\n .endr\n .size device_marks, . - device_marks\n"
        ".option pop\n .previous\n");
