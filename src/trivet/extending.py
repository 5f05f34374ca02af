"""What other installed packages add: rewrites of model files, operators, kernels, passes, targets.

A package names a function in its entry points, group `trivet.extensions`; it is called once, before anything is looked
up, with an `Extension` to fill. After that nothing can be added: a compilation sees the same all along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trivet.backends.ckernels import Call
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.table import Kernel
from trivet.core.late import late
from trivet.core.record import dataclass
from trivet.errors import ExtensionFault
from trivet.frontends import options as frontends
from trivet.ir.op import Op
from trivet.ops import OP_BY_NAME
from trivet.passes import catalog
from trivet.passes.base import Pass

if TYPE_CHECKING:
    from importlib import metadata

    from trivet import targets
else:
    metadata, targets = late("importlib.metadata"), late("trivet.targets")

GROUP = "trivet.extensions"
_METADATA = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A package that added something."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Extension:
    """What a package adds. Names that exist already are refused, so that no package changes what another means."""

    def __init__(self) -> None:
        self._open = True

    def rewrite(self, function: frontends.Rewrite) -> frontends.Rewrite:
        """Change a model's file before it is parsed: `function(path, data) -> data`, in order of loading."""
        self._check_open()
        frontends.REWRITES.append(function)
        return function

    def operator(self, op: type[Op]) -> type[Op]:
        """A new operator; `op.name` must be new."""
        self._add("operator", op.name, OP_BY_NAME, op)
        return op

    def tflite(self, kind: str) -> Callable[[Any], Any]:
        """Decorator: what converts a TFLite operator, such as `CUSTOM:Name`, that Trivet does not know."""
        return lambda converter: self._add("converter of TFLite's", kind, frontends.ADDED_TFLITE, converter)

    def onnx(self, kind: str, domain: str) -> Callable[[Any], Any]:
        """Decorator: what converts an operator of an ONNX domain of one's own."""
        key = (domain, kind)
        return lambda converter: self._add("converter of ONNX's", key, frontends.ADDED_ONNX, converter)

    def kernel(
        self, *ops: type[Op], fallback: bool = False, requires: Collection[str] = ()
    ) -> Callable[[Kernel[Call]], Kernel[Call]]:
        """Decorator: a candidate for operators, new or known, asked before Trivet's own; a fallback after them."""
        self._check_open()
        return KERNELS.kernel(*ops, fallback=fallback, requires=requires)

    def graph_pass(self, pass_: Pass, after: str) -> Pass:
        """A pass that runs after the last run of another, outside of what is repeated there."""
        self._check_open()
        if pass_.name in catalog.all_passes():
            raise ExtensionFault(f"there is a pass '{pass_.name}' already")
        if after not in catalog.all_passes():
            raise ExtensionFault(f"pass '{pass_.name}' is to run after '{after}', which there is not")
        catalog.ADDED.append((pass_, after))
        return pass_

    def target(self, path: Path) -> None:
        """A file that describes a board or core; its stem is the target's name."""
        if path.stem in targets.target_names():
            raise ExtensionFault(f"there is a target '{path.stem}' already")
        self._add("target", path.stem, targets.ADDED, path)

    def close(self) -> None:
        """Nothing more is taken."""
        self._open = False

    def _add(self, what: str, key: Any, table: dict[Any, Any], value: Any) -> Any:
        self._check_open()
        if key in table:
            raise ExtensionFault(f"{what} '{key}' is there already")
        table[key] = value
        return value

    def _check_open(self) -> None:
        if not self._open:
            raise ExtensionFault("extensions add what they have when they are loaded, not later")


_loaded: list[Loaded] | None = None


def load_extensions() -> tuple[Loaded, ...]:
    """Call every registered function, once in the life of the process.

    Raises: ExtensionFault for a package that cannot be loaded.
    """
    global _loaded
    if _loaded is None:
        _loaded = []
        if any(map(_registers, sys.path)):
            _loaded += map(_load, _sorted(metadata.entry_points(group=GROUP)))
    return tuple(_loaded)


def _registers(folder: str) -> bool:
    """True iff a package in a folder of the search path names extensions. Importing what asks properly takes long."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            names = [entry.path for entry in entries if entry.name.endswith(_METADATA)]
    except OSError:
        return False
    return any(_names_group(os.path.join(name, "entry_points.txt")) for name in names)  # noqa: PTH118


def _names_group(file: str) -> bool:
    try:
        with open(file, "rb") as stream:  # noqa: PTH123
            return f"[{GROUP}]".encode() in stream.read()
    except OSError:
        return False


def _sorted(entries: Iterable[metadata.EntryPoint]) -> list[metadata.EntryPoint]:
    return sorted(entries, key=lambda entry: (entry.name, entry.value))


def _load(entry: metadata.EntryPoint) -> Loaded:
    extension = Extension()
    try:
        entry.load()(extension)
    except Exception as error:  # another package's code, which may raise anything: the user is told which package
        raise ExtensionFault(
            f"extension '{entry.name}' ({entry.value}) cannot be loaded: {type(error).__name__}: {error}",
            hint="update the package that brings it, or uninstall it",
        ) from error
    finally:
        extension.close()
    return Loaded(entry.dist.name, entry.dist.version) if entry.dist is not None else Loaded(entry.name, "")
