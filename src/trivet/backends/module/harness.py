"""A main program that runs a module on inputs whose outputs the oracle knows, and compares."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from trivet.backends.module.layers import layers_of
from trivet.backends.module.options import Memory, ModuleOptions
from trivet.backends.plan.reader import PlanInfo
from trivet.core.record import dataclass
from trivet.ir.op import Array

_COMPARISONS = """\
/* Elements that differ from what they must be; for floats by more than `tolerance` times the largest. */
static unsigned differing(const void *actual, const void *expected, size_t bytes) {
    unsigned count = 0;
    for (size_t i = 0; i < bytes; i++) {
        count += ((const uint8_t *)actual)[i] != ((const uint8_t *)expected)[i];
    }
    return count;
}

static unsigned far(const void *actual, const void *expected, size_t bytes, float tolerance) {
    float largest = 1e-30f;
    unsigned count = 0;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        float want;
        memcpy(&want, (const uint8_t *)expected + i * sizeof want, sizeof want);
        largest = isfinite(want) && fabsf(want) > largest ? fabsf(want) : largest;
    }
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        float want, have;
        memcpy(&want, (const uint8_t *)expected + i * sizeof want, sizeof want);
        memcpy(&have, (const uint8_t *)actual + i * sizeof have, sizeof have);
        count += !(fabsf(want - have) <= tolerance * largest) && memcmp(&want, &have, sizeof want) != 0;
    }
    return count;
}
"""

_SPEECH = """\
/* Where text goes: to stdout, with TEST_SEMIHOSTING to the debugger or emulator, or to a function of yours that
 * TEST_PUT names (a UART). With semihosting the program ends there too, with the number of failures. */
#if defined(TEST_SEMIHOSTING)
static int32_t semihosting(int32_t operation, const void *block) {{
#if defined(__riscv)
    register int32_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = block;
    __asm__ volatile(".option push\\n.option norvc\\nslli x0, x0, 0x1f\\nebreak\\nsrai x0, x0, 7\\n.option pop"
                     : "+r"(a0) : "r"(a1) : "memory");
    return a0;
#else
    register int32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}}
#define TEST_PUT(text) (void)semihosting(0x04, (text))
#elif defined(TEST_PUT)
extern void TEST_PUT(const char *text);
#else
#include <stdio.h>
#define TEST_PUT(text) (void)fputs((text), stdout)
#endif

static void put_number(unsigned long value) {{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {{
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    }} while (value > 0);
    TEST_PUT(&digits[at]);
}}

static void report(const char *what, unsigned long number, unsigned long index, unsigned wrong, unsigned long count) {{
    TEST_PUT("run ");
    put_number(number);
    TEST_PUT(what);
    put_number(index);
    TEST_PUT(": ");
    put_number(wrong);
    TEST_PUT(" of ");
    put_number(count);
    TEST_PUT(" differ\\n");
}}

"""

_LAYERS = """\
#if defined(TEST_LAYERS)
/* Checksums (Adler-32) of what layers make, row by row, and how many rows that is; 0 rows: not compared. */
static uint32_t sums[{upper}_LAYERS], made[{upper}_LAYERS];

static {p}_status watch(void *user, uint32_t layer, uint32_t phase, uint32_t row, uint32_t rows) {{
    for (uint32_t r = row; phase == 1 && r < row + rows && layer_rows[layer] > 0; r++, made[layer]++) {{
        uint32_t bytes = 0, a = sums[layer] & 0xFFFFu, b = sums[layer] >> 16;
        const uint32_t image = made[layer] / layer_rows[layer];
        const uint8_t *data =
            (const uint8_t *){p}_layer_result((const {p}_context *)user, layer, image, r, &bytes);
        for (uint32_t i = 0; data != NULL && i < bytes; i++) {{
            a = (a + data[i]) % 65521u;
            b = (b + a) % 65521u;
        }}
        sums[layer] = b << 16 | a;
    }}
    return {upper}_OK;
}}

static void watch_layers({p}_context *context) {{
    for (uint32_t i = 0; i < {upper}_LAYERS; i++) {{
        sums[i] = 1;
        made[i] = 0;
    }}
    (void){p}_set_callback(context, watch, context);
}}

static int wrong_layers(const uint32_t *expected) {{
    int count = 0;
    for (uint32_t i = 0; i < {upper}_LAYERS; i++) {{
        if (layer_rows[i] > 0) {{
            TEST_PUT("layer ");
            put_number(i);
            TEST_PUT(sums[i] == expected[i] ? " equal: " : " DIFFERS: ");
            TEST_PUT({p}_layer_name(i));
            TEST_PUT("\\n");
            count += sums[i] != expected[i];
        }}
    }}
    return count;
}}
#endif

"""

_ROWS = """\
/* Whole inputs and outputs, of which rows are given and taken. */
static const uint8_t *given[{upper}_INPUTS + 1];
static uint8_t *taken[{upper}_OUTPUTS + 1];

static {p}_status receive(void *context, const {p}_rows *rows, uint8_t *data) {{
    (void)context;
    memcpy(data, given[rows->port] + rows->row * (rows->bytes / rows->rows), rows->bytes);
    return {upper}_OK;
}}

static {p}_status send(void *context, const {p}_rows *rows, const uint8_t *data) {{
    (void)context;
    memcpy(taken[rows->port] + rows->row * (rows->bytes / rows->rows), data, rows->bytes);
    return {upper}_OK;
}}

