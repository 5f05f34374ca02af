"""What a device runs, as C sources: a plan with the runtime that it needs, or a module."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from trivet.artifact import model_port
from trivet.backends.module.amalgamate import INTERFACE, RUNTIME
from trivet.backends.module.host import damaged, read_port, unpack
from trivet.backends.module.plan_style import runtime_library
from trivet.backends.plan.cheaders import kernel_row
from trivet.backends.plan.kernels.table import all_kernels
from trivet.backends.plan.reader import PlanInfo, read
from trivet.core.record import dataclass
from trivet.ir.graph import Port

DATA = Path(__file__).parent / "data"
GUARD_BYTES = 64
"""Behind each memory, so that a network which uses more than it says is noticed."""

_RUNTIME_ROOTS = (
    "open", "bind", "reset", "run", "input", "output", "observe", "set_border", "status_text", "find_kernel",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """An input or output: as the model declares it, and whether its rows come or go one by one."""

    port: Port
    by_rows: bool

    @property
    def size_bytes(self) -> int:
        return self.port.type.size_bytes


@dataclass(frozen=True, slots=True)
class NetworkMemory:
    """A memory that a network works in."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, and the kernel that computes it."""

    name: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Network:
    """Files to be written beside the program, sources to be compiled as they are, and what to expect of the network.

    `layers` are those that can be told apart when it runs, `main` names the main program. `constant_bytes` of the
    section `.weights` are weights and tables, the others describe the network.
    """

    kind: str
    files: Mapping[str, bytes]
    sources: Sequence[Path]
    include: Sequence[Path]
    defines: Sequence[str]
    inputs: Sequence[NetworkPort]
    outputs: Sequence[NetworkPort]
    memories: Sequence[NetworkMemory]
    layers: Sequence[Layer]
    constant_bytes: int
    main: str = "device_main.c"


def plan_network(data: bytes) -> Network:
    """A plan, with the parts of the runtime that it needs.

    Raises: InvalidModel.
    """
    plan = read(data)
    kernels = sorted({step.kernel for step in plan.steps})
    inputs = [NetworkPort(model_port(port), port.by_rows) for port in plan.inputs]
    outputs = [NetworkPort(model_port(port), port.by_rows) for port in plan.outputs]
    memories = [NetworkMemory(region.name, region.size_bytes) for region in plan.regions]
    own = "".join(owned(index, memory.size_bytes) for index, memory in enumerate(memories))
    files = {
        "device_network.h": _plan_header(data, plan),
        "device_network.c": description(inputs, outputs, len(memories), len(plan.steps)) + own,
        "kernel_table.c": kernel_table(kernels),
        "device_weights.S": _PLAN_DATA,
        "device_plan.c": (DATA / "device_plan.c").read_text(encoding="utf-8"),
    }
    return Network(
        kind="plan",
        files={name: text.encode() for name, text in files.items()} | {"plan.tgrs": data},
        sources=runtime_sources(tuple(kernels)),
        include=(INTERFACE,),
        defines=(),
        inputs=inputs,
        outputs=outputs,
        memories=memories,
        layers=[Layer(step.name, step.kernel) for step in plan.steps],
        constant_bytes=len(plan.constants),
    )


@cache
def runtime_sources(kernels: tuple[str, ...]) -> tuple[Path, ...]:
    """The sources of the portable runtime with these kernels, without the table of kernels."""
    roots = [f"trivet_{name}" for name in _RUNTIME_ROOTS]
    for kernel in kernels:
        roots += [f"trivet_{kernel}_run", f"trivet_{kernel}_check"]
    return tuple(path for path in runtime_library().files(roots) if path.name != "kernel_table.c")


def kernel_table(kernels: Sequence[str]) -> str:
    """The runtime's table of kernels with no others than these."""
    chosen = [kernel for kernel in all_kernels() if kernel.name in kernels]
    rows = "".join(f" \\\n    {kernel_row(kernel)}" for kernel in chosen)
    table = RUNTIME / "src" / "kernel_table.c"
    return f"""\
#include "trivet/kernels.h"
#undef TRIVET_KERNELS
#define TRIVET_KERNELS(X){rows}

#include "{table.as_posix()}"
"""


def _plan_header(data: bytes, plan: PlanInfo) -> str:
    sizes = ", ".join(f"{region.size_bytes}u" for region in plan.regions)
    return f"""\
#define DEVICE_PLAN_BYTES {len(data)}u
#define DEVICE_REGIONS {len(plan.regions)}u
#define DEVICE_REGION_BYTES {sizes}
"""


_PLAN_DATA = """\
    .section .weights, "a"
    .balign 16
    .global device_plan
device_plan:
    .incbin "plan.tgrs"
"""


def description(inputs: Sequence[NetworkPort], outputs: Sequence[NetworkPort], memories: int, layers: int) -> str:
    """What the main program knows of the network."""
    lines = ['#include "device.h"', ""]
    for kind, ports in (("input", inputs), ("output", outputs)):
        rows = ", ".join(f"{{{port.size_bytes}u, {int(port.by_rows)}u}}" for port in ports) or "{0u, 0u}"
        lines.append(f"const uint32_t network_{kind}s = {len(ports)}u;")
        lines.append(f"const network_port network_{kind}_ports[] = {{{rows}}};")
    places = [f"device_memory_{index}" for index in range(memories)]
    lines += [f"extern uint8_t {place}_start[], {place}_end[];" for place in places]
    lines.append(f"const uint32_t network_memories = {memories}u;")
    rows = ", ".join(f"{{{place}_start, {place}_end}}" for place in places)
    lines.append(f"const network_memory network_memory_map[] = {{{rows}}};")
    lines.append(f"const uint32_t network_layers = {layers}u;")
    return "\n".join(lines) + "\n"


