"""A module as a folder or an archive: the same bytes for the same input, wherever and whenever it is made."""

from __future__ import annotations

import io
import os
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from trivet.backends.module import harness, records
from trivet.backends.module.emit import sources
from trivet.backends.module.glue import EXPORTS, Contents
from trivet.backends.module.options import ModuleOptions
from trivet.backends.plan.reader import PlanInfo, read
from trivet.backends.plan.selection import Selection
from trivet.core.record import dataclass
from trivet.planning.plan import ExecutionPlan

_LICENSE = Path(__file__).parent / "data" / "LICENSE"
_EARLIEST = 315532800
"""1980-01-01, the first day of a ZIP archive, in seconds from 1970."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a module is made of: a planned network, its kernels, its plan as a file, its name, and how it was made."""

    plan: ExecutionPlan
    selection: Selection
    data: bytes
    name: str
    options: ModuleOptions
    model_sha256: Mapping[str, str]
    configuration: Mapping[str, object]
    samples: Sequence[harness.Sample] = ()


def module_files(request: Request) -> dict[str, bytes]:
    """Every file of a module by its path."""
    options, info = request.options, read(request.data)
    p = options.prefix
    files: dict[str, bytes] = {}
    for name, text in sources(request.data, options, request.name).items():
        # The Arduino IDE looks for headers where the sources are.
        is_public = name == f"{p}.h" and options.export != "arduino"
        files[f"{'include' if is_public else 'src'}/{name}"] = text
    test = f"test/{p}_test.c" if request.samples else None
    if test is not None:
        files[test] = harness.test_program(info, options, request.samples).encode()
    compiled = tuple(path for path in files if path.endswith((".c", ".S")) and path.startswith("src/"))
    contents = Contents(p, request.name, compiled, test)
    files |= {path: text.encode() for path, text in EXPORTS[options.export](contents).items()}
    files = {path: data.replace(b"{DATE}", _date()) for path, data in files.items()}
    files["LICENSE"] = _LICENSE.read_bytes()
    files["plan.json"] = records.plan_record(info, request.plan, request.selection, options, request.name)
    files["residency.json"] = records.residency_record(request.plan, info, request.data)
    files["build-record.json"] = records.build_record(request.model_sha256, request.configuration)
    files["README.md"] = _readme(request, info, files).encode()
    return dict(sorted(files.items()))


def archive(files: Mapping[str, bytes]) -> bytes:
    """A ZIP archive of a module's files."""
    buffer = io.BytesIO()
    stamp = time.gmtime(_epoch())[:6]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            made.writestr(entry, data)
    return buffer.getvalue()


def _epoch() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    return max(_EARLIEST, int(text)) if text.isdigit() else _EARLIEST


def _date() -> bytes:
    return time.strftime("%Y-%m-%d", time.gmtime(_epoch())).encode()


def _readme(request: Request, info: PlanInfo, files: Mapping[str, bytes]) -> str:
    p = request.options.prefix
    ports = [
        f"| {kind} {i} | `{port.name}` | {port.tensor.dtype.name} | {' x '.join(map(str, port.tensor.shape))} | "
        f"{port.tensor.size_bytes:,} | {port.scale:.9g} | {port.zero_point} |"
        for kind, section in (("input", info.inputs), ("output", info.outputs))
        for i, port in enumerate(section)
    ]
    memory = [f"| {r.name} | {r.size_bytes:,} | {r.alignment} |" for r in info.regions]
    listed = "\n".join(f"- `{path}`" for path in sorted([*files, "README.md"]))
    test = " && ctest --test-dir build" if request.samples else ""
    run = f"\nThe folder builds alone: `cmake -B build . && cmake --build build{test}`.\n"
    return f"""\
# {request.name}

A neural network as C99, made by Trivet. It needs a C compiler and nothing else. Every name that it defines begins with
`{p}_` or `{p.upper()}_`.

## Use

1. Add the sources in `src` to your build, `include` and `src` to its include directories, and `-ffp-contract=off` to
   the flags of GCC and Clang if the network computes with floats.
2. Include `{p}.h`: its first lines show how the network is run.
{run if request.options.export == "cmake" else ""}
| port | name | type | shape | bytes | scale | zero point |
|---|---|---|---|---|---|---|
{chr(10).join(ports)}

real = scale * (stored - zero point). Images are channels last.

## Memory

| region | bytes | alignment |
|---|---|---|
{chr(10).join(memory)}

Constants in flash: {len(info.constants):,} bytes, not counting {len(info.steps)} layers' parameters and code. The
linker's option `--gc-sections` drops what your program does not call. `residency.json` has every buffer; its hashes
tell whether the memory map changed, and say nothing about content or correctness.

## Files

{listed}
"""