static const {p}_border border = {{receive, send, NULL}};

"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs of one run and what it must give, in storage order; `tolerance` is relative, for floats.

    `layers` are the first results of layers that are compared too, None where a layer's is not.
    """

    inputs: Sequence[Array]
    outputs: Sequence[Array]
    layers: Sequence[Array | None] = ()
    tolerance: float = 1e-5


def test_program(plan: PlanInfo, options: ModuleOptions, samples: Sequence[Sample]) -> str:
    """`<prefix>_test.c`: prints one line for each run, and returns the number of failures."""
    p, upper = options.prefix, options.prefix.upper()
    arrays, runs = [], []
    for number, sample in enumerate(samples):
        for kind, values in (("input", sample.inputs), ("output", sample.outputs)):
            for index, array in enumerate(values):
                arrays.append(_array(f"{kind}_{number}_{index}", array))
        runs.append(_run(number, sample, plan, p))
    memory = bind = rows = ""
    if plan.has_rows:
        rows = _ROWS.format(p=p, upper=upper)
        for index, port in enumerate(plan.outputs):
            if port.by_rows:
                rows += f"static uint8_t taken_{index}[sizeof output_0_{index}];\n"
                bind += f"    taken[{index}] = taken_{index};\n"
        bind += f"    failures += {p}_set_border(&network, &border) != {upper}_OK;\n"
    if options.memory is Memory.CALLER:
        for index, region in enumerate(plan.regions):
            name = f"{upper}_{region.name.upper()}"
            memory += f"static uint8_t memory_{index}[{name}_BYTES + {name}_ALIGNMENT];\n"
            bind += (
                f"    failures += {p}_bind_region(&network, {index}, "
                f"memory_{index} + (0u - (uintptr_t)memory_{index}) % {name}_ALIGNMENT, {name}_BYTES) != {upper}_OK;\n"
            )
        bind += f"    failures += {p}_reset(&network) != {upper}_OK;\n"
    return f"""\
/* Compares what the module computes with what it must. */
#include <math.h>
#include <string.h>

#include "{p}.h"

{_SPEECH.format()}{"".join(arrays)}
{memory}static {p}_context network;

{_layers(plan, options, samples)}{rows}{_COMPARISONS}
int main(void) {{
    int failures = 0;
    unsigned wrong;
    (void)differing;
    (void)far;
    failures += {p}_init(&network) != {upper}_OK;
{bind}{"".join(runs)}    TEST_PUT(failures == 0 ? "passed\\n" : "FAILED\\n");
#if defined(TEST_SEMIHOSTING)
    const uintptr_t ending[2] = {{0x20026u, (uintptr_t)failures}};
    (void)semihosting(0x20, ending);
#endif
    return failures;
}}
"""


def _layers(plan: PlanInfo, options: ModuleOptions, samples: Sequence[Sample]) -> str:
    """What compares layer by layer, where samples have their results."""
    if not any(sample.layers for sample in samples):
        return ""
    arrays = samples[0].layers
    rows = [0 if a is None else layer.height for a, layer in zip(arrays, layers_of(plan).layers, strict=True)]
    lines = ["#if defined(TEST_LAYERS)"]
    lines.append(f"static const uint32_t layer_rows[] = {{{', '.join(f'{n}u' for n in rows)}}};")
    for number, sample in enumerate(samples):
        sums = (0 if array is None else zlib.adler32(array.tobytes()) for array in sample.layers)
        lines.append(f"static const uint32_t layers_{number}[] = {{{', '.join(f'{n}u' for n in sums)}}};")
    lines.append("#endif\n")
    return "\n".join(lines) + _LAYERS.format(p=options.prefix, upper=options.prefix.upper())


def _array(name: str, array: Array) -> str:
    data = array.tobytes()
    lines = [",".join(str(byte) for byte in data[i : i + 24]) + "," for i in range(0, len(data), 24)]
    return f"static const uint8_t {name}[] = {{\n{chr(10).join(lines)}\n}};\n"


def _run(number: int, sample: Sample, plan: PlanInfo, p: str) -> str:
    lines = []
    for index, port in enumerate(plan.inputs):
        source = f"input_{number}_{index}"
        copied = f"memcpy({p}_input(&network, {index}), {source}, sizeof {source});"
        lines.append(f"    given[{index}] = {source};" if port.by_rows else f"    {copied}")
    run = f"    failures += {p}_run(&network) != {p.upper()}_OK;"
    if sample.layers:
        watched = f"    failures += wrong_layers(layers_{number});"
        lines += ["#if defined(TEST_LAYERS)", "    watch_layers(&network);", "#endif", run]
        lines += ["#if defined(TEST_LAYERS)", watched, "#endif"]
    else:
        lines.append(run)
    for index, array in enumerate(sample.outputs):
        expected = f"output_{number}_{index}"
        result = f"taken_{index}" if plan.outputs[index].by_rows else f"{p}_output(&network, {index})"
        actual = f"{result}, {expected}, sizeof {expected}"
        if array.dtype.name == "float32":
            lines.append(f"    wrong = far({actual}, {sample.tolerance!r}f);")
        else:
            lines.append(f"    wrong = differing({actual});")
        lines.append(f'    report(", output ", {number}, {index}, wrong, {array.size});')
        lines.append("    failures += wrong != 0;")
    return "\n".join(lines) + "\n"
