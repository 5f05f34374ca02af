"""Every kind of build files: built with its build system, or where that cannot be installed, as it would use them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from module_builds import EXAMPLES, STRICT, build, module, needed, run

from trivet.backends.module.glue import EXPORTS
from trivet.exporting import ModuleRequest

DIGITS = EXAMPLES / "models" / "digits_int8.tflite"
SOURCES = Path(__file__).resolve().parents[2] / "src"
PROGRAM = """
#include <stdio.h>
#include "net.h"
int main(void) {
    static net_context context;
    puts(net_init(&context) == NET_OK && net_run(&context) == NET_OK ? "ran" : "failed");
    return 0;
}
"""
SEMANTIC = r"\d+\.\d+\.\d+"


def exported(export: str, output: Path) -> Path:
    module(DIGITS, output, ModuleRequest(prefix="net", export=export))
    return output


# The same bytes wherever and whenever.

BUILD_ALL = f"""
import sys
from pathlib import Path
from trivet.driver import Settings
from trivet.exporting import ModuleRequest, compile_module
for export in {list(EXPORTS)!r}:
    compile_module(Path(sys.argv[1]), Path(export + ".zip"), Settings(), ModuleRequest(export=export, samples=1))
"""


def hashes(folder: Path, **environment: str) -> dict[str, str]:
    """SHA-256 of an archive of every kind, made in a process of its own in that folder."""
    folder.mkdir(parents=True)
    model = folder / DIGITS.name
    model.write_bytes(DIGITS.read_bytes())
    env = {**os.environ, "PYTHONPATH": str(SOURCES), "HOME": str(folder), **environment}
    subprocess.run([sys.executable, "-c", BUILD_ALL, str(model)], cwd=folder, env=env, check=True)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.glob("*.zip"))}


def test_modules_are_the_same_in_every_environment(tmp_path: Path) -> None:
    day = "1700000000"
    one = hashes(tmp_path / "a", PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C", SOURCE_DATE_EPOCH=day)
    two = hashes(
        tmp_path / "deep" / "folder", PYTHONHASHSEED="77", TZ="Pacific/Apia", LC_ALL="C.UTF-8",
        PYTHONOPTIMIZE="1", SOURCE_DATE_EPOCH=day,
    )  # fmt: skip
    assert len(one) == len(EXPORTS) and one == two


def test_the_date_of_archives_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    exported("cmsis-pack", tmp_path / "net.pack")
    with zipfile.ZipFile(tmp_path / "net.pack") as pack:
        assert {entry.date_time for entry in pack.infolist()} == {(2023, 11, 14, 22, 13, 20)}


# Build systems.

CC = """
pub struct Build { arguments: Vec<String> }
impl Build {
    pub fn new() -> Build { Build { arguments: vec!["-O2".into(), "-fPIC".into(), "-c".into()] } }
    pub fn include(&mut self, path: &str) -> &mut Build { self.arguments.push(format!("-I{path}")); self }
    pub fn flag_if_supported(&mut self, flag: &str) -> &mut Build { self.arguments.push(flag.into()); self }
    pub fn file(&mut self, path: &str) -> &mut Build { self.arguments.push(path.into()); self }
    pub fn compile(&mut self, name: &str) {
        let out = std::env::var("OUT_DIR").unwrap();
        let here = std::env::current_dir().unwrap();
        let arguments: Vec<String> = self.arguments.iter().map(|a| {
            if let Some(path) = a.strip_prefix("-I") { format!("-I{}", here.join(path).display()) }
            else if a.starts_with('-') { a.clone() } else { here.join(a).display().to_string() }
        }).collect();
        assert!(std::process::Command::new("gcc").args(arguments).current_dir(&out).status().unwrap().success());
        let objects = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().path());
        let objects: Vec<_> = objects.filter(|p| p.extension().map_or(false, |e| e == "o")).collect();
        let library = format!("{out}/lib{name}.a");
        assert!(std::process::Command::new("ar").arg("rcs").arg(library).args(objects).status().unwrap().success());
        println!("cargo:rustc-link-search=native={out}");
        println!("cargo:rustc-link-lib=static={name}");
    }
}
"""
RUST = """
fn main() {
    let mut network = unsafe { net::Network::new() }.unwrap();
    network.input(0).unwrap().fill(7);
    network.run().unwrap();
    let beyond = network.input(1).is_none();
    println!("{:?} {beyond}", network.output(0).unwrap());
}
"""


def test_cargo_builds_and_runs_the_crate(tmp_path: Path) -> None:
    """With a crate `cc` of the test's own: the registry's is not at hand."""
    cargo = needed("cargo", package="cargo")
    needed("gcc", package="gcc")
    exported("rust", tmp_path / "net")
    files = {
        "cc/Cargo.toml": '[package]\nname = "cc"\nversion = "1.0.0"\nedition = "2021"\n',
        "cc/src/lib.rs": CC,
        "app/Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n'
        '[dependencies]\nnet = { path = "../net" }\n[patch.crates-io]\ncc = { path = "../cc" }\n',
        "app/src/main.rs": RUST,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [cargo, "run", "--quiet", "--offline"], cwd=tmp_path / "app", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.fullmatch(r"\[(\d+, ){9}\d+\] true\n", done.stdout)


ZEPHYR = """
cmake_minimum_required(VERSION 3.13)
project(app LANGUAGES C)
set(CONFIG_NET y)
function(zephyr_include_directories)
  foreach(path ${ARGN})
    include_directories(${CMAKE_CURRENT_SOURCE_DIR}/${path})
  endforeach()
