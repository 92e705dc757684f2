"""The rules of the house that a machine can check: layers, mirrored tests, file sizes, a light import."""

import ast
import functools
import json
import re
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
    "records powers garbage_collector call_stack errors api environment saved_schedule options dtypes targets/machine targets/gemm_tile targets/family targets/registry targets/target layout ir "
    "arith isa targets/gpu/isa ops language analysis lowering targets/gpu transforms passes schedule sim performance codegen targets/gpu/codegen runtime targets/backend "
    "targets/cpu targets/gpu/runtime targets/amd targets/nvidia profile jit tune level1 tools"
).split()

# Facades for users: they re-export names of many packages, and nothing inside the package imports them.
FACADES = set(
    "__init__ __main__ autotuner backend carver contrib cpu cuda engine env finder intrinsics language/__init__ math other_names "
    "numpy paths profiler quantize testing utils version".split()
)

# Words of one vendor's machines, which stand in the folder of that vendor alone: in names and in texts of other files,
# documentation included, they are found by these expressions.
VENDOR_WORDS = {
    "targets/nvidia": re.compile(
        r"(?i:wgmma|mbarrier|cp[._]async|ldmatrix|stmatrix|warpgroup|nvrtc|ptxas|tcgen05|setmaxnreg|griddepcontrol)"
        r"|(?i:hopper|blackwell)"
        r"|(?<![A-Za-z])(?:tma|TMA)(?![A-Za-z])|T(?:ma|MA)(?=[A-Z])|(?<![A-Za-z])sm_"
    ),
    "targets/amd": re.compile(
        r"mfma|MFMA|Mfma|(?i:waitcnt|vmcnt|hiprtc|amdhip|ds_read|ds_write|bpermute|(?<![a-z])gfx)"
    ),
}

# A file that holds such words, which ones, and why.
ALLOWED_WORDS: dict[str, tuple[str, str]] = {
    "backend/target.py": ("sm_", "the name of a machine in an example"),
    "carver/arch/cuda.py": ("sm_", "`sm_version` of published TileLang"),
    "carver/arch/__init__.py": ("hopper", "`is_hopper_arch` of published TileLang"),
    "carver/arch/kinds.py": ("hopper sm_", "`is_hopper_arch` and `sm_version` of published TileLang"),
    "carver/template.py": ("hopper", "`is_hopper_arch` of published TileLang"),
    "contrib/nvcc.py": ("griddepcontrol hopper nvrtc sm_ tma", "a facade over NVIDIA's compilers, with the names of published TileLang"),
    "ir/conversion.py": ("sm_", "a message of published TileLang, which names the only machine that can"),
    "jit/kernel.py": ("nvrtc sm_", "names of execution backends and machines that users write"),
    "jit/kernel_inspection.py": ("sm_", "the name of a machine in a hint"),
    "language/__init__.py": ("blackwell warpgroup", "gathers the modules of `targets/nvidia/language`"),
    "language/atomic.py": ("tma", "the option `use_tma` of published TileLang"),
    "language/barriers.py": ("mbarrier", "`T.create_list_of_mbarrier` in a hint"),
    "language/copies.py": ("cp_async tma", "`disable_tma` and values of `prefer_instruction` of published TileLang"),
    "language/fp8.py": ("gfx", "the name of a machine whose dtypes differ, which torch tells"),
    "language/level3.py": ("cp_async tcgen05 tma wgmma", "names of published TileLang that are refused, and what to write instead"),
    "language/products.py": ("tcgen05 wgmma", "`T.wait_wgmma` in a hint, and what the option `mbar` of published TileLang is for"),
    "layout/__init__.py": ("tcgen05 wgmma", "`make_wgmma_swizzled_layout` and the like of published TileLang"),
    "layout/swizzle.py": ("sm_ tcgen05 wgmma", "`make_wgmma_swizzled_layout` and the like of published TileLang"),
    "layout/swizzle_mode.py": ("warpgroup wgmma", "`SwizzleMode` of published TileLang, with the numbers of descriptors"),
    "options.py": ("ptxas tma wgmma", "names of options: `tl.disable_tma_lower`, `tl.disable_wgmma`"),
    "paths.py": ("wgmma", "module paths of published TileLang"),
    "runtime/compile_flags.py": ("ptxas", "the flags of nvcc, in which users write compile flags for all compilers"),
    "testing.py": ("gfx", "`requires_gfx950` of published TileLang"),
    "tools/analyzer.py": ("sm_", "`sm_version` of published TileLang"),
    "tools/command_line.py": ("sm_", "names of machines in the help"),
}

