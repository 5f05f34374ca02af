"""From a plan file to the C files of a module."""

from __future__ import annotations

from trivet.backends.module import plan_style
from trivet.backends.module.constants import constant_files
from trivet.backends.module.header import public_header
from trivet.backends.module.kernels import kernel_files, rows_definition
from trivet.backends.module.model import ModelSource
from trivet.backends.module.options import ModuleOptions, Style
from trivet.backends.plan.reader import read
from trivet.errors import Unsupported


def sources(plan: bytes, options: ModuleOptions, name: str) -> dict[str, bytes]:
    """C files by name: the public header, the model, what runs it, and constants. `name` is the model's, for people."""
    info, p = read(plan), options.prefix
    has_rows = info.has_rows
    if has_rows and options.style is Style.PLAN:
        raise Unsupported(
            "a module that holds its plan as data takes whole inputs and outputs",
            where=name,
            hint="use --style code, or leave out --input-rows and --output-rows",
        )
    texts = {f"{p}.h": public_header(info, options, name, rows_definition(p) if has_rows else "")}
    if options.style is Style.PLAN:
        texts |= {f"{p}.c": plan_style.model_source(info, options, name), **plan_style.runtime_files(options)}
        constants = plan
    else:
        model = ModelSource(info, options, name)
        texts |= {f"{p}.c": model.text(), **kernel_files(model.kernels, options, model.features, has_rows)}
        constants = info.constants
    return {**{file: text.encode() for file, text in texts.items()}, **constant_files(constants, options)}
