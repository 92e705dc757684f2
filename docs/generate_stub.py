"""Writes `src/tilelang/language/__init__.pyi` for editors and type checkers; `--check` only says whether it is fresh.

The language makes functions of mathematics, dtypes and the names of instructions from tables when it is imported; here
each of them is a definition that an editor can read without running anything. All other names are imported from the
module that defines them.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from generated_file import write_or_check

import tilelang.language as T
from tilelang.dtypes import DType
from tilelang.language import (
    _MODULES,
    FUNCTIONS,
    GPU_FUNCTIONS,
    INSTRUCTIONS,
    NVIDIA_FUNCTIONS,
    PRIMITIVES,
    WIDE_ACCESSES,
)
from tilelang.language.dtypes import DTYPES
from tilelang.paths import LANGUAGE, PATHS

PATH = Path(__file__).resolve().parent.parent / "src/tilelang/language/__init__.pyi"

HEAD = '''# ruff: noqa
"""The `T` namespace, as editors and type checkers see it: `import tilelang.language as T`.

Written by docs/generate_stub.py from the tables of the language; `make docs` writes it anew.
"""

import builtins
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tilelang.ir.expr import Expr, ExprLike
from tilelang.language.barriers import Barrier
from tilelang.language.pointers import Place
'''

# a class, since names of classes may be annotations; of Any, since its values are expressions
DTYPE_BASE = '''
class _Dtype(Any):  # type: ignore[misc]
    def __new__(cls, *values: ExprLike | str) -> Expr: ...  # type: ignore[misc]

'''
DTYPE = '''class {name}(_Dtype):
    """The dtype {meaning}: `T.{name}(x)` converts, `n: T.{name}` declares a scalar parameter."""
'''


def source_of(name: str) -> tuple[str, str]:
    """The module that defines a name, and the name that its definition has there: that of the class or function."""
    value = getattr(T, name)
    for module, names in _defined().items():
        if name in names:
            original = str(getattr(value, "__name__", name))
            return module, original if vars(sys.modules[module])[names[name]] is _own(module, original) else names[name]
    return str(value.__module__), name


def _own(module: str, name: str) -> object:
    """What a module calls by a name, if the name is its own."""
    value = vars(sys.modules[module]).get(name)
    return value if getattr(value, "__module__", None) == module else None


def _defined() -> dict[str, dict[str, str]]:
    """The names of `T` that modules define, with their names there."""
    modules = {module: module.rpartition(".")[2] for module in _MODULES}
    found = {path: {name: name for name in sys.modules[path].__all__} for path in modules}
    for path, words in PATHS[LANGUAGE].items():
        rows = (word.partition("=") for word in words.split())
        found.setdefault(path, {}).update({new: old or new for new, _, old in rows})
    return found


def definition(name: str, value: object) -> str:
    """A function of a table, with its signature and its docstring."""
    assert callable(value)
    doc = textwrap.indent((inspect.getdoc(value) or "").strip(), "    ").lstrip()
    close = "\n    " if "\n" in doc else ""
    return f'\ndef {name}{_signature(value)}:\n    """{doc}{close}"""\n'


class _Bare(str):
    """A text that stands in a signature as it is."""

    def __repr__(self) -> str:
        return str(self)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """The signature of a function; types of Python that dtypes of the language hide have the name of their module."""
    signature = inspect.signature(function)

    def bare(annotation: object) -> object:
        text = re.sub(r"\b(int|bool)\b", r"builtins.\1", annotation) if isinstance(annotation, str) else ""
        return _Bare(text) if text else annotation

    parameters = [each.replace(annotation=bare(each.annotation)) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=bare(signature.return_annotation))


def stub() -> str:
    """The whole file."""
    tables = {**FUNCTIONS, **PRIMITIVES, **INSTRUCTIONS, **GPU_FUNCTIONS, **NVIDIA_FUNCTIONS, **WIDE_ACCESSES}
    own = {name for module in _MODULES for name in sys.modules[module].__all__}
    rows = [word.partition("=")[0] for words in PATHS[LANGUAGE].values() for word in words.split()]
    imports, definitions, dtypes = [], [], []
    for name in [*T.__all__, *rows]:
        if name in DTYPES and name not in own:
            row = DTYPES[name]
            assert isinstance(row, DType)
            meaning = f"`{row!s}`" if str(row) == name else f"`{row!s}` by another name"
            dtypes.append(DTYPE.format(name=name, meaning=meaning))
        elif name in tables:
            definitions.append(definition(name, tables[name]))
        else:
            module, original = source_of(name)
            imports.append(f"from {module} import {original} as {name}\n")
    exported = textwrap.fill(", ".join(f'"{name}"' for name in T.__all__), 120, break_long_words=False)
    return "".join([HEAD, *sorted(imports), f"\n__all__ = [\n{exported}\n]\n", *definitions, DTYPE_BASE, *dtypes])


if __name__ == "__main__":
    write_or_check(PATH, stub(), f"{PATH.name} of the language is not what its tables say")
