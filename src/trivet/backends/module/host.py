"""Runs a module on this machine: built with the C compiler at hand in a temporary place, and loaded."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from trivet.core.dtype import by_name
from trivet.errors import CompileError, InvalidModel, Unsupported
from trivet.ir.graph import Port
from trivet.ir.op import Array
from trivet.ir.types import TensorType

_SHIM = """\
#include <stddef.h>
#include <string.h>
#include "{p}.h"
static {p}_context context;
{memory}{border}
int module_init(void) {{
    int status = (int){p}_init(&context);
{bind}    return status;
}}
int module_reset(void) {{ return (int){p}_reset(&context); }}
int module_run(void) {{ return (int){p}_run(&context); }}
void *module_input(uint32_t index) {{ return {p}_input(&context, index); }}
const void *module_output(uint32_t index) {{ return {p}_output(&context, index); }}
{rows}const char *module_status_text(int status) {{ return {p}_status_text(({p}_status)status); }}
"""

_BORDER = "static int module_set_border(void);\n"
_ROWS = """\
uint8_t *module_rows[2][64]; /* whole inputs and outputs, of which rows are given and taken */
static {p}_status receive(void *user, const {p}_rows *rows, uint8_t *data) {{
    (void)user;
    memcpy(data, module_rows[0][rows->port] + rows->row * (rows->bytes / rows->rows), rows->bytes);
    return {upper}_OK;
}}
static {p}_status send(void *user, const {p}_rows *rows, const uint8_t *data) {{
    (void)user;
    memcpy(module_rows[1][rows->port] + rows->row * (rows->bytes / rows->rows), data, rows->bytes);
    return {upper}_OK;
}}
static int module_set_border(void) {{
    const {p}_border border = {{receive, send, NULL}};
    return (int){p}_set_border(&context, &border);
}}
"""


class HostModule:
    """A module in a folder or an archive, built and loaded.

    Raises: InvalidModel where there is none, Unsupported where it cannot be built.
    """

    def __init__(self, path: Path) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="trivet-module-")
        folder = Path(self._directory.name)
        unpack(path, folder)
        try:
            record = json.loads((folder / "plan.json").read_bytes())
            self._input_ports = [read_port(port) for port in record["inputs"]]
            self._output_ports = [read_port(port) for port in record["outputs"]]
            self._by_rows = [[bool(port["by_rows"]) for port in record[kind]] for kind in ("inputs", "outputs")]
            shim = _shim(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise damaged(path) from None
        (folder / "module_shim.c").write_text(shim, encoding="utf-8")
        self._library = ctypes.CDLL(str(_build(folder, path)))
        for name in ("module_input", "module_output"):
            function = getattr(self._library, name)
            function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_uint32]
        self._library.module_status_text.restype = ctypes.c_char_p
        self._microseconds = 0.0
        self._check(self._library.module_init())

    @property
    def input_ports(self) -> Sequence[Port]:
        return self._input_ports

    @property
    def output_ports(self) -> Sequence[Port]:
        return self._output_ports

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs for inputs, in storage order.

        Raises: CompileError with the module's status.
        """
        given = [np.ascontiguousarray(array) for array in inputs]
        made = [np.empty(_stored_shape(port), port.type.dtype.numpy) for port in self._output_ports]
        for index, data in enumerate(given):
            if not self._by_rows[0][index]:
                ctypes.memmove(self._library.module_input(index), data.ctypes.data, data.nbytes)
        for kind, arrays in enumerate((given, made)):
            for index, array in enumerate(arrays):
                if self._by_rows[kind][index]:
                    rows = (ctypes.c_void_p * 64 * 2).in_dll(self._library, "module_rows")
                    rows[kind][index] = array.ctypes.data
        start = time.perf_counter()
        status = self._library.module_run()
        self._microseconds = (time.perf_counter() - start) * 1e6
        self._check(status)
        for index, array in enumerate(made):
            if not self._by_rows[1][index]:
                ctypes.memmove(array.ctypes.data, self._library.module_output(index), array.nbytes)
        return made

    def reset(self) -> None:
        self._check(self._library.module_reset())

    def summary(self) -> str:
        return f"{self._microseconds:.1f} us per inference, with portable kernels"

    def figures(self) -> Mapping[str, object]:
        return {"latency_us": round(self._microseconds, 3)}

    def _check(self, status: int) -> None:
        if status != 0:
            text = self._library.module_status_text(status)
            raise CompileError(f"the module says: {text.decode()}")


