"""Eager functions: those that take tensors, are compiled for the shapes and dtypes of a call, and run.

Takes a call, sorts its arguments into tensors, runtime scalars and compile-time values, and gives the results. Calls
that agree on compile-time values and on the sizes of `T.const` share a kernel; calls that are equal at a glance find it
without looking at the function again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.api import public
from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, OptionError
from tilelang.ir.expr import int_const
from tilelang.ir.func import PrimFunc
from tilelang.jit.compile import compile_all
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
from tilelang.language.eager import TensorFacts, find_sizes, is_parameter_type, stage
from tilelang.language.parameters import annotations_of, stated_parameters
from tilelang.language.types import PointerType, TensorType
from tilelang.records import record
from tilelang.runtime.arrays import borrow, is_torch_tensor

_PLAIN = (int, bool, float, type(None))  # whose values a glance may compare, like texts and dtypes

Place = int | str  # of an argument in a call: its position, or its keyword


@record(frozen=False)
class _EagerKernel:
    """A compiled eager function for one set of sizes and compile-time values, and the names of its arguments."""

    kernel: JITKernel
    arguments: tuple[str, ...]


@record(frozen=False)
class _Parts:
    """The arguments of an eager function, sorted by what they are."""

    tensors: dict[str, TensorFacts | None] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def key(self, *, with_strides: bool) -> Any:
        """Under which calls meet that have the same kernel."""
        facts = {
            name: f and (f.shape, str(f.dtype), f.strides if with_strides else None) for name, f in self.tensors.items()
        }
        return key_of_value((facts, self.values, self.sizes))


@public
class EagerFunction(JITImpl):
    """A function marked `@tilelang.jit` that takes tensors and runs."""

    mode = "eager"

    def __init__(self, func: Callable[..., Any], options: JitOptions) -> None:
        super().__init__(func, options, self._parse)
        self._parameters = self.signature.parameters
        function: Any = self.func.function
        annotations = annotations_of(function, {})
        self._scalars = {name for name, kind in annotations.items() if isinstance(kind, DType)}
        typed = {name for name, kind in annotations.items() if is_parameter_type(kind)}
        self._tensors = (typed | stated_parameters(function)) - self._scalars
        runtime = self._scalars | self._tensors
        places = ((i, name) for i, name in enumerate(self._parameters) if name in runtime)
        self._runtime_places: frozenset[Place] = frozenset(place for pair in places for place in pair)
        self._by_stride = False  # whether some size of T.const is a stride
        self._programs: dict[Any, _EagerKernel] = {}  # by sizes and compile-time values
        self._kernels: dict[Any, _EagerKernel] = {}  # by shapes and compile-time values
        self._recognized: dict[Any, tuple[_EagerKernel, tuple[Place, ...]]] = {}
        functools.update_wrapper(self, func)

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the kernel for the shapes and dtypes of these arguments, compiled on the first call.

        Keywords that are no parameters are sizes of `T.const`. With `__return_kernel=True` the kernel is returned and
        does not run.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
        """
        glance = self.glance(args, keywords)
        known = self._recognized.get(glance)
        if known is not None:
            eager, places = known
            return eager.kernel(*[args[place] if isinstance(place, int) else keywords[place] for place in places])
        wanted = keywords.pop(RETURN_KERNEL, False)
        own, sizes = split_keywords(self.signature, keywords)
        values = bind_call(self.func.__name__, self.signature, args, own)
        eager = self._kernel(self._sorted(values, sizes))
        if wanted:
            return eager.kernel
        names = list(self._parameters)
        places = tuple(name if name in own else names.index(name) for name in eager.arguments)
        if glance is not None and all(isinstance(place, str) or place < len(args) for place in places):
            self._recognized[self.glance(args, keywords)] = eager, places
        return eager.kernel(*[values[name] for name in eager.arguments])

    def glance(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """A key that is quick to make and equal only for calls of one kernel; None if that takes more than a glance."""
        key: list[Any] = [*self.options.asked(), *keywords]
        for place, value in (*enumerate(args), *keywords.items()):
            kind = type(value)
            if kind is np.ndarray:
                key.append((kind, value.shape, value.dtype, value.strides if self._by_stride else None))
            elif is_torch_tensor(value):
                key.append((kind, value.shape, value.dtype, value.stride() if self._by_stride else None))
            elif not (kind in _PLAIN or isinstance(value, str) or _is_torch_dtype(kind)):
                return None
            elif place in self._runtime_places:
                key.append(kind)
            else:
                key.append((kind, value.hex() if kind is float else value))
        return tuple(key)

    def compile(self, *args: Any, **keywords: Any) -> JITKernel:
        """Builds without running.

        Tensors may be given, or stand-ins for them such as `T.Tensor((1024, 1024), "float16")` and `T.ptr()`, or be
        left out; what their annotations leave open is given by keyword, like a tunable:
        `f.compile(M=1024, N=1024, K=1024, block_M=64)`.
        """
        return self._kernel(self._parts_to_compile(args, keywords)).kernel

    def get_tir(self, *args: Any, **keywords: Any) -> PrimFunc:
        """The kernel's program, not compiled; arguments as for `compile`."""
        return self._staged(self._parts_to_compile(args, keywords))

    def par_compile(
        self, configs: Sequence[Any], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Compiles for many sets of arguments at once; each as for `compile`.

        Raises:
            OptionError: `configs` is no list of mappings of keywords and tuples of arguments.
        """
        return compile_all(self.compile, configs, num_workers, ignore_error, self.options.chosen()[0])

    # -- sorting the arguments ------------------------------------------------------------------------------
    def _sorted(self, values: Mapping[str, Any], sizes: Mapping[str, Any]) -> _Parts:
        parts = _Parts(sizes=dict(sizes))
        for name, value in values.items():
            if name in self._scalars:
                continue
            if is_array(value) or isinstance(value, TensorType | PointerType):
                parts.tensors[name] = self._facts(name, value)
            elif name in self._tensors:
                parts.tensors[name] = None
            else:
                parts.values[name] = value
        return parts

    def _facts(self, name: str, value: Any) -> TensorFacts | None:
        if isinstance(value, PointerType):
            return None
        if isinstance(value, TensorType):
            shape = tuple(int_const(extent) for extent in value.shape)
            strides = None if value.strides is None else tuple(int_const(step) for step in value.strides)
            if None in shape or None in (strides or ()):
                raise ArgumentError(
                    f"{self.func.__name__}: '{name}' is {value!r}, whose sizes are not known",
                    hint="write integers, or leave the tensor out and pass the sizes by keyword",
                )
            return TensorFacts(shape, value.dtype, strides)  # type: ignore[arg-type]
        view = borrow(value)
        if view is None or view.dtype is None:
            text = type(value).__name__ if view is None else f"dtype {view.dtype_text}"
            raise ArgumentError(f"{self.func.__name__}: '{name}' has no dtype that kernels know, got {text}")
        return TensorFacts(view.shape, view.dtype, None if view.is_dense else view.strides)

    def _parts_to_compile(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> _Parts:
        """The arguments of a call that may leave out tensors and runtime scalars."""
        own, sizes = split_keywords(self.signature, keywords)
        name = self.func.__name__
        values = bind_call(name, self.signature, args, own, partial=True)
        parts = self._sorted(values, sizes)
        for name, parameter in self._parameters.items():
            if name in values or name in self._scalars or parameter.kind is parameter.VAR_KEYWORD:
                continue
            if name in self._tensors:
                parts.tensors[name] = None
            elif parameter.default is parameter.empty:
                bind_call(self.func.__name__, self.signature, args, own)  # which tells what is missing
            else:
                parts.values[name] = parameter.default
        return parts

    def _parse(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> ParsedArguments:
        parts = self._parts_to_compile(args, keywords)
        own, extra = split_keywords(self.signature, keywords)
        values = bind_call(self.func.__name__, self.signature, args, own, partial=True)
        runtime = self._scalars | self._tensors
        key = plain_key(self.signature, parts.values, extra, frozenset(runtime))
        function: Any = self.func.function
        sizes = find_sizes(function, parts.tensors, parts.values, parts.sizes)
        return (key, tuple(sizes.values.values())), {n: v for n, v in values.items() if n in runtime}

    # -- kernels --------------------------------------------------------------------------------------------
    def _kernel(self, parts: _Parts) -> _EagerKernel:
        chosen = self.options.chosen()
        known = self._kernels.get((parts.key(with_strides=self._by_stride), chosen))
        if known is not None:
            return known
        self._check_options()
        function: Any = self.func.function
        sizes = find_sizes(function, parts.tensors, parts.values, parts.sizes)
        if sizes.by_stride and not self._by_stride:
            self._by_stride = True  # what was found without looking at strides may be wrong
            self._kernels.clear()
            self._recognized.clear()
        program = (key_of_value((parts.values, sizes.values)), chosen)
        eager = self._programs.get(program)
        if eager is None:
            func = self._staged(parts)
            names = tuple(param.name for i, param in enumerate(func.params) if i not in func.outputs)
            eager = self._programs.setdefault(program, _EagerKernel(self.options.compile(func), names))
        return self._kernels.setdefault((parts.key(with_strides=self._by_stride), chosen), eager)

    def _staged(self, parts: _Parts) -> PrimFunc:
        self._check_options()
        function: Any = self.func.function
        return stage(function, parts.tensors, parts.values, parts.sizes)[0]

    def _check_options(self) -> None:
        if self.options.out_idx is not None:
            raise OptionError(
                f"{self.func.__name__}: out_idx={self.options.out_idx!r} has no meaning in eager style",
                hint="return the tensors that T.empty made, and leave out_idx out",
            )


def _is_torch_dtype(kind: type) -> bool:
    return kind.__name__ == "dtype" and kind.__module__ == "torch"
