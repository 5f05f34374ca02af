/* Start of a Cortex-M program: vectors, floating point and vectors on, memory as C expects it; faults are reported. */
#include "device.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CCR REGISTER(0xE000ED14u)   /* Configuration and Control */
#define SHCSR REGISTER(0xE000ED24u) /* System Handler Control and State */
#define CFSR REGISTER(0xE000ED28u)  /* Configurable Fault Status */
#define CPACR REGISTER(0xE000ED88u) /* Coprocessor Access Control */

enum { UNALIGN_TRP = 1 << 3, DIV_0_TRP = 1 << 4, LOW_OVERHEAD_BRANCHES = 1 << 19 };

extern uint32_t device_data_start[], device_data_end[], device_data_load[], device_bss_start[], device_bss_end[];
extern uint32_t device_stack_top[];

int device_main(void);
void device_reset(void);
void device_start(void);
void device_fault(const uint32_t *frame, uint32_t exception);
void device_trap(void);

static void say_hex(uint32_t value) {
    char text[10] = {' '};
    for (uint32_t i = 0; i < 8; i++) {
        text[1 + i] = "0123456789abcdef"[(value >> (28 - 4 * i)) & 15u];
    }
    device_say(text);
}

/* The frame holds r0-r3, r12, lr, pc and xPSR of what was interrupted. */
__attribute__((used)) void device_fault(const uint32_t *frame, uint32_t exception) {
    device_say("FAULT");
    say_hex(exception);
    say_hex(CFSR);
    say_hex(frame[6]);
    device_say("\n");
    device_exit(100);
}

__attribute__((naked, used)) void device_trap(void) {
    __asm__ volatile("mrs r0, msp\n mrs r1, ipsr\n b device_fault");
}

__attribute__((section(".vectors"), used)) const void *const device_vectors[16] = {
    (const void *)device_stack_top, (const void *)device_reset, (const void *)device_trap, (const void *)device_trap,
    (const void *)device_trap, (const void *)device_trap, (const void *)device_trap, (const void *)device_trap,
};

uintptr_t device_stack_pointer(void) {
    uintptr_t pointer;
    __asm__ volatile("mov %0, sp" : "=r"(pointer));
    return pointer;
}

__attribute__((used, noreturn)) void device_start(void) {
    CPACR |= 0xFu << 20; /* CP10 and CP11: FPU, MVE */
    CCR |= DIV_0_TRP | LOW_OVERHEAD_BRANCHES;
#ifdef DEVICE_STRICT_ALIGNMENT
    CCR |= UNALIGN_TRP;
#endif
    SHCSR |= 7u << 16; /* memory, bus and usage faults are told apart */
    __asm__ volatile("dsb\n isb");
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

__attribute__((naked, used)) void device_reset(void) {
    __asm__ volatile("ldr r0, =device_stack_top\n mov sp, r0\n b device_start");
}

__asm__(".section .text.device_marks,\"ax\",%progbits\n"
        ".syntax unified\n .thumb\n .align 2\n .global device_marks\n .type device_marks, %function\n .thumb_func\n"
        "device_marks:\n .rept " DEVICE_MARKS "\n bx lr\n .endr\n .size device_marks, . - device_marks\n .previous\n");
