"""The rules of the house that a machine can check: layers, mirrored tests, file sizes, a light import."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tilelang"
TESTS = ROOT / "tests"

# From left to right; an entry is a package, a folder of it or a module, and the longest that fits a file is its layer.
LAYERS = (
    "records errors api options dtypes targets/machine targets/family targets/registry targets/target layout ir arith isa targets/gpu/isa ops language analysis lowering targets/gpu transforms "
    "passes sim codegen runtime targets/backend targets/cpu targets/nvidia profile jit tune tools"
).split()

# Doors for users: they gather names from many packages, and nothing inside the package imports them.
FACADES = set(
    "__init__ __main__ autotuner backend carver contrib cpu cuda engine env finder intrinsics language/__init__ math other_names "
    "paths profiler quantize testing utils version".split()
)

# A file that has no test file of its own, and why. (An `__init__.py` only gathers names.)
WITHOUT_TEST: dict[str, str] = {}

# A file above 500 lines, and why it is one job.
LONG_FILES: dict[str, str] = {}

MAX_LINES = 500


def source_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def layer_of(name: str) -> str:
    """The layer of a module below `tilelang`, written with slashes: the longest entry that fits; its first part if none."""
    fitting = [entry for entry in (*LAYERS, *FACADES) if name == entry or name.startswith(entry + "/")]
    return max(fitting, key=len, default=name.split("/")[0])


def package_of(path: Path) -> str:
    """The layer a file belongs to."""
    return layer_of(path.relative_to(SOURCE).with_suffix("").as_posix())


def module_of(parts: list[str]) -> str:
    """The module that the parts of an imported name stand for, with slashes: they may go on with a name in it."""
    while len(parts) > 1 and not (SOURCE.joinpath(*parts).with_suffix(".py").exists() or SOURCE.joinpath(*parts).is_dir()):
        parts = parts[:-1]
    return "/".join(parts)


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each import anywhere in a file, functions included, as (line, dotted module)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level + (node.module or "")
            elif (node.module or "").split(".")[0] == "tilelang":
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"
            else:
                yield node.lineno, node.module or ""


def layer_violations(path: Path, text: str) -> list[str]:
    """Each import of a file that goes to the right along the layer line, or is relative."""
    here = package_of(path)
    found = []
    for line, module in imports(ast.parse(text)):
        place = f"{path}:{line}"
        if module.startswith("."):
            found.append(f"{place}: relative import of {module}; write it in full")
            continue
        parts = module.split(".")
        if parts[0] != "tilelang" or len(parts) < 2 or here in FACADES:
            continue
        there = layer_of(module_of(parts[1:]))
        if there in FACADES:
            found.append(f"{place}: {here} may not import the facade {there}")
        elif there not in LAYERS:
            found.append(f"{place}: {there} is not in the layer line")
        elif LAYERS.index(there) > LAYERS.index(here):
            found.append(f"{place}: {here} may not import {there}")
    return found


def test_every_package_is_in_the_layer_line() -> None:
    unknown = {package_of(path) for path in source_files() if path.read_text()} - set(LAYERS) - FACADES
    assert set() == unknown


def test_modules_import_only_from_their_left() -> None:
    found = [line for path in source_files() for line in layer_violations(path, path.read_text())]
    assert [] == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from tilelang.ir.expr import Expr", "layout may not import ir"),
        ("def f():\n    import tilelang.sim.run", "layout may not import sim"),
        ("from . import swizzle", "relative import"),
        ("from tilelang import jit", "layout may not import jit"),
        ("from tilelang.testing import main", "layout may not import the facade testing"),
    ],
)
def test_the_layer_test_sees_imports_in_every_form(text: str, expected: str) -> None:
    found = layer_violations(SOURCE / "layout" / "layout.py", text)
    assert 1 == len(found)
    assert expected in found[0]


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for path in source_files():
        relative = path.relative_to(SOURCE)
        if path.name == "__init__.py" or relative.as_posix() in WITHOUT_TEST:
            continue
        if not (TESTS / relative.parent / f"test_{path.name}").exists():
            missing.append(relative.as_posix())
    assert [] == missing


def test_every_listed_exception_still_exists() -> None:
    gone = [name for name in (*WITHOUT_TEST, *LONG_FILES) if not (SOURCE / name).exists()]
    assert [] == gone


def test_files_stay_short() -> None:
    long = {}
    for path in source_files():
        count = len(path.read_text().splitlines())
        name = path.relative_to(SOURCE).as_posix()
        if count > MAX_LINES and name not in LONG_FILES:
            long[name] = count
    assert {} == long


def test_every_source_file_says_what_it_is() -> None:
    silent = [
        path.relative_to(SOURCE).as_posix()
        for path in source_files()
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert [] == silent


_REPORT = """
import json, re, sys

def libraries():
    with open("/proc/self/maps") as maps:
        return {line.split()[-1] for line in maps if re.search(r"[.]so", line)}

import ctypes, subprocess, numpy, ml_dtypes
before, modules = libraries(), set(sys.modules)
import tilelang, tilelang.language
stdlib = {name for name in libraries() - before if "lib-dynload" not in name}
print(json.dumps([sorted(stdlib), sorted(set(sys.modules) - modules)]))
"""


def test_importing_the_package_opens_no_library_and_no_framework() -> None:
    result = subprocess.run([sys.executable, "-c", _REPORT], capture_output=True, text=True, check=False)
    assert "" == result.stderr
    libraries, modules = json.loads(result.stdout)
    assert [] == libraries
    strangers = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"tilelang"}
    assert set() == strangers
    rarely_needed = {"decimal", "difflib", "fractions", "json", "pathlib", "tilelang.isa.common.random_jumps", "urllib"}
    assert set() == rarely_needed & set(modules)
