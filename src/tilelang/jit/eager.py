"""Eager functions: they take tensors, are compiled for the shapes and dtypes of a call, and run.

The arguments of a call are tensors, runtime scalars and compile-time values. Calls with the same compile-time values
and sizes of `T.const` share a kernel; repeated calls find it by a key that is cheap to compute.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.api import public, strip_frames
from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, OptionError
from tilelang.ir.expr import int_const
from tilelang.ir.func import PrimFunc
from tilelang.jit.call_keys import (
    COMPARABLE,
    Form,
    Known,
    Place,
    add_values,
    is_comparable,
    plain_tensor_types,
    selector,
)
from tilelang.jit.compile import compile_all
from tilelang.jit.jit_impl import JITImpl
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import BACKEND, ENVIRON, TARGET, JitOptions, environment_key, variable
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
from tilelang.runtime.fast_path import MISSED
from tilelang.targets.target import entered_targets


@record(frozen=False)
class _EagerKernel:
    """A compiled eager function for one set of sizes and compile-time values.

    Attributes:
        kernel: The kernel.
        arguments: The names of its arguments.
        givers: Those whose shapes determined the sizes.
    """

    kernel: JITKernel
    arguments: tuple[str, ...]
    givers: frozenset[str]


@record(frozen=False)
class _Parts:
    """The arguments of an eager function, by kind."""

    tensors: dict[str, TensorFacts | None] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def key(self, *, with_strides: bool) -> Any:
        """The key of calls with the same kernel."""
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
        self._positional = [
            name for name, p in self._parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self._forms: dict[Any, Form] = {}  # by the number of positional arguments, the keywords, or both in a tuple
        self._tensor_types = plain_tensor_types()
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the kernel for the shapes and dtypes of these arguments, compiled on the first call.

        Keywords that are no parameters are sizes of `T.const`. With `__return_kernel=True` the kernel is returned and
        does not run.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
        """
        try:
            given: Any = args
            if not keywords:
                form = self._forms.get(len(args))
            elif not args:
                form, given = self._forms.get(tuple(keywords)), keywords
            else:
                form, given = self._forms.get((len(args), *keywords)), (*args, *keywords.values())
            if form is not None:
                if form.defaults:
                    given = given | form.defaults if given is keywords else given + form.defaults
                # `environment_key`, inline
                around = entered_targets(), variable(TARGET), variable(BACKEND)
                key: list[Any] = [around if os.environ is ENVIRON else environment_key()]
                for place in form.sizes:
                    value = given[place]
                    key.append(value.shape if type(value) in self._tensor_types else None)
                for place in form.absent:
                    key.append(given[place] is None)
                for place in form.values:
                    value = given[place]
                    kind = type(value)
                    if kind in COMPARABLE:
                        key.append(kind)
                        key.append(value)
                    else:
                        add_values(key, (value,))
                known = form.known.get(tuple(key))
                if known is not None and (attempt := known.runner.attempt) is not None:
                    pick = known.pick
                    result = attempt(*(given if pick is None else pick(given)))
                    if result is not MISSED:
                        return result
            return self._call_anew(args, keywords)
        except Exception as error:  # as `public`, without its cost on every call
            strip_frames(error)
            if sys.version_info >= (3, 11):
                raise
            raise error from error.__cause__

    @public
    def _call_anew(self, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """A call whose kernel is not known, or whose fast checks do not accept the arguments."""
        key = self._quick_key(args, keywords)
        recognized = self._recognized.get(key)
        if recognized is not None:
            eager, places = recognized
            return eager.kernel(*[args[place] if isinstance(place, int) else keywords[place] for place in places])
        wanted = keywords.pop(RETURN_KERNEL, False)
        own, sizes = split_keywords(self.signature, keywords)
        values = bind_call(self.func.__name__, self.signature, args, own)
        stand_ins = {name: _stand_in(value) for name, value in values.items()}
        eager = self._kernel(self._sorted(stand_ins, sizes))
        if wanted:
            return eager.kernel
        names = list(self._parameters)
        places = tuple(name if name in own else names.index(name) for name in eager.arguments)
        if key is not None and all(isinstance(place, str) or place < len(args) for place in places):
            self._recognized[self._quick_key(args, keywords)] = eager, places
        self._remember(eager, args, keywords)
        return eager.kernel(*[values[name] for name in eager.arguments])

    def _remember(self, eager: _EagerKernel, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Adds the sizes of a call, by which further calls find the kernel.

        The kernel checks everything else about its tensors, as the sizes are constants of its program.
        """
        if len(args) > len(self._positional):
            return
        runtime = self._tensors | self._scalars
        names = [*self._positional[: len(args)], *keywords]
        parameters = self._parameters.items()
        left = {n: p.default for n, p in parameters if n in runtime and n not in names and p.default is not p.empty}
        by_name = bool(keywords) and not args
        places: list[Any] = [*names, *left] if by_name else [*range(len(names) + len(left))]
        place_of = dict(zip((*names, *left), places, strict=True))
        given = dict(zip(places, (*args, *keywords.values(), *left.values()), strict=True))
        taken = set(eager.arguments)
        sizes = {place for name, place in place_of.items() if name in eager.givers}
        absent = {place for name, place in place_of.items() if name in self._tensors and name not in taken}
        call = tuple(keywords) if by_name else (len(args), *keywords) if keywords else len(args)
        form = self._forms.get(call)
        if form is not None:
            sizes, absent = sizes.union(form.sizes), absent.union(form.absent)
        self._tensor_types = plain_tensor_types()
        if not taken <= set(place_of) or any(type(given[place]) not in self._tensor_types for place in sizes):
            return
        if any(given[p] is not None for name, p in place_of.items() if p in absent and name not in taken):
            return
        if form is None or (len(sizes), len(absent)) != (len(form.sizes), len(form.absent)):
            values = tuple(place for name, place in place_of.items() if name not in runtime)
            defaults = left if by_name else tuple(left.values())
            form = Form(defaults, values, tuple(sorted(sizes)), tuple(sorted(absent)))
            self._forms[call] = form
        key: list[Any] = [environment_key(), *(given[place].shape for place in form.sizes)]
        key += [given[place] is None for place in form.absent]
        add_values(key, [given[place] for place in form.values])
        order = [place_of[name] for name in eager.arguments]
        form.known[tuple(key)] = Known(eager.kernel._runner, None if order == [*range(len(given))] else selector(order))

    def _quick_key(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """A key that is cheap to compute and equal only for calls of one kernel; None if there is no such key."""
        key: list[Any] = [environment_key(), *keywords]
        for place, value in (*enumerate(args), *keywords.items()):
            kind = type(value)
            if kind is np.ndarray:
                key.append((kind, value.shape, value.dtype, value.strides if self._by_stride else None))
            elif is_torch_tensor(value):
                key.append((kind, value.shape, value.dtype, value.stride() if self._by_stride else None))
            elif not is_comparable(kind):
                return None
            elif place in self._runtime_places:
                key.append(kind)
            else:
                add_values(key, (value,))
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
            raise ArgumentError(f"{self.func.__name__}: '{name}' has no supported dtype, got {text}")
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
                bind_call(self.func.__name__, self.signature, args, own)  # reports what is missing
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
        cached = self._kernels.get((parts.key(with_strides=self._by_stride), chosen))
        if cached is not None:
            return cached
        self._check_options()
        function: Any = self.func.function
        sizes = find_sizes(function, parts.tensors, parts.values, parts.sizes)
        if sizes.by_stride and not self._by_stride:
            self._by_stride = True  # what was found without looking at strides may be wrong
            self._kernels.clear()
            self._recognized.clear()
            self._forms.clear()
        program = (key_of_value((parts.values, sizes.values)), chosen)
        eager = self._programs.get(program)
        if eager is None:
            func = self._staged(parts)
            names = tuple(param.name for i, param in enumerate(func.params) if i not in func.outputs)
            compiled = _EagerKernel(self.options.compile(func), names, sizes.givers)
            eager = self._programs.setdefault(program, compiled)
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


def _stand_in(value: Any) -> Any:
    """Return what a kernel is compiled for in place of an argument: the type of an array that has no values yet."""
    return value.__tilelang_type__ if hasattr(type(value), "__tilelang_type__") else value
