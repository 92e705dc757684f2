"""The short way from arguments to a launch: a function written for one signature.

Takes a `Signature`, a C entry and the long way; gives a function of the call's arguments. Invariant: the short way
launches only what the long way would launch with the same values; whatever it does not recognize at a glance goes the
long way, which also words every error.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilelang.ir.expr import Binary, Cast, Const, Expr, Var
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.ir.scalar import COMPARISONS, BinaryOp
from tilelang.ir.visit import walk_expr
from tilelang.runtime.arrays import HUGE_PAGES_FROM_BYTES, empty_tensor, torch_dtype
from tilelang.runtime.call_text import NoShortWay, declared_strides, scalar_test
from tilelang.runtime.parameters import Signature

_DENSE, _ALIGNED, _WRITABLE = 0x001, 0x100, 0x400  # NumPy's flags C_CONTIGUOUS, ALIGNED and WRITEABLE
_ADDRESS_OFFSET = object.__basicsize__  # PyArrayObject: the object's head, then the address of the elements

_CONDITIONS = COMPARISONS | {BinaryOp.AND, BinaryOp.OR}

Launch = Callable[..., Any]


def call_text(signature: Signature) -> str:
    """The text of the function that `make_fast_call` makes; empty if everything goes the long way."""
    try:
        return _Writer(signature).text()
    except NoShortWay:
        return ""


def make_fast_call(signature: Signature, entry: Callable[..., int], long_way: Launch, failed: Launch) -> Launch:
    """A function of the call's positional arguments.

    Args:
        signature: What the arguments must be.
        entry: The kernel as a C function of addresses, numbers and symbols.
        long_way: Takes the tuple of arguments; does everything, or raises.
        failed: Takes the entry's non-zero answer and raises.
    """
    text = call_text(signature) or "def call(*args):\n    return long_way(args)\n"
    torch = sys.modules.get("torch")
    names: dict[str, Any] = {
        "entry": entry,
        "long_way": long_way,
        "failed": failed,
        "ndarray": np.ndarray,
        "np_empty": np.empty,
        "Tensor": getattr(torch, "Tensor", None),
        "strided": getattr(torch, "strided", None),
        "torch_empty": getattr(torch, "empty", None),
        "empty_tensor": empty_tensor,
        "Address": ctypes.c_size_t.from_address,
    }
    for index, param in enumerate(signature.params):
        names[f"D{index}"] = param.dtype.numpy
        names[f"E{index}"] = torch_dtype(param.dtype)
    exec(compile(text, f"<call of {signature.name}>", "exec"), names)
    return names["call"]  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _addresses_are_where_numpy_says() -> bool:
    """Whether an array's address can be read from the array object itself, eight times faster than by asking."""
    if sys.implementation.name != "cpython":
        return False
    samples: list[np.ndarray] = [np.zeros(3), np.zeros((2, 3), np.int8)[1:], np.zeros(0)]
    read = ctypes.c_size_t.from_address
    return all(read(id(a) + _ADDRESS_OFFSET).value == a.__array_interface__["data"][0] for a in samples)


def _is_small(param: TensorParam) -> bool:
    """Whether huge pages are certainly nothing for a parameter."""
    shape = param.buffer.static_shape
    return shape is not None and math.prod(shape) * param.dtype.storage_bytes < HUGE_PAGES_FROM_BYTES


