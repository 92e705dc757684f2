"""Tensor maps: the descriptors of 128 bytes by which TMA addresses a tensor (CUtensorMap).

Takes a `TensorMapText` with the sizes of a call and the address of a tensor, gives the encoded map, which a kernel
takes by value. Invariant: `refusal` is called before a map is encoded, since the driver reports a violated rule only by
a status code; maps of the same sizes at the same address are encoded once.

Source: CUDA Driver API, "Tensor Map Object Management", cuTensorMapEncodeTiled,
cuTensorMapEncodeIm2col and the enums of their arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from tilelang.codegen.source import TensorMapText
from tilelang.dtypes import DType
from tilelang.errors import CompilerBug, DriverError
from tilelang.records import record
from tilelang.runtime.host_expressions import compile_expression, evaluate_expression
from tilelang.runtime.native_call import NotNative
from tilelang.targets.gpu.runtime.launch_block import MAP_ALIGNMENT, MAP_BYTES
from tilelang.targets.nvidia.isa.tensor_box import MAX_RANK, SWIZZLES, map_fault

# enum CUtensorMapDataType; all others are moved as unsigned integers of their size
_DATA_TYPES = {
    "int32": 3, "int64": 5, "float16": 6, "float32": 7, "tfloat32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_ROUNDED = 11  # CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: an H200 rounds to nearest, ties to even; any NaN is 0x7fffe000
_UNSIGNED = {1: 0, 2: 1, 4: 2, 8: 4}
SWIZZLE_CODES = {span: code for code, span in enumerate(SWIZZLES)}  # enum CUtensorMapSwizzle: none, 32, 64, 128 bytes
NOT_INTERLEAVED = 0  # enum CUtensorMapInterleave
PROMOTION = 2  # enum CUtensorMapL2promotion: what is read arrives in L2 in pieces of 128 bytes
ZEROS_OUTSIDE = 0  # enum CUtensorMapFloatOOBfill

_KEPT = 1024  # addresses remembered per map


def data_type(dtype: DType, *, rounds: bool = False) -> int:
    """The number of the CUtensorMapDataType by which elements of a dtype are moved, of tfloat32 rounded if asked."""
    if rounds and dtype == "tfloat32":
        return _ROUNDED
    code = _DATA_TYPES.get(str(dtype), _UNSIGNED.get(dtype.storage_bytes))
    if code is None:
        raise CompilerBug(f"a tensor map cannot count elements of {dtype}")
    return code


@record
class TensorMapShape:
    """A tensor map of which all is known but where the tensor begins.

    Attributes:
        text: Where it comes from.
        name: The tensor's.
        dims: Elements per dimension, innermost first.
        strides: Bytes, of all dimensions but the innermost.
    """

    text: TensorMapText
    name: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    def refusal(self, address: int) -> str:
        """Why there can be no map for a tensor at this address; empty if there can."""
        text = self.text
        size = text.dtype.storage_bytes
        fault = map_fault(self.dims, self.strides, text.box, text.swizzle, size, address, text.pixels)
        return fault and f"no tensor map of '{self.name}': {fault}"


def encoder(text: TensorMapText) -> str:
    """The driver's function that encodes a map."""
    return "cuTensorMapEncodeIm2col" if text.pixels else "cuTensorMapEncodeTiled"


def _corners(pixels: tuple[tuple[int, int, int], ...]) -> tuple[Any, ...]:
    """The corners of base pixels for the driver, lower and upper ones."""
    lower, upper, _ = zip(*pixels, strict=True)
    return tuple((ctypes.c_int * len(pixels))(*corners) for corners in (lower, upper))


