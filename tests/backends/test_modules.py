"""C modules compile alone, without a warning, and compute what the plan they are made of computes."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from module_builds import CPP, EVERYTHING, EXAMPLES, STRICT, build, module, needed, run

from int8_networks import Builder
from networks import shared_directory
from trivet import api
from trivet.backends.module.firings import Loop, Schedule, loops, unrolled
from trivet.backends.module.glue import EXPORTS
from trivet.backends.module.names import check_prefix, default_prefix, unique_identifiers
from trivet.backends.module.options import Memory, ScheduleStyle, Style
from trivet.cli import options as flags
from trivet.driver import Settings
from trivet.errors import CompileError, InvalidModel, Unsupported
from trivet.exporting import ModuleRequest
from trivet.ir.text.printer import print_graph
from trivet.planning.options import Objective
from trivet.simulated import Simulated

DIGITS = EXAMPLES / "models" / "digits_int8.tflite"
FLOATS = EXAMPLES / "models" / "digits.onnx"
PLAIN = ModuleRequest(prefix="net", samples=2)
WAYS = {
    "static": PLAIN,
    "table": replace(PLAIN, schedule=ScheduleStyle.TABLE),
    "memory of the caller": replace(PLAIN, memory=Memory.CALLER),
    "plan": replace(PLAIN, style=Style.PLAN),
    "plan, memory of the caller": replace(PLAIN, style=Style.PLAN, memory=Memory.CALLER),
}
STREAMED = Settings(objective=Objective.MEMORY)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [DIGITS, FLOATS], ids=["int8", "float"])
def test_a_module_passes_its_own_test_under_sanitizers(model: Path, way: str, tmp_path: Path) -> None:
    gcc = needed("gcc", package="gcc")
    sources = module(model, tmp_path / "net", WAYS[way], STREAMED)
    program = tmp_path / "program"
    checks = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    build([gcc, *STRICT, *checks, *sources, str(tmp_path / "net/test/net_test.c"), "-o", str(program), "-lm"])
    assert run(program).endswith("passed\n")


IMAGES = """graph images(%x: f32[1, 12, 8, 2]) {
  %y: f32[1, 12, 8, 2] = leaky_relu{alpha=0.5}(%x)
  return %y
}
"""


@pytest.mark.parametrize("way", ["static", "table", "memory of the caller"])
@pytest.mark.parametrize("model", ["an image to numbers", "an image to an image"])
def test_a_module_by_rows_passes_its_own_test(model: str, way: str, tmp_path: Path) -> None:
    gcc, file = needed("gcc", package="gcc"), DIGITS
    if model == "an image to an image":
        file = tmp_path / "images.tir"
        file.write_text(IMAGES)
    settings = replace(TIGHT["input by rows"], output_rows=file is not DIGITS)
    sources = module(file, tmp_path / "net", WAYS[way], settings)
    program = tmp_path / "program"
    checks = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    build([gcc, *STRICT, *checks, *sources, str(tmp_path / "net/test/net_test.c"), "-o", str(program), "-lm"])
    assert run(program).endswith("passed\n")
    usage = (tmp_path / "net/include/net.h").read_text().partition("*/")[0]
    assert "net_set_border" in usage and "net_input" not in usage


@pytest.mark.parametrize("way", ["static", "table", "memory of the caller"])
def test_a_module_is_clean_for_clang_and_as_cpp(way: str, tmp_path: Path) -> None:
    clang, gpp = needed("clang", "clang-14", package="clang"), needed("g++", package="g++")
    sources = module(DIGITS, tmp_path / "net", WAYS[way], STREAMED)
    build([clang, *EVERYTHING, "-fsyntax-only", *sources])
    build([gpp, *CPP, "-fsyntax-only", *sources])


def test_a_module_without_products_is_clean_for_clang(tmp_path: Path) -> None:
    clang = needed("clang", "clang-14", package="clang")
    file = tmp_path / "floats.tir"
    file.write_text(IMAGES)
    sources = module(file, tmp_path / "net", PLAIN)
    build([clang, *EVERYTHING, "-fsyntax-only", *sources])


@pytest.mark.parametrize("schedule", ScheduleStyle)
def test_a_real_network_gives_the_bytes_of_its_plan(schedule: ScheduleStyle, tmp_path: Path) -> None:
    shared = shared_directory()
    if shared is None:
        pytest.skip("the directory of real networks is absent: set TRIVET_SHARED")
    model = next(shared.rglob("tiny__pretrainedResnet_quant.tflite"))
    module(model, tmp_path / "net", ModuleRequest(schedule=schedule), STREAMED)
    artifact, made = api.compile(model, STREAMED), Simulated(tmp_path / "net")
    for seed in range(2):
        inputs = artifact.random_inputs(seed)
        for expected, actual in zip(artifact.run(inputs), made.run(inputs), strict=True):
            assert np.array_equal(expected, actual)


def test_two_instances_and_two_modules_live_in_one_program(tmp_path: Path) -> None:
    gcc = needed("gcc", package="gcc")
    request = ModuleRequest(memory=Memory.CALLER)
    sources = module(DIGITS, tmp_path / "a", replace(request, prefix="first"))
    sources += module(FLOATS, tmp_path / "b", replace(request, prefix="second", schedule=ScheduleStyle.TABLE))
    main = tmp_path / "main.c"
    main.write_text(_TWO, encoding="utf-8")
    build([gcc, *STRICT, *sources, str(main), "-o", str(tmp_path / "program"), "-lm"])
    assert run(tmp_path / "program") == "ok\n"


_TWO = """
#include <stdio.h>
#include <string.h>
#include "first.h"
#include "second.h"
static union { uint8_t bytes[FIRST_FAST_BYTES + 16]; double aligned; } one, other;
static uint8_t floats[SECOND_FAST_BYTES + 16];
static void *aligned(uint8_t *memory) { return memory + (0u - (uintptr_t)memory) % 16; }
int main(void) {
    first_context a, b;
    second_context c;
    uint8_t scores[16];
    const uint32_t bytes = first_input_port(0)->bytes;
    if (first_run(NULL) != FIRST_ERR_NULL || first_init(&a) != FIRST_OK || first_run(&a) != FIRST_ERR_UNBOUND) return 1;
    if (first_bind_region(&a, 0, aligned(one.bytes), FIRST_FAST_BYTES - 1) != FIRST_ERR_TOO_SMALL) return 2;
    if (first_bind_region(&a, 0, (uint8_t *)aligned(one.bytes) + 1, FIRST_FAST_BYTES) != FIRST_ERR_MISALIGNED) return 3;
    if (first_bind_region(&a, 1, aligned(one.bytes), FIRST_FAST_BYTES) != FIRST_ERR_INDEX) return 4;
    if (first_bind_region(&a, 0, aligned(one.bytes), FIRST_FAST_BYTES) != FIRST_OK) return 5;
    if (first_init(&b) || first_bind_region(&b, 0, aligned(other.bytes), FIRST_FAST_BYTES)) return 6;
    if (second_init(&c) || second_bind_region(&c, 0, aligned(floats), SECOND_FAST_BYTES)) return 7;
    if (first_reset(&a) || first_reset(&b) || second_reset(&c)) return 8;
    memset(first_input(&a, 0), 3, bytes);
    memset(first_input(&b, 0), 100, bytes);
    memset(second_input(&c, 0), 0, second_input_port(0)->bytes);
    if (first_run(&a) || second_run(&c)) return 9;
    memcpy(scores, first_output(&a, 0), first_output_port(0)->bytes);
    if (first_run(&b) || memcmp(scores, first_output(&a, 0), first_output_port(0)->bytes) != 0) return 10;
    if (first_input(&a, 1) != NULL || first_output_port(1) != NULL) return 11;
    if (second_layer_name(SECOND_LAYERS) != NULL) return 12;
    puts(first_status_text(FIRST_OK));
    return 0;
}
"""


TIGHT = {
    "input by rows": Settings(objective=Objective.MEMORY, input_rows=True),
    "two memories": Settings(fast_bytes=2048, slow_bytes=8192),
}


@pytest.mark.parametrize("tight", TIGHT)
@pytest.mark.parametrize("way", ["static", "table", "memory of the caller"])
def test_rows_and_memories_are_those_of_the_plan(way: str, tight: str, tmp_path: Path) -> None:
    module(DIGITS, tmp_path / "net", replace(WAYS[way], samples=0), TIGHT[tight])
    artifact, made = api.compile(DIGITS, TIGHT[tight]), Simulated(tmp_path / "net")
    inputs = artifact.random_inputs(0)
    for expected, actual in zip(artifact.run(inputs), made.run(inputs), strict=True):
        assert np.array_equal(expected, actual)


WARM = replace(STREAMED, warm_weights=True)


@pytest.mark.parametrize("way", ["static", "table", "memory of the caller"])
def test_constants_are_copied_once_by_a_hook_that_can_be_replaced(way: str, tmp_path: Path) -> None:
    gcc = needed("gcc", package="gcc")
    sources = module(DIGITS, tmp_path / "net", WAYS[way], WARM)
    hook = tmp_path / "hook.h"
    hook.write_text(
        """
