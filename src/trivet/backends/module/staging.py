"""Constants that are copied from flash to a memory once, before the first run, by a hook that can be replaced."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.backends.module.options import ModuleOptions, Style
from trivet.backends.plan.reader import PlanInfo


def is_staged(plan: PlanInfo, options: ModuleOptions) -> bool:
    """True iff the module's own code copies them; a plan as data is bound by the runtime, which does."""
    return plan.warm_region is not None and options.style is Style.CODE


def macro(upper: str) -> list[str]:
    """The hook, for the public header."""
    return [
        "/* Copies the constants to their memory, once after init and binding: define it to a function of yours, which",
        " * returns when everything is there (DMA, or memory beyond a bus that memcpy does not reach). */",
        f"#ifndef {upper}_COPY",
        "#include <string.h>",
        f"#define {upper}_COPY(to, from, bytes) memcpy((to), (from), (bytes))",
        "#endif",
        "",
    ]


def copy(plan: PlanInfo, options: ModuleOptions) -> Iterator[str]:
    """Statements of a reset."""
    if plan.warm_region is None:
        return
    upper, p = options.prefix.upper(), options.prefix
    yield "    if (context->staged == 0) {"
    yield f"        {upper}_COPY(context->memory[{plan.warm_region}], {p}_constants, {len(plan.constants)}u);"
    yield "        context->staged = 1;"
    yield "    }"


def unset(plan: PlanInfo) -> str:
    """The statement of init and of binding memory."""
    return "" if plan.warm_region is None else "    context->staged = 0;\n"


def check(plan: PlanInfo, options: ModuleOptions) -> str:
    """Statements of a run: memory that was bound needs a reset."""
    if plan.warm_region is None:
        return ""
    error = f"{options.prefix.upper()}_ERR_NOT_INITIALIZED"
    return f"    if (context->staged == 0) {{\n        return {error};\n    }}\n"
