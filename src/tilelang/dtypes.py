"""The dtype table: one row per dtype, read by everybody who needs to know anything about it.

Takes names, NumPy, ml_dtypes and torch dtypes, Python types; gives `DType`, which is a string (its canonical name)
with facts attached, so that `T.float16 == "float16"` and `getattr(torch, T.bfloat16)` work.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from tilelang.errors import DTypeError, OptionError, nearest

if TYPE_CHECKING:
    import numpy.typing as npt


class Kind(enum.Enum):
    """The families of numbers."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    OPAQUE = "opaque"


@functools.cache
def _limits(dtype: DType) -> tuple[int | float, int | float]:
    if dtype.is_bool:
        return 0, 1
    if dtype.is_int:
        info = ml_dtypes.iinfo(dtype.numpy)
        return int(info.min), int(info.max)
    if dtype == "tfloat32":
        return -_TF32_MAX, _TF32_MAX
    finfo = ml_dtypes.finfo(dtype.numpy)
    return float(finfo.min), float(finfo.max)


class DType(str):
    """A dtype: a string equal to its canonical name, with the facts of its row.

    Attributes:
        kind: The family.
        bits: Width of one lane in bits.
        lanes: Elements per value; 1 for scalars, 4 in `float16x4`.
        numpy: The NumPy dtype of one lane in host memory. Sub-byte dtypes use one byte per element,
            as ml_dtypes does.
        is_float: Whether values are floating-point numbers.
        is_int: Whether values are integers, signed or not; bool is none.
        is_bool: Whether values are truth values.
        is_tf32: Whether values are floats of 32 bits that conversions round to the 10 bits of fraction of tf32.
    """

    kind: Kind
    bits: int
    lanes: int
    numpy: np.dtype
    is_float: bool
    is_int: bool
    is_bool: bool
    is_tf32: bool

    __slots__ = ("bits", "is_bool", "is_float", "is_int", "is_tf32", "kind", "lanes", "numpy")

    def __new__(cls, name: object) -> DType:
        """The dtype meant by `name`; see `as_dtype`."""
        row = as_dtype(name)
        return row if cls is DType else cls._make(str(row), row.kind, row.bits, row.lanes, row.numpy)

    @classmethod
    def _make(cls, name: str, kind: Kind, bits: int, lanes: int, storage: np.dtype) -> DType:
        self = str.__new__(cls, name)
        self.kind, self.bits, self.lanes, self.numpy = kind, bits, lanes, storage
        # attributes and no properties: the compiler asks every expression, often
        self.is_float, self.is_int, self.is_bool = kind is Kind.FLOAT, kind in (Kind.INT, Kind.UINT), kind is Kind.BOOL
        self.is_tf32 = name.startswith("tfloat32")
        return self

    @property
    def storage_bytes(self) -> int:
        """Bytes one value takes in host memory (one byte per lane for sub-byte dtypes)."""
        return self.numpy.itemsize * self.lanes

    @property
    def bytes(self) -> int:
        """Bytes that the bits of one value need, rounded up; packed elements share them."""
        return (self.bits * self.lanes + 7) // 8

    itemsize = bytes

    def is_float4_e2m1fn(self) -> bool:
        """Whether values are floats of 4 bits, two of which may share a byte."""
        return lane_dtype(self) == "float4_e2m1fn"

    def is_float4_e2m1_unpacked(self) -> bool:
        """Whether values are floats of 4 bits, each in a byte of its own."""
        return lane_dtype(self) == "float4_e2m1_unpacked"

    def is_float4(self) -> bool:
        """Whether values are floats of 4 bits."""
        return self.is_float4_e2m1fn() or self.is_float4_e2m1_unpacked()

    @property
    def limits(self) -> tuple[int | float, int | float]:
        """Smallest and largest finite value."""
        return _limits(self)

    def as_torch(self) -> object:
        """The torch dtype in which torch holds values of this one, mostly of the same name; imports torch.

        A handle has none.

        Raises:
            OptionError: torch has no such dtype.
        """
        import torch  # noqa: PLC0415  the caller asked for torch by calling this

        if self == "handle":
            return None
        for name in _IN_TORCH.get(str(self), (str(self),)):
            if hasattr(torch, name):
                return getattr(torch, name)
        raise OptionError(f"dtype {self!s}: torch {torch.__version__} has no such dtype")

    def __repr__(self) -> str:
        return str.__repr__(self)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return (type(self), (str(self),))


