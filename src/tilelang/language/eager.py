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
scalars annotated with a dtype, and then the outputs. The body runs twice: once until every tensor has its type, which
fixes the sizes that `T.const` stands for, and once to record the program.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import types
from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import INT32, DType
from tilelang.errors import ArgumentError, StagingError, user_facing
from tilelang.ir.expr import Expr, ExprLike, Var, as_expr, int_const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.visit import substitute
from tilelang.language.api import api
from tilelang.language.prim_func import declare_parameter, enter_frame, finish, run_rewritten
from tilelang.language.proxy import BufferProxy
from tilelang.language.rewrite import Rewritten, rewrite
from tilelang.language.source import function_source
from tilelang.language.stage import Stager, current, staging
from tilelang.language.types import TensorType
from tilelang.records import record

__all__ = [
    "const",
    "empty",
]


@record(slots=True)
class EagerProgram:
    """What a call of an eager function compiles to.

    Attributes:
        func: Tensors and runtime scalars in the order of the signature, then the outputs.
        outputs: Positions of the returned tensors among the parameters, in the order of `return`.
        single: Whether the function returns one tensor rather than a tuple.
    """

    func: PrimFunc
    outputs: tuple[int, ...]
    single: bool


def is_eager(fn: types.FunctionType) -> bool:
    """Whether a function is written in eager style: it opens a `T.Kernel` itself instead of defining a prim_func."""
    return any(_opens_kernel(node) for node in _own_statements(function_source(fn).node))


