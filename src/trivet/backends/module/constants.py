"""The constants of a module: an array in C, or where it is large a binary file that the assembler includes."""

from __future__ import annotations

import struct

from trivet.backends.module.options import ModuleOptions
from trivet.backends.records import align

LARGE = 1 << 20
"""From this many bytes on a binary file: compilers need seconds for as many numbers."""

_WORDS_A_LINE = 12


def constant_files(data: bytes, options: ModuleOptions) -> dict[str, bytes]:
    """The files that define `<prefix>_constants`."""
    p = options.prefix
    data = data.ljust(max(4, align(len(data), 4)), b"\0")
    if len(data) >= LARGE:
        return {f"{p}_constants.bin": data, f"{p}_constants.S": _assembler(p).encode()}
    return {f"{p}_constants.c": _array(data, p).encode()}


def _array(data: bytes, p: str) -> str:
    words = [f"0x{word:x}" for (word,) in struct.iter_unpack("<I", data)]
    lines = [",".join(words[i : i + _WORDS_A_LINE]) + "," for i in range(0, len(words), _WORDS_A_LINE)]
    body = "\n".join(lines)
    return f"""\
/* Constants, {len(data)} bytes: each begins at a multiple of 16. */
#include "{p}.h"

extern const uint32_t {p}_constants[];

{p.upper()}_ALIGNED(16) const uint32_t {p}_constants[{len(words)}] {p.upper()}_CONSTANTS_SECTION = {{
{body}
}};
"""


def _assembler(p: str) -> str:
    return f"""\
/* Weights and tables: each begins at a multiple of 16. The file is found where this one is, or in a directory that
 * the compiler is told of with -I. */
#if defined(__APPLE__)
    .section __TEXT,__const
#define SYMBOL _{p}_constants
#else
#ifndef {p.upper()}_CONSTANTS_ASM_SECTION
#define {p.upper()}_CONSTANTS_ASM_SECTION .rodata.{p}_constants, "a"
#endif
    .section {p.upper()}_CONSTANTS_ASM_SECTION
#define SYMBOL {p}_constants
#endif
    .balign 16
    .global SYMBOL
SYMBOL:
    .incbin "{p}_constants.bin"
#if defined(__ELF__)
    .size SYMBOL, . - SYMBOL
    .section .note.GNU-stack, "", %progbits
#endif
"""