# what torch calls the storage of dtypes that it does not have by the same name, the first one that it has
_IN_TORCH: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tfloat32": ("float32",),
        "int4": ("int8",),
        "uint4": ("uint8",),
        "float4_e2m1fn": ("float4_e2m1fn_x2", "int8"),
        "float4_e2m1fnx2": ("float4_e2m1fn_x2", "int8"),
    }
)

_TF32_MAX = float(np.uint32(0x7F7FE000).view(np.float32))  # PTX ISA 9.7.14.5: tf32 keeps 10 mantissa bits

# name: kind, bits, storage in host memory
_ROWS: tuple[tuple[str, Kind, int, npt.DTypeLike], ...] = (
    ("bool", Kind.BOOL, 8, np.bool_),
    ("int4", Kind.INT, 4, ml_dtypes.int4),
    ("int8", Kind.INT, 8, np.int8),
    ("int16", Kind.INT, 16, np.int16),
    ("int32", Kind.INT, 32, np.int32),
    ("int64", Kind.INT, 64, np.int64),
    ("uint4", Kind.UINT, 4, ml_dtypes.uint4),
    ("uint8", Kind.UINT, 8, np.uint8),
    ("uint16", Kind.UINT, 16, np.uint16),
    ("uint32", Kind.UINT, 32, np.uint32),
    ("uint64", Kind.UINT, 64, np.uint64),
    ("float16", Kind.FLOAT, 16, np.float16),
    ("bfloat16", Kind.FLOAT, 16, ml_dtypes.bfloat16),
    ("float32", Kind.FLOAT, 32, np.float32),
    ("tfloat32", Kind.FLOAT, 32, np.float32),
    ("float64", Kind.FLOAT, 64, np.float64),
    ("float8_e4m3fn", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fn),
    ("float8_e5m2", Kind.FLOAT, 8, ml_dtypes.float8_e5m2),
    ("float8_e4m3fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fnuz),
    ("float8_e5m2fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e5m2fnuz),
    ("float8_e3m4", Kind.FLOAT, 8, ml_dtypes.float8_e3m4),
    ("float8_e4m3b11fnuz", Kind.FLOAT, 8, ml_dtypes.float8_e4m3b11fnuz),
    ("float8_e8m0fnu", Kind.FLOAT, 8, ml_dtypes.float8_e8m0fnu),
    ("float6_e2m3fn", Kind.FLOAT, 6, ml_dtypes.float6_e2m3fn),
    ("float6_e3m2fn", Kind.FLOAT, 6, ml_dtypes.float6_e3m2fn),
    ("float4_e2m1fn", Kind.FLOAT, 4, ml_dtypes.float4_e2m1fn),
    ("float4_e2m1_unpacked", Kind.FLOAT, 8, ml_dtypes.float4_e2m1fn),  # always in a byte of its own
)

SCALARS: Mapping[str, DType] = MappingProxyType(
    {name: DType._make(name, kind, bits, 1, np.dtype(storage)) for name, kind, bits, storage in _ROWS}
)

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "float": "float32",
        "half": "float16",
        "double": "float64",
        "int": "int32",
        "uint": "uint32",
        "long": "int64",
        "short": "int16",
        "boolean": "bool",
        "bf16": "bfloat16",
        "fp16": "float16",
        "fp32": "float32",
        "fp64": "float64",
        "tf32": "tfloat32",
        "float8_e4m3": "float8_e4m3fn",
        "e4m3_float8": "float8_e4m3fn",
        "e5m2_float8": "float8_e5m2",
    }
)

