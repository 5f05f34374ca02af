"""A module that holds its plan as data, with the runtime that reads it: plans may be replaced in the field."""

from __future__ import annotations

import re
from functools import cache

from trivet.backends.module.amalgamate import RUNTIME, Library
from trivet.backends.module.header import RUNTIME_WORDS, STATUSES, c_string, port_initializer
from trivet.backends.module.names import namespaced
from trivet.backends.module.options import Memory, ModuleOptions
from trivet.backends.plan.kernels.table import all_kernels
from trivet.backends.plan.reader import PlanInfo
from trivet.core.version import __version__

_API = (
    "open",
    "bind",
    "reset",
    "run",
    "region_count",
    "region_bytes",
    "region_alignment",
    "input_count",
    "output_count",
)
_PORTS = ("input", "output", "find_kernel", "status_text", "model")
_DETAILS = {
    "ERR_VALUE": "ERR_VALUE", "ERR_RANGE": "ERR_RANGE", "ERR_STOPPED": "ERR_STOPPED", "ERR_MEMORY": "ERR_TOO_SMALL",
    "ERR_ALIGNMENT": "ERR_MISALIGNED", "ERR_UNBOUND": "ERR_UNBOUND", "ERR_ARGUMENT": "ERR_NULL",
}  # fmt: skip
"""Statuses of the runtime that a module tells apart."""


@cache
def runtime_library() -> Library:
    """The whole portable runtime."""
    files = sorted(p for p in (RUNTIME / "src").glob("**/*.c") if "host" not in p.parts and "_avx" not in p.name)
    return Library(files, statuses=True)


def runtime_files(options: ModuleOptions) -> dict[str, str]:
    """`<prefix>_runtime.h` and `<prefix>_runtime.c`: loader, executor and every kernel, under `<prefix>_rt_`."""
    p = options.prefix
    roots = [f"trivet_{name}" for name in (*_API, *_PORTS)]
    for kernel in all_kernels():
        roots += [f"trivet_{kernel.name}_run", f"trivet_{kernel.name}_check", f"trivet_{kernel.params.name}_record"]
    taken = runtime_library().take(roots)
    includes = "\n".join(f"#include {name}" for name in taken.system)
    header = f"""\
/* What reads and runs plans, from Trivet {__version__}. Apache-2.0. */
#ifndef TRIVET_RUNTIME_H
#define TRIVET_RUNTIME_H

{includes}

#ifdef __cplusplus
extern "C" {{
#endif

{taken.interface}

#ifdef __cplusplus
}}
#endif

#endif
"""
    head = f'/* The runtime, from Trivet {__version__}. Apache-2.0. */\n#include "PREFIX_runtime.h"\n'
    source = f"{head}\n{taken.implementation}\n"
    return {
        f"{p}_runtime.h": namespaced(header, f"{p}_rt").replace("PREFIX", p),
        f"{p}_runtime.c": namespaced(source, f"{p}_rt").replace("PREFIX", p),
    }


def model_source(plan: PlanInfo, options: ModuleOptions, name: str) -> str:
    """`<prefix>.c`: the public functions on top of the runtime."""
    p, upper = options.prefix, options.prefix.upper()
    parts = [_head(plan, options, name), _statuses(), _life(plan, options), _SET_PLAN]
    parts += [_access("input", "", plan), _access("output", "const ", plan), _status_text()]
    text = re.sub(r"\bRT_(?=[a-z])", f"{p}_rt_", "\n\n".join(part.strip("\n") for part in parts) + "\n")
    return re.sub(r"\bU_(?=[A-Z])", f"{upper}_", re.sub(r"\bP_(?=[a-z])", f"{p}_", text))


def _head(plan: PlanInfo, options: ModuleOptions, name: str) -> str:
    p = options.prefix
    return f"""\
/* {name}: a plan and the functions that run it, made by Trivet {__version__}. Apache-2.0. */
#include "{p}.h"

#include "{p}_runtime.h"

extern const uint32_t {p}_constants[];

#define READY 0x54475253u
#define RUNTIME(context) ((RT_model *)(void *)(context)->runtime)

typedef char context_holds_the_runtime[sizeof(RT_model) <= {RUNTIME_WORDS} * sizeof(uintptr_t) ? 1 : -1];

{_ports(plan, options)}
{_memory(plan, options)}
"""


def _statuses() -> str:
    cases = "\n".join(f"    case U_RT_{ours}: return U_{theirs};" for ours, theirs in _DETAILS.items())
    return f"""
static P_status status_of(RT_status status) {{
    if (status == U_RT_OK) {{
        return U_OK;
    }}
    switch ((int)status) {{
{cases}
    default: return U_ERR_PLAN;
    }}
}}

static P_status check(const P_context *context) {{
    if (context == NULL) {{
        return U_ERR_NULL;
    }}
    return context->state == READY ? U_OK : U_ERR_NOT_INITIALIZED;
}}
"""


