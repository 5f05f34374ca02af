"""Build files: how the sources of a module enter somebody's build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from trivet.core.record import dataclass
from trivet.core.version import __version__

_RUST_LIB = Path(__file__).parent / "data" / "lib.rs"


@dataclass(frozen=True, slots=True)
class Contents:
    """What build files name: the prefix, the model's name, and the sources and test in folders of the module."""

    prefix: str
    name: str
    sources: tuple[str, ...]
    test: str | None

    @property
    def has_assembler(self) -> bool:
        return any(source.endswith(".S") for source in self.sources)


def cmake(contents: Contents) -> dict[str, str]:
    """A library target of the prefix's name, and with a test program one that ctest runs."""
    p = contents.prefix
    languages = "C ASM" if contents.has_assembler else "C"
    test = (
        f"""
add_executable({p}_test ${{CMAKE_CURRENT_SOURCE_DIR}}/{contents.test})
target_link_libraries({p}_test PRIVATE {p})
enable_testing()
add_test(NAME {p}_test COMMAND {p}_test)
"""
        if contents.test
        else ""
    )
    return {
        "CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.13)
project({p} LANGUAGES {languages})

add_library({p} STATIC
{_indented(contents.sources)})
target_include_directories({p} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}/include PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}}/src)
set_target_properties({p} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  # Sums of floats are the same with and without fused multiply-add units only if they are not fused.
  target_compile_options({p} PRIVATE $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off -ffunction-sections -fdata-sections>)
endif()
if(UNIX AND NOT CMAKE_CROSSCOMPILING)
  target_link_libraries({p} PUBLIC m)
endif()
{_include_assembler(contents)}{test}"""
    }


def _include_assembler(contents: Contents) -> str:
    if not contents.has_assembler:
        return ""
    names = " ".join(source for source in contents.sources if source.endswith(".S"))
    return f'set_source_files_properties({names} PROPERTIES COMPILE_OPTIONS "-I${{CMAKE_CURRENT_SOURCE_DIR}}/src")\n'


def zephyr(contents: Contents) -> dict[str, str]:
    """A module that west or ZEPHYR_EXTRA_MODULES finds, enabled by CONFIG_<PREFIX>."""
    p, upper = contents.prefix, contents.prefix.upper()
    sources = "\n".join(f"  zephyr_library_sources(../{source})" for source in contents.sources)
    return {
        "zephyr/module.yml": f"name: {p}\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n",
        "zephyr/Kconfig": f"""\
config {upper}
    bool "{_words(contents.name)}, a neural network"
    help
      Builds the network, which runs without any further software.
""",
        "zephyr/CMakeLists.txt": f"""\
if(CONFIG_{upper})
  zephyr_include_directories(../include)
  zephyr_library_named({p})
  zephyr_library_include_directories(../src)
{sources}
  zephyr_library_compile_options($<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>)
endif()
""",
    }


def esp_idf(contents: Contents) -> dict[str, str]:
    """A component; put the folder among the project's components."""
    sources = " ".join(f'"{source}"' for source in contents.sources)
    return {
        "CMakeLists.txt": f"""\
idf_component_register(SRCS {sources} INCLUDE_DIRS "include" PRIV_INCLUDE_DIRS "src")
target_compile_options(${{COMPONENT_LIB}} PRIVATE $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>)
""",
        "idf_component.yml": f'version: "{__version__}"\ndescription: "{_words(contents.name)}, a neural network"\n'
        'license: "Apache-2.0"\ndependencies:\n  idf: ">=4.4"\n',
    }


def arduino(contents: Contents) -> dict[str, str]:
    """A library for the Arduino IDE and arduino-cli."""
    return {
        "library.properties": f"""\
name={contents.prefix}
version={_semantic()}
author=Trivet
maintainer=Trivet
sentence={_words(contents.name)}, a neural network that runs without any further software.
paragraph=Include {contents.prefix}.h, which says how it is used.
category=Data Processing
url=https://example.org/{contents.prefix}
architectures=*
includes={contents.prefix}.h
"""
    }


def platformio(contents: Contents) -> dict[str, str]:
    """A library for PlatformIO."""
    return {
        "library.json": f"""\
{{
  "name": "{contents.prefix}",
  "version": "{_semantic()}",
  "description": "{_words(contents.name)}, a neural network that runs without any further software",
  "license": "Apache-2.0",
  "frameworks": "*",
  "platforms": "*",
  "headers": "{contents.prefix}.h",
  "build": {{"includeDir": "include", "srcDir": "src", "flags": ["-ffp-contract=off", "-I", "src"]}}
}}
"""
    }


def rust(contents: Contents) -> dict[str, str]:
    """A `no_std` crate around the C; cargo builds both."""
    p = contents.prefix
    lib = _RUST_LIB.read_text(encoding="utf-8").replace("PREFIX", p).replace("UPPER", p.upper())
    crate = p.replace("_", "-")
    files = ", ".join(f'"{source}"' for source in contents.sources)
    return {
        "Cargo.toml": f"""\
[package]
name = "{crate}"
version = "{_semantic()}"
edition = "2021"
license = "Apache-2.0"
description = "{_words(contents.name)}, a neural network"
build = "rust/build.rs"

[lib]
path = "rust/lib.rs"

[build-dependencies]
cc = "1"
""",
        "rust/build.rs": f"""\
fn main() {{
    let mut build = cc::Build::new();
    build.include("include").include("src").flag_if_supported("-ffp-contract=off");
    for file in [{files}] {{
        build.file(file);
        println!("cargo:rerun-if-changed={{file}}");
    }}
    build.compile("{p}");
}}
""",
        "rust/lib.rs": lib.replace("NAME", _words(contents.name)).replace("VERSION", __version__),
    }


def cmsis_pack(contents: Contents) -> dict[str, str]:
    """The description of a CMSIS-Pack with one component."""
    p = contents.prefix
    files = "\n".join(
        f'        <file category="{"sourceAsm" if source.endswith(".S") else "sourceC"}" name="{source}"/>'
        for source in contents.sources
    )
    return {
        f"Trivet.{p}.pdsc": f"""\
<?xml version="1.0" encoding="UTF-8"?>
<package schemaVersion="1.7.7" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"
         xs:noNamespaceSchemaLocation="PACK.xsd">
  <vendor>Trivet</vendor>
  <name>{p}</name>
  <description>{_words(contents.name)}, a neural network that runs without any further software</description>
  <url/>
  <license>LICENSE</license>
  <releases>
    <release version="{_semantic()}" date="{{DATE}}">Made by Trivet {__version__}</release>
  </releases>
  <keywords>
    <keyword>neural network</keyword>
  </keywords>
  <conditions>
    <condition id="C99">
      <description>A C compiler</description>
      <accept Tcompiler="ARMCC" Toptions="AC6"/>
      <accept Tcompiler="GCC"/>
      <accept Tcompiler="CLANG"/>
      <accept Tcompiler="IAR"/>
    </condition>
  </conditions>
  <components>
    <component Cclass="Machine Learning" Cgroup="Network" Csub="{p}" Cversion="{_semantic()}" condition="C99">
      <description>{_words(contents.name)}</description>
      <files>
        <file category="doc" name="README.md"/>
        <file category="include" name="include/"/>
        <file category="header" name="include/{p}.h"/>
        <file category="include" name="src/"/>
{files}
      </files>
    </component>
  </components>
</package>
"""
    }


EXPORTS: dict[str, Callable[[Contents], dict[str, str]]] = {
    "cmake": cmake,
    "zephyr": zephyr,
    "esp-idf": esp_idf,
    "arduino": arduino,
    "platformio": platformio,
    "rust": rust,
    "cmsis-pack": cmsis_pack,
}
"""Kinds of build files by name."""


def _indented(names: Sequence[str]) -> str:
    return "\n".join(f"  {name}" for name in names)


def _words(name: str) -> str:
    """A model's name where letters and digits are safe everywhere."""
    return "".join(c if c.isalnum() and c.isascii() else " " for c in name).strip() or "A model"


def _semantic() -> str:
    """The version as three numbers."""
    numbers = [part for part in __version__.split(".") if part.isdigit()]
    return ".".join([*numbers, "0", "0", "0"][:3])
