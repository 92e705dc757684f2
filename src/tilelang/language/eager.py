"""Eager style: a function that takes tensors, states their types in its body, and returns what it allocates.

    @tilelang.jit
    def matmul(A, B, block: int = 64):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), T.float16)
        with T.Kernel(...): ...
        return C

Takes the function with the shapes and dtypes of a call, gives a `PrimFunc` whose parameters are the tensors, the
scalars annotated with a dtype, and then the outputs. The body runs twice: once up to the first `T.Kernel`, with symbols
for the sizes of `T.const`, which tells where each of them can be read; and once with Python integers to record the
program.
"""

from __future__ import annotations

import ast as syntax  # the module `tilelang.language.eager.ast` is an attribute of this one
import inspect
import re
import types
from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import DType, packed_elements
from tilelang.errors import (
    ArgumentError,
    Loc,
    StagingError,
    StagingRuntimeError,
    StagingValueError,
    TileLangError,
    nearest,
)
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.language.api import api
from tilelang.language.parameters import (
    ParameterArgument,
    annotations_of,
    declare_parameter,
    own_statements,
    stated_parameters,
)
from tilelang.language.prim_func import enter_frame, finish, run_rewritten
from tilelang.language.rewrite import Rewritten, rewrite
from tilelang.language.source import function_source
from tilelang.language.stage import Stager, current, staging
from tilelang.language.types import DTypeLike, PointerType, TensorType, plain_dtype
from tilelang.records import record

__all__ = [
    "const",
]


