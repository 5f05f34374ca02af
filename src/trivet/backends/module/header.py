"""The public header of a module."""

from __future__ import annotations

from trivet.backends.module import observation, staging
from trivet.backends.module.options import Memory, ModuleOptions, Style
from trivet.backends.plan.reader import PlanInfo, PortInfo
from trivet.core.version import __version__

STATUSES = (
    ("OK", "ok"),
    ("ERR_NULL", "a NULL pointer"),
    ("ERR_INDEX", "an index that is out of range"),
    ("ERR_NOT_INITIALIZED", "the context was not initialized"),
    ("ERR_UNBOUND", "a memory region was not bound"),
    ("ERR_TOO_SMALL", "the memory provided is too small"),
    ("ERR_MISALIGNED", "the memory provided is not aligned as required"),
    ("ERR_VALUE", "an operand of the run holds an index that is out of range"),
    ("ERR_RANGE", "an input holds a value that the network does not accept"),
    ("ERR_PLAN", "the plan is damaged, of another version, or not for this module"),
    ("ERR_STOPPED", "the callback stopped the run"),
)
"""What functions of a module return, and what it means."""

KERNELS_VERSION = 1
"""Of the interface between a module and its kernels; a header and kernels of different ones do not compile together."""

RUNTIME_WORDS = 24
"""Pointers that the state of the runtime takes in a context, when a plan is run."""

_DTYPES = {
    "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t", "i32": "int32_t", "u32": "uint32_t",
    "i64": "int64_t", "u64": "uint64_t", "f16": "half precision", "f32": "float", "f64": "double", "bool": "uint8_t",
}  # fmt: skip


