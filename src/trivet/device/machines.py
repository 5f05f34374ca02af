"""The machines that can be emulated: what QEMU calls them, what compilers call their cores, where their memory is."""

from __future__ import annotations

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """A core as compilers know it. `gcc` and `clang` are flags, `zig` the flags of `zig cc`."""

    name: str
    family: str
    gcc: tuple[str, ...]
    clang: tuple[str, ...]
    zig: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """A range of addresses."""

    origin: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A board: `machine` is its name in QEMU, `target` the one of its file under `targets`.

    `storage` is a second memory for constants, where the board has one: it is used when `flash` is too small.
    """

    name: str
    core: Core
    machine: str
    target: str
    flash: Memory
    ram: Memory
    storage: Memory | None = None

    @property
    def emulator(self) -> str:
        """The program that emulates it."""
        return "qemu-system-arm" if self.core.family == "arm" else "qemu-system-riscv32"


def _arm(name: str, gcc_fpu: str | None, clang_fpu: str | None, zig: str) -> Core:
    """Cores with an FPU pass floats in its registers."""
    has_fpu = gcc_fpu is not None
    abi = "hard" if has_fpu else "soft"
    gcc = ["-mthumb", f"-mcpu={name}", f"-mfloat-abi={abi}", *([f"-mfpu={gcc_fpu}"] if has_fpu else [])]
    clang = ["--target=arm-none-eabi", "-mthumb", f"-mcpu={name}", f"-mfloat-abi={abi}"]
    clang += [f"-mfpu={clang_fpu}"] if clang_fpu is not None else []
    triple = f"thumb-freestanding-eabi{'hf' if has_fpu else ''}"
    return Core(name, "arm", tuple(gcc), tuple(clang), ("-target", triple, f"-mcpu={zig}"))


CORTEX_M3 = _arm("cortex-m3", None, None, "cortex_m3")
CORTEX_M4 = _arm("cortex-m4", "fpv4-sp-d16", "fpv4-sp-d16", "cortex_m4+vfp4d16sp")
CORTEX_M7 = _arm("cortex-m7", "fpv5-sp-d16", "fpv5-sp-d16", "cortex_m7+fp_armv8d16sp")
CORTEX_M33 = _arm("cortex-m33", "fpv5-sp-d16", "fpv5-sp-d16", "cortex_m33+dsp+fp_armv8d16sp")
CORTEX_M55 = _arm("cortex-m55", "auto", None, "cortex_m55+mve_fp")
RV32IMC = Core(
    "rv32imc",
    "riscv",
    ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32", "-mcmodel=medany"),
    ("--target=riscv32-unknown-elf", "-march=rv32imc", "-mabi=ilp32", "-mcmodel=medany"),
    ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+c", "-mcmodel=medany"),
)

_KB, _MB = 1024, 1024 * 1024

MACHINES = (
    Machine(
        "mps2-an386", CORTEX_M4, "mps2-an386", "mps2-an386",
        Memory(0x00000000, 4 * _MB), Memory(0x20000000, 4 * _MB), Memory(0x21000000, 16 * _MB),
    ),
    Machine(
        "mps2-an500", CORTEX_M7, "mps2-an500", "mps2-an500",
        Memory(0x00000000, 4 * _MB), Memory(0x20000000, 4 * _MB), Memory(0x60000000, 16 * _MB),
    ),
    Machine(
        "mps2-an505", CORTEX_M33, "mps2-an505", "mps2-an505",
        Memory(0x10000000, 4 * _MB), Memory(0x38000000, 4 * _MB),
    ),
    Machine(
        "mps3-an547", CORTEX_M55, "mps3-an547", "mps3-an547",
        Memory(0x00000000, 512 * _KB), Memory(0x21000000, 4 * _MB), Memory(0x60000000, 16 * _MB),
    ),
    Machine(
        "netduinoplus2", CORTEX_M4, "netduinoplus2", "stm32f405",
        Memory(0x08000000, 1 * _MB), Memory(0x20000000, 128 * _KB),
    ),
    Machine(
        "stm32vldiscovery", CORTEX_M3, "stm32vldiscovery", "stm32vldiscovery",
        Memory(0x08000000, 128 * _KB), Memory(0x20000000, 8 * _KB),
    ),
    Machine(
        "riscv32-virt", RV32IMC, "virt", "riscv32-virt",
        Memory(0x80000000, 16 * _MB), Memory(0x81000000, 16 * _MB),
    ),
)  # fmt: skip
"""Every machine; the code of the RISC-V one is in its RAM, as it has no flash of a known size."""

BY_NAME = {machine.name: machine for machine in MACHINES}
