"""The `trivet` command: finds the subcommand, and turns every outcome into a message and an exit code.

Exit codes: 0 fine; 1 the model or the budget is at fault; 2 wrong usage; 3 a fault of the compiler.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trivet import __version__
from trivet.cli.registry import COMMANDS, Command
from trivet.core.late import late

if TYPE_CHECKING:
    import difflib
else:
    difflib = late("difflib")

USER_FAULT = 1
USAGE = 2
OUR_FAULT = 3


CONFIGURATION_MODULE = "trivet.cli.configuration"
REPRODUCER_MODULE = "trivet.cli.reproducer"
DEFAULT_FILE = "trivet.toml"


class _Formatter(argparse.HelpFormatter):
    """Argparse makes one for many arguments, and asks `shutil`, which is slow to import, for the terminal's width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width of the terminal; $COLUMNS goes before it, and it is 80 where there is none."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdigit() and int(stated) > 0:
        return int(stated)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, ValueError, OSError):
        return 80


def build_parser(chosen: str | None, configuration: Path | None = None) -> argparse.ArgumentParser:
    """The whole parser; only the command called `chosen` gets its arguments (None: no command does).

    `configuration` is a file whose settings become the defaults of the flags.
    """
    parser = argparse.ArgumentParser(
        prog="trivet",
        description="Fits neural networks into machines with kilobytes.",
        allow_abbrev=False,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--config", metavar="FILE", help=f"settings, TOML or YAML (default: {DEFAULT_FILE} if present)")
    parser.add_argument("--print-completion", choices=("bash", "zsh", "tcsh"), help="print a shell's completion script")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    named = [command for command in COMMANDS if command.name == chosen]
    for command in named or COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=_sentence(command),
            allow_abbrev=False,
            formatter_class=_Formatter,
        )
        if command.name == chosen:
            command.load().configure(sub)
            if configuration is not None:
                settings = importlib.import_module(CONFIGURATION_MODULE)
                settings.apply(sub, settings.read_configuration(configuration))
    return parser


def full_parser() -> argparse.ArgumentParser:
    """The parser with the arguments of every command, for shell completion."""
    parser = build_parser(None)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in COMMANDS:
                command.load().configure(action.choices[command.name])
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the process's exit code."""
    return _guarded(_joined(sys.argv[1:] if argv is None else argv))


def _joined(arguments: Sequence[str]) -> list[str]:
    """`--i32-range -5:5` as `--i32-range=-5:5`: argparse takes what begins with a minus for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and re.fullmatch(r"--[a-z0-9-]+", joined[-1]) and re.match(r"-\d", argument):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _dispatch(arguments: Sequence[str]) -> int:
    first, rest = _leading(arguments)
    chosen = rest[0] if rest else None
    names = [command.name for command in COMMANDS]
    if chosen is not None and chosen not in names:
        close = difflib.get_close_matches(chosen, names, 1)
        print(f"trivet: unknown command '{chosen}'" + _suggestion(close, names), file=sys.stderr)
        return USAGE
    parser = build_parser(chosen, _configuration(first))
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = _options(parser) + (_options(_subparser(parser, parsed.command)) if parsed.command else [])
        close = difflib.get_close_matches(unknown[0].partition("=")[0], known, 1)
        raised = f", did you mean {close[0]}?" if close else ""
        print(f"trivet: unrecognized arguments: {' '.join(unknown)}{raised}", file=sys.stderr)
        return USAGE
    if parsed.version:
        print(f"trivet {__version__}")
        return 0
    if parsed.print_completion is not None:
        print(importlib.import_module("shtab").complete(full_parser(), parsed.print_completion))
        return 0
    command = next((c for c in COMMANDS if c.name == parsed.command), None)
    if command is None:
        parser.print_help(sys.stderr)
        return USAGE
    return int(command.load().run(parsed))


def _subparser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    groups = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found = next(groups).choices[name]
    assert isinstance(found, argparse.ArgumentParser)
    return found


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _suggestion(close: Sequence[str], names: Sequence[str]) -> str:
    return f", did you mean '{close[0]}'?" if close else f"; commands: {', '.join(names)}"


def _leading(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments before the command, and from the command on."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] in ("--config", "--print-completion") else 1
    return list(arguments[:position]), list(arguments[position:])


def _configuration(leading: Sequence[str]) -> Path | None:
    """The file of `--config FILE` or `--config=FILE`, else the default file where it exists."""
    for index, argument in enumerate(leading):
        if argument == "--config" and index + 1 < len(leading):
            return Path(leading[index + 1])
        if argument.startswith("--config="):
            return Path(argument.partition("=")[2])
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None


def _guarded(arguments: Sequence[str]) -> int:
    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        # The reader of our output went away: that is its right. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # the outermost place: no traceback reaches a user, _report says whose fault it is
        return _report(error)


def _report(error: Exception) -> int:
    """One message on stderr, and the exit code that says whose fault it is."""
    kind = {type_.__name__ for type_ in type(error).__mro__}
    if kind & {"UsageError", "UnknownPass", "ArgumentTypeError"}:
        print(f"trivet: {error}", file=sys.stderr)
        return USAGE
    if "CompileError" in kind:
        print(f"error: {error}", file=sys.stderr)
        return USER_FAULT
    if "PassVerifyError" in kind:
        print(importlib.import_module(REPRODUCER_MODULE).report(error), file=sys.stderr)
        return OUR_FAULT
    if os.environ.get("TRIVET_DEBUG"):
        raise error
    print(
        f"internal error: {type(error).__name__}: {error}\n"
        "  This is a fault of Trivet. Set TRIVET_DEBUG=1 for a traceback, and please report it.",
        file=sys.stderr,
    )
    return OUR_FAULT


def _sentence(command: Command) -> str:
    return command.summary[0].upper() + command.summary[1:] + "."


if __name__ == "__main__":
    importlib.import_module("trivet.cli.start").entry()