#include <stdio.h>
#include <string.h>
#define NET_COPY(to, from, bytes) (printf("copied %u\\n", (unsigned)(bytes)), memcpy((to), (from), (bytes)))
"""
    )
    checks = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-include", str(hook)]
    program = tmp_path / "program"
    build([gcc, *STRICT, *checks, *sources, str(tmp_path / "net/test/net_test.c"), "-o", str(program), "-lm"])
    residency = json.loads((tmp_path / "net/residency.json").read_text())
    size = residency["constants"]["bytes"]
    assert residency["constants"]["copied_to"] == "weights" and size > 0
    lines = run(program).splitlines()
    assert [line for line in lines if "copied" in line] == [f"copied {size}"] and lines[-1] == "passed"


def test_a_run_without_its_constants_is_refused(tmp_path: Path) -> None:
    gcc = needed("gcc", package="gcc")
    sources = module(DIGITS, tmp_path / "net", replace(WAYS["memory of the caller"], samples=0), WARM)
    main = tmp_path / "main.c"
    main.write_text(
        """
#include <stdio.h>
#include "net.h"
static uint64_t fast[NET_FAST_BYTES / 8 + 3], weights[NET_WEIGHTS_BYTES / 8 + 3];
static uint8_t *aligned(uint64_t *memory) { return (uint8_t *)memory + (0u - (uintptr_t)memory) % 16; }
int main(void) {
    static net_context context;
    if (net_init(&context) || net_bind_region(&context, 0, aligned(fast), NET_FAST_BYTES)) return 1;
    if (net_bind_region(&context, 1, aligned(weights), NET_WEIGHTS_BYTES)) return 2;
    if (net_run(&context) != NET_ERR_NOT_INITIALIZED) return 3;
    puts(net_reset(&context) == NET_OK && net_run(&context) == NET_OK ? "ok" : "wrong");
    return 0;
}
"""
    )
    build([gcc, *STRICT, *sources, str(main), "-o", str(tmp_path / "program"), "-lm"])
    assert run(tmp_path / "program") == "ok\n"


def test_vectors_go_in_chunks_through_modules(tmp_path: Path) -> None:
    b = Builder()
    graph = b.finish(b.dense(b.dense(b.input(1, 40), 8), 40))
    source = tmp_path / "net.tir"
    source.write_text(print_graph(graph))
    settings = Settings(objective=Objective.MEMORY, input_rows=True, output_rows=True)
    module(source, tmp_path / "net", replace(WAYS["static"], samples=2), settings)
    artifact, made = api.compile(source, settings), Simulated(tmp_path / "net")
    inputs = artifact.random_inputs(0)
    assert np.array_equal(artifact.run(inputs)[0], made.run(inputs)[0])
    assert made.run(inputs)[0].shape == (1, 40)


@pytest.mark.parametrize("weights", [{"compress": True}, {"warm_weights": True}], ids=["compressed", "warm"])
def test_plans_as_data_unpack_or_copy_their_constants(weights: dict[str, bool], tmp_path: Path) -> None:
    settings = replace(STREAMED, **weights)
    module(DIGITS, tmp_path / "net", replace(WAYS["plan"], samples=0), settings)
    artifact, made = api.compile(DIGITS), Simulated(tmp_path / "net")
    inputs = artifact.random_inputs(0)
    assert np.array_equal(artifact.run(inputs)[0], made.run(inputs)[0])


def test_code_decodes_no_constants(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="does not decode constants"):
        module(DIGITS, tmp_path / "net", WAYS["static"], replace(STREAMED, compress=True))


def test_rows_are_asked_for_before_a_plan_as_data_is_made(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="whole inputs and outputs"):
        module(DIGITS, tmp_path / "net", WAYS["plan"], TIGHT["input by rows"])


def test_the_callback_of_a_table_sees_every_call_and_may_stop_the_run(tmp_path: Path) -> None:
    gcc = needed("gcc", package="gcc")
    sources = module(DIGITS, tmp_path / "net", replace(PLAIN, schedule=ScheduleStyle.TABLE), STREAMED)
    main = tmp_path / "main.c"
    main.write_text(
        """
