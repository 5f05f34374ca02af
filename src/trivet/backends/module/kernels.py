"""The kernels of a module: a header that its model includes, and one source file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from trivet.backends.module.amalgamate import Amalgamation, Library, kernel_library
from trivet.backends.module.header import KERNELS_VERSION
from trivet.backends.module.names import namespaced
from trivet.backends.module.options import ModuleOptions
from trivet.backends.plan.kernels.table import all_kernels
from trivet.core.version import __version__

ROWS = ("trivet_rows", "trivet_border")
"""Types of the callbacks for rows."""

_library = cache(kernel_library)


def kernel_files(
    kernels: Sequence[str], options: ModuleOptions, features: Mapping[str, int], has_rows: bool = False
) -> dict[str, str]:
    """`<prefix>_kernels.h` and `<prefix>_kernels.c` with everything that `kernels` need.

    `features` are macros that leave out what the network does not need. `has_rows`: the public header defines what the
    caller's side of rows is.
    """
    taken = take(_library(), kernels, ROWS if has_rows else ())
    prototypes = "\n".join(
        f"trivet_status trivet_{name}_run(const trivet_call *call, uint32_t row, uint32_t rows);" for name in kernels
    )
    header = f"""
/* What layers and kernels agree on, from Trivet {__version__}. Apache-2.0. */
#ifndef TRIVET_KERNELS_H
#define TRIVET_KERNELS_H

#include "PREFIX.h"

{chr(10).join(f"#include {name}" for name in ("<math.h>", *taken.system) if name != "<math.h>" or _needs_math(taken))}

#ifdef __cplusplus
extern "C" {{
#endif

#define TRIVET_KERNELS_INTERFACE {KERNELS_VERSION}

{taken.interface}

{prototypes}

extern const uint32_t trivet_constants[];

#ifdef __cplusplus
}}
#endif

#endif
"""
    used = {name: value for name, value in features.items() if f"TRIVET_{name}" in taken.implementation}
    defines = "".join(f"#define TRIVET_{name} {value}u\n" for name, value in used.items())
    source = f"""
/* Kernels, from Trivet {__version__}: of its runtime what this module needs. Apache-2.0. */
#include "PREFIX_kernels.h"

{defines}
{taken.implementation}
"""
    p = options.prefix
    return {
        f"{p}_kernels.h": namespaced(header.lstrip("\n"), p).replace("PREFIX", p),
        f"{p}_kernels.c": namespaced(source.lstrip("\n"), p).replace("PREFIX", p),
    }


def take(library: Library, kernels: Sequence[str], without: Sequence[str] = ()) -> Amalgamation:
    """What the kernels, and the layers that call them, need."""
    runs = [f"trivet_{name}_run" for name in kernels]
    return library.take([*runs, *_records(kernels), "trivet_call", "trivet_view"], without)


def rows_definition(prefix: str) -> str:
    """The types of the caller's side of rows that come in or go out one by one."""
    return namespaced("\n\n".join(_library().definition(name) for name in ROWS), prefix)


def _records(kernels: Sequence[str]) -> list[str]:
    by_name = {kernel.name: kernel for kernel in all_kernels()}
    return [f"trivet_{by_name[name].params.name}_record" for name in kernels]


def _needs_math(taken: Amalgamation) -> bool:
    return "<math.h>" in taken.system or "HUGE_VALF" in taken.interface