class _Writer:
    """Writes the text of the function, once for NumPy arrays and once for torch tensors."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.names: dict[Var, str] = {}
        self.tensors = [i for i in signature.inputs if isinstance(signature.params[i], TensorParam)]
        self.scalars = [i for i in signature.inputs if isinstance(signature.params[i], ScalarParam)]
        for param in signature.params:
            if param.dtype.lanes > 1:
                raise NoShortWay
        if signature.outputs and not self.tensors:
            raise NoShortWay  # the outputs' framework depends on what is imported by the time of the call

    def text(self) -> str:
        """The whole function."""
        inputs = self.signature.inputs
        unpack = "".join(f"a{i}, " for i in inputs)
        lines = ["def call(*args):", f"    if len(args) == {len(inputs)}:"]
        if inputs:
            lines.append(f"        {unpack[:-2]}{',' if len(inputs) == 1 else ''} = args")
        if not self.tensors:
            lines += self._branch("np", self._scalar_tests())
        else:
            lines += self._branch("np", [*self._numpy_tests(), *self._scalar_tests()])
            if "torch" in sys.modules and all(torch_dtype(p.dtype) for p in self.signature.params):
                lines += self._branch("torch", [*self._torch_tests(), *self._scalar_tests()])
        return "\n".join([*lines, "    return long_way(args)"]) + "\n"

    def _branch(self, framework: str, tests: Sequence[str]) -> list[str]:
        """What is done if all arguments are of one framework and pass the tests."""
        self.names = {p.var: f"a{i}" for i in self.scalars if isinstance(p := self.signature.params[i], ScalarParam)}
        binds, checks = self._symbols(framework)
        body = [*self._allocations(framework), *self._launch(framework)]
        if checks:
            body = [f"if {' and '.join(checks)}:", *(f"    {line}" for line in body)]
        lines = [*binds, *body]
        if tests:
            head = ["if (", *(f"    {'and ' if n else ''}{test}" for n, test in enumerate(tests)), "):"]
            lines = [*head, *(f"    {line}" for line in lines)]
        return [f"        {line}" for line in lines]

    def _numpy_tests(self) -> list[str]:
        tests = [" and ".join(f"type(a{i}) is ndarray" for i in self.tensors)]
        for i in self.tensors:
            dense = 0 if declared_strides(self.signature, i) else _DENSE
            mask = dense | _ALIGNED | (_WRITABLE if i in self.signature.written else 0)
            tests += [f"a{i}.dtype is D{i} and a{i}.flags.num & {mask} == {mask} and {self._shape_test(i)}"]
        return tests

    def _torch_tests(self) -> list[str]:
        tests = [" and ".join(f"type(a{i}) is Tensor" for i in self.tensors)]
        for i in self.tensors:
            dense = "" if declared_strides(self.signature, i) else f"and a{i}.is_contiguous() "
            tests.append(
                f"a{i}.dtype is E{i} and a{i}.is_cpu and a{i}.layout is strided {dense}"
                f"and not a{i}.is_neg() and {self._shape_test(i)}"
            )
        return tests

    def _shape_test(self, index: int) -> str:
        """The test of a constant shape as a whole, or of the rank, so that a symbolic shape can be taken apart."""
        param = self.signature.params[index]
        assert isinstance(param, TensorParam)
        shape = param.buffer.static_shape
        return f"a{index}.shape == {shape}" if shape is not None else f"a{index}.ndim == {param.buffer.rank}"

    def _scalar_tests(self) -> list[str]:
        return [scalar_test(f"a{i}", self.signature.params[i].dtype) for i in self.scalars]

    def _symbols(self, framework: str) -> tuple[list[str], list[str]]:
        """Statements that take symbolic shapes and strides apart, and the tests that follow."""
        binds: list[str] = []
        checks: list[str] = []
        deferred: list[tuple[str, Expr]] = []

        def take_apart(source: str, prefix: str, exprs: Sequence[Expr], unit: int) -> None:
            names = [f"{prefix}_{axis}" for axis in range(len(exprs))]
            if names:
                binds.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {source}")
            for name, expr in zip(names, exprs, strict=True):
                if isinstance(expr, Const):
                    checks.append(f"{name} == {int(expr.value) * unit}")
                    continue
                if unit > 1:
                    checks.append(f"{name} % {unit} == 0")
                if isinstance(expr, Var) and expr not in self.names:
                    self.names[expr] = name if unit == 1 else f"{name} // {unit}"
                else:
                    deferred.append((name if unit == 1 else f"{name} // {unit}", expr))

        for i in self.tensors:
            param = self.signature.params[i]
            assert isinstance(param, TensorParam)
            if param.buffer.static_shape is None:
                take_apart(f"a{i}.shape", f"s{i}", param.shape, 1)
            if framework == "torch":
                take_apart(f"a{i}.stride()", f"t{i}", declared_strides(self.signature, i), 1)
            else:
                take_apart(f"a{i}.strides", f"t{i}", declared_strides(self.signature, i), param.dtype.numpy.itemsize)
        checks += [f"{given} == {self._expr(expr)}" for given, expr in deferred]
        extents = dict.fromkeys(extent for grid in self.signature.grids for extent in grid)
        if any(isinstance(extent, Const) and extent.value <= 0 for extent in extents):
            raise NoShortWay  # an empty grid, which the long way words
        checks += [f"{self._expr(extent)} > 0" for extent in extents if not isinstance(extent, Const)]
        checks += [self._expr(condition) for condition in self.signature.assumptions]
        return binds, checks

    def _allocations(self, framework: str) -> list[str]:
        lines = []
        for i in self.signature.outputs:
            param = self.signature.params[i]
            assert isinstance(param, TensorParam)
            if any(isinstance(e, Binary) and e.op is BinaryOp.SUB for d in param.shape for e in walk_expr(d)):
                raise NoShortWay  # an extent could be negative, which the long way words
            shape = "".join(f"{self._expr(e)}, " for e in param.shape)
            if framework == "torch" and _is_small(param):
                lines.append(f"a{i} = torch_empty(({shape}), dtype=E{i})")
            elif framework == "torch":
                lines.append(f"a{i} = empty_tensor(({shape}), E{i})")
            else:
                lines.append(f"a{i} = np_empty(({shape}), D{i})")
        return lines

    def _launch(self, framework: str) -> list[str]:
        values = []
        for i, param in enumerate(self.signature.params):
            if isinstance(param, ScalarParam):
                values.append(f"a{i}")
            elif framework == "torch":
                values.append(f"a{i}.data_ptr()")
            elif _addresses_are_where_numpy_says():
                values.append(f"Address(id(a{i}) + {_ADDRESS_OFFSET}).value")
            else:
                values.append(f"a{i}.__array_interface__['data'][0]")
        values += [self._expr(symbol) for symbol in self.signature.symbols]
        outputs = ", ".join(f"a{i}" for i in self.signature.outputs)
        if len(self.signature.outputs) > 1:
            outputs = f"[{outputs}]"
        return [
            f"status = entry({', '.join(values)})",
            "if status:",
            "    failed(status)",
            f"return {outputs or None}",
        ]

    def _expr(self, expr: Expr) -> str:
        """An extent as Python text over what has been bound."""
        match expr:
            case Const(value=value):
                return repr(int(value))
            case Var():
                if expr in self.names:
                    return f"({self.names[expr]})" if " " in self.names[expr] else self.names[expr]
            case Binary(op=op, a=a, b=b) if op in _CONDITIONS:
                return f"({self._expr(a)} {op.value} {self._expr(b)})"
            case Cast(a=a) if expr.is_index:
                return self._expr(a)
            case Binary(op=BinaryOp.MIN | BinaryOp.MAX as op, a=a, b=b):
                return f"{op.value}({self._expr(a)}, {self._expr(b)})"
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL as op, a=a, b=b):
                return f"({self._expr(a)} {op.value} {self._expr(b)})"
            case Binary(op=BinaryOp.FLOORDIV | BinaryOp.FLOORMOD as op, a=a, b=Const(value=value)) if value:
                return f"({self._expr(a)} {op.value} {int(value)})"
        raise NoShortWay