def owned(index: int, size_bytes: int) -> str:
    """A memory that the program has for the network."""
    section = f'__attribute__((aligned(16), used, section("{memory_section(index)}")))'
    return f"extern uint8_t device_memory_{index}[];\n{section} uint8_t device_memory_{index}[{max(size_bytes, 1)}];\n"


def memory_section(index: int) -> str:
    """The section of the objects that a memory is in."""
    return f".bss.device_memory_{index}"


def module_network(path: Path) -> Network:
    """A C module in a folder or an archive.

    Raises: InvalidModel.
    """
    with tempfile.TemporaryDirectory(prefix="trivet-module-") as directory:
        folder = Path(directory)
        unpack(path, folder)
        try:
            return _module(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise damaged(path) from None


def _module(folder: Path) -> Network:
    record = json.loads((folder / "plan.json").read_bytes())
    prefix, regions = str(record["prefix"]), record["regions"]
    ports = {
        kind: [NetworkPort(read_port(port), bool(port["by_rows"])) for port in record[kind]]
        for kind in ("inputs", "outputs")
    }
    has_callback = record["schedule"] == "table" and record["style"] == "code"
    layers = [Layer(layer["name"], layer["kernel"]) for layer in record["layers"]] if has_callback else []
    is_callers = record["memory"] == "caller"
    files = {f.name: f.read_bytes() for name in ("src", "include") for f in (folder / name).glob("*.[chSb]*")}
    own = "".join(owned(i, region["bytes"]) for i, region in enumerate(regions)) if is_callers else ""
    described = description(ports["inputs"], ports["outputs"], len(regions), len(layers))
    files["device_network.c"] = (described + own).encode()
    files["device_module.c"] = module_functions(prefix, len(regions), is_callers, has_callback, ports).encode()
    macros = [
        f'-D{prefix.upper()}_{region["name"].upper()}_SECTION=__attribute__((section("{memory_section(index)}")))'
        for index, region in enumerate(regions)
    ]
    return Network(
        kind="module",
        files=files,
        sources=(),
        include=(),
        defines=[] if is_callers else macros,
        inputs=ports["inputs"],
        outputs=ports["outputs"],
        memories=[NetworkMemory(region["name"], region["bytes"]) for region in regions],
        layers=layers,
        constant_bytes=0,
    )


def module_functions(
    prefix: str, regions: int, owned: bool, has_callback: bool, ports: Mapping[str, Sequence[NetworkPort]]
) -> str:
    """The functions of `device.h` for a module."""
    p, upper = prefix, prefix.upper()
    has_rows = any(port.by_rows for side in ports.values() for port in side)
    bind = "".join(
        f"    status = status != 0 ? status : (int){p}_bind_region(&context, {i}, network_memory_map[{i}].start,\n"
        f"        (size_t)(network_memory_map[{i}].end - network_memory_map[{i}].start));\n"
        for i in range(regions if owned else 0)
    )
    bind += f"    status = status != 0 ? status : (int){p}_reset(&context);\n" if owned else ""
    rows = ""
    if has_rows:
        rows = _MODULE_ROWS.format(p=p, upper=upper)
        bind += f"    status = status != 0 ? status : (int){p}_set_border(&context, &border);\n"
    observe = _MODULE_CALLBACK.format(p=p, upper=upper) if has_callback else _MODULE_SILENT
    return _MODULE.format(p=p, bind=bind, rows=rows, observe=observe)


_MODULE = """\
#include <string.h>

#include "device.h"
#include "{p}.h"

static {p}_context context;
{rows}
void network_forget(uint8_t value) {{
    memset(&context, value, sizeof context);
}}

int network_load(void) {{
    return 0;
}}

int network_init(void) {{
    int status = (int){p}_init(&context);
{bind}    return status;
}}

int network_reset(void) {{
    return (int){p}_reset(&context);
}}

int network_run(void) {{
    return (int){p}_run(&context);
}}

{observe}
void *network_input(uint32_t index) {{
    return {p}_input(&context, index);
}}

const void *network_output(uint32_t index) {{
    return {p}_output(&context, index);
}}

const char *network_status_text(int status) {{
    return {p}_status_text(({p}_status)status);
}}
"""

_MODULE_ROWS = """
static {p}_status receive(void *user, const {p}_rows *rows, uint8_t *data) {{
    (void)user;
    device_receive(rows->port, rows->row, rows->rows, rows->bytes, data);
    return {upper}_OK;
}}

static {p}_status send(void *user, const {p}_rows *rows, const uint8_t *data) {{
    (void)user;
    device_send(rows->port, rows->row, rows->rows, rows->bytes, data);
    return {upper}_OK;
}}

static const {p}_border border = {{receive, send, NULL}};
"""

_MODULE_CALLBACK = """\
static {p}_status mark(void *user, uint32_t layer, uint32_t phase, uint32_t row, uint32_t rows) {{
    (void)user;
    (void)row;
    (void)rows;
    device_mark(2 * (PHASES + layer) + phase);
    return {upper}_OK;
}}

void network_observe(uint32_t on) {{
    (void){p}_set_callback(&context, on != 0 ? mark : NULL, NULL);
}}
"""

_MODULE_SILENT = """\
void network_observe(uint32_t on) {
    (void)on;
}
"""