def _own_statements(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            found.append(child)
            found.extend(_own_statements(child))
    return found


def _opens_kernel(node: ast.AST) -> bool:
    if not isinstance(node, ast.withitem | ast.AnnAssign | ast.Assign):
        return False
    called = {
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
    }
    return bool(called & {"Kernel", "empty", "const"}) and (isinstance(node, ast.withitem) or "Kernel" not in called)


class _EagerStager(Stager):
    """A stager that also knows the call: argument shapes, and sizes for the names of `T.const`."""

    def __init__(self, call: _Call, dims: Mapping[str, int] | None) -> None:
        super().__init__(call.rewritten.loc)
        self.call = call
        self.dims = dims  # None while they are being found
        self.asked: set[str] = set()  # the names that `T.const` was given
        self.consts: dict[str, Var] = {}
        self.types: dict[str, TensorType] = {}


@record(slots=True)
class _Call:
    rewritten: Rewritten
    tensors: Mapping[str, tuple[tuple[int, ...], DType] | None]
    values: Mapping[str, object]
    given_dims: Mapping[str, int]


class _Probed(Exception):
    """All tensors have their types."""


class TensorArgument:
    """A tensor parameter before its annotation has been met."""

    def __init__(self, stager: _EagerStager, name: str) -> None:
        self._stager, self._name = stager, name

    def resolve_annotation(self, annotation: Any) -> Any:
        """What the name means after `name: T.Tensor(...)`."""
        if not isinstance(annotation, TensorType):
            raise StagingError(
                f"'{self._name}' is given a tensor but annotated {annotation!r:.60}",
                hint=f"write `{self._name}: T.Tensor((M, N), T.float16)`",
            )
        stager = self._stager
        if stager.dims is not None:
            return declare_parameter(stager, self._name, annotation)
        stager.types[self._name] = annotation
        if len(stager.types) == len(stager.call.tensors):
            raise _Probed
        return self

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self._untyped()

    def __getitem__(self, index: object) -> Any:
        raise self._untyped()

    def _untyped(self) -> StagingError:
        return StagingError(
            f"tensor '{self._name}' is used before its type is stated",
            hint=f"write `{self._name}: T.Tensor((M, N), T.float16)` first",
        )


@api
def const(names: str) -> Any:
    """Sizes that follow from the arguments: `M, N = T.const("M, N")`; a single name gives a single size.

    In the kernel they are plain Python integers.

    Raises:
        StagingError: Used outside eager style, or no argument and no keyword of `.compile(...)` fixes the size.
    """
    stager = current("T.const")
    if not isinstance(stager, _EagerStager):
        raise StagingError(
            "T.const: only has a meaning in a function marked @tilelang.jit that opens T.Kernel itself",
            hint="in a @T.prim_func write T.dynamic('M') or a Python integer",
        )
    values = tuple(_size(stager, name.strip()) for name in names.split(",") if name.strip())
    return values[0] if len(values) == 1 else values


def _size(stager: _EagerStager, name: str) -> Any:
    stager.asked.add(name)
    if stager.dims is None:
        return stager.consts.setdefault(name, Var(name, INT32, index=True))
    if name not in stager.dims:
        raise StagingError(
            f"T.const: nothing fixes '{name}'",
            hint=f"use '{name}' as an extent of a tensor argument, or pass {name}=... to .compile()",
        )
    return stager.dims[name]


@api
def empty(shape: ExprLike | tuple[ExprLike, ...], dtype: object = "float32") -> BufferProxy:
    """A tensor that the call allocates, to be written by the kernels and returned: `C = T.empty((M, N), T.float16)`.

    Raises:
        StagingError: Used outside eager style; elsewhere write T.alloc_global.
    """
    stager = current("T.empty")
    if not isinstance(stager, _EagerStager):
        raise StagingError(
            "T.empty: only has a meaning in a function marked @tilelang.jit that opens T.Kernel itself",
            hint="in a @T.prim_func make the output a parameter and name it in out_idx, or write T.alloc_global",
        )
    if stager.dims is None:
        raise _Probed
    proxy = declare_parameter(stager, stager.suggest("output"), TensorType(shape, dtype))
    assert isinstance(proxy, BufferProxy)
    return proxy


@user_facing
def stage(
    fn: types.FunctionType,
    tensors: Mapping[str, tuple[tuple[int, ...], DType] | None],
    values: Mapping[str, object],
    dims: Mapping[str, int] | None = None,
) -> EagerProgram:
    """Stages an eager function for arguments of given shapes and dtypes.

    Args:
        fn: The user's function.
        tensors: Shape and dtype of each tensor argument; None for one known only by its annotation.
        values: Compile-time values of the other arguments; an argument annotated with a dtype in the signature is a
            runtime scalar and its value is ignored.
        dims: Sizes for names of `T.const` that no tensor fixes.

    Raises:
        ArgumentError: Shapes that do not fit the annotations, or a size under a name that means nothing.
        StagingError, ProgramError: As for `T.prim_func`.
    """
    call = _Call(rewrite(fn, enter_frame), tensors, values, dims or {})
    sizes = _probe(fn, call)
    stager = _EagerStager(call, sizes)
    with staging(stager):
        result = run_rewritten(stager, call.rewritten, [], _arguments(fn, stager))
        _check_given(fn, call, stager.asked)
        in_signature = {n: stager.params[n] for n in inspect.signature(fn).parameters if n in stager.params}
        stager.params = {**in_signature, **stager.params}
        outputs = _outputs(stager, result)
        func = finish(stager, fn.__name__, call.rewritten.loc)
    return EagerProgram(func, outputs, not isinstance(result, tuple))


def _check_given(fn: types.FunctionType, call: _Call, asked: set[str]) -> None:
    """Raises for a size that was given under a name which means nothing."""
    for name in call.given_dims:
        if name not in asked:
            near = difflib.get_close_matches(name, [*inspect.signature(fn).parameters, *asked], n=1)
            raise ArgumentError(
                f"{fn.__name__}: '{name}' is neither a parameter nor a size of T.const",
                loc=call.rewritten.loc,
                hint=f"did you mean '{near[0]}'?" if near else "",
            )


def _arguments(fn: types.FunctionType, stager: _EagerStager) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        if name in stager.call.tensors:
            argument = TensorArgument(stager, name)
            annotated = isinstance(parameter.annotation, TensorType)
            arguments[name] = argument.resolve_annotation(parameter.annotation) if annotated else argument
        elif isinstance(parameter.annotation, DType):
            arguments[name] = declare_parameter(stager, name, parameter.annotation)
        elif name in stager.call.values:
            arguments[name] = stager.call.values[name]
    return arguments


def _probe(fn: types.FunctionType, call: _Call) -> dict[str, int]:
    """The sizes that `T.const` names stand for, from a first run up to the last tensor annotation."""
    stager = _EagerStager(call, None)
    with staging(stager):
        try:
            run_rewritten(stager, call.rewritten, [], _arguments(fn, stager))
        except _Probed:
            pass
        return _solve(stager)


def _solve(stager: _EagerStager) -> dict[str, int]:
    sizes: dict[str, int] = dict(stager.call.given_dims)
    names = {id(var): name for name, var in stager.consts.items()}
    equations: list[tuple[str, int, Expr, int]] = []
    for tensor, annotation in stager.types.items():
        given = stager.call.tensors[tensor]
        if given is None:
            continue
        shape, dtype = given
        if len(shape) != len(annotation.shape):
            raise ArgumentError(
                f"argument '{tensor}': expected {len(annotation.shape)} dimensions, got shape {tuple(shape)}"
            )
        if dtype != annotation.dtype:
            raise ArgumentError(
                f"argument '{tensor}': expected dtype {annotation.dtype!s}, got {dtype!s}",
                hint="convert the argument, or make the dtype a parameter of the function",
            )
        equations += [(tensor, axis, e, n) for axis, (e, n) in enumerate(zip(annotation.shape, shape, strict=True))]
    for tensor, axis, extent, size in equations:
        name = names.get(id(extent))
        if name is None:
            continue
        if sizes.setdefault(name, size) != size:
            raise ArgumentError(
                f"argument '{tensor}': dimension {axis} is {size}, but '{name}' is {sizes[name]} elsewhere in this call"
            )
    known = {stager.consts[n]: as_expr(v) for n, v in sizes.items() if n in stager.consts}
    for tensor, axis, extent, size in equations:
        expected = int_const(substitute(extent, known))
        if expected is not None and expected != size:
            raise ArgumentError(f"argument '{tensor}': dimension {axis} must be {expected}, got {size}")
    return sizes


def _outputs(stager: _EagerStager, result: Any) -> tuple[int, ...]:
    if result is None:
        return ()
    positions = {id(p.buffer): i for i, p in enumerate(stager.params.values()) if isinstance(p, TensorParam)}
    outputs = []
    for item in result if isinstance(result, tuple) else (result,):
        position = positions.get(id(item.buffer)) if isinstance(item, BufferProxy) else None
        if position is None:
            raise StagingError(
                f"an eager function returns tensors made by T.empty, got {type(item).__name__}",
                hint="write results into `C = T.empty(shape, dtype)` and `return C`",
            )
        outputs.append(position)
    return tuple(outputs)