#include <stdio.h>
#include "net.h"
static net_status see(void *user, uint32_t layer, uint32_t phase, uint32_t row, uint32_t rows) {
    uint32_t *seen = (uint32_t *)user;
    (void)row;
    seen[phase] += rows;
    return layer + 1 == NET_LAYERS && phase == 0 ? NET_ERR_STOPPED : NET_OK;
}
int main(void) {
    static net_context context;
    uint32_t seen[2] = {0, 0};
    if (net_init(&context) || net_set_callback(&context, see, seen)) return 1;
    if (net_run(&context) != NET_ERR_STOPPED) return 2;
    printf("%s\\n", seen[0] > seen[1] && seen[1] > 0 && net_layer_name(0)[0] ? "seen" : "missed");
    return 0;
}
""",
        encoding="utf-8",
    )
    build([gcc, *STRICT, *sources, str(main), "-o", str(tmp_path / "program"), "-lm"])
    assert run(tmp_path / "program") == "seen\n"


def test_a_plan_may_be_replaced_and_a_damaged_one_is_not_taken(tmp_path: Path) -> None:
    gcc = needed("gcc", package="gcc")
    sources = module(DIGITS, tmp_path / "net", replace(PLAIN, style=Style.PLAN))
    main = tmp_path / "main.c"
    main.write_text(
        """
