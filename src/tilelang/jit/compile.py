"""`tilelang.compile` and its kin: a kernel, many kernels at once, or only the text of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tilelang.errors import OptionError, user_facing
from tilelang.ir.func import Param, PrimFunc
from tilelang.ir.printer import to_text
from tilelang.jit.kernel import JITKernel
from tilelang.jit.program import generate_source, snapshots
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.runtime.parameters import OutIdx
from tilelang.target import Target, TargetLike, parse_target


def compile(
    func: PrimFunc,
    out_idx: OutIdx = None,
    target: TargetLike = "auto",
    execution_backend: str | None = "auto",
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    verbose: bool = False,
) -> JITKernel:
    """A kernel that is ready to run; see `JITKernel` for the arguments.

    Raises:
        ProgramError: The program breaks a rule of the language.
        NoLowering: It asks for something that the target does not have.
        OptionError: An option is unknown, or `out_idx` names no tensor.
        ToolchainError: There is no usable compiler.
        CacheError: The cache folder cannot be written.
    """
    return JITKernel(func, out_idx, target, execution_backend, pass_configs, compile_flags, verbose)


@user_facing
def par_compile(
    funcs: Sequence[PrimFunc], *args: Any, num_workers: int | None = None, ignore_error: bool = False, **options: Any
) -> list[JITKernel | None]:
    """Compiles many kernels at once, each with the same options as `compile` takes.

    The C++ compiler is a process of its own, so threads are enough to use every core on the CPU target. Most of the
    time that a kernel for a GPU takes is spent in Python, so those are compiled in processes, which leave their results
    in the compile cache.

    Args:
        funcs: The kernels.
        args: Further arguments of `compile`.
        num_workers: How many compile at once; one per core without it.
        ignore_error: Give None for a kernel that does not compile, instead of raising its error.
        options: Further arguments of `compile`.

    Raises:
        OptionError: `funcs` is no list, or `num_workers` no positive integer.
        TileLangError: The first error of a kernel, unless `ignore_error`.
    """
    target = parse_target(args[1] if len(args) > 1 else options.get("target", "auto"))
    return in_parallel(lambda func: compile(func, *args, **options), funcs, num_workers, ignore_error, target)


def in_parallel(
    make: Callable[[Any], JITKernel],
    items: Iterable[Any],
    num_workers: int | None,
    ignore_error: bool,
    target: Target,
) -> list[JITKernel | None]:
    """`make` of each item; None for those that fail if `ignore_error`.

    For a GPU, processes fill the compile cache first; what one of them could not do is done here.

    Raises:
        OptionError: `items` cannot be iterated over, or `num_workers` is no positive integer.
    """
    workers = num_workers if num_workers is not None else os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise OptionError(f"par_compile: num_workers must be a positive integer, got {num_workers!r:.40}")
    if not isinstance(items, Iterable):
        raise OptionError(f"par_compile: expected a list, got {type(items).__name__}", hint="write par_compile([...])")

    def one(item: Any) -> JITKernel | None:
        try:
            return make(item)
        except Exception:
            if ignore_error:
                return None
            raise

    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  one kernel needs neither threads nor processes

    from tilelang.jit.processes import warm_cache  # noqa: PLC0415

    items = list(items)
    if target.kind != "cpu" and workers > 1 and len(items) > 1:
        warm_cache(make, items, workers)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, items))


@record
class Lowered:
    """A kernel's texts, without a compiled kernel.

    Attributes:
        kernel_source: The generated source.
        ir: The program after the last pass.
        params: The parameters.
        target: What it was generated for.
    """

    kernel_source: str
    ir: str
    params: tuple[Param, ...]
    target: Target

    def __str__(self) -> str:
        return self.kernel_source


@user_facing
def lower(
    func: PrimFunc, target: TargetLike = "auto", pass_configs: Mapping[str, object] | None = None
) -> Lowered:
    """Runs the compiler as far as the generated source; needs no C++ compiler."""
    resolved = parse_target(target)
    options = CompileOptions.from_user(pass_configs)
    source = generate_source(func, resolved, options)
    return Lowered(source.text, to_text(snapshots(func, resolved, options)[-1].func), func.params, resolved)
