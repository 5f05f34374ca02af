"""The `trivet` command: finds the subcommand, and turns every outcome into a message and an exit code.

Exit codes: 0 fine; 1 the model or the budget is at fault; 2 wrong usage; 3 a fault of the compiler.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from trivet import __version__
from trivet.cli.registry import COMMANDS, Command

USER_FAULT = 1
USAGE = 2
OUR_FAULT = 3


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The whole parser; only the command called `chosen` gets its arguments (None: no command does)."""
    parser = argparse.ArgumentParser(
        prog="trivet", description="Fits neural networks into machines with kilobytes.", allow_abbrev=False
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name, help=command.summary, description=_sentence(command), allow_abbrev=False
        )
        if command.name == chosen:
            command.load().configure(sub)
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
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    parser = build_parser(chosen)
    parsed = parser.parse_args(arguments)
    if parsed.version:
        print(f"trivet {__version__}")
        return 0
    command = next((c for c in COMMANDS if c.name == parsed.command), None)
    if command is None:
        parser.print_help()
        return USAGE
    return _guarded(command, parsed)


def _guarded(command: Command, parsed: argparse.Namespace) -> int:
    from_module = command.load()
    try:
        return int(from_module.run(parsed))
    except BrokenPipeError:
        # The reader of our output went away: that is its right. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _report(error)


def _report(error: Exception) -> int:
    """One message on stderr, and the exit code that says whose fault it is."""
    kind = {type_.__name__ for type_ in type(error).__mro__}
    if kind & {"UsageError", "UnknownPass"}:
        print(f"trivet: {error}", file=sys.stderr)
        return USAGE
    if "CompileError" in kind:
        print(f"error: {error}", file=sys.stderr)
        return USER_FAULT
    if "PassVerifyError" in kind:
        print(f"internal error: {error}", file=sys.stderr)
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
    sys.exit(main())
