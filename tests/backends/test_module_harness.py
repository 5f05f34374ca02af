"""The test program of a module where nothing but a processor is there: in an emulator, by semihosting or a UART."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from module_builds import EXAMPLES, build, module, needed

from trivet.backends.module.options import Memory, ScheduleStyle
from trivet.driver import Settings
from trivet.exporting import ModuleRequest

DIGITS = EXAMPLES / "models" / "digits_int8.tflite"
CORE = ["-mcpu=cortex-m4", "-mthumb", "-Os", "-std=c99", "-ffunction-sections", "-fdata-sections"]
LINK = ["-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs", "-Wl,--gc-sections"]
PLAIN = ModuleRequest(prefix="net", samples=2)
WAYS = {
    "static": PLAIN,
    "table": ModuleRequest(prefix="net", samples=1, schedule=ScheduleStyle.TABLE),
    "memory of the caller": ModuleRequest(prefix="net", samples=1, memory=Memory.CALLER),
}

START = """
#include <stdint.h>
extern uint32_t stack_top;
int main(void);
void start(void);
#ifdef TEST_PUT
#define UART(offset) (*(volatile uint32_t *)(0x40004000u + (offset)))
void uart_put(const char *text);
void uart_put(const char *text) {
    UART(0x10) = 16; /* the divisor */
    UART(0x08) = 1;  /* sends */
    for (; *text != 0; text++) UART(0) = (uint32_t)*text;
}
#endif
void start(void) {
    (void)main();
    __asm__ volatile("mov r1, %0\\nmov r0, #0x18\\nbkpt 0xab" : : "r"(0x20026) : "r0", "r1");
}
__attribute__((section(".vectors"), used)) static void *const vectors[] = {&stack_top, (void *)start};
"""

SCRIPT = """
SECTIONS {
    .text 0 : { KEEP(*(.vectors)) *(.text* .rodata*) }
    .ARM.exidx : { *(.ARM.exidx*) }
    .data 0x20000000 : { *(.data*) }
    .bss : { *(.bss*) *(COMMON) }
    end = .;
    stack_top = 0x20400000;
}
"""


def on_board(sources: list[str], tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Builds a program for mps2-an386 and runs it in QEMU."""
    gcc = needed("arm-none-eabi-gcc", package="gcc-arm-none-eabi libnewlib-arm-none-eabi")
    qemu = needed("qemu-system-arm", package="qemu-system-arm")
    start, script, program = tmp_path / "start.c", tmp_path / "link.ld", tmp_path / "program.elf"
    start.write_text(START)
    script.write_text(SCRIPT)
    build([gcc, *CORE, *LINK, f"-T{script}", *flags, *sources, str(start), "-o", str(program), "-lm"])
    machine = ["-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "stdio"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    command = [qemu, *machine, *semihosting, "-kernel", str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("way", WAYS)
def test_the_test_program_passes_on_a_cortex_m4(way: str, tmp_path: Path) -> None:
    sources = module(DIGITS, tmp_path / "net", WAYS[way])
    done = on_board([*sources, str(tmp_path / "net/test/net_test.c")], tmp_path, "-DTEST_SEMIHOSTING")
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and lines[0] == "run 0, output 0: 0 of 10 differ" and lines[-1] == "passed"


@pytest.mark.parametrize("settings", [Settings(), Settings(fast_bytes=3072)], ids=["whole", "by rows"])
def test_layers_are_compared_one_by_one(settings: Settings, tmp_path: Path) -> None:
    sources = module(DIGITS, tmp_path / "net", WAYS["table"], settings)
    test = tmp_path / "net/test/net_test.c"
    done = on_board([*sources, str(test)], tmp_path, "-DTEST_SEMIHOSTING", "-DTEST_LAYERS")
    lines = done.stderr.splitlines()
    equal = [line for line in lines if re.match(r"layer \d+ equal: \w+", line)]
    assert done.returncode == 0 and len(equal) >= 6 and lines[-1] == "passed"
    damaged = re.sub(r"(layers_0\[\] = \{)(\d+)u", lambda m: f"{m[1]}{(int(m[2]) + 1) % 2**32}u", test.read_text())
    test.write_text(damaged)
    done = on_board([*sources, str(test)], tmp_path, "-DTEST_SEMIHOSTING", "-DTEST_LAYERS")
    assert done.returncode == 1 and "layer 0 DIFFERS: layer0" in done.stderr.splitlines()


def test_what_differs_is_counted_and_the_exit_code_says_so(tmp_path: Path) -> None:
    sources = module(DIGITS, tmp_path / "net", PLAIN)
    test = tmp_path / "net/test/net_test.c"
    head, _, tail = test.read_text().partition("output_1_0[] = {\n")
    first, _, rest = tail.partition(",")
    test.write_text(f"{head}output_1_0[] = {{\n{(int(first) + 1) % 256},{rest}")
    done = on_board([*sources, str(test)], tmp_path, "-DTEST_SEMIHOSTING")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and "run 1, output 0: 1 of 10 differ" in lines and lines[-1] == "FAILED"


def test_the_text_goes_to_a_uart(tmp_path: Path) -> None:
    sources = module(DIGITS, tmp_path / "net", PLAIN)
    done = on_board([*sources, str(tmp_path / "net/test/net_test.c")], tmp_path, "-DTEST_PUT=uart_put")
    assert "run 1, output 0: 0 of 10 differ" in done.stdout and done.stdout.endswith("passed\n")
