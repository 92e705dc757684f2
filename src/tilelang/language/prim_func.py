"""`@T.prim_func`: a Python function becomes a `PrimFunc`.

Takes the function, turns its annotations into parameters, runs the rewritten body once under a stager, and gives what
was recorded.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.api import caller
from tilelang.dtypes import HANDLE
from tilelang.errors import Loc, ProgramError, ProgramValueError, StagingTypeError
from tilelang.ir.expr import Var
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk_expr
from tilelang.language.api import api
from tilelang.language.assumptions import known_before_launches, without_those
from tilelang.language.extern import without_unused_results
from tilelang.language.frame import Frame
from tilelang.language.launches import with_launches
from tilelang.language.negative_indices import count_from_the_end
from tilelang.language.parameters import (
    ParameterArgument,
    annotations_of,
    declare_parameter,
    in_order,
    parameter_loc,
    returned_outputs,
    stated_parameters,
)
from tilelang.language.rewrite import Rewritten, rewrite
from tilelang.language.stage import Stager, current, staging
from tilelang.language.types import TensorType

__all__ = [
    "prim_func",
]


@api
def prim_func(func: Callable[..., Any] | None = None) -> Any:
    """Turns a function into a kernel function: `@T.prim_func`, or `@T.prim_func()`.

    Parameters are annotated: `T.Tensor(shape, dtype)` or one of its kin, `T.ptr(dtype)`, or a scalar dtype; a function
    without parameters as annotation is called and gives the type. What the signature leaves open, a statement of the
    body declares: `A: T.Tensor(shape, dtype)`. The body runs once, now, and records the program. Tensors made by
    `T.empty` follow as parameters that a call allocates, and are returned.

    Raises:
        StagingError: Python that has no meaning in a kernel.
        StagingRuntimeError: Something other than the tensors of `T.empty` is returned.
        ProgramError: A program that breaks a rule of the language.
    """
    namespace = caller().f_locals
    if func is None:
        return api(lambda function: stage_prim_func(function, namespace))
    return stage_prim_func(func, namespace)


def stage_prim_func(fn: Callable[..., Any], namespace: Mapping[str, Any]) -> PrimFunc:
    """`prim_func` with the local names of the place where `fn` was defined, for annotations kept as text."""
    if not isinstance(fn, types.FunctionType):
        raise StagingTypeError(f"@T.prim_func needs a function, got {type(fn).__name__}")
    rewritten = rewrite(fn, enter_frame)
    stager = Stager(rewritten.loc)
    with staging(stager):
        annotations = annotations_of(fn, namespace, rewritten)
        stated = stated_parameters(fn)
        arguments = []
        for name, parameter in inspect.signature(fn).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ProgramError(f"parameter '{name}': kernels take a fixed list of parameters, no * or **")
            stager.loc = parameter_loc(rewritten, name)
            if name in annotations and annotations[name] is not TensorType and annotations[name] != HANDLE:
                arguments.append(declare_parameter(stager, name, annotations[name]))
            elif name in stated or name in annotations:
                arguments.append(ParameterArgument(stager, name))
            else:
                raise _untyped(name, stager.loc)
        stager.loc = rewritten.loc
        result = run_rewritten(stager, rewritten, arguments, {})
        for name in inspect.signature(fn).parameters:
            if name not in stager.params:
                raise _untyped(name, parameter_loc(rewritten, name))
        return finish(stager, fn, result, rewritten.loc)


def _untyped(name: str, loc: Loc) -> ProgramValueError:
    hint = f"annotate it: `{name}: T.Tensor((M, N), T.float16)`"
    return ProgramValueError(f"parameter '{name}' has no type", loc=loc, hint=hint)


def enter_frame() -> Frame:
    """Return the frame that the caller prepared; rewritten functions call this first."""
    stager = current("a rewritten function")
    frame = stager.frames[-1]
    assert isinstance(frame, Frame)
    return frame


def run_rewritten(
    stager: Stager, rewritten: Rewritten, args: list[Any], kwargs: Mapping[str, Any], borrowed: set[str] | None = None
) -> Any:
    """Runs a rewritten function in a frame of its own and gives what it returns."""
    frame = Frame(stager, rewritten.places, rewritten.source.node.name, borrowed or ())
    stager.frames.append(frame)
    try:
        return rewritten.function(*args, **kwargs)
    finally:
        stager.frames.pop()


def finish(stager: Stager, fn: types.FunctionType, result: Any, loc: Loc) -> PrimFunc:
    """The recorded program as a function, checked; `result` is what the user's function returned."""
    for scope in reversed(stager.scopes):
        scope.__exit__(None, None, None)
    in_order(stager, fn)
    params = tuple(stager.params.values())
    assumptions = known_before_launches(stager.assumptions, params)
    func = PrimFunc(
        str(stager.attrs.get("global_symbol", fn.__name__)),
        params,
        without_unused_results(
            without_those(with_launches(stager.statements, loc), assumptions), stager.extern_results
        ),
        symbols=_symbols(params),
        attributes=tuple(stager.attrs.items()),
        outputs=returned_outputs(stager, result),
        assumptions=assumptions,
        loc=loc,
    )
    func = count_from_the_end(func)
    verify(func, staged=True)
    return func


def _symbols(params: tuple[Param, ...]) -> tuple[Var, ...]:
    """Symbolic dims and strides in order of first appearance, but for scalar parameters used as dims."""
    scalars = {id(p.var) for p in params if isinstance(p, ScalarParam)}
    found: dict[int, Var] = {}
    for param in params:
        if isinstance(param, TensorParam):
            for extent in (*param.buffer.shape, *(param.buffer.strides or ())):
                for node in walk_expr(extent):
                    if isinstance(node, Var) and id(node) not in scalars:
                        found[id(node)] = node
    return tuple(found.values())
