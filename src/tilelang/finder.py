"""Imports and attributes of this package by one table: `paths.PATHS`, which says what each published path holds.

Takes the name of a module, gives a module. Four kinds of modules exist:

- one with a file and no row is imported as ever;
- one with a row and no file is made when it is imported, and holds the names of its row;
- one with both has the names of its file and those of its row;
- one in `paths.ALIASES` is another module, once it is imported.

Invariants: a name is loaded when it is first asked for; a name or module that does not exist is an `UnknownAttribute`
or `UnknownModule` that says so, or that it is internal to published TileLang.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from tilelang.errors import UnknownAttribute, UnknownModule, UnknownName, nearest
from tilelang.garbage_collector import disabled_for_imports
from tilelang.other_names import OTHER_NAMES
from tilelang.paths import ALIASES, INTERNAL, LANGUAGE, NO_SOURCE, PATHS

_MARK = "__rows__"  # of modules that know the names of their row
_FOLDERS = {path.rpartition(".")[0] for path in PATHS}  # modules that have rows below them


class PathFinder:
    """A finder for `sys.meta_path`: of all modules of one root, `tilelang` or `tvm`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module, by file or by row.

        Raises:
            UnknownModule: The name is below the root, and there is no such module.
        """
        if name.partition(".")[0] != self._root:
            return None
        if name != self._root and not hasattr(sys.modules.get(self._root), _MARK):
            return None  # a real package of that name
        if name in ALIASES:
            return ModuleSpec(name, _AliasLoader())  # type: ignore[arg-type]
        spec = _beside(name, path) or self._elsewhere(name, path, target)
        if spec is not None and spec.loader is not None:  # a folder without code has no loader
            if name in PATHS or name in _FOLDERS:
                spec.loader = _FileLoader(spec.loader)  # type: ignore[assignment]
            return spec
        if name in PATHS or name in _FOLDERS:
            return ModuleSpec(name, _RowLoader(), is_package=True)  # type: ignore[arg-type]
        if name.rpartition(".")[2].startswith("__"):  # Python's own probes, as for `python -m`
            return None
        known = vars(sys.modules[parent]) if (parent := name.rpartition(".")[0]) in sys.modules else {}
        try:
            raise unknown(UnknownModule, name, list(known))
        except UnknownModule as error:
            error.__traceback__ = None  # the frames of this package, which say nothing to the user
            raise

    def _elsewhere(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """Return the spec that the other finders give."""
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def _beside(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The spec of a file in the folder of its package: Python's finders would first look for endings of other kinds."""
    for folder in path or ():
        file = f"{folder}/{name.rpartition('.')[2]}.py"
        if os.path.isfile(file):
            spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file)
            spec.has_location = True
            return spec
    return None


class _RowLoader:
    """Makes a module that has no file."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _RowModule(spec.name, "A module of published TileLang; its names are defined elsewhere in this package.")

    def exec_module(self, module: ModuleType) -> None:
        add_names(module)
        module.__dict__["__all__"] = [name for name in _row(module.__name__) if not name.startswith("_")]


class _AliasLoader:
    """Puts another module in the place of one, as `import` allows."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec
        return None  # Python makes one for the time being

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(ALIASES[module.__name__])


class _RowModule(ModuleType):
    """A module without a file; a name of its row stays what it is when a submodule of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _row(self.__name__):
            return
        super().__setattr__(name, value)


class _FileLoader:
    """The loader of a file, which adds the names of the row afterwards."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        add_names(module)
        with disabled_for_imports():
            self._loader.exec_module(module)
        if not hasattr(module, "__path__"):
            module.__path__ = []  # Python asks for a module of the name that a `from` does not find, and gets our error


def add_names(module: ModuleType) -> None:
    """Lets a module find the names of its row, and say what it does not have."""
    path = module.__name__

    def find(name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name != "__version__":  # Python's own probes
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        if f"{path}.{name}" in PATHS and name not in _row(path):
            return import_module(f"{path}.{name}")
        try:
            if name not in _row(path):
                raise unknown(UnknownAttribute, f"{path}.{name}", list(module.__dict__))
            value = _load(path, name)
        except UnknownName as error:
            error.__traceback__ = None  # as above
            raise
        if not hasattr(builtins, name):  # which the code of a file may mean
            module.__dict__[name] = value
        return value

    module.__dict__[_MARK] = True
    module.__dict__["__getattr__"] = find
    module.__dict__["__dir__"] = lambda: sorted({*_row(path), *_below(path), *module.__dict__})


@functools.cache
def _row(path: str) -> Mapping[str, tuple[str, str]]:
    """Each name of a row, with the module that defines it and its name there."""
    row = {}
    for source, names in PATHS.get(path, {}).items():
        words = names.split()
        if "*" in words:
            words.remove("*")
            words += import_module(source).__all__
        for word in words:
            name, _, original = word.partition("=")
            row[name] = (source, original or name)
    return row


def _below(path: str) -> list[str]:
    """The modules that have rows, right below a path."""
    return [name.rpartition(".")[2] for name in PATHS if name.rpartition(".")[0] == path]


def _load(path: str, name: str) -> Any:
    """Load the object that a name of a row stands for."""
    source, original = _row(path)[name]
    if source == NO_SOURCE:
        return _Internal(name, (), {"__module__": path, "__doc__": "Internal to published TileLang; can be imported."})
    return getattr(import_module(source), original)


class _Internal(type):
    """The class of names that programs import and that cannot be used: each use is the error that says so."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], **keywords: object) -> _Internal:
        for base in bases:
            raise _refusal(base)
        return super().__new__(cls, name, bases, members)

    def __call__(cls, *args: object, **keywords: object) -> Any:
        raise _refusal(cls)

    def __instancecheck__(cls, instance: object) -> bool:
        raise _refusal(cls)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):  # Python's own probes
            raise AttributeError(name)
        raise _refusal(cls)


def _refusal(cls: type) -> UnknownName:
    return unknown(UnknownAttribute, f"{cls.__module__}.{cls.__name__}")


def unknown(kind: Callable[..., UnknownName], name: str, known: Sequence[str] = ()) -> UnknownName:
    """The error for a module or name that is not there, by its dotted path; `known` are further names beside it."""
    shown = _shown(name)
    replacement = _replacement(name)
    if replacement is not None:
        return kind(f"{shown}: internal to published TileLang, not part of this package", hint=replacement)
    folder, _, last = name.rpartition(".")
    if folder == LANGUAGE and last in OTHER_NAMES:
        return kind(f"{shown}: there is no such name", hint=OTHER_NAMES[last])
    near = ""
    if not last.startswith("_"):  # which tools ask every module for, `unittest.mock` and pytest among them
        near = nearest(last, sorted({n for n in (*_row(folder), *_below(folder), *known) if not n.startswith("_")}))
    hint = f"did you mean {_shown(f'{folder}.{near}')}?" if near else ""
    return kind(f"{shown}: there is no such name", hint=hint)


def _shown(name: str) -> str:
    """A dotted name as users write it."""
    return f"T{name.removeprefix(LANGUAGE)}" if name.startswith(f"{LANGUAGE}.") else name


def _replacement(name: str) -> str | None:
    """Return what to write instead of a name that is internal; None if it is not."""
    while name:
        if name in INTERNAL:
            return INTERNAL[name]
        name = name.rpartition(".")[0]
    return None
