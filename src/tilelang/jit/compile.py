"""`tilelang.compile`, `par_compile` and `lower`: a kernel, many kernels at once, or only the source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.ir.func import PrimFunc
from tilelang.jit.dumps import write_dumps
from tilelang.jit.func_options import options_of
from tilelang.jit.kernel import JITKernel, check_is_kernel
from tilelang.jit.kernel_inspection import Lowered
from tilelang.jit.pass_context import get_pass_context
from tilelang.jit.program import compile_program, generate_source
from tilelang.runtime.parameters import OutIdx
from tilelang.targets.target import Target, TargetLike, parse_target


@public
def compile(
    func: PrimFunc,
    out_idx: OutIdx = None,
    execution_backend: str | None = None,
    target: TargetLike = None,
    target_host: object = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> JITKernel:
    """A kernel that is ready to run; see `JITKernel` for the arguments.

    Raises:
        ProgramError: The program breaks a rule of the language.
        NoLowering: It asks for something that the target does not have.
        OptionError: An option is unknown, or `out_idx` names no tensor.
        ToolchainError: There is no usable compiler.
    """
    return JITKernel(func, out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags)


@public
def par_compile(
    funcs: Iterable[PrimFunc],
    out_idx: OutIdx = None,
    execution_backend: str | None = None,
    target: TargetLike = None,
    target_host: object = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[JITKernel | None]:
    """Compiles many kernels at once, each with the same options as `compile` takes.

    The C++ compiler is a process of its own, so threads are enough to use every core on the CPU target. Most of the
    time that a kernel for a GPU takes is spent in Python, so those are compiled in processes, which leave their results
    in the compile cache.

    Args:
        funcs: The kernels.
        out_idx: As for `compile`, and so are the next ones.
        execution_backend: See `compile`.
        target: See `compile`.
        target_host: See `compile`.
        verbose: See `compile`.
        pass_configs: See `compile`.
        compile_flags: See `compile`.
        num_workers: How many compile at once; one per core without it.
        ignore_error: Give None for a kernel that does not compile, instead of raising its error.

    Raises:
        OptionError: `funcs` is no list, or `num_workers` no positive integer.
        TileLangError: The first error of a kernel, unless `ignore_error`.
    """
    options = (out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags)
    return in_parallel(lambda func: compile(func, *options), funcs, num_workers, ignore_error, parse_target(target))


def in_parallel(
    make: Callable[[Any], JITKernel],
    items: Iterable[Any],
    num_workers: int | None,
    ignore_error: bool,
    target: Target,
) -> list[JITKernel | None]:
    """`make` of each item, in parallel; None for those that fail if `ignore_error`.

    For a GPU, processes fill the compile cache first; the items are then made here.

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


@public
def compile_all(
    make: Callable[..., JITKernel], configs: Sequence[Any], num_workers: int | None, ignore_error: bool, target: Target
) -> list[JITKernel | None]:
    """A kernel for each mapping of keywords or tuple of arguments.

    Raises:
        OptionError: `configs` is no list of mappings and tuples.
    """
    items = list(configs) if isinstance(configs, Iterable) and not isinstance(configs, str | Mapping) else None
    if items is None or not all(isinstance(item, Mapping | tuple | list) for item in items):
        raise OptionError(
            f"par_compile: expected a list of configurations, got {configs!r:.60}",
            hint="write par_compile([{'M': 1024, 'block': 64}, ...]), or a tuple of arguments for each kernel",
        )

    def one(config: Any) -> JITKernel:
        return make(**config) if isinstance(config, Mapping) else make(*config)

    return in_parallel(one, items, num_workers, ignore_error, target)


@public
def lower(
    func: PrimFunc,
    target: TargetLike = None,
    target_host: object = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
    *,
    pass_configs: Mapping[str, object] | None = None,
) -> Lowered:
    """Runs the compiler as far as the generated source; needs no C++ compiler unless `enable_device_compile`.

    Args:
        func: The kernel.
        target: What to generate for; "auto" takes the best target present.
        target_host: Accepted as published; the host is the machine at hand.
        runtime_only: Accepted as published.
        enable_host_codegen: Accepted as published; `kernel.get_host_source()` shows what the host does.
        enable_device_compile: Compile the source as well.
        pass_configs: Switches by `PassConfigKey` or its text; those of the `PassContext` around without them.

    Raises:
        ProgramError: The program breaks a rule of the language.
        NoLowering: It asks for something that the target does not have.
        OptionError: The target or a key of `pass_configs` is unknown.
        ToolchainError: There is no usable compiler, and the source was to be compiled.
    """
    del target_host, runtime_only, enable_host_codegen
    check_is_kernel("lower", func)
    resolved = parse_target(target)
    options = options_of(func, get_pass_context().config if pass_configs is None else pass_configs)
    write_dumps(func, resolved, options)
    source = generate_source(func, resolved, options)
    built = compile_program(func, resolved, options).built if enable_device_compile else None
    return Lowered(source.text, func, resolved, options, built)