# A file that has no test file of its own, and why. (An `__init__.py` only gathers names.)
WITHOUT_TEST: dict[str, str] = {}

# A file above 500 lines, and why it is one job.
LONG_FILES: dict[str, str] = {}

MAX_LINES = 500

# The names of all packages and of the folders in them.
FOLDERS = {folder.name for folder in SOURCE.rglob("*") if folder.is_dir()}


def source_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


@functools.cache
def layer_of(name: str) -> str:
    """The layer of a module below `tilelang`, written with slashes: the longest entry that fits; its first part if none."""
    fitting = [entry for entry in (*LAYERS, *FACADES) if name == entry or name.startswith(entry + "/")]
    return max(fitting, key=len, default=name.split("/")[0])


def package_of(path: Path) -> str:
    """The layer a file belongs to."""
    return layer_of(path.relative_to(SOURCE).with_suffix("").as_posix())


@functools.cache
def module_of(name: str) -> str:
    """The module that an imported name stands for, with slashes: it may go on with a name in it."""
    parts = name.split(".")
    while len(parts) > 1 and not (SOURCE.joinpath(*parts).with_suffix(".py").exists() or SOURCE.joinpath(*parts).is_dir()):
        parts = parts[:-1]
    return "/".join(parts)


def nodes_of(text: str) -> list[ast.AST]:
    """All nodes of a file's syntax tree, its module first; to walk it again takes longer than what is asked of it."""
    return [*ast.walk(ast.parse(text))]


def imports(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each import anywhere in a file, functions included, as (line, dotted module)."""
    for node in nodes:
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


@pytest.fixture(scope="module")
def files() -> dict[Path, list[ast.AST]]:
    """The nodes of each source file."""
    return {path: nodes_of(path.read_text()) for path in source_files()}


def layer_violations(path: Path, nodes: list[ast.AST]) -> list[str]:
    """Each import of a file that goes to the right along the layer line, or is relative."""
    here = package_of(path)
    found = []
    for line, module in imports(nodes):
        place = f"{path}:{line}"
        if module.startswith("."):
            found.append(f"{place}: relative import of {module}; write it in full")
            continue
        package, _, name = module.partition(".")
        if package != "tilelang" or not name or here in FACADES:
            continue
        there = layer_of(module_of(name))
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


def test_the_layer_line_is_documented() -> None:
    (line,) = re.findall(r"```\n(records · [^`]*)```", (ROOT / "docs" / "architecture.md").read_text())
    assert LAYERS == re.split(r"[ ·\n]+", line.strip())


def test_modules_import_only_from_their_left(files: dict[Path, list[ast.AST]]) -> None:
    found = [line for path, nodes in files.items() for line in layer_violations(path, nodes)]
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
    found = layer_violations(SOURCE / "layout" / "layout.py", nodes_of(text))
    assert 1 == len(found)
    assert expected in found[0]


def names_and_texts(nodes: list[ast.AST]) -> Iterator[str]:
    """Each identifier of a file, and each text, documentation included."""
    for node in nodes:
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.Constant(value=str(text)):
                yield text
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text) | ast.keyword(arg=str(text)):
                yield text
            case ast.ImportFrom(module=str(text)):
                yield text
            case ast.alias(name=name, asname=other):
                yield f"{name} {other or ''}"


def vendor_words(nodes: list[ast.AST], folder: str = "") -> set[str]:
    """The words of vendors' machines in a file, but of that whose folder it is in."""
    texts = "\n".join({*names_and_texts(nodes)})
    expressions = [expression for vendor, expression in VENDOR_WORDS.items() if vendor != folder]
    return {found.lower() for expression in expressions for found in expression.findall(texts)}


def test_words_of_a_vendor_stand_in_its_folder(files: dict[Path, list[ast.AST]]) -> None:
    expected = {name: set(words.split()) for name, (words, _) in ALLOWED_WORDS.items()}
    found = {path.relative_to(SOURCE).as_posix(): vendor_words(nodes, package_of(path)) for path, nodes in files.items()}
    assert expected == {name: words for name, words in found.items() if words}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def copy_tma(x): pass", {"tma"}),
        ("class TmaLoad: pass", {"tma"}),
        ("x.wait_wgmma(y)", {"wgmma"}),
        ("WARPGROUP_THREADS = 128", {"warpgroup"}),
        ('"""Waits by cp.async for an mbarrier."""', {"cp.async", "mbarrier"}),
        ("f(arch='sm_90a')", {"sm_"}),
        ("from tilelang.targets.nvidia.runtime import nvrtc", {"nvrtc"}),
        ("MFMA_F16 = load_mfma(gfx942)", {"mfma", "gfx"}),
        ('"""Hopper only: ptxas."""', {"hopper", "ptxas"}),
        ("batman, warp_group, smaller, algorithm_x = hotmail", set()),
    ],
)
def test_the_word_test_sees_names_and_texts(text: str, expected: set[str]) -> None:
    assert expected == vendor_words(nodes_of(text))


