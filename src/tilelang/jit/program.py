"""Compiles a `PrimFunc` to source and to code, with caches in memory and on disk.

Invariant: a cached result is only used for the same function, source locations, target, options, toolchain and version
of this package, so it equals what compiling again would give.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import linecache
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang import garbage_collector
from tilelang.call_stack import reserve_frames
from tilelang.codegen.postprocess import is_postprocessed, postprocessed
from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.dtypes import as_dtype
from tilelang.environment import environment_flag, is_cache_enabled
from tilelang.errors import Loc
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.passes.base import Pass
    from tilelang.passes.runner import Snapshot
    from tilelang.targets.cpu.runtime.library import Entry
    from tilelang.targets.gpu.runtime.device_code import DeviceCode


@record
class Program:
    """A compiled function.

    Attributes:
        source: What was generated.
        built: The compiled code: an entry for the host, or machine code for a device.
    """

    source: Source
    built: Entry | DeviceCode


_PROGRAMS: dict[str, Program] = {}  # programs of this process, by all that decides them
# the last function that was lowered, how, and what it was after each pass: `explain`, `predict`, `show_ir` and others
# ask for it right behind a compilation
_LAST: list[tuple[PrimFunc, tuple[Target, CompileOptions], Sequence[Snapshot]]] = []


@reserve_frames
def compile_program(func: PrimFunc, target: Target, options: CompileOptions, compiler: str = "") -> Program:
    """The whole compiler: passes, code generator, C++ or CUDA compiler; each step is skipped if its result is cached.

    Args:
        func: The tile-level function.
        target: What to compile for.
        options: The compile options.
        compiler: The execution backend that names the compiler; the target's first without it.
    """
    compiler = compiler or target.family.default_execution_backend
    if not is_cache_enabled():
        with garbage_collector.disabled():
            return _build(generate_source(func, target, options), func, target, options, compiler)
    function_key = _function_key(func, target, options)
    source: Source | None = None
    if is_postprocessed(target):
        source = postprocessed(_cached_source(function_key, func, target, options), target)
        function_key = cache.key_of(function_key, source.text)
    key = cache.key_of(function_key, target.family.identity(options, compiler))
    if key not in _PROGRAMS:
        with garbage_collector.disabled():
            source = source or _cached_source(function_key, func, target, options)
            _PROGRAMS.setdefault(key, _build(source, func, target, options, compiler))
    return _PROGRAMS[key]


@reserve_frames
def generate_source(func: PrimFunc, target: Target, options: CompileOptions) -> Source:
    """The generated source of a function, from the disk cache if possible, after the user's postprocessing."""
    if not is_cache_enabled():
        return postprocessed(_generate(func, target, options), target)
    key = _function_key(func, target, options)
    return postprocessed(_cached_source(key, func, target, options), target)


def _cached_source(key: str, func: PrimFunc, target: Target, options: CompileOptions) -> Source:
    cached = cache.lookup(key, ".source")
    if cached is not None:
        return _source_from_json(cached)
    source = _generate(func, target, options)
    cache.store(key, ".source", _source_as_json(source))
    return source


def _build(source: Source, func: PrimFunc, target: Target, options: CompileOptions, compiler: str) -> Program:
    with func.loc:
        return Program(source, target.family.build(source, target, options, compiler))


def check(func: PrimFunc, target: Target, options: CompileOptions) -> None:
    """Raises the errors of the compiler, without compiling.

    Raises:
        ProgramError: The program breaks a rule of the language.
    """
    passes = target.family.backend().passes
    checks = passes[: [p.name for p in passes].index("check_program") + 1]
    _run(func, checks, target, options)


def with_semantic_options(func: PrimFunc, target: Target, options: CompileOptions) -> PrimFunc:
    """The function with the options that change its semantics, as the reference interpreter runs it."""
    passes = [p for p in target.family.backend().passes if p.name == "use_minnum_maxnum"]
    return _run(func, passes, target, options)


def snapshots(
    func: PrimFunc, target: Target, options: CompileOptions, result: list[Snapshot] | None = None
) -> list[Snapshot]:
    """The function before and after each pass; in `result` also if a pass raises an error."""
    result = [] if result is None else result
    last = next(iter(_LAST), None)
    if last is not None and last[0] is func and last[1] == (target, options):
        result += last[2]
        return result
    _run(func, target.family.backend().passes, target, options, result)
    _LAST[:] = [(func, (target, options), tuple(result))]
    return result


