"""What flags mean: sizes, shapes, names; and the flags that several commands share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trivet.core.interval import Interval
from trivet.core.late import late

if TYPE_CHECKING:
    import difflib
    import json
else:
    difflib = late("difflib")
    json = late("json")

_SUFFIX = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_SIZE = r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})\s*([KMG]?)(?:i?B)?"


class UsageError(Exception):
    """The command line makes no sense; exits 2."""


def size(text: str) -> int:
    """Bytes from `4096`, `64K`, `1.5M`; K is 1024."""
    match = re.fullmatch(_SIZE, text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write bytes, or a number with K or M (64K, 1.5M)")
    whole, _, decimals = match[1].partition(".")
    digits, unit = int(whole + decimals), _SUFFIX[match[2].upper()]
    return digits * unit // int(f"1{'0' * len(decimals)}")


def natural(text: str) -> int:
    """An integer from 0."""
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no integer from 0")
    return int(text)


def overhead(text: str) -> float:
    """A finite number of at least 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= 1000.0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 1000")
    return value


def positive(text: str) -> int:
    """An integer from 1."""
    if re.fullmatch(r"0*[1-9][0-9]{0,17}", text) is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no integer from 1")
    return int(text)


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME:1x3x96x96` as a name and a shape; names may contain colons."""
    name, colon, dims = text.rpartition(":")
    if not colon or not re.fullmatch(r"\d+(x\d+)*", dims):
        raise argparse.ArgumentTypeError(f"'{text}' is no input shape: write NAME:1x3x96x96")
    return name, tuple(int(d) for d in dims.split("x"))


def interval(text: str) -> Interval:
    """`LO:HI`, or `N` for -N to N."""
    low, colon, high = text.rpartition(":")
    try:
        lo, hi = (int(low), int(high)) if colon else (-int(high), int(high))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no range: write LO:HI, or N for -N to N") from None
    if not -(1 << 31) <= lo <= hi < 1 << 31:
        raise argparse.ArgumentTypeError(f"'{text}' is no range of i32 values")
    return Interval(lo, hi)


def memory_region(text: str) -> tuple[str, int, int]:
    """`NAME=SIZE[:ALIGN]` as a name, bytes and an alignment, 1 if none is given."""
    name, equals, rest = text.partition("=")
    bytes_text, colon, alignment = rest.partition(":")
    if not name or not equals or (colon and re.fullmatch(r"[0-9]{1,9}", alignment) is None):
        raise argparse.ArgumentTypeError(f"'{text}' is no memory: write NAME=SIZE, or NAME=SIZE:ALIGNMENT")
    return name, size(bytes_text), int(alignment) if colon else 1


def pin(text: str) -> tuple[str, str]:
    """`TENSOR=REGION`; the tensor's name may hold equals signs."""
    name, equals, region = text.rpartition("=")
    if not name or not equals or not region:
        raise argparse.ArgumentTypeError(f"'{text}' is no pin: write TENSOR=REGION, or @KIND=REGION")
    return name, region


def pass_option(text: str) -> tuple[str, str, str]:
    """`PASS.KEY=VALUE` as its three parts."""
    match = re.fullmatch(r"([^=.]+)\.([^=.]+)=(.*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no option of a pass: write PASS.KEY=VALUE")
    return match[1], match[2], match[3]


def named_file(text: str) -> tuple[str | None, str]:
    """`x.npy` or `NAME=x.npy`."""
    name, equals, path = text.partition("=")
    return (name, path) if equals else (None, text)


def choose(kind: str, given: str, known: Iterable[str]) -> str:
    """`given` if it is one of `known`.

    Raises: UsageError with a suggestion.
    """
    names = list(known)
    if given in names:
        return given
    close = difflib.get_close_matches(given, names, 1)
    raise UsageError(
        f"unknown {kind} '{given}'" + (f", did you mean '{close[0]}'?" if close else f"; known: {', '.join(names)}")
    )


def add_model(parser: argparse.ArgumentParser, many: bool = False) -> None:
    """The model file, and how to read it."""
    parser.add_argument(
        "model", nargs="+" if many else None, metavar="MODEL", help=".onnx, .tflite, .tiny or .tir file"
    )
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How a model file is read."""
    group = parser.add_argument_group("reading the model")
    group.add_argument(
        "--input-shape",
        action="append",
        type=input_shape,
        default=[],
        metavar="NAME:1x3x96x96",
        help="shape of an input with free dimensions; the others become 1",
    )
    group.add_argument(
        "--bind",
        action="append",
        type=named_file,
        default=[],
        metavar="NAME=x.npy",
        help="make an input a constant (for example one that decides a shape)",
    )
    group.add_argument(
        "--format",
        choices=("onnx", "tflite", "tiny", "tir"),
        help="of the model's file (default: what its suffix says)",
    )
    group.add_argument(
        "--subgraph", type=natural, default=0, metavar="N", help="which computation of the file (default 0)"
    )
    group.add_argument(
        "--numerics",
        choices=("tflm", "litert", "onnx"),
        help="whose integer arithmetic to reproduce (default: tflm for TFLite, onnx for ONNX)",
    )


def add_pipeline(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """What the graph pipeline does."""
    group = parser.add_argument_group("graph pipeline")
    for number, meaning in enumerate(("no optimizations", "the default", "as -O1; backends add kernel passes")):
        group.add_argument(f"-O{number}", dest="level", action="store_const", const=number, help=meaning)
    group.add_argument(
        "--disable", action="append", default=[], metavar="PASS", help="leave a pass out; '*' stands for all of them"
    )
    group.add_argument(
        "--enable", action="append", default=[], metavar="PASS", help="run a pass that '*' or the file leaves out"
    )
    group.add_argument(
        "--pass-option",
        action="append",
        type=pass_option,
        default=[],
        metavar="PASS.KEY=VALUE",
        help="set an option of a pass; '*' stands for every pass that has it",
    )
    group.add_argument(
        "--io-layout",
        choices=("storage", "model"),
        default="storage",
        help="axis order of inputs and outputs in the artifact: channels last (default), or the model's own",
    )
    group.add_argument(
        "--i32-range", type=interval, metavar="LO:HI", help="what i32 inputs of .tiny programs hold (default +-2^20)"
    )
    parser.set_defaults(level=1)
    return group


def add_passes(parser: argparse.ArgumentParser) -> None:
    """What the graph pipeline does, and what it shows."""
    group = add_pipeline(parser)
    group.add_argument(
        "--verify-each", action="store_true", help="compare the program with the original after every pass"
    )
    group.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of the inputs that --verify-each draws"
    )
    group.add_argument("--print-after-all", action="store_true", help="dump the graph after every pass")
    group.add_argument("--print-changed", action="store_true", help="dump the graph after passes that changed it")
    for when in ("before", "after"):
        group.add_argument(
            f"--print-{when}", action="append", default=[], metavar="PASS", help=f"dump the graph {when} a pass"
        )
    group.add_argument(
        "--print-ranges", action="store_true", help="print the interval of every integer value and every sum"
    )
    group.add_argument("--time-passes", action="store_true", help="print the time of every pass")
    group.add_argument("--stats", action="store_true", help="print how often every rewrite fired")


def add_machine(group: argparse._ArgumentGroup, meaning: str) -> None:
    """What to compile for."""
    group.add_argument("--target", metavar="NAME[:N]", help=meaning)
    group.add_argument("--machine", metavar="FILE.toml", help="sizes and speeds of an accelerator")
    group.add_argument("--isa", metavar="NAME", help="instruction set of an accelerator")


def add_budgets(parser: argparse.ArgumentParser) -> None:
    """How much memory there is, and how to use it."""
    group = parser.add_argument_group("budgets")
    add_machine(group, "board or core, which gives the budgets that no flag gives, or an accelerator")
    group.add_argument(
        "--kernels",
        choices=("target", "portable"),
        default="target",
        help="target: kernels for the target's instruction set where there are some (default); portable: none of them",
    )
    group.add_argument("-m", "--fast", type=size, metavar="SIZE", help="fast memory (arena, scratch, input, output)")
    group.add_argument(
        "--region",
        action="append",
        type=memory_region,
        default=[],
        metavar="NAME=SIZE[:ALIGN]",
        help="one of several fast memories, instead of -m; the best first",
    )
    group.add_argument(
        "--pin",
        action="append",
        type=pin,
        default=[],
        metavar="TENSOR=NAME",
        help="where a tensor lies, or all of a kind (@input, @output, @state, @activation)",
    )
    group.add_argument("--slow", type=size, metavar="SIZE", help="slow memory, for what does not fit")
    group.add_argument("-f", "--flash", type=size, metavar="SIZE", help="flash (the plan with its weights)")
    group.add_argument(
        "--optimize",
        choices=("speed", "memory"),
        default="speed",
        help="speed: the quickest plan that fits the budgets (default); memory: the smallest there is",
    )
    group.add_argument(
        "--allocator",
        choices=("greedy", "greedy_by_size", "hill_climb", "exact"),
        default="exact",
        help="how addresses are chosen (default exact)",
    )
    group.add_argument(
        "--max-overhead",
        type=overhead,
        default=1.0,
        metavar="X",
        help="MACs that may be executed, in relation to those of the layers (default 1.0: nothing is computed twice)",
    )
    group.add_argument("--input-rows", action="store_true", help="the caller gives inputs row by row")
    group.add_argument("--output-rows", action="store_true", help="the caller takes outputs row by row")
    weights = group.add_mutually_exclusive_group()
    weights.add_argument(
        "--xip", action=argparse.BooleanOptionalAction, default=True, help="weights are read from flash (default)"
    )
    weights.add_argument(
        "--compress", choices=("lz4",), help="weights are compressed, and decoded into fast memory when needed"
    )
    group.add_argument("--preserve-input", action="store_true", help="never overwrite the input buffer")


EXPORTS = ("cmake", "zephyr", "esp-idf", "arduino", "platformio", "rust", "cmsis-pack")


def add_module(parser: argparse.ArgumentParser) -> None:
    """What a C module is like."""
    group = parser.add_argument_group("C modules")
    group.add_argument("--prefix", metavar="NAME", help="begins every C name (default: from the model's file name)")
    group.add_argument(
        "--style",
        choices=("code", "plan"),
        default="code",
        help="code: the schedule is C (default); plan: the plan is data, and may be replaced in the field",
    )
    group.add_argument(
        "--schedule",
        choices=("static", "table"),
        default="static",
        help="static: straight calls and loops (default); table: a table that a loop walks, with a callback",
    )
    group.add_argument(
        "--memory",
        choices=("static", "caller"),
        default="static",
        help="who owns the network's memory (default static)",
    )
    group.add_argument("--export", choices=EXPORTS, help="kind of build files (default cmake; .pack: cmsis-pack)")
    group.add_argument("--with-test", action="store_true", help="add a main program that compares with the oracle")
    group.add_argument("--force", action="store_true", help="replace an output that is there already")


def add_output_style(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    add_verbosity(parser)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="only errors")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="more detail; twice: all there is")


def note(text: str, quiet: bool = False) -> None:
    """A remark for the person at the terminal, on stderr."""
    if not quiet:
        print(text, file=sys.stderr)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