def damaged(path: Path) -> InvalidModel:
    """What is said of a folder or an archive whose record cannot be read."""
    return InvalidModel(
        "is no C module of Trivet's: plan.json is absent or damaged",
        where=path,
        hint="make one with `trivet compile MODEL -o DIR`",
    )


def unpack(path: Path, folder: Path) -> None:
    """The files of a module into a folder of our own; entries that would leave it are refused."""
    try:
        if path.is_dir():
            shutil.copytree(path, folder, dirs_exist_ok=True)
            return
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise InvalidModel(f"the archive holds '{name}', which lies outside", where=path)
            archive.extractall(folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidModel(f"cannot read: {error}", where=path) from None


def read_port(record: Mapping[str, object]) -> Port:
    """A port of `plan.json` as the model declares it.

    Raises: ValueError, KeyError, TypeError where the record is damaged.
    """
    shape, perm = record["shape"], record["permutation"]
    assert isinstance(shape, list)
    order = None if not isinstance(perm, list) else tuple(int(axis) for axis in perm)
    stored = tuple(int(extent) for extent in shape)
    model = stored if order is None else tuple(stored[axis] for axis in order)
    dtype = by_name(str(record["dtype"]))
    if dtype is None:
        raise ValueError(f"{record['dtype']} is no element type")
    return Port(str(record["name"]), TensorType(dtype, model), order)


def _stored_shape(port: Port) -> tuple[int, ...]:
    return port.type.shape if port.perm is None else tuple(port.type.shape[axis] for axis in np.argsort(port.perm))


def _shim(record: Mapping[str, object]) -> str:
    """C functions of fixed names around the module's, with memory where the caller owns it."""
    p, regions = str(record["prefix"]), record["regions"]
    memory = bind = ""
    if record["memory"] == "caller":
        assert isinstance(regions, list)
        for index, region in enumerate(regions):
            alignment = region["alignment"]
            memory += f"static uint8_t memory_{index}[{region['bytes'] + alignment}];\n"
            place = f"memory_{index} + (0u - (uintptr_t)memory_{index}) % {alignment}"
            bind += (
                f"    status = status ? status : (int){p}_bind_region(&context, {index}, {place}, {region['bytes']});\n"
            )
        bind += f"    status = status ? status : (int){p}_reset(&context);\n"
    rows = ""
    if any(port["by_rows"] for port in (*_list(record["inputs"]), *_list(record["outputs"]))):
        rows = _ROWS.format(p=p, upper=p.upper())
        bind += "    status = status ? status : module_set_border();\n"
    return _SHIM.format(p=p, memory=memory, bind=bind, rows=rows, border=_BORDER if rows else "")


def _list(value: object) -> list[Mapping[str, object]]:
    assert isinstance(value, list)
    return value


def _build(folder: Path, path: Path) -> Path:
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        raise Unsupported("running a module needs a C compiler", where=path, hint="install gcc or clang, or set CC")
    library = folder / "module.so"
    sources = sorted(str(p) for p in (folder / "src").glob("*.[cS]"))
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    include = [f"-I{folder / 'include'}", f"-I{folder / 'src'}"]
    command = [compiler, *flags, *include, str(folder / "module_shim.c"), *sources, "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = "\n".join(done.stderr.splitlines()[:5])
        raise Unsupported(f"the module does not compile:\n{lines}", where=path)
    return library


__all__ = ["HostModule"]