def lowered(func: PrimFunc, target: Target, options: CompileOptions) -> PrimFunc:
    """The function after all passes, which is printed for the target and run by the simulator."""
    return snapshots(func, target, options)[-1].func


def _run(
    func: PrimFunc,
    passes: Sequence[Pass],
    target: Target,
    options: CompileOptions,
    shots: list[Snapshot] | None = None,
) -> PrimFunc:
    from tilelang.passes.base import PassContext  # noqa: PLC0415  a kernel in the cache needs no passes
    from tilelang.passes.runner import run_passes  # noqa: PLC0415

    with func.loc:
        return run_passes(func, passes, PassContext(options, target), snapshots=shots)


def _generate(func: PrimFunc, target: Target, options: CompileOptions) -> Source:
    if environment_flag("TILELANG_PRINT_ON_COMPILATION"):
        print(f"tilelang: compiling '{func.name}' for {target}")  # noqa: T201  the user asked for it
    program = lowered(func, target, options)
    with func.loc:
        source: Source = target.family.backend().emit(program)
        return source


def _function_key(func: PrimFunc, target: Target, options: CompileOptions) -> str:
    """The key of the generated source; includes source lines, which comments and messages show."""
    with func.loc:
        places = [
            str((s.loc.file, s.loc.line, s.loc.col, linecache.getline(s.loc.file, s.loc.line)))
            for s in walk(func.body)
        ]
        return cache.key_of(digest(func), "\n".join(places), str(target), options.key, package_fingerprint())


@functools.lru_cache(maxsize=1)
def package_fingerprint() -> str:
    """A digest of the files of this package."""
    root = Path(__file__).parent.parent
    return cache.key_of(repr(sorted(_python_files(str(root)))))


def _python_files(folder: str) -> list[tuple[str, int, int]]:
    """The Python files in a folder and below, with sizes and times of their last changes."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                found.append((entry.path, status.st_size, status.st_mtime_ns))
            elif entry.name != "__pycache__" and entry.is_dir():
                found += _python_files(entry.path)
    return found


# -- sources on disk -----------------------------------------------------------------------------------------
def _source_as_json(source: Source) -> bytes:
    places: dict[Loc, int] = {}
    table: list[list[object]] = []
    fields = {
        "language": source.language,
        "text": source.text,
        "entry": source.entry,
        "lines": [[line, _number_of(loc, places, table)] for line, loc in source.lines.items()],
        "asserts": [[message, _number_of(loc, places, table), hint] for message, loc, hint in source.asserts],
        "flags": list(source.flags),
        "launches": [dataclasses.asdict(launch) for launch in source.launches],
        "workspaces": list(source.workspaces),
        "has_user_code": source.has_user_code,
    }
    return json.dumps({**fields, "places": table}).encode()


def _number_of(loc: Loc | None, places: dict[Loc, int], table: list[list[object]]) -> int:
    """The number of a location, which is added to the table with those that called it; -1 for none."""
    if loc is None:
        return -1
    if loc not in places:
        caller = _number_of(loc.caller, places, table)
        places[loc] = len(table)
        table.append([loc.file, loc.line, loc.col, loc.end_line, loc.end_col, loc.function, caller])
    return places[loc]


def _source_from_json(data: bytes) -> Source:
    fields = json.loads(data)
    places: list[Loc] = []
    for file, line, col, end_line, end_col, function, caller in fields["places"]:
        around = places[caller] if caller >= 0 else None
        places.append(Loc(file, line, col, end_line, end_col, function, around))
    return Source(
        fields["language"],
        fields["text"],
        fields["entry"],
        {line: places[n] for line, n in fields["lines"]},
        tuple((message, places[n], hint) for message, n, hint in fields["asserts"]),
        tuple(fields["flags"]),
        tuple(_launch_from_json(launch) for launch in fields["launches"]),
        tuple(fields["workspaces"]),
        fields["has_user_code"],
    )


def _launch_from_json(fields: dict[str, Any]) -> DeviceLaunch:
    arguments = tuple(KernelArgument(**argument) for argument in fields.pop("arguments"))
    texts = fields.pop("tensor_maps")
    maps = tuple(
        TensorMapText(
            **{**_tuples(text), "dtype": as_dtype(text["dtype"]), "pixels": tuple(map(tuple, text["pixels"]))}
        )
        for text in texts
    )
    fragments = tuple((name, size) for name, size in fields.pop("fragments"))
    return DeviceLaunch(**{**_tuples(fields), "arguments": arguments, "tensor_maps": maps, "fragments": fragments})


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
