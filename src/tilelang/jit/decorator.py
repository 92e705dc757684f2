"""`@tilelang.jit`: kernels made on demand, once per set of arguments.

Two styles. *Lazy*: the function returns a prim_func; calling it with tunables gives a `JITKernel`. *Eager*: the
function takes tensors and opens `T.Kernel` itself; calling it compiles for the shapes and dtypes at hand, runs, and
returns the outputs. Invariant: equal arguments give one and the same kernel, whichever threads ask for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, overload

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, StagingError, user_facing
from tilelang.ir.func import PrimFunc
from tilelang.jit.compile import compile, in_parallel
from tilelang.jit.kernel import JITKernel
from tilelang.jit.signature import bind_call, is_array, key_of_value
from tilelang.language.eager import is_eager, stage
from tilelang.language.types import TensorType
from tilelang.records import record
from tilelang.runtime.arrays import borrow, is_torch_tensor
from tilelang.runtime.parameters import OutIdx
from tilelang.target import Target, TargetLike, parse_execution_backend, parse_target


@record
class JitOptions:
    """What `@tilelang.jit(...)` was given, for every kernel that the function makes."""

    out_idx: OutIdx = None
    target: TargetLike = None
    execution_backend: str | None = None
    pass_configs: Mapping[str, object] | None = None
    compile_flags: str | Sequence[str] | None = None
    verbose: bool | None = None
    debug_root_path: str | Path | None = None

    def chosen(self) -> tuple[Target, str]:
        """The target and execution backend, with what the environment says now."""
        target = parse_target(self.target)
        return target, parse_execution_backend(self.execution_backend, target)

    def compile(self, func: PrimFunc, out_idx: OutIdx = None) -> JITKernel:
        """A kernel under these options."""
        kernel = compile(
            func,
            self.out_idx if out_idx is None else out_idx,
            execution_backend=self.execution_backend,
            target=self.target,
            verbose=self.verbose,
            pass_configs=self.pass_configs,
            compile_flags=self.compile_flags,
        )
        if self.debug_root_path is not None:
            place = Path(self.debug_root_path) / func.name
            kernel.export_sources(f"{place}.{'cpp' if kernel.target.kind == 'cpu' else 'cu'}", f"{place}.py")
            Path(f"{place}.ir").write_text(str(func), encoding="utf-8")
        return kernel


class JitFunction:
    """A function marked `@tilelang.jit` that returns a prim_func.

    Attributes:
        func: The user's function.
        options: What the decorator was given.
    """

    def __init__(self, func: Callable[..., Any], options: JitOptions) -> None:
        self.func = func
        self.options = options
        self._signature = inspect.signature(func)
        self._kernels: dict[Any, JITKernel] = {}
        functools.update_wrapper(self, func)

    @user_facing
    def __call__(self, *args: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments, compiled on the first call.

        Raises:
            ArgumentError: The arguments do not fit the function's signature.
            StagingError: The function returns something other than a kernel.
        """
        values = bind_call(self.func.__name__, self._signature, args, keywords)
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
            StagingError: The function returns something other than a kernel.
        """
        func = self.func(*args, **keywords)
        if isinstance(func, PrimFunc):
            return func
        raise StagingError(
            f"{self.func.__name__}: a function marked @tilelang.jit returns a kernel, got {type(func).__name__}",
            hint="return the function marked @T.prim_func; or write T.Kernel directly in the body (eager style)",
        )

    def get_kernel_source(self, *args: Any, **keywords: Any) -> str:
        """The generated source for these arguments."""
        return self(*args, **keywords).get_kernel_source()

    def par_compile(
        self, configs: Sequence[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Compiles for many sets of arguments at once.

        Args:
            configs: A mapping of keywords, or a tuple of arguments, for each kernel.
            num_workers: How many compile at once; one per core without it.
            ignore_error: Give None for a kernel that does not compile, instead of raising its error.
        """
        return _compile_all(self, configs, num_workers, ignore_error, self.options.chosen()[0])


@record(frozen=False)
class _EagerKernel:
    """A compiled eager function for one set of shapes, dtypes and tunables."""

    kernel: JITKernel
    outputs: tuple[int, ...]
    single: bool
    arguments: tuple[str, ...]

    def run(self, given: Sequence[Any]) -> Any:
        """Calls the kernel with tensors and scalars in order, and gives what the user's function returns."""
        results = self.kernel(*given)
        made = self.kernel.signature.outputs
        results = dict(zip(made, (results,) if len(made) == 1 else results or (), strict=True))
        returned = tuple(results[i] if i in results else given[i] for i in self.outputs)
        if not returned:
            return None
        return returned[0] if self.single else returned


@record(frozen=False)
class _Parts:
    """The arguments of an eager function, sorted by what they are."""

    tensors: dict[str, tuple[tuple[int, ...], DType] | None] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> Any:
        """Under which equal programs meet."""
        return key_of_value((self.tensors, self.scalars, self.values, self.dims))