class TensorMapFormula:
    """A tensor map of a program, before the sizes of a call are known.

    Args:
        text: What the map describes.
        name: The tensor's.
    """

    def __init__(self, text: TensorMapText, name: str) -> None:
        rank = 2 + len(text.pixels) if text.pixels else len(text.box)
        if not len(text.dims) == len(text.strides) + 1 == rank or text.swizzle not in SWIZZLES:
            raise CompilerBug(f"the tensor map of '{name}' is inconsistent: {text}")
        data_type(text.dtype)
        self.text, self._name = text, name
        self._dims: list[CodeType] = [compile_expression(dim) for dim in text.dims]
        self._strides: list[CodeType] = [compile_expression(stride) for stride in text.strides]

    @property
    def used_names(self) -> frozenset[str]:
        """The names of symbols and scalar parameters that decide its sizes."""
        return frozenset(name for code in (*self._dims, *self._strides) for name in code.co_names)

    def shape(self, names: Mapping[str, int | float]) -> TensorMapShape:
        """The map for these values of symbols and scalar parameters."""
        dims = tuple(int(evaluate_expression(code, names)) for code in self._dims)
        strides = tuple(int(evaluate_expression(code, names)) for code in self._strides)
        return TensorMapShape(self.text, self._name, dims, strides)


class TensorMaps(dict[int, bytes]):
    """The maps of one shape by the addresses of tensors; a missing one is encoded on access.

    Args:
        shape: Of all of them.
        encode: The `encoder` of the driver.
        error: The error for a status that it gave, and what was done.

    Attributes:
        shape: As given.
        dims: For the driver; so are the others.
        strides: In bytes.
        box: In elements.
        steps: Which elements of the box are moved: all; between base pixels, the steps.
    """

    def __init__(
        self, shape: TensorMapShape, encode: Callable[..., int], error: Callable[[int, str], DriverError]
    ) -> None:
        super().__init__()
        rank = len(shape.dims)
        self.shape, self._encode, self._error = shape, encode, error
        self.dims = (ctypes.c_uint64 * rank)(*shape.dims)
        self.strides = (ctypes.c_uint64 * MAX_RANK)(*shape.strides)  # never empty: its address is passed
        box, pixels = shape.text.box, shape.text.pixels
        self.box = (ctypes.c_uint32 * len(box))(*box)
        steps = (1, *(step for _, _, step in pixels), 1) if pixels else (1,) * rank
        self.steps = (ctypes.c_uint32 * rank)(*steps)
        self._fixed: tuple[Any, ...] = (
            self.dims, self.strides, *(_corners(pixels) + box if pixels else (self.box,)), self.steps,
            NOT_INTERLEAVED, SWIZZLE_CODES[shape.text.swizzle], PROMOTION, ZEROS_OUTSIDE,
        )  # fmt: skip
        self._data_type = data_type(shape.text.dtype, rounds=shape.text.rounds)
        self._head = (self._data_type, rank)

    @property
    def tensor(self) -> int:
        """The parameter whose address decides; after the parameters, the workspace."""
        return self.shape.text.tensor

    def native_fields(self, offset: int, kept: list[object]) -> tuple[int, ...]:
        """See `launch_block.EncodedMaps`."""
        text = self.shape.text
        if text.pixels:
            raise NotNative  # launch.cpp has the arguments of `cuTensorMapEncodeTiled`
        kept.append(self)
        arrays = (ctypes.addressof(array) for array in (self.dims, self.strides, self.box, self.steps))
        return (
            text.tensor, offset, next(iter(self)), *arrays, len(text.box), self._data_type, NOT_INTERLEAVED,
            SWIZZLE_CODES[text.swizzle], PROMOTION, ZEROS_OUTSIDE,
        )  # fmt: skip

    def __missing__(self, address: int) -> bytes:
        memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        begin = -ctypes.addressof(memory) % MAP_ALIGNMENT
        pointer = ctypes.c_void_p(ctypes.addressof(memory) + begin)
        status = self._encode(pointer, *self._head, ctypes.c_void_p(address), *self._fixed)
        if status:
            shape = self.shape
            raise self._error(
                status,
                f"{encoder(shape.text)} of '{shape.name}' at {address:#x}, dims {shape.dims}, strides "
                f"{shape.strides} bytes, box {shape.text.box}, swizzle {shape.text.swizzle}",
            )
        if len(self) >= _KEPT:
            self.clear()
        encoded = self[address] = memory.raw[begin : begin + MAP_BYTES]
        return encoded
