"""Selects the C++ matrix micro-kernel for tiles of given dtypes.

Takes dtypes, sizes and strides of tiles in memory, gives a `Routine`. Invariant: floats accumulate in float32, or in
float64 for a float64 C; integers accumulate in int32; C is rounded once per call.
"""

from __future__ import annotations

from tilelang.dtypes import DType
from tilelang.ir.callee import Routine
from tilelang.isa.common.convert import cpp_type
from tilelang.isa.intrinsic import Helper
from tilelang.records import record
from tilelang.targets.cpu.isa.gemm_kernel import KERNEL, PAIRS, QUADS, ROUNDED, SINGLE


@record(slots=True)
class GemmShape:
    """Sizes and strides of one gemm of tiles.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: The reduction dimension.
        lda: Leading dimension of A: elements from one row in memory to the next.
        ldb: Leading dimension of B.
        ldc: Leading dimension of C.
        transpose_a: Whether A is stored as (k, m).
        transpose_b: Whether B is stored as (n, k).
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    transpose_a: bool = False
    transpose_b: bool = False

    def arguments(self) -> str:
        """The template arguments, in their order in C++."""
        flags = ("true" if flag else "false" for flag in (self.transpose_a, self.transpose_b))
        return ", ".join((*map(str, (self.m, self.n, self.k, self.lda, self.ldb, self.ldc)), *flags))


@record(slots=True)
class _Path:
    """The step of the micro-kernel and the loads of its operands, as C++ types."""

    step: str
    load_a: str
    load_b: str
    helper: Helper


def gemm_routine(a: DType, b: DType, c: DType, shape: GemmShape) -> Routine | None:
    """The routine of `c = (0 if clear else c) + op(a) @ op(b)` on tiles in memory.

    The arguments are the addresses of the first elements of A, B and C, in the types of `cpp_type`, and the bool
    `clear`. None if no micro-kernel supports the dtypes.
    """
    path = _path(a, b, c)
    if path is None:
        return None
    needs = tuple(helper for dtype in (a, b, c) if (helper := cpp_type(dtype).helper) is not None)
    if c in ("float16", "bfloat16"):
        arguments = f"{path.step}, {path.load_a}, {path.load_b}, {cpp_type(c).name}, {shape.arguments()}"
        text, base = f"tl::gemm_rounded<{arguments}>", ROUNDED
    else:
        text, base = f"tl::gemm<{path.step}, {path.load_a}, {path.load_b}, {shape.arguments()}>", KERNEL
    helper = Helper(f"gemm {a!s} {b!s} {c!s}", "", needs=(*needs, path.helper, base))
    return Routine("gemm", {"cpp": f"{text}({{0}}, {{1}}, {{2}}, {{3}})"}, {"cpp": helper})


def _path(a: DType, b: DType, c: DType) -> _Path | None:
    if a.lanes > 1 or b.lanes > 1:
        return None
    name_a, name_b = cpp_type(a).name, cpp_type(b).name
    if a.is_float and b.is_float:
        if c == "float64":
            wide_a, wide_b = (f"tl::load_single<{name}, double>" for name in (name_a, name_b))
            return _Path("tl::multiply_add<double>", wide_a, wide_b, SINGLE)
        return _float_path(a, b) if c in ("float32", "float16", "bfloat16") and "float64" not in (a, b) else None
    if c == "int32" and a.is_int and b.is_int and a.bits <= 32 and b.bits <= 32:
        return _integer_path(a, b)
    return None


def _float_path(a: DType, b: DType) -> _Path:
    rounded_a, rounded_b = rounded_operands(a, b)
    name_a, name_b = cpp_type(a).name, cpp_type(b).name
    if rounded_a == rounded_b == "bfloat16":
        pairs = Helper("gemm_bfloat16", "", needs=(*_helpers(rounded_a), PAIRS))
        return _Path("tl::multiply_add_pairs", f"tl::load_pair<{name_a}>", f"tl::load_pair<{name_b}>", pairs)
    needs = (*_helpers(rounded_a), *_helpers(rounded_b), SINGLE)
    single = Helper(f"gemm_{rounded_a!s}_{rounded_b!s}", "", needs=needs)
    return _Path(
        "tl::multiply_add<float>",
        f"tl::load_single<{name_a}, float, {cpp_type(rounded_a).name}>",
        f"tl::load_single<{name_b}, float, {cpp_type(rounded_b).name}>",
        single,
    )


def rounded_operands(a: DType, b: DType) -> tuple[DType, DType]:
    """The dtypes of the operands after rounding: float32 is rounded to the 16-bit dtype of the other one."""
    if a == "float32" and b.bits == 16:
        return b, b
    if b == "float32" and a.bits == 16:
        return a, a
    return a, b


def _helpers(dtype: DType) -> tuple[Helper, ...]:
    helper = cpp_type(dtype).helper
    return () if helper is None else (helper,)


def _integer_path(a: DType, b: DType) -> _Path:
    name_a, name_b = cpp_type(a).name, cpp_type(b).name
    if a.bits == 8 and b.bits == 8:
        signs = [("true" if dtype == "int8" else "false") for dtype in (a, b)]
        moved = "0x80808080u" if a == b else "0u"
        step = f"tl::multiply_add_quads<{', '.join(signs)}>"
        return _Path(step, f"tl::load_quad<{name_a}, {moved}>", f"tl::load_quad<{name_b}, 0u>", QUADS)
    wide_a, wide_b = (f"tl::load_single<{name}, uint32_t>" for name in (name_a, name_b))
    return _Path("tl::multiply_add<uint32_t, int32_t>", wide_a, wide_b, SINGLE)