endfunction()
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC "")
endmacro()
macro(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_include_directories)
  target_include_directories(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
add_subdirectory(net/FOLDER build_net)
add_executable(app main.c)
target_include_directories(app PRIVATE net/include)
target_link_libraries(app PRIVATE net m)
"""


def built_by_cmake(listfile: str, tmp_path: Path) -> str:
    cmake = needed("cmake", package="cmake")
    (tmp_path / "CMakeLists.txt").write_text(listfile)
    (tmp_path / "main.c").write_text(PROGRAM)
    build([cmake, "-S", str(tmp_path), "-B", str(tmp_path / "build")])
    build([cmake, "--build", str(tmp_path / "build")])
    return run(tmp_path / "build" / "app")


def test_the_zephyr_module_builds_with_the_functions_of_zephyr(tmp_path: Path) -> None:
    folder = exported("zephyr", tmp_path / "net")
    description = yaml.safe_load((folder / "zephyr/module.yml").read_text())
    assert set(description) == {"name", "build"} and set(description["build"]) == {"cmake", "kconfig"}
    assert (folder / description["build"]["kconfig"]).read_text().startswith("config NET\n    bool ")
    assert built_by_cmake(ZEPHYR.replace("FOLDER", description["build"]["cmake"]), tmp_path) == "ran\n"


ESP_IDF = """
cmake_minimum_required(VERSION 3.16)
project(app LANGUAGES C)
macro(idf_component_register)
  cmake_parse_arguments(COMPONENT "" "" "SRCS;INCLUDE_DIRS;PRIV_INCLUDE_DIRS" ${ARGN})
  set(COMPONENT_LIB net)
  add_library(net STATIC ${COMPONENT_SRCS})
  target_include_directories(net PUBLIC ${COMPONENT_INCLUDE_DIRS} PRIVATE ${COMPONENT_PRIV_INCLUDE_DIRS})
endmacro()
add_subdirectory(net)
add_executable(app main.c)
target_link_libraries(app PRIVATE net m)
"""


def test_the_esp_idf_component_builds_with_its_function(tmp_path: Path) -> None:
    folder = exported("esp-idf", tmp_path / "net")
    manifest = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert re.fullmatch(SEMANTIC, manifest["version"]) and manifest["dependencies"] == {"idf": ">=4.4"}
    assert built_by_cmake(ESP_IDF, tmp_path) == "ran\n"


def test_the_arduino_library_compiles_as_the_ide_does(tmp_path: Path) -> None:
    """The IDE compiles all of src, and has it as the only directory of headers."""
    gcc = needed("gcc", package="gcc")
    folder = exported("arduino", tmp_path / "net")
    lines = (folder / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert required <= set(properties) and properties["category"] == "Data Processing"
    assert re.fullmatch(SEMANTIC, properties["version"]) and re.fullmatch(r"[A-Za-z0-9][\w .-]*", properties["name"])
    assert (folder / "src" / properties["includes"]).is_file() and not (folder / "include").exists()
    (tmp_path / "main.c").write_text(PROGRAM)
    sources = sorted(str(path) for path in (folder / "src").rglob("*.[cS]"))
    program = tmp_path / "program"
    build([gcc, *STRICT, f"-I{folder / 'src'}", *sources, str(tmp_path / "main.c"), "-o", str(program), "-lm"])
    assert run(program) == "ran\n"


def test_the_platformio_library_compiles_with_what_it_says(tmp_path: Path) -> None:
    """PlatformIO compiles all of srcDir with the flags; includeDir and `-I` are in the library's folder."""
    gcc = needed("gcc", package="gcc")
    folder = exported("platformio", tmp_path / "net")
    manifest = json.loads((folder / "library.json").read_text())
    made = manifest["build"]
    assert re.fullmatch(SEMANTIC, manifest["version"]) and (folder / "include" / manifest["headers"]).is_file()
    (tmp_path / "main.c").write_text(PROGRAM)
    sources = sorted(str(path) for path in (folder / made["srcDir"]).rglob("*.[cS]"))
    command = [gcc, *made["flags"], f"-I{made['includeDir']}", *sources, str(tmp_path / "main.c"), "-lm"]
    done = subprocess.run([*command, "-o", str(tmp_path / "program")], cwd=folder, check=False)
    assert done.returncode == 0 and run(tmp_path / "program") == "ran\n"


# What PACK.xsd of Open-CMSIS-Pack 1.7 demands of the elements that are used.
CHILDREN = {
    "package": {"vendor", "name", "description", "url", "license", "releases", "keywords", "conditions", "components"},
    "condition": {"description", "accept"},
    "component": {"description", "files"},
}
ATTRIBUTES = {
    "release": {"version", "date"},
    "condition": {"id"},
    "accept": {"Tcompiler", "Toptions"},
    "component": {"Cclass", "Cgroup", "Csub", "Cversion", "condition"},
    "file": {"category", "name"},
}
COMPILERS = {"GCC", "ARMCC", "IAR", "CLANG"}
CATEGORIES = {"doc", "header", "include", "sourceC", "sourceAsm"}


def test_the_pack_describes_itself_as_its_schema_demands(tmp_path: Path) -> None:
    exported("cmsis-pack", tmp_path / "net.pack")
    with zipfile.ZipFile(tmp_path / "net.pack") as pack:
        root = ElementTree.fromstring(pack.read("Trivet.net.pdsc"))
    assert root.tag == "package" and re.fullmatch(r"1\.\d+\.\d+", root.attrib["schemaVersion"])
    assert all(root.find(name) is not None for name in ("vendor", "name", "description", "url", "releases"))
    for element in root.iter():
        if element.tag in CHILDREN:
            assert {child.tag for child in element} <= CHILDREN[element.tag]
        if element.tag in ATTRIBUTES:
            assert set(element.attrib) <= ATTRIBUTES[element.tag]
    (release,) = root.iter("release")
    (component,) = root.iter("component")
    assert (
        re.fullmatch(SEMANTIC, release.attrib["version"]) and component.attrib["Cversion"] == release.attrib["version"]
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", release.attrib["date"])
    assert {e.attrib["Tcompiler"] for e in root.iter("accept")} <= COMPILERS
    assert {e.attrib["category"] for e in root.iter("file")} <= CATEGORIES
    assert component.attrib["condition"] in {e.attrib["id"] for e in root.iter("condition")}
    folders = [e.attrib["name"] for e in root.iter("file") if e.attrib["category"] == "include"]
    assert folders and all(name.endswith("/") for name in folders)
