"""Parameters of a function being staged: declared by its signature, by a statement of its body, or made by `T.empty`.

Takes names and annotations, gives what the body calls by those names. Invariant: parameters of the signature come
first, in its order, then the tensors of `T.empty`, in the order in which they were made.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.dtypes import INT64, SCALARS, DType, as_dtype
from tilelang.errors import Loc, ProgramTypeError, ProgramValueError, StagingError, StagingRuntimeError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var
from tilelang.ir.func import Param, ScalarParam, TensorParam
from tilelang.language.api import api
from tilelang.language.bindings import kind_of
from tilelang.language.proxy import BufferProxy
from tilelang.language.rewrite import Rewritten
from tilelang.language.source import function_source
from tilelang.language.stage import Stager, current
from tilelang.language.types import DTypeLike, PointerType, ShapeLike, TensorType, as_shape, is_dtype_like, plain_dtype

__all__ = [
    "empty",
    "match_buffer",
]


def declare_parameter(stager: Stager, name: str, annotation: Any) -> Any:
    """Adds a parameter to the function being staged and gives what the body calls by its name.

    Raises:
        ProgramValueError: The annotation is no type of a parameter.
    """
    param, value = _parameter(stager, name, annotation)
    stager.unique(name)
    stager.params[name] = param
    return value


def _parameter(stager: Stager, name: str, annotation: Any) -> tuple[Param, Any]:
    if annotation is PointerType:  # `p: T.ptr`
        annotation = PointerType()
    if annotation is bool or annotation is int or annotation is float:
        annotation = as_dtype(annotation)
    match annotation:
        case TensorType(shape=shape, dtype=dtype, strides=strides, scope="global"):
            buffer = Buffer(name, shape, dtype, Scope.GLOBAL, strides, loc=stager.loc)
            return TensorParam(buffer), BufferProxy(buffer)
        case PointerType():
            var = Var(name, INT64, index=True)
            return ScalarParam(var, pointer=True), var
        case DType():
            var = Var(name, DType(str(annotation)), index=annotation.is_int)
            return ScalarParam(var), var
    raise ProgramValueError(
        f"parameter '{name}': {annotation!r:.60} is not a type of a kernel parameter",
        hint="write T.Tensor(shape, dtype), T.ptr(dtype) or a dtype such as T.int32",
    )


class ParameterArgument:
    """Return the value of a parameter's name before a statement of the body declares its type."""

    def __init__(self, stager: Stager, name: str) -> None:
        self._stager, self._name = stager, name

    def resolve_annotation(self, annotation: Any) -> Any:
        """Return the value of the name after `name: T.Tensor(...)`."""
        if self._name in self._stager.params:
            raise ProgramTypeError(f"parameter '{self._name}' has its type already")
        return declare_parameter(self._stager, self._name, annotation)

    def untyped(self) -> StagingError:
        """The error of using the name as it is."""
        return StagingError(
            f"parameter '{self._name}' is used before its type is stated",
            hint=f"write `{self._name}: T.Tensor((M, N), T.float16)` first",
        )

    def __repr__(self) -> str:
        return f"<parameter '{self._name}', whose type is not stated yet>"

    def __tilelang_expr__(self) -> Expr:
        raise self.untyped()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self.untyped()

    def __getitem__(self, index: object) -> Any:
        raise self.untyped()

    def __setitem__(self, index: object, value: object) -> None:
        raise self.untyped()


def stated_parameters(fn: types.FunctionType) -> frozenset[str]:
    """The parameters whose types are stated in the body: `A: T.Tensor(...)`, without a value.

    A name of a Python type, as in `n: int`, states nothing.
    """
    names = inspect.signature(fn).parameters
    return frozenset(
        node.target.id
        for node in own_statements(function_source(fn).node)
        if isinstance(node, ast.AnnAssign)
        and node.value is None
        and isinstance(node.target, ast.Name)
        and node.target.id in names
        and not (isinstance(node.annotation, ast.Name) and node.annotation.id in _PYTHON_TYPES)
    )


_PYTHON_TYPES = ("bool", "int", "float", "str", "list", "tuple", "dict")


