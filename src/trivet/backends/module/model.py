"""The C source of a module: parameters, layers, and the schedule that runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trivet.backends.module import observation, staging
from trivet.backends.module.firings import Loop, Schedule, loops, stream_order
from trivet.backends.module.header import KERNELS_VERSION, STATUSES, c_float, c_string, port_initializer
from trivet.backends.module.layers import Layer, Layers, Operand, layers_of
from trivet.backends.module.names import unique_identifiers
from trivet.backends.module.options import Memory, ModuleOptions, ScheduleStyle
from trivet.backends.plan.kernels.table import all_kernels
from trivet.backends.plan.reader import PlanInfo, PortInfo, StepInfo, TensorInfo
from trivet.backends.records import BLOB, Field, FieldValue
from trivet.core.interval import Interval
from trivet.core.version import __version__

LOOP = 0xFFFF
"""Marks a loop in a schedule that is a table."""


class ModelSource:
    """The text of `<prefix>.c` for one plan."""

    def __init__(self, plan: PlanInfo, options: ModuleOptions, name: str) -> None:
        self._plan, self._options, self._name = plan, options, name
        self._p, self._upper = options.prefix, options.prefix.upper()
        self._has_rows = any(port.by_rows for port in (*plan.inputs, *plan.outputs))
        self._layers: Layers = layers_of(plan)
        self._identifiers = unique_identifiers(step.name or step.kernel for step in plan.steps)

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels that it calls."""
        return sorted({step.kernel for step in self._plan.steps})

    @property
    def features(self) -> dict[str, int]:
        """Macros of the kernels: bit i says that the network uses kind i of something."""
        bits = {"rounding": 0, "shift_range": 0}
        for step in self._plan.steps:
            for name in bits:
                kind = step.params.get(name)
                bits[name] |= 1 << kind if isinstance(kind, int) else 0
        found = {"ROUNDINGS": bits["rounding"] or 1, "SHIFT_RANGES": bits["shift_range"] or 1}
        return found | _dsp_features(self._plan.steps)

    def text(self) -> str:
        """The whole file."""
        parts = [
            self._head(),
            self._ports(),
            self._memory(),
            *self._parameters(),
            self._tables(),
            self._fire(),
            *(self._table_schedule() if self._options.schedule is ScheduleStyle.TABLE else self._static_schedule()),
            self._interface(),
        ]
        return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"

    def _head(self) -> str:
        p, upper, warm = self._p, self._upper, self._plan.warm_region
        return f"""
/* {self._name}: layers and schedule, made by Trivet {__version__}. Apache-2.0. */
#include "{p}.h"

#include <stdbool.h>
#include <string.h>

#include "{p}_kernels.h"

#if {upper}_KERNELS_VERSION != {KERNELS_VERSION} || {upper}_KERNELS_INTERFACE != {KERNELS_VERSION}
#error "{p}.c, {p}.h and {p}_kernels.h are of different versions of Trivet"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the constants of this module are little endian"
#endif

#define READY 0x54475253u
#define BORDER {"&context->border" if self._has_rows else "NULL"}
#define CONSTANTS {"((const uint8_t *)" + p + "_constants)" if warm is None else f"context->memory[{warm}]"}"""

    def _ports(self) -> str:
        lines = []
        for kind, ports in (("input", self._plan.inputs), ("output", self._plan.outputs)):
            if ports:
                lines.append(f"static const {self._p}_port {kind}_ports[] = {{")
                lines += [f"    {port_initializer(port, self._options)}," for port in ports]
                lines.append("};")
        return "\n".join(lines)

    def _memory(self) -> str:
        if self._options.memory is Memory.CALLER:
            return ""
        lines = []
        for index, region in enumerate(self._plan.regions):
            section = f"{self._upper}_{region.name.upper()}_SECTION"
            lines += [
                f"#ifndef {section}",
                f"#define {section}",
                "#endif",
                f"static {self._upper}_ALIGNED({region.alignment}) uint8_t "
                f"memory_{index}[{max(region.size_bytes, 1)}] {section};",
            ]
        return "\n".join(lines)

    # Layers.

    def _parameters(self) -> Iterator[str]:
        """One record for every layer; equal ones are one."""
        self._params: list[str] = []
        known: dict[str, str] = {}
        kernels = {kernel.name: kernel for kernel in all_kernels()}
        for identifier, step in zip(self._identifiers, self._plan.steps, strict=True):
            kernel = kernels[step.kernel]
            rows = [
                f"    {_value(field, step.params[field.name])}, /* {field.name} */" for field in kernel.params.fields
            ]
            body = f"{self._p}_{kernel.params.name}_record", "\n".join(rows)
            key = "\n".join(body)
            if key not in known:
                known[key] = f"{identifier}_parameters"
                yield f"static const {body[0]} {identifier}_parameters = {{\n{body[1]}\n}};"
            self._params.append(known[key])

    def _tables(self) -> str:
        operands = [f"    {{{_operand(o)}}}," for o in self._layers.operands]
        indices: list[str] = []
        starts = []
        for layer in self._layers.layers:
            starts.append(len(indices))
            indices += [f"{index}" for index in layer.operands]
        rows = [self._layer_row(i, layer, starts[i]) for i, layer in enumerate(self._layers.layers)]
        most = max(len(layer.operands) for layer in self._layers.layers)
        return f"""
/* Where operands lie: `height` rows, of which `depth` are kept; images are `stride` bytes apart. */
typedef struct operand {{
    uint32_t region, offset, row_bytes, height, depth, stride;
}} operand;

static const operand operands[] = {{
{chr(10).join(operands)}
}};

static const uint16_t operand_indices[] = {{{", ".join(indices)}}};

/* A call of a kernel: its operands and then results in operand_indices; each firing makes `rows` of `height` rows. */
typedef struct layer {{
    {self._p}_status (*run)(const {self._p}_call *call, uint32_t row, uint32_t rows);
    const void *parameters;
    uint16_t first, inputs, outputs;
    uint32_t rows, height;
    uint32_t scratch; /* bytes from the start of region 0 */
}} layer;

static const layer layers[] = {{
{chr(10).join(rows)}
}};

#define MOST_OPERANDS {most}"""

    def _layer_row(self, index: int, layer: Layer, first: int) -> str:
        step = layer.step
        shapes = [str(list(self._plan.tensors[i].shape)) for i in (*step.inputs, *step.outputs)]
        arrow = f"{', '.join(shapes[: len(step.inputs)])} -> {', '.join(shapes[len(step.inputs) :])}"
        scratch = 0 if step.scratch_offset is None else step.scratch_offset
        name = (step.name or step.kernel).replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")
        printable = "".join(c if c.isascii() and c.isprintable() else "?" for c in name)
        return (
            f"    /* {index}: {printable}: {step.kernel}, {arrow} */\n"
            f"    {{{self._p}_{step.kernel}_run, &{self._params[index]}, {first}, {len(step.inputs)}, "
            f"{len(step.outputs)}, {layer.rows}u, {layer.height}u, {scratch}u}},"
        )

    def _fire(self) -> str:
        p, upper = self._p, self._upper
        before = after = ""
        if self._options.has_callback:
            before = f"    {p}_status status = notify(context, index, 0, *row, rows);\n"
            before += f"    if (status != {upper}_OK) {{\n        return status;\n    }}\n    status = "
            after = f"    return status != {upper}_OK ? status : notify(context, index, 1, *row - rows, rows);\n"
        else:
            before = f"    const {p}_status status = "
            after = "    return status;\n"
        notify = f"""
static {p}_status notify(const {p}_context *context, uint32_t index, uint32_t phase, uint32_t row, uint32_t rows) {{
    if (context->callback == NULL) {{
        return {upper}_OK;
    }}
    return context->callback(context->user, index, phase, row, rows);
}}
"""
        return f"""
#define TRY(call)                                  \\
    do {{                                           \\
        const {p}_status tried = (call);            \\
        if (tried != {upper}_OK) {{                  \\
            return tried;                          \\
        }}                                          \\
    }} while (0)
{notify if self._options.has_callback else ""}
/* One firing of a layer: makes the rows that follow `*row`. */
static {p}_status fire(const {p}_context *context, uint32_t index, uint32_t image, uint32_t *row) {{
    const layer *l = &layers[index];
    {p}_view views[MOST_OPERANDS];
    for (uint32_t i = 0; i < (uint32_t)l->inputs + l->outputs; i++) {{
        const operand *o = &operands[operand_indices[l->first + i]];
        views[i].data = context->memory[o->region] + o->offset + (size_t)image * o->stride;
        views[i].row_bytes = o->row_bytes;
        views[i].height = o->height;
        views[i].depth = o->depth;
    }}
    uint8_t *const scratch = context->memory[0] + l->scratch;
    const {p}_call call = {{l->parameters, CONSTANTS, views, views + l->inputs, scratch, BORDER}};
    const uint32_t rows = l->rows < l->height - *row ? l->rows : l->height - *row;
{before}l->run(&call, *row, rows);
    *row += rows;
{after}}}"""

    # Schedules.

    def _streams(self) -> list[tuple[range, Schedule]]:
        return [(stream, loops(stream_order(self._plan, stream))) for stream in self._plan.streams]

    def _static_schedule(self) -> Iterator[str]:
        """A function for every stream of several firings, and one that runs everything."""
        p, upper = self._p, self._upper
        body = ["    uint32_t row;"]
        for number, (stream, schedule) in enumerate(self._streams()):
            images = self._plan.steps[stream.start].images
            is_whole = len(stream) == 1 and schedule == (0,)
            call = f"fire(context, {stream.start}, IMAGE, &row)"
            if not is_whole:
                yield self._stream_function(number, stream, schedule)
                call = f"stream_{number}(context, IMAGE)"
            names = ", ".join(self._identifiers[i] for i in stream)
            start = "    row = 0;\n" if is_whole else ""
            if images == 1:
                body.append(f"{start}    TRY({call.replace('IMAGE', '0')}); /* {names} */")
            else:
                inner = "        row = 0;\n" if is_whole else ""
                body.append(
                    f"    for (uint32_t image = 0; image < {images}; image++) {{ /* {names} */\n"
                    f"{inner}        TRY({call.replace('IMAGE', 'image')});\n    }}"
                )
        if not any("row = 0" in line for line in body):
            body = body[1:]
        yield f"static {p}_status run_all(const {p}_context *context) {{\n" + "\n".join(
            [*body, f"    return {upper}_OK;", "}"]
        )

    def _stream_function(self, number: int, stream: range, schedule: Schedule) -> str:
        names = "\n".join(f" *   {i - stream.start}: {self._identifiers[i]}" for i in stream)
        lines = [
            f"/* Rows of several layers in turn, each as soon as the rows that it reads exist:\n{names} */",
            f"static {self._p}_status stream_{number}(const {self._p}_context *context, uint32_t image) {{",
            f"    uint32_t row[{len(stream)}] = {{0}}; /* of each layer, made so far */",
            *_statements(schedule, stream.start, 1),
            f"    return {self._upper}_OK;",
            "}",
        ]
        return "\n".join(lines)

    def _table_schedule(self) -> Iterator[str]:
        """What fires in which order, as numbers: a layer, or LOOP, its count and how many entries it repeats."""
        entries: list[str] = []
        rows = []
        for stream, schedule in self._streams():
            start = len(entries)
            entries += [str(n) for n in _table(schedule, stream.start)]
            images = self._plan.steps[stream.start].images
            rows.append(f"    {{{start}, {len(entries)}, {stream.start}, {len(stream)}, {images}u}},")
        depth = max((_depth(schedule) for _, schedule in self._streams()), default=0)
        most = max(len(stream) for stream in self._plan.streams)
        names = ",\n".join(f"    {c_string(step.name or step.kernel)}" for step in self._plan.steps)
        yield f"static const char *const layer_names[] = {{\n{names}\n}};"
        yield f"""
#define LOOP {LOOP}u /* followed by how often, and by how many entries are repeated */
static const uint16_t schedule[] = {{{", ".join(entries)}}};

/* Layers whose rows are made in turn: entries [first, end) of the schedule, for every image. */
typedef struct stream {{
    uint16_t first, end, layer, count;
    uint32_t images;
}} stream;

static const stream streams[] = {{
{chr(10).join(rows)}
}};"""
        yield self._walker(depth, most)

    def _walker(self, depth: int, most: int) -> str:
        """What walks the table: loops are at most `depth` deep, streams have at most `most` layers."""
        p, upper = self._p, self._upper
        return f"""
static {p}_status run_stream(const {p}_context *context, const stream *s, uint32_t image) {{
    uint32_t row[{most}] = {{0}};
    struct {{
        uint32_t first, end, left;
    }} loops[{depth + 1}];
    uint32_t depth = 0;
    uint32_t at = s->first;
    while (at < s->end || depth > 0) {{
        if (depth > 0 && at == loops[depth - 1].end) {{
            if (--loops[depth - 1].left > 0) {{
                at = loops[depth - 1].first;
            }} else {{
                depth--;
            }}
            continue;
        }}
        if (schedule[at] == LOOP) {{
            loops[depth].first = at + 3;
            loops[depth].end = at + 3 + schedule[at + 2];
            loops[depth].left = schedule[at + 1];
            depth++;
            at += 3;
            continue;
        }}
        const uint32_t index = schedule[at];
        TRY(fire(context, index, image, &row[index - s->layer]));
        at++;
    }}
    return {upper}_OK;
}}

static {p}_status run_all(const {p}_context *context) {{
    for (uint32_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {{
        for (uint32_t image = 0; image < streams[i].images; image++) {{
            TRY(run_stream(context, &streams[i], image));
        }}
    }}
    return {upper}_OK;
}}"""

    # What the application calls.

    def _interface(self) -> str:
        parts = [self._life(), self._port_functions()]
        if self._options.has_callback:
            parts.append(observation.functions(self._p))
        if self._has_rows:
            parts.append(self._border_function())
        return "\n\n".join(part.strip("\n") for part in [*parts, self._status_text()])

    def _states(self) -> str:
        """What a reset copies: the constants once, where they are staged, and states."""
        lines = list(staging.copy(self._plan, self._options))
        for state in self._plan.states:
            t = self._plan.tensors[state.tensor]
            lines.append(
                f"    memcpy(context->memory[{t.region}] + {t.offset}u, CONSTANTS + {state.initial}u, {t.size_bytes}u);"
            )
        return "".join(line + "\n" for line in lines)

    def _life(self) -> str:
        p, upper = self._p, self._upper
        static = self._options.memory is Memory.STATIC
        count = len(self._plan.regions)
        place = "".join(f"    context->memory[{i}] = {f'memory_{i}' if static else 'NULL'};\n" for i in range(count))
        border = "    memset(&context->border, 0, sizeof context->border);\n" if self._has_rows else ""
        callback = "    context->callback = NULL;\n    context->user = NULL;\n" if self._options.has_callback else ""
        limits = "    TRY(accepts(context));\n" if self._limited() else ""
        return f"""
static {p}_status check(const {p}_context *context) {{
    if (context == NULL) {{
        return {upper}_ERR_NULL;
    }}
    if (context->state != READY) {{
        return {upper}_ERR_NOT_INITIALIZED;
    }}
    for (uint32_t i = 0; i < {upper}_REGIONS; i++) {{
        if (context->memory[i] == NULL) {{
            return {upper}_ERR_UNBOUND;
        }}
    }}
    return {upper}_OK;
}}

{p}_status {p}_init({p}_context *context) {{
    if (context == NULL) {{
        return {upper}_ERR_NULL;
    }}
{place}{border}{callback}{staging.unset(self._plan)}    context->state = READY;
    return {f"{p}_reset(context)" if static else f"{upper}_OK"};
}}
{"" if static else self._bind()}
{p}_status {p}_reset({p}_context *context) {{
    TRY(check(context));
{self._states()}    return {upper}_OK;
}}

{self._accepts()}{p}_status {p}_run({p}_context *context) {{
    TRY(check(context));
{staging.check(self._plan, self._options)}{self._border_check()}{limits}    return run_all(context);
}}"""

    def _border_check(self) -> str:
        """A run needs the callbacks of the ports that go by rows."""
        checks = []
        for ports, function in ((self._plan.inputs, "receive"), (self._plan.outputs, "send")):
            if any(port.by_rows for port in ports):
                condition = f"context->border.{function} == NULL"
                checks.append(f"    if ({condition}) {{\n        return {self._upper}_ERR_UNBOUND;\n    }}\n")
        return "".join(checks)

    def _limited(self) -> list[tuple[TensorInfo, Interval]]:
        """Inputs of exact programs, and what they may hold so that nothing overflows."""
        return [(port.tensor, port.accepts) for port in self._plan.inputs if port.accepts is not None]

    def _accepts(self) -> str:
        if not self._limited():
            return ""
        p, upper = self._p, self._upper
        lines = []
        for t, accepts in self._limited():
            lines.append(
                f"""
    for (uint32_t i = 0; i < {t.size_bytes // 4}u; i++) {{
        int32_t value;
        memcpy(&value, context->memory[{t.region}] + {t.offset}u + 4 * i, sizeof value);
        if (value < {accepts.lo} || value > {accepts.hi}) {{
            return {upper}_ERR_RANGE;
        }}
    }}""".strip("\n")
            )
        return f"""
static {p}_status accepts(const {p}_context *context) {{
{chr(10).join(lines)}
    return {upper}_OK;
}}

"""

    def _bind(self) -> str:
        p, upper = self._p, self._upper
        names = [f"{upper}_{region.name.upper()}" for region in self._plan.regions]
        return f"""
{p}_status {p}_bind_region({p}_context *context, uint32_t region, void *memory, size_t bytes) {{
    static const uint32_t sizes[] = {{{", ".join(f"{n}_BYTES" for n in names)}}};
    static const uint32_t alignments[] = {{{", ".join(f"{n}_ALIGNMENT" for n in names)}}};
    if (context == NULL || memory == NULL) {{
        return {upper}_ERR_NULL;
    }}
    if (context->state != READY) {{
        return {upper}_ERR_NOT_INITIALIZED;
    }}
    if (region >= {upper}_REGIONS) {{
        return {upper}_ERR_INDEX;
    }}
    if (bytes < sizes[region]) {{
        return {upper}_ERR_TOO_SMALL;
    }}
    if ((uintptr_t)memory % alignments[region] != 0) {{
        return {upper}_ERR_MISALIGNED;
    }}
    context->memory[region] = (uint8_t *)memory;
{staging.unset(self._plan)}    return {upper}_OK;
}}
"""

    def _port_functions(self) -> str:
        p, upper = self._p, self._upper
        parts = []
        for kind, ports, const in (
            ("input", self._plan.inputs, ""),
            ("output", self._plan.outputs, "const "),
        ):
            places = ", ".join(_place(port) for port in ports) or "{0, 0}"
            known = f"index < {upper}_{kind.upper()}S" if ports else "false"
            unused = "" if ports else "    (void)index;\n"
            parts.append(
                f"""
{const}void *{p}_{kind}({const}{p}_context *context, uint32_t index) {{
    static const struct {{
        uint32_t region, offset;
    }} places[] = {{{places}}};
    if (check(context) != {upper}_OK || !({known})) {{
        return NULL;
    }}
    return places[index].region < {upper}_REGIONS ? context->memory[places[index].region] + places[index].offset : NULL;
}}

const {p}_port *{p}_{kind}_port(uint32_t index) {{
{unused}    return {f"{known} ? &{kind}_ports[index] : NULL" if ports else "NULL"};
}}""".strip("\n")
            )
        return "\n\n".join(parts)

    def _border_function(self) -> str:
        p, upper = self._p, self._upper
        return f"""
{p}_status {p}_set_border({p}_context *context, const {p}_border *border) {{
    if (context == NULL || border == NULL) {{
        return {upper}_ERR_NULL;
    }}
    if (context->state != READY) {{
        return {upper}_ERR_NOT_INITIALIZED;
    }}
    context->border = *border;
    return {upper}_OK;
}}"""

    def _status_text(self) -> str:
        p, upper = self._p, self._upper
        cases = "\n".join(f"    case {upper}_{code}: return {c_string(text)};" for code, text in STATUSES)
        return f"""
const char *{p}_status_text({p}_status status) {{
    switch (status) {{
{cases}
    }}
    return "unknown status";
}}"""