class EagerFunction:
    """A function marked `@tilelang.jit` that takes tensors and runs.

    Attributes:
        func: The user's function.
        options: What the decorator was given.
    """

    def __init__(self, func: Callable[..., Any], options: JitOptions) -> None:
        self.func = func
        self.options = options
        self._signature = inspect.signature(func)
        self._parameters = self._signature.parameters
        self._scalars = {n: i for i, (n, p) in enumerate(self._parameters.items()) if isinstance(p.annotation, DType)}
        self._kernels: dict[Any, _EagerKernel] = {}
        self._recognized: dict[Any, tuple[_EagerKernel, tuple[int, ...]]] = {}
        functools.update_wrapper(self, func)

    @user_facing
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the kernel for the shapes and dtypes of these arguments, compiled on the first call.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
        """
        glance = None if keywords else self.glance(args)
        known = self._recognized.get(glance)
        if known is not None:
            kernel, positions = known
            return kernel.run([args[i] for i in positions])
        values = bind_call(self.func.__name__, self._signature, args, keywords)
        parts = _Parts()
        for name, value in values.items():
            if name in self._scalars:
                parts.scalars.append(name)
            elif is_array(value):
                parts.tensors[name] = self._described(name, value)
            else:
                parts.values[name] = value
        kernel = self._kernel(parts)
        names = list(self._parameters)
        positions = tuple(names.index(name) for name in kernel.arguments)
        if glance is not None and all(position < len(args) for position in positions):
            self._recognized[glance] = kernel, positions
        return kernel.run([values[name] for name in kernel.arguments])

    def glance(self, args: Sequence[Any]) -> Any:
        """A key that is quick to make and equal only for calls of one kernel; None if that takes more than a glance."""
        key: list[Any] = [self.options.chosen()]
        for position, value in enumerate(args):
            kind = type(value)
            if position in self._scalars.values():
                key.append(None)
            elif kind is float:
                key.append((kind, value.hex()))
            elif kind in (int, bool, str):
                key.append((kind, value))
            elif kind is np.ndarray or is_torch_tensor(value):
                key.append((kind, value.shape, value.dtype))
            else:
                return None
        return tuple(key)

    @user_facing
    def compile(self, *args: Any, **keywords: Any) -> JITKernel:
        """Builds without running.

        Tensors may be given, or left out; what their annotations leave open is given by keyword, like a tunable:
        `f.compile(M=1024, N=1024, K=1024, block_M=64)`.
        """
        return self._kernel(self._parts_to_compile(args, keywords)).kernel

    def get_tir(self, *args: Any, **keywords: Any) -> PrimFunc:
        """The kernel's program, not compiled; arguments as for `compile`."""
        parts = self._parts_to_compile(args, keywords)
        return stage(self.func, parts.tensors, parts.values, parts.dims).func  # type: ignore[arg-type]

    def get_kernel_source(self, *args: Any, **keywords: Any) -> str:
        """The generated source; arguments as for `compile`."""
        return self.compile(*args, **keywords).get_kernel_source()

    def par_compile(
        self, configs: Sequence[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Compiles for many sets of arguments at once; each as for `compile`."""
        return _compile_all(self.compile, configs, num_workers, ignore_error, self.options.chosen()[0])

    def _described(self, name: str, value: Any) -> tuple[tuple[int, ...], DType]:
        view = borrow(value)
        if view is None or view.dtype is None:
            text = type(value).__name__ if view is None else f"dtype {view.dtype_text}"
            raise ArgumentError(f"{self.func.__name__}: '{name}' has no dtype that kernels know, got {text}")
        return view.shape, view.dtype

    def _parts_to_compile(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> _Parts:
        parts = _Parts()
        parts.dims.update({name: value for name, value in keywords.items() if name not in self._parameters})
        own = {name: value for name, value in keywords.items() if name in self._parameters}
        for name, value in bind_call(self.func.__name__, self._signature, args, own, partial=True).items():
            if is_array(value):
                parts.tensors[name] = self._described(name, value)
            else:
                parts.values[name] = value
        for name, parameter in self._parameters.items():
            if name in self._scalars:
                parts.values.pop(name, None)
                parts.scalars.append(name)
            elif name in parts.tensors or name in parts.values:
                continue
            elif parameter.default is parameter.empty or isinstance(parameter.annotation, TensorType):
                parts.tensors[name] = None
            else:
                parts.values[name] = parameter.default
        return parts

    def _kernel(self, parts: _Parts) -> _EagerKernel:
        key = (parts.key, *self.options.chosen())
        known = self._kernels.get(key)
        if known is not None:
            return known
        program = stage(self.func, parts.tensors, parts.values, parts.dims)  # type: ignore[arg-type]
        names = tuple(name for name in self._parameters if name in parts.tensors or name in parts.scalars)
        allocated = list(range(len(names), len(program.func.params)))
        kernel = self.options.compile(program.func, out_idx=allocated)
        return self._kernels.setdefault(key, _EagerKernel(kernel, program.outputs, program.single, names))


@user_facing
def _compile_all(
    make: Callable[..., JITKernel], configs: Sequence[Any], num_workers: int | None, ignore_error: bool, target: Target
) -> list[JITKernel | None]:
    """A kernel for each mapping of keywords or tuple of arguments."""

    def one(config: Any) -> JITKernel:
        return make(**config) if isinstance(config, Mapping) else make(*config)

    return in_parallel(one, configs, num_workers, ignore_error, target)


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

    @user_facing
    def decorate(function: Callable[..., Any] | PrimFunc) -> Any:
        if isinstance(function, PrimFunc):
            return options.compile(function)
        if not inspect.isfunction(function):
            raise StagingError(f"@tilelang.jit needs a function, got {type(function).__name__}")
        kind = EagerFunction if is_eager(function) else JitFunction
        return kind(function, options)

    return decorate if func is None else decorate(func)