def _life(plan: PlanInfo, options: ModuleOptions) -> str:
    return f"""
/* Binds the memory once all of it is known. */
static P_status bind(P_context *context) {{
    RT_memory memories[U_REGIONS];
    static const uint32_t sizes[] = {{{", ".join(f"{r.size_bytes}u" for r in plan.regions)}}};
    for (uint32_t i = 0; i < U_REGIONS; i++) {{
        if (context->memory[i] == NULL) {{
            return U_ERR_UNBOUND;
        }}
        memories[i].data = context->memory[i];
        memories[i].bytes = sizes[i];
    }}
    return status_of(RT_bind(RUNTIME(context), memories, U_REGIONS));
}}

static P_status open_own(P_context *context) {{
    return status_of(RT_open(RUNTIME(context), P_constants, {plan.size_bytes}u));
}}

P_status P_init(P_context *context) {{
    if (context == NULL) {{
        return U_ERR_NULL;
    }}
{_places(plan, options)}    context->state = READY;
    const P_status status = open_own(context);
    return {"status != U_OK ? status : bind(context)" if options.memory is Memory.STATIC else "status"};
}}
{_bind_region(plan) if options.memory is Memory.CALLER else ""}
P_status P_reset(P_context *context) {{
    const P_status status = check(context);
    return status != U_OK ? status : bind(context);
}}

P_status P_run(P_context *context) {{
    const P_status status = check(context);
    return status != U_OK ? status : status_of(RT_run(RUNTIME(context)));
}}
"""


_SET_PLAN = """
P_status P_set_plan(P_context *context, const void *plan, size_t bytes) {
    P_status status = check(context);
    if (status != U_OK) {
        return status;
    }
    status = status_of(RT_open(RUNTIME(context), plan, bytes));
    const RT_model *model = RUNTIME(context);
    if (status == U_OK && (RT_region_count(model) != U_REGIONS || RT_input_count(model) != U_INPUTS ||
                           RT_output_count(model) != U_OUTPUTS)) {
        status = U_ERR_PLAN;
    }
    status = status != U_OK ? status : bind(context);
    if (status != U_OK) {
        (void)open_own(context);
        (void)bind(context);
    }
    return status;
}
"""


def _status_text() -> str:
    texts = "\n".join(f"    case U_{code}: return {c_string(text)};" for code, text in STATUSES)
    return f"""
const char *P_status_text(P_status status) {{
    switch (status) {{
{texts}
    }}
    return "unknown status";
}}
"""


def _ports(plan: PlanInfo, options: ModuleOptions) -> str:
    lines = []
    for kind, ports in (("input", plan.inputs), ("output", plan.outputs)):
        if ports:
            lines.append(f"static const P_port {kind}_ports[] = {{")
            lines += [f"    {port_initializer(port, options)}," for port in ports]
            lines.append("};")
    return "\n".join(lines)


def _memory(plan: PlanInfo, options: ModuleOptions) -> str:
    if options.memory is Memory.CALLER:
        return ""
    upper = options.prefix.upper()
    lines = []
    for index, region in enumerate(plan.regions):
        section = f"{upper}_{region.name.upper()}_SECTION"
        lines += [f"#ifndef {section}", f"#define {section}", "#endif"]
        lines.append(
            f"static union {{\n    uint8_t bytes[{region.size_bytes + region.alignment}];\n    uint64_t alignment;\n"
            f"}} memory_{index} {section};"
        )
    return "\n".join(lines)


def _places(plan: PlanInfo, options: ModuleOptions) -> str:
    lines = []
    for index, region in enumerate(plan.regions):
        memory = f"memory_{index}.bytes"
        place = f"{memory} + (0u - (uintptr_t){memory}) % {region.alignment}u"
        lines.append(f"    context->memory[{index}] = {place if options.memory is Memory.STATIC else 'NULL'};\n")
    return "".join(lines)


def _bind_region(plan: PlanInfo) -> str:
    sizes = ", ".join(f"{r.size_bytes}u" for r in plan.regions)
    alignments = ", ".join(f"{r.alignment}u" for r in plan.regions)
    return f"""
P_status P_bind_region(P_context *context, uint32_t region, void *memory, size_t bytes) {{
    static const uint32_t sizes[] = {{{sizes}}};
    static const uint32_t alignments[] = {{{alignments}}};
    if (memory == NULL || check(context) != U_OK) {{
        return memory == NULL ? U_ERR_NULL : check(context);
    }}
    if (region >= U_REGIONS) {{
        return U_ERR_INDEX;
    }}
    if (bytes < sizes[region]) {{
        return U_ERR_TOO_SMALL;
    }}
    if ((uintptr_t)memory % alignments[region] != 0) {{
        return U_ERR_MISALIGNED;
    }}
    context->memory[region] = (uint8_t *)memory;
    return U_OK;
}}
"""


def _access(kind: str, const: str, plan: PlanInfo) -> str:
    known = f"index < U_{kind.upper()}S ? &{kind}_ports[index] : NULL"
    unknown = "(index == 0 ? NULL : NULL)"
    has_ports = bool(plan.inputs if kind == "input" else plan.outputs)
    return f"""\
{const}void *P_{kind}({const}P_context *context, uint32_t index) {{
    RT_port port;
    if (check(context) != U_OK || RT_{kind}((RT_model *)(uintptr_t)context->runtime, index, &port) != U_RT_OK) {{
        return NULL;
    }}
    return port.data;
}}

const P_port *P_{kind}_port(uint32_t index) {{
    return {known if has_ports else unknown};
}}"""
