"""Writes `docs/reference.md` from the docstrings of the public names; `--check` only says whether it is fresh.

A name stands in the section of the module that defines it, in the order of that module's source.
"""

import enum
import inspect
import re
from pathlib import Path
from types import ModuleType

from generated_file import write_or_check

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang import autotuner, environment, errors, testing
from tilelang.dtypes import DType
from tilelang.level1.compute import ComputeFunction
from tilelang.level1.functions import MODULES

PATH = Path(__file__).resolve().parent / "reference.md"

# Sections of the language: title, and the modules of `tilelang.language` whose names stand there, in this order.
SECTIONS = (
    (
        "Kernels",
        (
            *("prim_func", "parameters", "kernel", "source_kernel", "tile_scheduler"),
            *("macro", "meta", "classes", "eager", "types"),
        ),
    ),
    ("Buffers", ("alloc", "proxy", "annotate")),
    ("Loops", ("loops", "blocks", "thread_return")),
    (
        "Tile operators",
        (
            *("copies", "products", "sparse_gemm", "gemm", "tile", "reductions", "scans", "selection"),
            *("normalization", "reducers", "atomic"),
        ),
    ),
    ("Arithmetic", ("math", "casts", "arithmetic", "ieee", "derived", "random_numbers", "vectors", "operator_classes")),
    ("Layouts", ("layout", "fragment", "partial_fragment", "swizzle", "annotate_layout")),
    ("Debugging", ("debug",)),
    ("Names of older programs", ("legacy_blocks", "legacy_calls", "nodes")),
    (
        "Level 3: single threads of a GPU",
        (
            *("threads", "groups", "sync", "fence", "dependent_launch", "barriers", "mbarrier"),
            *("copy_engine", "tma", "multicast", "warpgroups", "wgmma", "clusters", "cluster"),
            *("blackwell", "warp", "allreduce", "pointers", "hinted_access", "wide_access", "async_copies", "cp_async"),
            *("matrix_instructions", "mma_emitter", "mma_index", "inline_ptx", "extern", "tensors", "assumptions"),
        ),
    ),
)

# Sections of `tilelang.numpy`: title, and the modules of its functions.
ARRAY_SECTIONS = (
    ("Elementwise functions", "elementwise"),
    ("Reductions", "reductions"),
    ("Softmax", "normalization"),
    ("Products", "linear"),
    ("Selection", "selection"),
    ("Sorting and cumulative functions", "sorting"),
    ("Shapes", "shaping"),
    ("New arrays", "creation"),
    ("Index notation", "notation"),
    ("Constants and limits", "constants"),
)

HEAD = """# Reference

<!-- Written by docs/generate_reference.py from the docstrings; `make docs` writes it anew. -->

`import tilelang`, `import tilelang.language as T`, and `import tilelang.numpy as tnp` for arrays.
The [tutorial](tutorial.md) introduces these names one after the other.
"""


NOT_YET = "A name of level 3 that no target"  # how the docstrings begin of names that only raise
BLOCKS = {"Args:", "Raises:", "Returns:", "Attributes:", "Example:", "Shapes:", "Units:", "Source:", "Yields:"}


def signature(name: str, value: object) -> str:
    """The form of a call, without annotations: those are in the text where they matter."""
    if not callable(value) or isinstance(value, enum.EnumMeta):
        return name
    try:
        form = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}(...)"
    plain = [p.replace(annotation=p.empty) for p in form.parameters.values() if p.name != "self"]
    text = str(form.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return name + re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)  # an enum's member by its name