# What signatures of functions in other languages name: an address, and nothing. No value of a kernel has these dtypes.
HANDLE = DType._make("handle", Kind.OPAQUE, 64, 1, np.dtype(np.uint64))
VOID = DType._make("void", Kind.OPAQUE, 0, 1, np.dtype("V0"))

_PYTHON_TYPES = {bool: "bool", int: "int32", float: "float32"}
_FROM_NUMPY = {row.numpy: row for row in reversed(list(SCALARS.values())) if row != "tfloat32"}
_VECTOR = re.compile(r"([a-z][a-z0-9_]*?)x(\d+)")


def as_dtype(value: object) -> DType:
    """The dtype that a user means by a name, a Python type, or a NumPy, ml_dtypes or torch dtype.

    Raises:
        OptionError: Nothing by that name is known; the nearest known name is suggested.
        DTypeError: The value is neither a name nor a type of any of these.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return _from_name(value)
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return SCALARS[_PYTHON_TYPES[value]]
    if type(value).__module__ == "torch":  # str(torch.float16) == "torch.float16"
        return _from_name(str(value).removeprefix("torch.").replace("_x2", "x2"))  # torch.float4_e2m1fn_x2
    try:
        if value is None:  # which NumPy takes for float64
            raise TypeError
        return _FROM_NUMPY[np.dtype(value)]  # type: ignore[call-overload]
    except (TypeError, ValueError, KeyError):
        raise DTypeError(
            f"dtype: {value!r:.60} is not a dtype",
            hint="write a name such as 'float16', T.float16, torch.float16 or numpy.float16",
        ) from None


def _from_name(name: str) -> DType:
    canonical = ALIASES.get(name, name)
    if canonical in SCALARS:
        return SCALARS[canonical]
    match = _VECTOR.fullmatch(name)
    if match and ALIASES.get(match[1], match[1]) in SCALARS and int(match[2]) > 0:
        lane = SCALARS[ALIASES.get(match[1], match[1])]
        lanes = int(match[2])
        return lane if lanes == 1 else DType._make(f"{lane!s}x{lanes}", lane.kind, lane.bits, lanes, lane.numpy)
    raise unknown_name("dtype", name, [*SCALARS, *ALIASES])


def unknown_name(what: str, name: str, known: list[str]) -> OptionError:
    """The error for a name that is not known, with the nearest known one as its hint."""
    near = nearest(name, known, 0.5)
    return OptionError(f"{what}: unknown name {name!r}", hint=f"did you mean {near!r}?" if near else "")


def lane_dtype(dtype: DType) -> DType:
    """The scalar dtype of one lane."""
    return dtype if dtype.lanes == 1 else _from_name(str(dtype).rsplit("x", 1)[0])


def packed_elements(declared: DType, given: DType) -> int:
    """Return how many elements of the declared dtype an array's element holds: 2 where bytes hold pairs of nibbles."""
    width = given.bits * given.lanes
    return width // declared.bits if declared.bits < 8 and width % declared.bits == 0 else 1


def promote(a: DType, b: DType) -> DType:
    """The dtype of `a + b` for two values of full standing.

    The wider of one family wins; a float beats an integer; float16 with bfloat16 gives float32; at equal width
    an unsigned integer beats a signed one, as in C; bool counts as the narrowest integer.
    """
    if a == b:
        return a
    if a.is_float and b.is_float:
        if a.bits == b.bits:
            return SCALARS["float32"] if a.bits <= 32 else a
        return a if a.bits > b.bits else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.bits == b.bits:
        return a if a.kind is Kind.UINT else b
    return a if a.bits > b.bits else b


BOOL = SCALARS["bool"]
INT32 = SCALARS["int32"]
INT64 = SCALARS["int64"]
FLOAT32 = SCALARS["float32"]
FLOAT64 = SCALARS["float64"]