@record(slots=True)
class TensorFacts:
    """The properties of a tensor that select a kernel, read from an argument.

    Attributes:
        shape: As the array says it; the last extent of packed elements counts what holds several of them.
        dtype: Of the array.
        strides: In elements of that dtype; None for a dense array.
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None

    def logical(self, declared: DType) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides in elements of the declared dtype."""
        shape, steps = self.shape, self.strides
        if steps is None:
            sizes = [1]
            for extent in reversed(shape[1:]):
                sizes.append(sizes[-1] * extent)
            steps = tuple(reversed(sizes[: len(shape)]))
        factor = packed_elements(declared, self.dtype)
        if declared.lanes > 1 and self.dtype.lanes == 1:  # an array with the lanes as its last dimension
            return shape[:-1], tuple(step // declared.lanes for step in steps[:-1])
        if factor > 1 and shape:
            return (*shape[:-1], shape[-1] * factor), (*(step * factor for step in steps[:-1]), steps[-1])
        return shape, steps


def is_eager(fn: types.FunctionType) -> bool:
    """Whether a function is written in eager style: it opens a `T.Kernel` itself instead of defining a prim_func.

    A function that states the types of its parameters, and leaves the kernel to a macro, is eager as well.
    """
    node = function_source(fn).node
    functions = [n for n in syntax.walk(node) if isinstance(n, syntax.FunctionDef) and n is not node]
    inner = [decorator for function in functions for decorator in function.decorator_list]
    if any("prim_func" in syntax.unparse(decorator) for decorator in inner):
        return False
    tensors = any(isinstance(kind, TensorType | PointerType) for kind in annotations_of(fn, {}).values())
    return tensors or bool(stated_parameters(fn)) or any(_opens_kernel(n) for n in own_statements(node))


def _opens_kernel(node: syntax.AST) -> bool:
    if not isinstance(node, syntax.withitem | syntax.AnnAssign | syntax.Assign):
        return False
    called = {
        call.func.attr if isinstance(call.func, syntax.Attribute) else getattr(call.func, "id", "")
        for call in syntax.walk(node)
        if isinstance(call, syntax.Call)
    }
    kernel = any(name.endswith("Kernel") for name in called)
    return kernel if isinstance(node, syntax.withitem) else bool(called & {"empty", "const"}) and not kernel


@record(slots=True)
class _Call:
    rewritten: Rewritten
    annotations: Mapping[str, Any]
    stated: frozenset[str]
    tensors: Mapping[str, TensorFacts | None]
    values: Mapping[str, object]
    given_sizes: Mapping[str, int]


class _EagerStager(Stager):
    """A stager with the arguments of a call: shapes, and sizes for the names of `T.const`."""

    def __init__(self, call: _Call, sizes: Mapping[str, int], *, probing: bool) -> None:
        super().__init__(call.rewritten.loc)
        self.call = call
        self.sizes = sizes
        self.probing = probing
        self.consts: dict[str, Var] = {}  # the names of `T.const` that have no size yet
        self.asked: dict[str, Loc] = {}  # all names of `T.const`, in order, and where they are

    def begin_kernel(self) -> None:
        """The first run ends here."""
        if self.probing:
            raise _Probed


class _Probed(Exception):
    """The first run has reached a kernel."""


@api
def const(name: str, dtype: DTypeLike = "int32") -> Any:
    """Sizes that follow from the arguments: `M, N = T.const("M, N")`; a single name gives a single size.

    Each is the extent or the stride of some tensor parameter, as it is: its value is a keyword argument of the same
    name, or is read from the argument. Before the first `T.Kernel` a size may be a symbol, as it is where shapes are
    stated; inside of kernels, and in macros that they call, it is a plain Python integer.

    Args:
        name: One name or several, with commas or spaces between them.
        dtype: An integer dtype.

    Raises:
        StagingRuntimeError: Used outside eager style, or a name is no extent and no stride of any parameter.
        StagingValueError: No argument and no keyword gives the size.
    """
    stager = current("T.const")
    if not isinstance(stager, _EagerStager):
        raise StagingRuntimeError(
            "T.const: only has a meaning in a function marked @tilelang.jit that opens T.Kernel itself",
            hint="in a @T.prim_func write T.dynamic('M') or a Python integer",
        )
    row = plain_dtype(dtype, "T.const")
    if not row.is_int:
        raise StagingValueError(f"T.const: a size has an integer dtype, not {row!s}")
    names = re.findall(r"[^\s,]+", name)
    for each in names:
        if not each.isidentifier():
            raise StagingValueError(f"T.const: {each!r} is not a name", hint='write T.const("M, N")')
    sizes = tuple(_size(stager, each, row) for each in names)
    return sizes[0] if len(sizes) == 1 else sizes


def _size(stager: _EagerStager, name: str, dtype: DType) -> Any:
    stager.asked.setdefault(name, stager.loc)
    if name in stager.sizes:
        return stager.sizes[name]
    if not stager.probing:
        raise StagingRuntimeError(f"T.const: '{name}' is asked for behind the first T.Kernel", hint="move it in front")
    return stager.consts.setdefault(name, Var(name, dtype, index=True))


@record(slots=True)
class Sizes:
    """The result of the first run of an eager function.

    Attributes:
        values: The sizes of `T.const` by name, in the order in which they were asked for.
        by_stride: Whether a stride of an argument gave one of them.
        givers: The tensors that gave them.
    """

    values: dict[str, int]
    by_stride: bool
    givers: frozenset[str] = frozenset()


def find_sizes(
    fn: types.FunctionType,
    tensors: Mapping[str, TensorFacts | None],
    values: Mapping[str, object],
    given_sizes: Mapping[str, int] | None = None,
) -> Sizes:
    """The sizes that the names of `T.const` stand for in a call; arguments as for `stage`."""
    return _probe(_call(fn, tensors, values, given_sizes))


def stage(
    fn: types.FunctionType,
    tensors: Mapping[str, TensorFacts | None],
    values: Mapping[str, object],
    given_sizes: Mapping[str, int] | None = None,
) -> tuple[PrimFunc, Sizes]:
    """Stages an eager function for arguments of given shapes and dtypes.

    Args:
        fn: The user's function.
        tensors: What is known of each tensor argument; None for one known only by its annotation.
        values: Compile-time values of the other arguments; an argument annotated with a dtype in the signature is a
            runtime scalar and its value is ignored.
        given_sizes: Sizes for names of `T.const`, which come before those of the tensors.

    Returns:
        The program, and the sizes that it was made for.

    Raises:
        ArgumentError: Shapes that do not fit the annotations, or a size under a name that means nothing.
        StagingError, ProgramError: As for `T.prim_func`.
    """
    call = _call(fn, tensors, values, given_sizes)
    sizes = _probe(call)
    stager = _EagerStager(call, sizes.values, probing=False)
    with staging(stager):
        result = run_rewritten(stager, call.rewritten, [], _arguments(stager))
        _check_typed(stager)
        return finish(stager, fn, result, call.rewritten.loc), sizes


def _call(
    fn: types.FunctionType,
    tensors: Mapping[str, TensorFacts | None],
    values: Mapping[str, object],
    given_sizes: Mapping[str, int] | None,
) -> _Call:
    rewritten = rewrite(fn, enter_frame)
    return _Call(rewritten, annotations_of(fn, {}), stated_parameters(fn), tensors, values, given_sizes or {})


def is_parameter_type(annotation: object) -> bool:
    """Whether an annotation of the signature makes a runtime argument: a tensor, a pointer or a scalar of a dtype."""
    return isinstance(annotation, TensorType | PointerType | DType) or annotation in (TensorType, PointerType)


def _arguments(stager: _EagerStager) -> dict[str, Any]:
    call, arguments = stager.call, {}
    for name, parameter in inspect.signature(call.rewritten.function).parameters.items():
        annotation = call.annotations.get(name)
        if annotation is not TensorType and is_parameter_type(annotation):
            arguments[name] = declare_parameter(stager, name, annotation)
        elif name in call.tensors or name in call.stated:
            arguments[name] = ParameterArgument(stager, name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(call.values.get(name, {}))  # type: ignore[call-overload]
        elif name in call.values:
            arguments[name] = call.values[name]
    return arguments


def _probe(call: _Call) -> Sizes:
    """Runs the function up to its first kernel, with symbols for the sizes, and reads them from the arguments.

    Where Python needs the value of a size earlier, as `range(M)` does, the run is repeated with those that were found.
    """
    found: dict[str, int] = {}
    direct: set[str] = set()
    givers: set[str] = set()
    by_stride = False
    while True:
        stager = _EagerStager(call, found, probing=True)
        failure: TileLangError | None = None
        try:
            with staging(stager):
                try:
                    run_rewritten(stager, call.rewritten, [], _arguments(stager))
                except _Probed:
                    pass
        except TileLangError as error:
            failure = error
        reading = _Reading(stager)
        direct |= reading.direct
        givers |= reading.givers
        by_stride |= reading.by_stride
        if failure is None:
            break
        if not reading.sizes:
            raise failure
        found = {**found, **reading.sizes}
    found = {**found, **reading.sizes}
    with call.rewritten.loc:
        _check_given(stager)
        for name, place in stager.asked.items():
            if name not in direct:
                raise StagingRuntimeError(
                    f"T.const: '{name}' is no extent and no stride of any tensor parameter",
                    loc=place,
                    hint=f"state a tensor that has '{name}' as an extent, as in `A: T.Tensor(({name},), dtype)`",
                )
            if name not in found:
                raise StagingValueError(
                    f"T.const: nothing fixes '{name}'",
                    hint=f"use '{name}' as an extent of a tensor argument, or pass {name}=... to .compile()",
                )
    return Sizes({name: found[name] for name in stager.asked}, by_stride, frozenset(givers))


class _Reading:
    """The sizes of `T.const` that follow from the tensors which a run has declared.

    Attributes:
        sizes: Those that the run did not know.
        direct: The names that are an extent or a stride as they are.
        by_stride: Whether a stride gave one of them.
        givers: The tensors that gave `sizes`: the first one for each.
    """

    def __init__(self, stager: _EagerStager) -> None:
        self.sizes: dict[str, int] = {}
        self.direct: set[str] = set()
        self.givers: set[str] = set()
        self.by_stride = False
        self._names = {id(var): name for name, var in stager.consts.items()}
        given = {name: value for name, value in stager.call.given_sizes.items() if name in stager.consts}
        for name, param in stager.params.items():
            if isinstance(param, TensorParam) and not any(param.buffer is output for output in stager.outputs):
                self._read(name, param, stager.call.tensors.get(name), given)
        self.sizes = {**self.sizes, **{name: int(value) for name, value in given.items() if name in self.direct}}

    def _read(self, name: str, param: TensorParam, facts: TensorFacts | None, given: Mapping[str, int]) -> None:
        steps = param.buffer.strides or ()
        self.direct |= {self._names[id(e)] for e in (*param.shape, *steps) if id(e) in self._names}
        if facts is None:
            return
        count = len(self.sizes)
        shape, strides = facts.logical(param.dtype)
        if len(shape) != len(param.shape):
            raise ArgumentError(
                f"argument '{name}': expected {len(param.shape)} dimensions, got shape {tuple(facts.shape)}",
                hint=f"pass a tensor of that rank, or declare '{name}' with {len(shape)} extents",
            )
        for axis, (extent, size) in enumerate(zip(param.shape, shape, strict=True)):
            self._fix(f"argument '{name}': dimension {axis}", extent, size, given)
        for axis, (step, size) in enumerate(zip(steps, strides, strict=False)):
            if id(step) in self._names:
                self.by_stride = True
                self._fix(f"argument '{name}': stride {axis}", step, size, given)
        if len(self.sizes) > count:
            self.givers.add(name)

    def _fix(self, what: str, expr: Expr, size: int, given: Mapping[str, int]) -> None:
        const = self._names.get(id(expr))
        expected = int_const(expr)
        if const is not None and const not in given and self.sizes.setdefault(const, size) != size:
            raise ArgumentError(f"{what} is {size}, but '{const}' is {self.sizes[const]} elsewhere in this call")
        if expected is not None and expected != size:
            raise ArgumentError(f"{what} must be {expected}, got {size}")


def _check_given(stager: _EagerStager) -> None:
    """Raises for a size that was given under a name which means nothing."""
    call = stager.call
    parameters = inspect.signature(call.rewritten.function).parameters
    for name in call.given_sizes:
        if name not in stager.asked:
            near = nearest(name, [*parameters, *stager.asked])
            raise ArgumentError(
                f"{call.rewritten.source.node.name}: '{name}' is neither a parameter nor a size of T.const",
                hint=f"did you mean '{near}'?" if near else "",
            )


def _check_typed(stager: _EagerStager) -> None:
    """Raises for a tensor whose type was never stated."""
    for name in stager.call.tensors:
        if name not in stager.params and name not in stager.call.stated:
            raise StagingError(
                f"'{name}' is given a tensor, but its type is not stated",
                loc=stager.call.rewritten.loc,
                hint=f"write `{name}: T.Tensor((M, N), T.float16)` in the body",
            )