def public_header(plan: PlanInfo, options: ModuleOptions, name: str, rows: str = "") -> str:
    """What an application includes; `rows` defines callbacks for inputs and outputs that go by rows."""
    p, upper = options.prefix, options.prefix.upper()
    lines = [
        f"/* {name}: a neural network as C99, made by Trivet {__version__}. Apache-2.0.",
        " *",
        *_usage(plan, options),
        " */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f'#define {upper}_TRIVET_VERSION "{__version__}"',
        f"#define {upper}_KERNELS_VERSION {KERNELS_VERSION}",
        f"#define {upper}_INPUTS {len(plan.inputs)}u",
        f"#define {upper}_OUTPUTS {len(plan.outputs)}u",
        f"#define {upper}_REGIONS {len(plan.regions)}u",
        f"#define {upper}_LAYERS {len(plan.steps)}u",
        *_region_macros(plan, upper),
        "",
        *_placement(upper),
        *(staging.macro(upper) if staging.is_staged(plan, options) else []),
        *_types(p, upper),
        *([rows, ""] if rows else []),
        *_callback(p, options),
        "/* Everything that one instance needs beside its memory. Its fields are the module's own. */",
        f"typedef struct {p}_context {{",
        *([f"    uintptr_t runtime[{RUNTIME_WORDS}];"] if options.style is Style.PLAN else []),
        f"    uint8_t *memory[{upper}_REGIONS];",
        "    uint32_t state;",
        *(["    uint32_t staged; /* 1: the constants are in memory */"] if staging.is_staged(plan, options) else []),
        *([f"    {p}_border border;"] if rows else []),
        *([f"    {p}_callback callback;", "    void *user;"] if options.has_callback else []),
        f"}} {p}_context;",
        "",
        *(_rows_function(p) if rows else []),
        *_functions(p, options),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _placement(upper: str) -> list[str]:
    return [
        "/* Constants such as weights, and memory, may be placed: define these to section attributes. */",
        "#if defined(__GNUC__) || defined(__clang__) || defined(__ARMCC_VERSION)",
        f"#define {upper}_ALIGNED(bytes) __attribute__((aligned(bytes)))",
        "#elif defined(__ICCARM__)",
        f'#define {upper}_ALIGNED(bytes) _Pragma("data_alignment=16")',
        "#elif defined(_MSC_VER)",
        f"#define {upper}_ALIGNED(bytes) __declspec(align(bytes))",
        "#else",
        '#error "how does this compiler align data?"',
        "#endif",
        f"#ifndef {upper}_CONSTANTS_SECTION",
        f"#define {upper}_CONSTANTS_SECTION",
        "#endif",
        "",
    ]


def _types(p: str, upper: str) -> list[str]:
    return [
        "/* What every function returns. */",
        f"typedef enum {p}_status {{",
        *(f"    {upper}_{code}, /* {text} */" for code, text in STATUSES),
        f"}} {p}_status;",
        "",
        "/* Element types. */",
        f"typedef enum {p}_dtype {{",
        *(f"    {upper}_DTYPE_{code.upper()}, /* {c_name} */" for code, c_name in _DTYPES.items()),
        f"}} {p}_dtype;",
        "",
        "/* An input or output: real = scale * (stored - zero_point), scale 0 where it is not quantized. Shapes are in",
        " * the order in which elements follow each other in memory: images are channels last. */",
        f"typedef struct {p}_port {{",
        "    const char *name;",
        f"    {p}_dtype dtype;",
        "    uint32_t rank;",
        "    uint32_t shape[8];",
        "    uint32_t bytes;",
        "    float scale;",
        "    int32_t zero_point;",
        f"}} {p}_port;",
        "",
    ]


def _usage(plan: PlanInfo, options: ModuleOptions) -> list[str]:
    p, upper = options.prefix, options.prefix.upper()
    lines = [f" *     static {p}_context network;"]
    if options.memory is Memory.CALLER:
        lines += [f" *     static uint8_t memory[{upper}_{r.name.upper()}_BYTES]; // aligned" for r in plan.regions[:1]]
        lines += [f" *     {p}_init(&network);", f" *     {p}_bind_region(&network, 0, memory, sizeof memory);"]
        lines += [f" *     {p}_reset(&network);"]
    else:
        lines += [f" *     {p}_init(&network);"]
    if plan.has_rows:
        lines += [f" *     const {p}_border border = {{receive, send, NULL}}; // functions of yours"]
        lines += [f" *     {p}_set_border(&network, &border);"]
    for port in plan.inputs[:1]:
        image = f"memcpy({p}_input(&network, 0), image, {port.tensor.size_bytes});"
        lines += [] if port.by_rows else [f" *     {image}"]
    lines += [f" *     {p}_run(&network);"]
    for port in plan.outputs[:1]:
        scores = f"memcpy(scores, {p}_output(&network, 0), {port.tensor.size_bytes});"
        lines += [] if port.by_rows else [f" *     {scores}"]
    lines += [
        " *",
        " * Inputs may share memory with later results: write them before every run.",
    ]
    return lines


def _region_macros(plan: PlanInfo, upper: str) -> list[str]:
    lines = []
    for region in plan.regions:
        name = region.name.upper()
        lines += [
            f"#define {upper}_{name}_BYTES {region.size_bytes}u",
            f"#define {upper}_{name}_ALIGNMENT {region.alignment}u",
        ]
    return lines


def _callback(p: str, options: ModuleOptions) -> list[str]:
    if not options.has_callback:
        return []
    return [
        "/* Called before (phase 0) and after (phase 1) every call of a kernel, which makes rows [row, row + rows) of",
        " * the layer; anything but OK ends the run. */",
        f"typedef {p}_status (*{p}_callback)(void *user, uint32_t layer, uint32_t phase, uint32_t row, uint32_t rows);",
        "",
    ]


def _rows_function(p: str) -> list[str]:
    return [
        "/* Who gives and takes the rows of inputs and outputs that go by rows, which have no memory of their own. A",
        " * run without what it needs of them says ERR_UNBOUND. */",
        f"{p}_status {p}_set_border({p}_context *context, const {p}_border *border);",
        "",
    ]


def _functions(p: str, options: ModuleOptions) -> list[str]:
    bind = [
        "/* Gives the instance the memory of a region, as large and as aligned as its macros say. */",
        f"{p}_status {p}_bind_region({p}_context *context, uint32_t region, void *memory, size_t bytes);",
        "",
    ]
    owned = options.memory is Memory.CALLER
    replaced = [
        "/* Runs another plan for the same interface from now on, read in place: a network that was updated in the",
        " * field. It must ask for no more memory. After an error, and after init, the module's own plan is run. */",
        f"{p}_status {p}_set_plan({p}_context *context, const void *plan, size_t bytes);",
        "",
    ]
    return [
        "/* Before everything else." + ("" if owned else " States get their initial values.") + " */",
        f"{p}_status {p}_init({p}_context *context);",
        "",
        *(bind if owned else []),
        "/* States get their initial values" + (", once all memory is bound." if owned else ".") + " */",
        f"{p}_status {p}_reset({p}_context *context);",
        "",
        "/* From inputs to outputs. */",
        f"{p}_status {p}_run({p}_context *context);",
        "",
        "/* Where an input is written, and an output is read; NULL where there is none or no memory. */",
        f"void *{p}_input({p}_context *context, uint32_t index);",
        f"const void *{p}_output(const {p}_context *context, uint32_t index);",
        "",
        "/* What they are; NULL where there is none. */",
        f"const {p}_port *{p}_input_port(uint32_t index);",
        f"const {p}_port *{p}_output_port(uint32_t index);",
        "",
        *(observation.declarations(p) if options.has_callback else []),
        *(replaced if options.style is Style.PLAN else []),
        "/* One line of English; never NULL. */",
        f"const char *{p}_status_text({p}_status status);",
        "",
    ]


def port_initializer(port: PortInfo, options: ModuleOptions) -> str:
    """A port as C."""
    tensor, upper = port.tensor, options.prefix.upper()
    shape = ", ".join(f"{extent}u" for extent in tensor.shape) or "1u"
    dtype = f"{upper}_DTYPE_{tensor.dtype.name.upper()}"
    return (
        f"{{{c_string(port.name)}, {dtype}, {len(tensor.shape)}u, {{{shape}}}, {tensor.size_bytes}u, "
        f"{c_float(port.scale)}, {port.zero_point}}}"
    )


def c_float(value: float) -> str:
    """A float constant that reads back equal."""
    text = f"{value:.9g}"
    return f"{text if any(c in text for c in '.en') else text + '.0'}f"


def c_string(text: str) -> str:
    """A string literal of ASCII; what C might take for a trigraph or an escape is written as octal."""
    return '"' + "".join(c if (c.isalnum() and c.isascii()) or c in " _-/.,:;()[]" else _octal(c) for c in text) + '"'


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode())