def description(value: object) -> str:
    """A docstring with its indented sections as blocks that Markdown keeps."""
    lines: list[str] = []
    block = ""
    for line in (inspect.getdoc(value) or "").splitlines():
        if line in BLOCKS:
            block = line[:-1]
            lines += ["", f"*{block}*", ""]
        elif not line.startswith("    ") or not block:
            block = block if not line else ""
            lines.append(line)
        elif block == "Example":
            lines.append(line.strip())
        elif re.match(r"    [*\w]+: ", line):
            name, _, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {rest}")
        else:
            lines.append("  " + line.strip())
    if isinstance(value, enum.EnumMeta):
        lines += ["", ", ".join(f"`{member.name}`" for member in value)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def entry(prefix: str, name: str, value: object, level: int = 3) -> str:
    """One name: its form as a heading, its docstring below."""
    return f"{'#' * level} `{prefix}{signature(name, value)}`\n\n{description(value)}\n"


def public_names(module: ModuleType) -> list[str]:
    """What a module says is public."""
    return list(getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")])


def home(value: object) -> str:
    """The last part of the name of the module in which a value was defined."""
    return str(getattr(value, "__module__", "") or "").rpartition(".")[2]


def language_sections() -> list[str]:
    """The names of `T`, by section; dtypes as one table, since they differ in their names only."""
    names = {name: getattr(T, name) for name in public_names(T)}
    names = {name: value for name, value in names.items() if not inspect.ismodule(value)}
    dtypes = [name for name, value in names.items() if isinstance(value, DType)]
    rest = {name: value for name, value in names.items() if name not in dtypes}
    parts = []
    for title, modules in SECTIONS:
        chosen = [name for module in modules for name, value in rest.items() if home(value) == module]
        parts.append(f"## {title}\n")
        parts += [entry("T.", name, rest.pop(name)) for name in chosen]
    parts.append("## Dtypes\n")
    parts.append("Each is a string-like object that casts when called, as in `T.float32(x)`.")
    parts.append("Vectors of 2, 4, 8 and 16 are written `T.float16x2`.\n")
    scalars = [name for name in sorted(dtypes) if not re.search(r"x\d+$", name)]
    parts.append(", ".join(f"`T.{name}`" for name in scalars) + "\n")
    absent = {name: rest.pop(name) for name in list(rest) if NOT_YET in (inspect.getdoc(rest[name]) or "")}
    if rest:
        parts.append("## Further names\n")
        parts += [entry("T.", name, value) for name, value in rest.items()]
    parts.append("## Names that this version has no target for\n")
    parts.append("Each is an error that says what to write instead.\n")
    parts.append(", ".join(f"`T.{name}`" for name in absent) + "\n")
    return parts


def array_sections() -> list[str]:
    """The functions of `tilelang.numpy`, by subject."""
    parts = []
    for title, module in ARRAY_SECTIONS:
        parts.append(f"## `tilelang.numpy`: {title.lower()}\n")
        names = [name for each in MODULES if home_of(each) == module for name in each.__all__]
        constants = [name for name in names if not callable(getattr(tnp, name))]
        parts += [entry("tnp.", name, getattr(tnp, name)) for name in names if name not in constants]
        if constants:
            parts.append(", ".join(f"`tnp.{name}`" for name in constants) + ", and the dtypes by their names.\n")
    return parts


def home_of(module: ModuleType) -> str:
    """The last part of the name of a module."""
    return module.__name__.rpartition(".")[2]


def package_sections() -> list[str]:
    """The names of `tilelang`, its errors, and the environment variables."""
    parts = ["## Compiling and calling\n"]
    for name in public_names(tilelang):
        value = getattr(tilelang, name)
        value = getattr(value, "__wrapped__", value) if inspect.ismodule(value) else value  # `jit` is a module, too
        if inspect.ismodule(value) or (inspect.isclass(value) and issubclass(value, errors.TileLangError)):
            continue
        parts.append(entry("tilelang.", name, value))
        described = ComputeFunction if value is tilelang.compute else value
        if inspect.isclass(described) and home(described) in ("kernel", "profiler", "compute"):
            methods = [(n, m) for n, m in vars(described).items() if not n.startswith("_") and inspect.isfunction(m)]
            parts += [entry(".", n, m, level=4) for n, m in methods]
    parts.append("## Tuning: `tilelang.autotuner`\n")
    for name in autotuner.__all__:
        value = getattr(autotuner, name)
        if value is tilelang.autotune:
            continue
        parts.append(entry("tilelang.autotuner.", name, value))
        if name in ("AutoTuner", "TunedFunction", "TuningResult"):
            methods = [(n, m) for n, m in inspect.getmembers(value, inspect.isroutine) if not n.startswith("_")]
            parts += [entry(".", n, m, level=4) for n, m in methods]
    parts.append("## Examples and tests: `tilelang.testing`\n")
    parts += [entry("tilelang.testing.", name, getattr(testing, name)) for name in testing.__all__]
    parts.append("## Errors\n\nAll are found in `tilelang.errors`.\n")
    tree = [errors.TileLangError, *subclasses(errors.TileLangError)]
    parts += [f"- `{cls.__name__}`: {(inspect.getdoc(cls) or '').splitlines()[0]}" for cls in tree]
    parts.append("\n## Environment\n")
    parts += [f"- `{variable.name}`: {variable.meaning}" for variable in environment.VARIABLES.values()]
    return parts


def subclasses(root: type) -> list[type]:
    """All subclasses, parents first."""
    return [cls for child in root.__subclasses__() for cls in (child, *subclasses(child))]


def contents(body: str) -> str:
    """A link to each section, with the names that it has."""
    lines = ["## Contents\n"]
    for section in re.split(r"^## ", body, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        names = dict.fromkeys(re.findall(r"^### `(?:tilelang\.|tnp\.|T\.)?([\w.]+)", section, re.MULTILINE))
        shown = f": {', '.join(f'`{name}`' for name in names)}" if names else ""
        lines.append(f"- [{title}](#{anchor(title)}){shown}")
    return "\n".join(lines) + "\n"


def anchor(title: str) -> str:
    """The name by which Markdown renderers link to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def reference() -> str:
    """The whole document."""
    body = "\n".join([*package_sections(), "", *array_sections(), "", *language_sections()])
    return "\n".join([HEAD, contents(body), body]).rstrip() + "\n"


if __name__ == "__main__":
    write_or_check(PATH, reference(), f"{PATH.name} is not what the docstrings say")
