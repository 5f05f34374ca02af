"""What a user can send us when a pass broke a program: the report, and a file that shows the fault again."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from trivet.passes.manager import PassVerifyError


def report(error: PassVerifyError) -> str:
    """The message for a terminal; the reproducer is written beside."""
    path = write_reproducer(error)
    return (
        f"internal error: {error}\n"
        f"---- before {error.pass_name}\n{_elided(error.before)}"
        f"---- after {error.pass_name}\n{_elided(error.after)}"
        f"The program before it is in {path}; this shows the fault again:\n"
        f"  {error.command(str(path))}\n"
        "This is a fault of Trivet, please report it. --disable leaves a pass out."
    )


def write_reproducer(error: PassVerifyError) -> Path:
    """A new file in the working directory, or in the temporary one where that cannot be written."""
    stem = "trivet-" + re.sub(r"[^a-z0-9-]+", "-", error.pass_name).strip("-")[:60]
    for directory in (Path(), Path(tempfile.gettempdir())):
        path = next(p for n in range(10_000) if not (p := directory / f"{stem}{f'-{n}' if n else ''}.tir").exists())
        try:
            path.write_text(error.reproducer().replace("THIS_FILE", str(path)), encoding="utf-8")
        except OSError:
            continue
        return path
    raise error


def _elided(text: str) -> str:
    """The text of a graph without the data of its large constants."""
    return text.partition("\nresources {")[0]