#include <stdio.h>
#include <string.h>
#include "net.h"
extern const uint32_t net_constants[];
static union { uint8_t bytes[1 << 17]; uint64_t aligned[1]; } copy;
int main(void) {
    static net_context context;
    uint32_t bytes;
    if (net_init(&context)) return 1;
    memcpy(&bytes, (const uint8_t *)net_constants + 8, sizeof bytes);
    memcpy(copy.bytes, net_constants, bytes);
    if (net_set_plan(&context, copy.bytes, bytes) || net_run(&context)) return 2;
    copy.bytes[bytes / 2] ^= 1;
    if (net_set_plan(&context, copy.bytes, bytes) != NET_ERR_PLAN || net_run(&context)) return 3;
    puts("ok");
    return 0;
}
""",
        encoding="utf-8",
    )
    build([gcc, *STRICT, *sources, str(main), "-o", str(tmp_path / "program"), "-lm"])
    assert run(tmp_path / "program") == "ok\n"


def test_large_constants_are_a_binary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = needed("gcc", package="gcc")
    monkeypatch.setattr("trivet.backends.module.constants.LARGE", 1024)
    sources = module(DIGITS, tmp_path / "net", PLAIN)
    assert {p.name for p in (tmp_path / "net/src").iterdir()} >= {"net_constants.S", "net_constants.bin"}
    program = tmp_path / "program"
    build([gcc, *STRICT, *sources, str(tmp_path / "net/test/net_test.c"), "-o", str(program), "-lm"])
    assert run(program).endswith("passed\n")


@pytest.mark.parametrize("export", EXPORTS)
def test_a_module_has_few_files_and_is_the_same_wherever_it_is_made(
    export: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ModuleRequest(export=export)
    module(DIGITS, tmp_path / "one.zip", request)
    monkeypatch.setenv("TZ", "Pacific/Apia")
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "elsewhere" / DIGITS.name
    copy.parent.mkdir()
    copy.write_bytes(DIGITS.read_bytes())
    module(copy, Path("two.zip"), request)
    data = (tmp_path / "one.zip").read_bytes()
    assert data == (tmp_path / "two.zip").read_bytes()
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert len(names) <= 14 if export == "rust" else len(names) <= 13
    assert str(tmp_path).encode() not in data


def test_a_pack_describes_files_that_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    module(DIGITS, tmp_path / "net.pack", ModuleRequest(prefix="net", export="cmsis-pack"))
    with zipfile.ZipFile(tmp_path / "net.pack") as pack:
        names = pack.namelist()
        root = ElementTree.fromstring(pack.read("Trivet.net.pdsc"))
    files = [e.attrib["name"] for e in root.iter("file")]
    assert files and all(name in names or any(n.startswith(name) for n in names) for name in files)
    release = root.find("releases/release")
    assert release is not None and release.attrib["date"] == "2023-11-14"
    assert root.findtext("license") in names


def test_cmake_builds_the_folder_and_runs_its_test(tmp_path: Path) -> None:
    cmake, ctest = needed("cmake", package="cmake"), needed("ctest", package="cmake")
    module(DIGITS, tmp_path / "net", PLAIN)
    build([cmake, "-S", str(tmp_path / "net"), "-B", str(tmp_path / "build")])
    build([cmake, "--build", str(tmp_path / "build")])
    build([ctest, "--test-dir", str(tmp_path / "build"), "--output-on-failure"])


def test_decisions_and_memory_are_recorded(tmp_path: Path) -> None:
    module(DIGITS, tmp_path / "net", PLAIN)
    plan = json.loads((tmp_path / "net/plan.json").read_text())
    residency = json.loads((tmp_path / "net/residency.json").read_text())
    assert {d["kernel"] for d in plan["decisions"]} - {None} == {layer["kernel"] for layer in plan["layers"]}
    (region,) = residency["regions"]
    assert max(b["offset"] + b["bytes"] for b in residency["buffers"]) == region["bytes"]
    record = json.loads((tmp_path / "net/build-record.json").read_text())
    assert list(record["models"]) == [DIGITS.name] and record["configuration"]["prefix"] == "net"


def test_what_is_there_stays_unless_it_may_be_replaced(tmp_path: Path) -> None:
    output = tmp_path / "net"
    output.mkdir()
    (output / "precious").write_text("mine")
    with pytest.raises(Unsupported, match="is there already"):
        module(DIGITS, output, PLAIN)
    assert [p.name for p in tmp_path.iterdir()] == ["net"] and (output / "precious").read_text() == "mine"
    with pytest.raises(Unsupported, match="no C module"):
        module(DIGITS, output, replace(PLAIN, overwrite=True))
    assert (output / "precious").read_text() == "mine"


def test_a_module_is_replaced_whole(tmp_path: Path) -> None:
    output = tmp_path / "net"
    module(DIGITS, output, PLAIN)
    (output / "src" / "stale.c").write_text("int stale;")
    module(DIGITS, output, replace(PLAIN, overwrite=True))
    assert not (output / "src" / "stale.c").exists() and (output / "plan.json").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["net"]


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot write"):
        module(DIGITS, tmp_path / "absent" / "net", PLAIN)


@pytest.mark.parametrize("prefix", ["2fast", "Upper", "with-dash", "int", "", "trivet", "a b"])
def test_a_prefix_that_c_does_not_take_is_refused(prefix: str) -> None:
    with pytest.raises(Unsupported, match="cannot be the prefix"):
        check_prefix(prefix)


@pytest.mark.parametrize(("name", "prefix"), [("3-D net", "model_3_d_net"), ("int", "model_int"), ("???", "model")])
def test_a_prefix_is_made_of_the_file_name(name: str, prefix: str) -> None:
    assert default_prefix(name) == check_prefix(default_prefix(name)) == prefix


def test_identifiers_of_layers_are_all_different() -> None:
    assert unique_identifiers(["a/b", "a b", "", "for", "1x1"]) == ["a_b", "a_b_2", "layer", "layer_for", "layer_1x1"]


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_a_file_that_is_no_module_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(InvalidModel):
        Simulated(path)


def test_an_archive_that_would_write_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("../outside", "x")
    with pytest.raises(InvalidModel, match="lies outside"):
        Simulated(path)


def test_the_command_line_knows_every_export() -> None:
    assert tuple(EXPORTS) == flags.EXPORTS


def _schedules() -> st.SearchStrategy[Schedule]:
    entries = st.recursive(
        st.integers(0, 5),
        lambda inner: st.builds(Loop, st.integers(2, 4), st.lists(inner, min_size=1, max_size=4).map(tuple)),
        max_leaves=12,
    )
    return st.lists(entries, max_size=6).map(tuple)


@given(_schedules())
def test_loops_stand_for_the_order_they_were_found_in(schedule: Schedule) -> None:
    order = unrolled(schedule)
    assert unrolled(loops(order)) == order


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0], (0,)),
        ([0, 0, 0], (Loop(3, (0,)),)),
        ([0, 0, 1, 0, 0, 1, 2], (Loop(2, (Loop(2, (0,)), 1)), 2)),
    ],
    ids=["one", "a run", "a loop in a loop"],
)
def test_the_repetition_that_saves_most_becomes_a_loop(order: list[int], expected: Schedule) -> None:
    assert loops(order) == expected
