"""Build files: how the sources of a module enter somebody's build."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trivet.core.record import dataclass
from trivet.core.version import __version__


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
    p, upper = contents.prefix, contents.prefix.upper()
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
        "rust/lib.rs": f"""\
//! {_words(contents.name)}, a neural network. One instance at a time: its memory is static.
#![no_std]

use core::ffi::{{c_char, c_int, c_void, CStr}};
use core::mem::MaybeUninit;

/// As large as the module's context on every machine with pointers of 64 bits or less.
#[repr(C, align(8))]
struct Context([MaybeUninit<u8>; 128]);

extern "C" {{
    fn {p}_init(context: *mut Context) -> c_int;
    fn {p}_reset(context: *mut Context) -> c_int;
    fn {p}_run(context: *mut Context) -> c_int;
    fn {p}_input(context: *mut Context, index: u32) -> *mut c_void;
    fn {p}_output(context: *const Context, index: u32) -> *const c_void;
    fn {p}_input_port(index: u32) -> *const Port;
    fn {p}_output_port(index: u32) -> *const Port;
    fn {p}_status_text(status: c_int) -> *const c_char;
}}

/// An input or output: real = scale * (stored - zero_point).
#[repr(C)]
pub struct Port {{
    name: *const c_char,
    pub dtype: c_int,
    pub rank: u32,
    pub shape: [u32; 8],
    pub bytes: u32,
    pub scale: f32,
    pub zero_point: i32,
}}

/// What went wrong; the text is English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub i32);

impl Error {{
    pub fn text(&self) -> &'static str {{
        unsafe {{ CStr::from_ptr({p}_status_text(self.0)).to_str().unwrap_or("unknown status") }}
    }}
}}

/// The network. Only one may exist at a time.
pub struct Network(Context);

fn checked(status: c_int) -> Result<(), Error> {{
    if status == 0 {{ Ok(()) }} else {{ Err(Error(status)) }}
}}

impl Network {{
    /// # Safety
    /// All instances share one static memory: no other may be in use.
    pub unsafe fn new() -> Result<Self, Error> {{
        let mut context = Context([MaybeUninit::uninit(); 128]);
        checked({p}_init(&mut context))?;
        Ok(Network(context))
    }}

    /// States get their initial values.
    pub fn reset(&mut self) -> Result<(), Error> {{
        checked(unsafe {{ {p}_reset(&mut self.0) }})
    }}

    /// The bytes of an input; write them before every run.
    pub fn input(&mut self, index: u32) -> Option<&mut [u8]> {{
        unsafe {{
            let port = {p}_input_port(index).as_ref()?;
            let data = {p}_input(&mut self.0, index) as *mut u8;
            if data.is_null() {{ None }} else {{ Some(core::slice::from_raw_parts_mut(data, port.bytes as usize)) }}
        }}
    }}

    pub fn run(&mut self) -> Result<(), Error> {{
        checked(unsafe {{ {p}_run(&mut self.0) }})
    }}

    /// The bytes of an output, valid until the next run.
    pub fn output(&self, index: u32) -> Option<&[u8]> {{
        unsafe {{
            let port = {p}_output_port(index).as_ref()?;
            let data = {p}_output(&self.0, index) as *const u8;
            if data.is_null() {{ None }} else {{ Some(core::slice::from_raw_parts(data, port.bytes as usize)) }}
        }}
    }}
}}

pub const TRIVET_{upper}: &str = "{__version__}";
""",
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