def _dsp_features(steps: Sequence[StepInfo]) -> dict[str, int]:
    """Of the kernels for the DSP extension: forms of rescaling, and strides of depthwise layers."""
    forms = strides = 0
    for step in steps:
        form, stride = step.params.get("form"), step.params.get("stride_w")
        if step.kernel.endswith("_dsp_s8") and isinstance(form, int):
            forms |= 1 << form
            is_depthwise = step.kernel.startswith("depthwise") and isinstance(stride, int)
            strides |= 1 << stride if is_depthwise and isinstance(stride, int) else 0
    return ({"DSP_FORMS": forms} if forms else {}) | ({"DSP_STRIDES": strides} if strides else {})


def _place(port: PortInfo) -> str:
    """Region and offset of a port; a region that is none where it has no memory of its own."""
    return "{~0u, 0u}" if port.by_rows else f"{{{port.tensor.region}u, {port.tensor.offset}u}}"


def _operand(operand: Operand) -> str:
    numbers = (operand.region, operand.offset, operand.row_bytes, operand.height, operand.depth, operand.stride)
    return ", ".join(f"{number}u" for number in numbers)


# Numbers as C.


def _value(field: Field, value: FieldValue) -> str:
    """A field of a parameter record as C."""
    if isinstance(value, (int, float)):
        return _number(field, value)
    if field.type is BLOB:
        pairs = [f"{{{value[i]}u, {value[i + 1]}u}}" for i in range(0, len(value), 2)]
        return pairs[0] if field.count == 1 else "{" + ", ".join(pairs) + "}"
    return "{" + ", ".join(_number(field, number) for number in value) + "}"


def _number(field: Field, value: float) -> str:
    if field.type.code == "f":
        return c_float(value) if abs(value) < 3.5e38 else f"{'-' if value < 0 else ''}HUGE_VALF"
    if field.type.code == "i" and value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}u" if field.type.code in "BHI" else f"{value}"


def _statements(schedule: Schedule, first: int, depth: int) -> Iterator[str]:
    indent = "    " * depth
    for entry in schedule:
        if isinstance(entry, Loop):
            counter = "ijklmnop"[depth - 1]
            yield f"{indent}for (uint32_t {counter} = 0; {counter} < {entry.count}; {counter}++) {{"
            yield from _statements(entry.body, first, depth + 1)
            yield f"{indent}}}"
        else:
            yield f"{indent}TRY(fire(context, {first + entry}, image, &row[{entry}]));"


def _table(schedule: Schedule, first: int) -> Iterator[int]:
    for entry in schedule:
        if isinstance(entry, Loop):
            body = list(_table(entry.body, first))
            yield from (LOOP, entry.count, len(body), *body)
        else:
            yield first + entry


def _depth(schedule: Sequence[Loop | int]) -> int:
    return max((1 + _depth(entry.body) for entry in schedule if isinstance(entry, Loop)), default=0)
