"""The `trivet` command as a process of its own: what makes it start quickly, and its end.

A command is short. More than half of its time would go into importing numpy and what numpy imports, and of that again
nearly half into docstrings for `help()`, into types for type checkers, and into modules that no command uses.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from trivet.core.late import late, put_off

if TYPE_CHECKING:
    from trivet.cli import main
else:
    main = late("trivet.cli.main")

UNUSED: dict[str, dict[str, object]] = {
    "ctypes": {},
    "ipaddress": {},
    "linecache": {},
    "numpy._core._add_newdocs": {},
    "numpy._core._add_newdocs_scalars": {},
    "numpy._typing": {"NDArray": list},  # numpy.linalg writes annotations with it, which nobody reads
    "numpy.lib.introspect": {},
    "numpy.lib.mixins": {},
    "numpy.lib.npyio": {},
    "numpy.lib.scimath": {},
    "numpy.typing": {},
    "pickle": {},
    "platform": {},
    "shlex": {},
    "textwrap": {},
    "token": {},
    "tokenize": {},
}
"""What numpy, argparse, pathlib and dataclasses import, and few commands use: put off until one does."""


def entry() -> NoReturn:
    """Run the command line of this process.

    Threads for products of large matrices and the search for cyclic garbage take longer than they are worth here. One
    thread also makes sums of floats the same on every machine of a kind.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy reads it when it is imported
    gc.disable()
    put_off(UNUSED)
    _leave(main.main())


def _leave(code: int) -> NoReturn:
    """End the process at once: to free every object of every module takes a tenth of a whole compilation."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        sys.exit(code)  # Python says what is wrong with the stream
    os._exit(code)
