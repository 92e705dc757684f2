"""`@tilelang.jit`: kernels compiled on demand, once per set of arguments.

*Lazy* style: the function returns a prim_func, and calling it with tunables returns a `JITKernel`. *Eager* style: the
function takes tensors and opens `T.Kernel` itself; calling it compiles for the shapes and dtypes of the arguments,
runs, and returns the outputs. Invariant: equal arguments give the same kernel, in all threads.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from tilelang.api import public, strip_frames
from tilelang.errors import ArgumentError, StagingError, TileLangError
from tilelang.ir.func import PrimFunc
from tilelang.jit.call_keys import key_of_call
from tilelang.jit.compile import compile_all
from tilelang.jit.eager import EagerFunction
from tilelang.jit.jit_impl import JITImpl
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import JitOptions
from tilelang.jit.signature import (
    RETURN_KERNEL,
    ParsedArguments,
    bind_call,
    is_array,
    key_of_value,
    plain_key,
    split_keywords,
)
from tilelang.language.eager import is_eager
from tilelang.runtime.parameters import OutIdx
from tilelang.targets.target import TargetLike


@public
class JitFunction(JITImpl):
    """A function marked `@tilelang.jit` that returns a prim_func."""

    mode = "lazy"

    def __init__(self, func: Callable[..., Any], options: JitOptions) -> None:
        super().__init__(func, options, self._parse)
        self._kernels: dict[Any, JITKernel] = {}
        self._recognized: dict[Any, JITKernel] = {}  # the same by the arguments of calls as they were given
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments, compiled on the first call.

        `__return_kernel=True`, which programs pass to functions of either style, changes nothing here.

        Raises:
            ArgumentError: The arguments do not fit the function's signature.
            StagingError: The function returns something other than a kernel.
        """
        try:
            key = key_of_call(args, keywords)
            kernel = self._recognized.get(key)
            if kernel is None:
                kernel = self._recognized[key] = self._made(args, keywords)
            return kernel
        except Exception as error:  # as `public`, without its cost on every call
            strip_frames(error)
            if sys.version_info >= (3, 11):
                raise
            raise error from error.__cause__

    @public
    def _made(self, args: Sequence[Any], keywords: dict[str, Any]) -> JITKernel:
        """The kernel of a call that is not in the cache of calls."""
        keywords.pop(RETURN_KERNEL, None)  # which a call does anyway
        values = self._bound(args, keywords)
        key = (key_of_value(values), *self.options.chosen())
        if key not in self._kernels:
            self._kernels.setdefault(key, self.options.compile(self.get_tir(*args, **keywords)))
        return self._kernels[key]

    def compile(self, *args: Any, **keywords: Any) -> JITKernel:
        """The same as a call."""
        return self(*args, **keywords)

    def get_tir(self, *args: Any, **keywords: Any) -> PrimFunc:
        """The kernel's program for these arguments, not compiled.

        Raises:
            ArgumentError: The arguments do not fit the function's signature.
            StagingError: The function returns something other than a kernel.
        """
        self._bound(args, keywords)
        try:
            func = self.func.function(*args, **keywords)
        except TileLangError:
            self._refuse_arrays(args, keywords)
            raise
        if isinstance(func, PrimFunc):
            return func
        raise StagingError(
            f"{self.func.__name__}: a function marked @tilelang.jit returns a kernel, got {type(func).__name__}",
            hint="return the function marked @T.prim_func; or write T.Kernel directly in the body (eager style)",
        )

    def _bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by parameter.

        Raises:
            ArgumentError: They do not fit the signature.
        """
        try:
            return bind_call(self.func.__name__, self.signature, args, keywords)
        except ArgumentError:
            self._refuse_arrays(args, keywords)
            raise

    def _refuse_arrays(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Raises for tensors among the arguments of a function that returns a kernel.

        Raises:
            ArgumentError: There is one among the arguments.
        """
        name, sizes = self.func.__name__, list(self.signature.parameters)
        more = [str(n + 1) for n in range(len(sizes), len(args))]
        for parameter, value in [*zip([*sizes, *more], args, strict=False), *keywords.items()]:
            if is_array(value):
                what = f"argument {parameter}" if parameter in more else f"'{parameter}'"
                raise ArgumentError(
                    f"{name}: {what} is a tensor, but a function that returns a kernel takes sizes and options",
                    hint=f"make the kernel first, and call that with tensors: "
                    f"`kernel = {name}({', '.join(sizes)})`, `kernel(A, B)`",
                ) from None

    def par_compile(
        self, configs: Sequence[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Compiles for many sets of arguments at once.

        Args:
            configs: A mapping of keywords, or a tuple of arguments, for each kernel.
            num_workers: How many compile at once; one per core without it.
            ignore_error: Give None for a kernel that does not compile, instead of raising its error.
        """
        return compile_all(self, configs, num_workers, ignore_error, self.options.chosen()[0])

    def _parse(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> ParsedArguments:
        known, extra = split_keywords(self.signature, keywords)
        values = self._bound(args, known)
        return (plain_key(self.signature, values, extra), None), {}


@overload
def jit(func: Callable[..., Any]) -> Any: ...


@overload
def jit(
    func: None = None,
    *,
    out_idx: OutIdx = None,
    target: TargetLike = None,
    target_host: object = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    debug_root_path: str | Path | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Any]: ...


@public
def jit(
    func: Callable[..., Any] | PrimFunc | None = None,
    *,
    out_idx: OutIdx = None,
    target: TargetLike = None,
    target_host: object = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    debug_root_path: str | Path | None = None,
    compile_flags: str | Sequence[str] | None = None,
) -> Any:
    """Makes a function compile kernels: `@tilelang.jit` or `@tilelang.jit(out_idx=[-1])`.

    On a function that returns a prim_func, a call gives a `JITKernel`; on one that takes tensors and opens
    `T.Kernel` itself, a call compiles, runs and returns the outputs.

    Args:
        func: The function, where the decorator is used bare.
        out_idx: The parameters that a kernel allocates and returns.
        target: What to compile for; "auto" or None takes the best target present.
        target_host: Accepted as published; the host is the machine at hand.
        execution_backend: "auto", or how kernels run, as for `JITKernel`.
        verbose: Print the compiler's command line and log.
        pass_configs: Switches by `PassConfigKey` or its text.
        debug_root_path: A folder where the program and the sources of each kernel are written.
        compile_flags: Appended to the compiler's command line; a text is split as a shell does.

    Raises:
        OptionError: The target, the backend, a key of `pass_configs` or `out_idx` is unknown.
        StagingError: What is decorated is no function.

    Example:
        `kernel = matmul(1024, 1024, 1024)`; also `matmul.compile(...)`, which never runs anything,
        `matmul.par_compile([...])`, `matmul.get_tir(...)` and `matmul.get_kernel_source(...)`
    """
    del target_host
    options = JitOptions(
        out_idx, target, execution_backend, pass_configs, compile_flags, verbose, debug_root_path
    )

    @public
    def decorate(function: Callable[..., Any] | PrimFunc) -> Any:
        if isinstance(function, PrimFunc):
            return options.compile(function)
        if not inspect.isfunction(function):
            raise StagingError(f"@tilelang.jit needs a function, got {type(function).__name__}")
        kind = EagerFunction if is_eager(function) else JitFunction
        return kind(function, options)

    return decorate if func is None else decorate(func)
