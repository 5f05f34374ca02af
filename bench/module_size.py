"""Code and constants of C modules on a Cortex-M4, and how long it takes to write them.

    python bench/module_size.py [MODEL ...]

Bytes are those of a program that calls only the module, linked with --gc-sections; the start-up code and the C library
are what a program without a module has. Needs arm-none-eabi-gcc with newlib.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trivet.backends.module.options import ScheduleStyle
from trivet.driver import Settings
from trivet.exporting import ModuleRequest, compile_module

DIRECTORIES = (Path(__file__).resolve().parents[2] / "shared", Path(__file__).resolve().parents[1] / "examples")
NETWORKS = (
    "tiny__kws_ref_model.tflite",
    "tiny__ad01_int8.tflite",
    "tflite-micro__hello_world_int8.tflite",
    "tiny__vww_96_int8.tflite",
    "digits_int8.tflite",
)
MACHINE = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-std=c99", "-Os"]
LINK = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "--specs=nosys.specs", "--specs=nano.specs"]
MAIN = """
#include <string.h>
{include}
int main(void) {{ {body} return 0; }}
"""
CALLS = "static net_context c; return net_init(&c) + net_run(&c) + (net_input(&c, 0) == net_output(&c, 0));"


def main() -> None:
    models = [Path(a) for a in sys.argv[1:]] or [m for name in NETWORKS if (m := find(name)) is not None]
    print(f"{'network':40} {'schedule':8} {'code':>8} {'constants':>10} {'RAM':>8} {'seconds':>8} {'files':>5}")
    for model in models:
        for schedule in ScheduleStyle:
            with tempfile.TemporaryDirectory() as directory:
                print(row(model, schedule, Path(directory)))


def find(name: str) -> Path | None:
    return next((path for root in DIRECTORIES for path in sorted(root.rglob(name))), None)


def row(model: Path, schedule: ScheduleStyle, directory: Path) -> str:
    output = directory / "net"
    start = time.perf_counter()
    compile_module(model, output, Settings(), ModuleRequest(prefix="net", schedule=schedule))
    seconds = time.perf_counter() - start
    sources = [str(path) for path in sorted((output / "src").glob("*.[cS]"))]
    with_module = linked(directory, '#include "net.h"', CALLS, output, sources)
    without = linked(directory, "", "", output, [])
    constants = constant_bytes(directory, output)
    code = with_module[0] - without[0] - constants
    files = sum(path.is_file() for path in output.rglob("*"))
    ram = with_module[1] - without[1]
    return f"{model.name:40} {schedule.value:8} {code:8,} {constants:10,} {ram:8,} {seconds:8.2f} {files:5}"


def linked(directory: Path, include: str, body: str, module: Path, sources: list[str]) -> tuple[int, int]:
    """Bytes of flash and of RAM of a program."""
    source, program = directory / "main.c", directory / "program.elf"
    source.write_text(MAIN.format(include=include, body=body))
    flags = [f"-I{module / 'include'}", f"-I{module / 'src'}"]
    compile_ = ["arm-none-eabi-gcc", *MACHINE, *LINK, *flags, str(source), *sources, "-o", str(program), "-lm"]
    subprocess.run(compile_, check=True, capture_output=True)
    return sizes(program)


def constant_bytes(directory: Path, module: Path) -> int:
    """Bytes of the array of constants."""
    made = directory / "constants.o"
    source = next(p for p in (module / "src").iterdir() if p.name.endswith(("constants.c", "constants.S")))
    flags = [f"-I{module / 'include'}", f"-I{module / 'src'}"]
    subprocess.run(["arm-none-eabi-gcc", *MACHINE, *flags, "-c", str(source), "-o", str(made)], check=True)
    return sizes(made)[0]


def sizes(path: Path) -> tuple[int, int]:
    output = subprocess.run(["arm-none-eabi-size", str(path)], check=True, capture_output=True, text=True).stdout
    text, data, bss = (int(word) for word in output.splitlines()[1].split()[:3])
    return text + data, data + bss


if __name__ == "__main__":
    main()