def modules_named_in(path: Path, text: str) -> Iterator[tuple[str, bool]]:
    """The modules that documentation names in backticks, such as `sim.races`, and whether there is one of that name.

    A name counts from the package or from any folder around the file; its last part may be a name in the module.
    """
    bases = [folder for folder in path.parents if folder.is_relative_to(SOURCE)]
    for name in re.findall(r"`([a-z_]\w*(?:[.][a-z_]\w*)+)`", text):
        parts = name.split(".")
        if parts[0] in FOLDERS:
            places = [base.joinpath(*parts[:count]) for base in bases for count in range(2, len(parts) + 1)]
            yield name, any(place.is_dir() or place.with_suffix(".py").exists() for place in places)


def test_modules_that_documentation_names_exist() -> None:
    found = [(path, *named) for path in source_files() for named in modules_named_in(path, path.read_text())]
    assert [] == [(path, name) for path, name, exists in found if not exists]
    assert len(found) > 10


def test_the_test_of_named_modules_sees_what_is_gone() -> None:
    text = "as in `sim.races`, `isa.fence.fence` and `layout.memory`; `numpy.random` is another matter"
    expected = [("sim.races", True), ("isa.fence.fence", True), ("layout.memory", False)]
    path = SOURCE / "targets" / "nvidia" / "isa" / "tma.py"
    assert expected == list(modules_named_in(path, text))


def widths(nodes: list[ast.AST]) -> Iterator[str]:
    """The names of a warp's width that are given the number 32."""
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in names:
                if isinstance(name, ast.Name) and node.value.value == 32 and re.search("(?i)warp|lane|wave", name.id):
                    yield name.id


def test_widths_of_warps_are_asked_of_machines(files: dict[Path, list[ast.AST]]) -> None:
    found = {path for path, nodes in files.items() if package_of(path) not in VENDOR_WORDS and list(widths(nodes))}
    assert set() == found


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


def test_every_source_file_says_what_it_is(files: dict[Path, list[ast.AST]]) -> None:
    modules = {path: nodes[0] for path, nodes in files.items()}
    silent = [path for path, each in modules.items() if isinstance(each, ast.Module) and each.body and not ast.get_docstring(each)]
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