def own_statements(node: ast.AST) -> list[ast.AST]:
    """The statements and items of `with` below a function that are not part of a function inside of it."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _STATEMENTS) and not isinstance(child, ast.FunctionDef):
            found.append(child)
            found.extend(own_statements(child))
    return found


_STATEMENTS = (ast.stmt, ast.withitem, ast.excepthandler, ast.match_case)  # and what they consist of


def annotations_of(
    fn: types.FunctionType, namespace: Mapping[str, Any], rewritten: Rewritten | None = None
) -> dict[str, Any]:
    """The evaluated annotations of the signature.

    Text (from `from __future__ import annotations`) sees what the `def` saw.

    Args:
        fn: The function.
        namespace: Local names of the place where it was defined.
        rewritten: Gives errors the place of the parameter. Without it, text that cannot be evaluated is left out.
    """
    names = {**fn.__globals__, **namespace}
    for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            names[free] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    out: dict[str, Any] = {}
    for name, annotation in fn.__annotations__.items():
        if name == "return":
            continue
        if rewritten is not None:
            with parameter_loc(rewritten, name):
                out[name] = _evaluated(annotation, names)
            continue
        try:
            out[name] = _evaluated(annotation, names)
        except Exception:  # such as a name that only a type checker imports: no type of a parameter
            continue
    return out


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    if isinstance(annotation, str) and not isinstance(annotation, DType) and annotation not in SCALARS:
        annotation = eval(annotation, names)
    if isinstance(annotation, str):
        return as_dtype(annotation)
    if isinstance(annotation, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return annotation()  # a function that makes the type
    return annotation


def parameter_loc(rewritten: Rewritten, name: str) -> Loc:
    """The place of a parameter in the signature."""
    arguments = rewritten.source.node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if argument.arg == name:
            return rewritten.source.loc(argument)
    return rewritten.loc


@api
def empty(*shape: Any, dtype: DTypeLike = "float32") -> BufferProxy:
    """A tensor that the call allocates, to be written by the kernels and returned: `C = T.empty((M, N), T.float16)`.

    It stands outside of `with T.Kernel(...)`, in a function marked `@tilelang.jit` or `@T.prim_func`, or in a macro
    that these call.

    Shapes: `T.empty((M, N))` or `T.empty(M, N)`; extents are ints, symbolic dims and expressions of them.

    Args:
        shape: The extents; after a tuple or list, or after one extent, the dtype may follow.
        dtype: The element dtype.

    Raises:
        StagingTypeError: The shape is neither a tuple, nor a list, nor integers.
        StagingRuntimeError: It stands inside of a kernel, or the function does not return the tensor.
    """
    stager = current("T.empty")
    if stager.hints is not None:
        raise StagingRuntimeError(
            "T.empty: an output belongs to the function, but stands inside of `with T.Kernel(...)`",
            hint="move it in front of the kernel; memory of a block is T.alloc_shared",
        )
    extents: Any = shape
    if len(shape) == 2 and is_dtype_like(shape[1]):
        extents, dtype = shape[:1], shape[1]
    if len(extents) == 1 and isinstance(extents[0], Sequence) and not isinstance(extents[0], str):
        extents = extents[0]
    elif not extents:
        extents = (None,)
    if any(isinstance(extent, Sequence | float) or extent is None for extent in extents):
        given = ", ".join(f"{item!r:.40}" for item in shape)
        raise ProgramTypeError(
            f"T.empty: ({given}) is not a shape", hint="write T.empty((M, N), dtype) or T.empty(M, N, dtype=dtype)"
        )
    kind = TensorType(as_shape(extents, "T.empty"), plain_dtype(dtype, "T.empty"))
    param, proxy = _parameter(stager, stager.suggest("output"), kind)
    assert isinstance(proxy, BufferProxy)
    stager.params[param.name] = param
    stager.outputs.append(proxy.buffer)
    return proxy


@api
def match_buffer(
    param: Any,
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    data: None = None,
    strides: ShapeLike | None = None,
    elem_offset: int | None = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int] | None = None,
) -> Any:
    """Declares a parameter as a tensor, as older programs do: `A = T.match_buffer(a, (N,), "float32")`.

    Args:
        param: A parameter of a `T.prim_func` that is annotated `T.handle`.
        shape: The extents.
        dtype: The element dtype.
        data: None.
        strides: In elements; row-major and dense without them.
        elem_offset: None or 0.
        scope: "global".
        align: Accepted without influence, as are the arguments after it.
        offset_factor: See `align`.
        buffer_type: See `align`.
        axis_separators: See `align`.

    Raises:
        ProgramTypeError: `param` is no such parameter, or has its type already.
        ProgramValueError: `data`, `elem_offset` or `scope` is another one.
    """
    del align, offset_factor, buffer_type, axis_separators
    if not isinstance(param, ParameterArgument):
        raise ProgramTypeError(
            f"T.match_buffer: {param!r:.60} is no parameter without a type",
            hint="annotate it in the signature, `a: T.handle`",
        )
    if data is not None or elem_offset not in (None, 0) or scope != "global":
        raise ProgramValueError(
            "T.match_buffer: a parameter is a global tensor from its first element on",
            hint="leave data, elem_offset and scope out",
        )
    return param.resolve_annotation(TensorType(shape, dtype, strides=strides))


def in_order(stager: Stager, fn: types.FunctionType) -> None:
    """Puts the parameters that were declared into the order of the signature, before the outputs."""
    declared = {name: stager.params[name] for name in inspect.signature(fn).parameters if name in stager.params}
    stager.params = {**declared, **stager.params}


def returned_outputs(stager: Stager, result: Any) -> tuple[int, ...]:
    """The positions of the returned tensors among the parameters, in the order of `return`.

    Raises:
        StagingRuntimeError: Something else is returned, a tensor twice, or one of `T.empty` is not.
    """
    items = () if result is None else tuple(result) if isinstance(result, tuple | list) else (result,)
    returned: list[Buffer] = []
    for item in items:
        buffer = item.buffer if isinstance(item, BufferProxy) else None
        if buffer is None or not any(buffer is output for output in stager.outputs):
            what = f"'{buffer.name}'" if buffer is not None else kind_of(item)
            raise StagingRuntimeError(
                f"only tensors made by T.empty can be returned, got {what}",
                hint="write results into `C = T.empty(shape, dtype)` and `return C`",
            )
        if any(buffer is other for other in returned):
            raise StagingRuntimeError(f"'{buffer.name}' is returned twice")
        returned.append(buffer)
    for output in stager.outputs:
        if not any(output is buffer for buffer in returned):
            raise StagingRuntimeError(
                f"'{output.name}' is made by T.empty, but not returned",
                loc=output.loc,
                hint=f"end the function with `return {', '.join(buffer.name for buffer in (*returned, output))}`; "
                "what only kernels see is T.alloc_global",
            )
    positions = {id(p.buffer): i for i, p in enumerate(stager.params.values()) if isinstance(p, TensorParam)}
    return tuple(positions[id(buffer)] for buffer in returned)
