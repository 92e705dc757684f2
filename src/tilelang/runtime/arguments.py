"""Checks the arguments of a call and binds them to a kernel's parameters: the slow path of calls.

Invariant: nothing has been launched or written when an `ArgumentError` is raised, and bound arguments satisfy
everything that the generated code assumes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from tilelang.dtypes import DType, as_dtype, lane_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.ir.printer import to_text
from tilelang.ir.visit import variables_of, walk_expr
from tilelang.records import record
from tilelang.runtime.argument_specs import ArgumentSpec, Extent, Kind, Rule
from tilelang.runtime.arrays import (
    GPUS,
    ArrayView,
    allocate,
    allocate_on_device,
    borrow,
    dense_strides,
    framework_of,
    is_torch_tensor,
    to_framework_of,
)
from tilelang.runtime.packed import Packed, allocate_packed, logical, packed_storage, repack, unpack
from tilelang.runtime.parameters import Signature, dims_and_strides, shape_text, solve, unknown_of
from tilelang.runtime.scalars import as_integer, scalar_argument, short_text


@record(frozen=False)
class Bound:
    """A call whose arguments have been checked.

    Attributes:
        values: One per parameter: an `ArrayView` or a Python number, which can be the address of a tensor.
        symbols: The values of the signature's symbols, in order.
        outputs: The arrays that are returned, in order.
        packed: Unpacked arrays that are packed again after the call.
        like: The argument that determines the framework of the outputs.
        device: The index of the device on which the arrays are; None for host memory.
        outputs_given: Whether the caller has passed the outputs, which are then returned.
    """

    values: list[ArrayView | int | float]
    symbols: list[int] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    packed: list[Packed] = field(default_factory=list)
    like: object = None
    device: int | None = None
    outputs_given: bool = False

    def result(self) -> Any:
        """The return value of the call, once it is launched: None, the output, or a list of outputs."""
        for packed in self.packed:
            repack(packed)
        arrays = [to_framework_of(array, self.like) for array in self.outputs]
        return None if not arrays else arrays[0] if len(arrays) == 1 else arrays

    def address(self, parameter: int) -> int:
        """The address of the tensor of a parameter."""
        value = self.values[parameter]
        return value.pointer if isinstance(value, ArrayView) else int(value)

    def c_arguments(self) -> list[int | float]:
        """The arguments of the entry: addresses and numbers, then symbols."""
        plain = [value.pointer if isinstance(value, ArrayView) else value for value in self.values]
        return [*plain, *self.symbols]


@record
class Devices:
    """Queries about devices for `bind`.

    Attributes:
        arch: The architecture of the kernel, for messages.
        device_of: The index of the device that an address belongs to.
        current: The index of the device to use without tensor arguments.
        device_type: The type of devices, as in `ArrayView.device`.
        title: What messages call them.
    """

    arch: str
    device_of: Callable[[int], int]
    current: Callable[[], int]
    device_type: str = "cuda"
    title: str = "CUDA"


def bind(signature: Signature, args: Sequence[Any], devices: Devices | None = None) -> Bound:
    """Checks the arguments and allocates the outputs that were not passed.

    A caller passes the inputs only, or all parameters, outputs included.

    Args:
        signature: The signature of the kernel.
        args: The arguments.
        devices: Queries about devices; None for kernels on host memory.

    Raises:
        ArgumentError: An argument is invalid.
    """
    with signature.loc:
        return _Binding(signature, args, devices).run()


class _Binding:
    """The check of one call."""

    def __init__(self, signature: Signature, args: Sequence[Any], devices: Devices | None) -> None:
        self.signature = signature
        self.args = args
        self.devices = devices
        self.device_source: tuple[str, int] | None = None  # the argument that determined the device, and the device
        self.env: dict[Var, Any] = {}
        self.origin: dict[Var, str] = {}  # the argument that determined each symbol
        self.given: dict[int, Any] = {}
        self.packed: dict[int, ArrayView] = {}  # arguments whose bytes hold several elements each

    def run(self) -> Bound:
        signature = self.signature
        self.given = dict(zip(self._order(), self.args, strict=True))
        views: dict[int, ArrayView] = {}
        numbers: dict[int, int | float] = {}
        for index, value in self.given.items():
            spec = signature.specs[index]
            if spec.kind is Kind.TENSOR:
                if value is not None or index not in signature.optional:
                    views[index] = self._view(spec, value)
                continue
            param = spec.param
            assert isinstance(param, ScalarParam)
            numbers[index] = self._address(param, value) if spec.kind is Kind.POINTER else self._scalar(param, value)
            self.env[param.var] = numbers[index]
            self.origin[param.var] = f"'{param.name}'"
        self._solve_symbols(views)
        for index, view in views.items():
            self._check_shape(signature.specs[index], view)
        self._check_grids()
        for condition in signature.assumptions:
            if not evaluate(condition, self.env):
                raise self._fail(f"an assumption of the kernel does not hold. Assume: {to_text(condition)}")
        bound = Bound([], like=framework_of(self.args), device=self._device())
        for index, array in self.packed.items():
            views[index] = self._unpacked(index, array, bound)
        outputs: dict[int, Any] = {}
        for index in signature.outputs:
            if index in views:
                outputs[index] = self.given[index]
            else:
                outputs[index] = self._allocate(index, bound)
                borrowed = borrow(outputs[index])
                assert borrowed is not None
                stored = packed_storage(signature.params[index].dtype, borrowed)
                views[index] = self._unpacked(index, borrowed, bound) if stored else borrowed
        for index in self.given.keys() - views.keys() - numbers.keys():
            views[index] = self._absent(index)
        bound.values = [views[i] if i in views else numbers[i] for i in range(len(signature.params))]
        bound.symbols = [int(self.env[symbol]) for symbol in signature.symbols]
        bound.outputs = [outputs[i] for i in signature.outputs]
        bound.outputs_given = len(self.given) > len(signature.inputs)
        return bound

    def _fail(self, message: str, hint: str = "") -> ArgumentError:
        return ArgumentError(f"{self.signature.name}: {message}", hint=hint)

    def _order(self) -> Sequence[int]:
        signature, count = self.signature, len(self.args)
        if count == len(signature.inputs):
            return signature.inputs
        if count == len(signature.params):
            return range(count)
        hint = ""
        if signature.outputs:
            hint = f"'{signature.names(signature.outputs)}' is allocated and returned because of out_idx"
        elif len(signature.params) - 1 == count:
            hint = "to have the last parameter allocated and returned, compile with out_idx=[-1]"
        wanted = f"{len(signature.inputs)} argument" + ("" if len(signature.inputs) == 1 else "s")
        raise self._fail(f"expected {wanted} ({signature.names(signature.inputs)}), got {count}", hint)

    # -- tensors --------------------------------------------------------------------------------------------
    def _view(self, spec: ArgumentSpec, value: Any) -> ArrayView:
        """The argument as an array, after the checks that need no other argument."""
        view, param = borrow(value), spec.tensor
        name, dtype = param.name, param.dtype
        lane = _storage_name(dtype)
        if value is None:
            raise self._fail(
                f"'{name}' is None, but the kernel reads or writes it",
                f"pass a {dtype!s} array of shape {shape_text(param.shape)}; None is for tensors that are not touched",
            )
        if view is None:
            raise self._fail(
                f"'{name}' must be a {dtype!s} array of shape {shape_text(param.shape)}, got {type(value).__name__} "
                f"{short_text(value)}",
                f"write numpy.asarray(..., dtype={lane!r})",
            )
        self._check_place(name, view)
        if packed_storage(dtype, view):
            self.packed[spec.index] = view
            view = logical(dtype, view)
        if view.dtype is not None and str(view.dtype) in _INTERCHANGEABLE.get(lane, ()):
            view = dataclasses.replace(view, dtype=as_dtype(lane))
        if view.dtype is None or _storage_name(view.dtype) != lane:
            convert = f"{name}.to(torch.{lane})" if view.framework == "torch" else f"{name}.astype({lane!r})"
            raise self._fail(
                f"'{name}' has dtype {view.dtype_text}, expected {dtype!s}", _replacement_hint(name, convert, spec)
            )
        if len(view.shape) != len(spec.extents) + (dtype.lanes > 1):
            raise self._fail(
                f"'{name}' has {_dimensions(len(view.shape))}, shape {view.shape}, expected "
                f"{_dimensions(len(spec.extents))}, shape {shape_text(param.shape)}"
            )
        copy = "clone" if view.framework == "torch" else "copy"
        if not view.aligned:
            raise self._fail(
                f"'{name}' starts at an address that is not a multiple of the size of {dtype!s}",
                _replacement_hint(name, f"{name}.{copy}()", spec),
            )
        if spec.written and not view.writable:
            raise self._fail(
                f"'{name}' is written by the kernel, but the array given is read-only",
                _replacement_hint(name, f"{name}.{copy}()", spec),
            )
        return view

    def _scalar(self, param: ScalarParam, value: Any) -> int | float:
        return scalar_argument(self.signature.name, param, value)

    def _address(self, param: ScalarParam, value: Any) -> int:
        """A pointer argument: an address, or that of the passed array."""
        if getattr(value, "ndim", 0) > 0:  # a tensor of rank 0 also converts to an int
            view = borrow(value)
            if view is not None:
                self._check_place(param.name, view)
                return view.pointer
        elif (number := as_integer(value)) is not None and 0 <= number < 2**63:
            return number
        place = "host memory" if self.devices is None else f"memory of a {self.devices.title} device"
        raise self._fail(
            f"'{param.name}' must be an address or an array in {place}, got "
            + ("None" if value is None else f"{type(value).__name__} {short_text(value)}")
        )

    def _check_place(self, name: str, view: ArrayView) -> None:
        if self.devices is None:
            if view.device != "cpu":
                raise self._fail(
                    f"'{name}' is on device {view.device}, expected host memory",
                    f"pass {name}.cpu(); the kernel runs on the CPU",
                )
            return
        family, _, number = view.device.partition(":")
        if family != self.devices.device_type:
            place = "in host memory" if family == "cpu" else f"on device {view.device}"
            move = f"{name}.cuda()" if view.framework == "torch" else f"torch.from_numpy({name}).cuda()"
            advice = "compile for that device with target='auto'" if family in GPUS else f"pass {move}"
            raise self._fail(
                f"'{name}' is {place}, expected memory of a {self.devices.title} device",
                f"{advice}; the kernel was compiled for {self.devices.arch}",
            )
        if 0 in view.shape and not number:
            return  # an empty array has no memory that could be somewhere
        device = int(number) if number else self.devices.device_of(view.pointer)
        if self.device_source is None:
            self.device_source = name, device
        elif self.device_source[1] != device:
            other, elsewhere = self.device_source
            raise self._fail(
                f"'{name}' is on device {family}:{device}, but '{other}' is on {family}:{elsewhere}",
                "pass tensors that are all on one device",
            )

    def _device(self) -> int | None:
        """The device on which the kernel runs."""
        if self.devices is None:
            return None
        return self.devices.current() if self.device_source is None else self.device_source[1]

    def _solve_symbols(self, views: dict[int, ArrayView]) -> None:
        """Binds every symbol from the first argument that determines it."""
        open_symbols = {symbol for symbol in self.signature.symbols if symbol not in self.env}
        progress = True
        while open_symbols and progress:
            progress = False
            for index, view in views.items():
                spec = self.signature.specs[index]
                given = (*view.shape[: len(spec.extents)], *(view.strides or ()))
                for extent, value in zip(spec.rules, given, strict=False):
                    variable = None if extent.rule is Rule.CONSTANT else unknown_of(extent.expr, set(self.env))
                    solution = None if variable is None else solve(extent.expr, value, variable, self.env)
                    if variable is not None and solution is not None:
                        self.env[variable] = solution
                        self.origin[variable] = f"'{spec.param.name}' of shape {view.shape}"
                        open_symbols.discard(variable)
                        progress = True
        for symbol in self.signature.symbols:
            if symbol in open_symbols:
                self._bind_absent_symbol(symbol, views)

    def _bind_absent_symbol(self, symbol: Var, views: dict[int, ArrayView]) -> None:
        """Binds a symbol that only tensors passed as None have to 0; the kernel must not depend on it."""
        params = self.signature.params
        carriers = [
            i for i in self.given if i not in views and isinstance(p := params[i], TensorParam)
            and any(symbol in variables_of(e) for e in dims_and_strides(p))
        ]  # fmt: skip
        if carriers and symbol in self.signature.needed:
            raise self._fail(
                f"dimension '{symbol.name}' needs at least one non-null buffer that has it, but "
                f"{self.signature.names(carriers)} {'is' if len(carriers) == 1 else 'are all'} None",
                f"pass a tensor for one of them, or '{symbol.name}' as a scalar parameter",
            )
        if carriers:
            self.env[symbol] = 0

    def _check_grids(self) -> None:
        """Raises for empty grids: a kernel that does nothing would leave its outputs undefined."""
        for grid in self.signature.grids:
            extents = [self._value(extent) for extent in grid]
            if None not in extents and any(extent <= 0 for extent in extents if extent is not None):
                raise self._fail(
                    f"the grid {shape_text(grid)}"
                    + (f", which is {tuple(extents)} here," if any(int_const(e) is None for e in grid) else "")
                    + " has no blocks",
                    "do not call the kernel where there is nothing to do, or start at least one block: "
                    "T.max(extent, 1)",
                )

    def _absent(self, index: int) -> ArrayView:
        """A null array for a tensor that was not passed."""
        param = self.signature.params[index]
        assert isinstance(param, TensorParam)
        lanes = (param.dtype.lanes,) if param.dtype.lanes > 1 else ()
        shape = (*(max(0, self._value(extent) or 0) for extent in param.shape), *lanes)
        return ArrayView(
            "none", lane_dtype(param.dtype), "None", shape, dense_strides(shape), 0, "cpu", True, True, None
        )

    def _check_shape(self, spec: ArgumentSpec, view: ArrayView) -> None:
        param = spec.tensor
        for axis, (extent, given) in enumerate(zip(spec.extents, view.shape, strict=False)):
            expected = self._expected(extent)
            if expected != given:
                raise self._wrong_extent(param, view, axis, extent.expr, expected)
        if param.dtype.lanes > 1 and view.shape[-1] != param.dtype.lanes:
            raise self._fail(
                f"'{param.name}' has shape {view.shape}, expected {param.dtype.lanes} as the last extent, "
                f"the lanes of {param.dtype!s}"
            )
        if spec.strides is None:
            self._check_dense(spec, view)
        else:
            self._check_strides(param, view, spec.strides)

    def _expected(self, extent: Extent) -> int | None:
        """The required extent or stride; None if it depends on a symbol without a value."""
        return extent.value if extent.rule is Rule.CONSTANT else self._value(extent.expr)

    def _value(self, expr: Expr) -> int | None:
        """The value of an extent; None if it depends on a symbol without a value."""
        if isinstance(expr, Var):
            return int(self.env[expr]) if expr in self.env else None
        if any(isinstance(e, Var) and e not in self.env for e in walk_expr(expr)):
            return None
        return int(evaluate(expr, self.env))

    def _wrong_extent(
        self, param: TensorParam, view: ArrayView, axis: int, expr: Expr, expected: int | None
    ) -> ArgumentError:
        wanted, name = shape_text(param.shape), param.name
        if expected is None:
            return self._fail(
                f"'{name}' has shape {view.shape}, expected {wanted}: extent {axis} cannot be {view.shape[axis]}"
            )
        if isinstance(expr, Var) and expr in self.origin:
            return self._fail(
                f"dimension '{expr.name}' is {expected} in {self.origin[expr]}, but {view.shape[axis]} in '{name}' of "
                f"shape {view.shape}",
                f"'{name}' is declared {wanted}; pass arrays that agree on '{expr.name}'",
            )
        values = [self._value(e) for e in param.shape]
        exact = "(" + ", ".join(str(v) for v in values) + ("," if len(values) == 1 else "") + ")"
        meaning = "" if exact == wanted else f", which is {exact} here"
        return self._fail(f"'{name}' has shape {view.shape}, expected {wanted}{meaning}")

    def _check_dense(self, spec: ArgumentSpec, view: ArrayView) -> None:
        if view.is_dense:
            return
        name = spec.param.name
        make = f"{name}.contiguous()" if view.framework == "torch" else f"numpy.ascontiguousarray({name})"
        strides = "no whole elements" if view.strides is None else str(view.strides)
        raise self._fail(
            f"'{name}' is not contiguous: its strides are {strides}, expected {dense_strides(view.shape)}",
            f"{_replacement_hint(name, make, spec)}, or declare the parameter with T.StridedTensor",
        )

    def _check_strides(self, param: TensorParam, view: ArrayView, strides: tuple[Extent, ...]) -> None:
        if view.strides is None:
            raise self._fail(f"'{param.name}' has strides that are no whole elements of {param.dtype!s}")
        if 0 in view.shape:
            return  # an empty array has nothing to step along
        for extent, given, stride in zip(view.shape, view.strides, strides, strict=False):
            if extent > 1 and self._expected(stride) != given:
                raise self._fail(
                    f"'{param.name}' has strides {view.strides}, expected "
                    f"{shape_text([stride.expr for stride in strides])}",
                    f"strides are in elements; an array of shape {view.shape} with other strides needs a copy",
                )

    def _allocate(self, index: int, bound: Bound) -> Any:
        param = self.signature.params[index]
        assert isinstance(param, TensorParam)
        shape = tuple(int(evaluate(expr, self.env)) for expr in param.shape)
        if param.dtype.lanes > 1:
            shape = (*shape, param.dtype.lanes)
        if any(extent < 0 for extent in shape):
            raise self._fail(f"output '{param.name}' would have the shape {shape}")
        torchs = is_torch_tensor(bound.like) or bound.like is None and bound.device is not None
        if param.dtype.bits < 8 and (self.packed or torchs):
            return self._allocate_packed(param, shape, bound)
        if bound.device is None:
            return allocate(bound.like, shape, param.dtype)
        array = allocate_on_device(bound.like, shape, param.dtype, bound.device)
        if array is None:
            raise self._fail(
                f"output '{param.name}' of dtype {param.dtype!s} cannot be allocated on a device: neither torch nor "
                "CuPy has been imported, or it has no such dtype",
                f"pass '{param.name}' as an argument",
            )
        return array

    # -- bytes of several elements ----------------------------------------------------------------------------
    def _unpacked(self, index: int, array: ArrayView, bound: Bound) -> ArrayView:
        """The elements of packed bytes, one per byte, as kernels take them."""
        param = self.signature.params[index]
        packed = unpack(param.dtype, array)
        if packed is None:
            raise self._fail(
                f"'{param.name}' holds several elements of {param.dtype!s} in a byte, in an array that cannot be taken "
                "apart",
                "pass a torch tensor whose last dimension is dense",
            )
        if index in self.signature.written:
            bound.packed.append(packed)
        return packed.elements

    def _allocate_packed(self, param: TensorParam, shape: tuple[int, ...], bound: Bound) -> Any:
        array = allocate_packed(bound.like, shape, param.dtype, bound.device)
        if array is None:
            raise self._fail(
                f"output '{param.name}' of shape {shape} cannot be allocated: a row of {param.dtype!s} is no whole "
                "number of bytes",
                "let the last extent be even",
            )
        return array


# Other dtypes that a parameter takes, by the name of its own: their bytes are read as they are. The kinds of one
# family of 8-bit floats are passed for each other, as frameworks name them differently; a bool is a byte of 0 or 1.
_INTERCHANGEABLE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "bool": frozenset({"int8", "uint8"}),
        "float4_e2m1_unpacked": frozenset({"float4_e2m1fn", "int8", "uint8"}),
        **dict.fromkeys(("float6_e2m3fn", "float6_e3m2fn"), frozenset({"int8", "uint8"})),  # one in each byte
        **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz"), frozenset({"float8_e4m3fn", "float8_e4m3fnuz"})),
        **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), frozenset({"float8_e5m2", "float8_e5m2fnuz"})),
    }
)


def _replacement_hint(name: str, made: str, spec: ArgumentSpec) -> str:
    """A hint to pass another array, which keeps a name if the kernel writes it: results in a copy would be lost."""
    return f"write {name} = {made} before the call, and pass that" if spec.written else f"pass {made}"


def _storage_name(dtype: DType) -> str:
    """The storage dtype of an element in host memory: float32 for tfloat32, the lanes of a vector."""
    name = str(dtype).rsplit("x", 1)[0] if dtype.lanes > 1 else str(dtype)
    return "float32" if name == "tfloat32" else name


def _dimensions(count: int) -> str:
    return f"{count} dimension" + ("" if count == 1 else "s")
