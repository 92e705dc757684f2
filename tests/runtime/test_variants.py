from typing import Any

from fake_cuda import signature, tensor
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.expr import Var
from tilelang.ir.func import ScalarParam
from tilelang.ir.specialization import Specialization
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.variants import Variants

M, N, K, S = (Var(name, INT32, index=True) for name in "MNKS")
GEMM = signature(tensor("A", M, K), tensor("B", K, N), tensor("C", M, N), symbols=(M, K, N))


def test_a_pointer_may_begin_anywhere() -> None:
    s = signature(tensor("A", 4), ScalarParam(Var("p", as_dtype("int64"), index=True), pointer=True))
    variants = Variants(s)
    assert {} == variants.misaligned([at(4096), 4112])
    assert {"p": "'p' begins at address 0x1018, which is no multiple of 16"} == variants.misaligned([at(4096), 4120])
    assert ("p",) == variants.of([at(4096), 4120], ()).misaligned
    assert ("A", "p") == variants.general(variants.of([at(4096), 4120], ())).misaligned


def at(pointer: int, shape: tuple[int, ...] = (4,), strides: tuple[int, ...] = (1,)) -> ArrayView:
    return ArrayView("test", None, "", shape, strides, pointer, "cuda:0", True, True, None)


def test_the_usual_specialization_has_divisible_sizes() -> None:
    assert Specialization((("K", 128), ("N", 128))) == Variants(GEMM).most_common  # rows of A, C do not depend on their number
    assert Specialization((("M", 128),)) == Variants(signature(tensor("A", M), symbols=(M,))).most_common
    strided = signature(tensor("A", M, 4, strides=(S, S)), symbols=(M, S))
    assert Specialization((("S", 128),)) == Variants(strided).most_common
    assert Specialization() == Variants(signature(tensor("A", 8))).most_common


@given(st.integers(1, 400), st.integers(1, 400))
def test_multiples_are_divisors_of_the_sizes(k: int, n: int) -> None:
    specialization = dict(Variants(GEMM).of([at(0)] * 3, [5, k, n]).multiples)
    assert set(specialization) <= {"K", "N"}
    for name, value in (("K", k), ("N", n)):
        assert specialization.get(name) == (128 if value % 128 == 0 else 16 if value % 16 == 0 else 8 if value % 8 == 0 else None)


def test_misaligned_tensors_are_named() -> None:
    s = signature(tensor("A", 4), tensor("B", 4), tensor("C", 4))
    assert Specialization(misaligned=("B", "C")) == Variants(s).of([at(32), at(36), at(40)], [])


def test_addresses_of_misaligned_tensors_are_reported() -> None:
    s = signature(tensor("A", 4), tensor("B", 4))
    assert {"B": "'B' begins at address 0x24, which is no multiple of 16"} == Variants(s).misaligned([at(32), at(36)])


def test_tensors_without_maps_are_misaligned() -> None:
    s = signature(tensor("A", M), tensor("B", M), tensor("C", M), symbols=(M,))
    specialization = Specialization((("M", 8),), ("B",), wide=True)
    assert Specialization((("M", 8),), ("A", "B"), wide=True) == Variants(s).without_maps(specialization, {"A": "why"})


def test_offsets_beyond_32_bits_of_symbolic_shapes_are_wide() -> None:
    s = signature(tensor("A", M, 4), symbols=(M,))
    for rows, wide in ((2**29, False), (2**29 + 1, True)):
        assert wide is Variants(s).of([at(0, (rows, 4), (4, 1))], [rows]).wide
    fixed: Any = Variants(signature(tensor("A", 2**30, 4)))
    assert not fixed.of([at(0, (2**30, 4), (4, 1))], []).wide


def test_general_specializations_are_few() -> None:
    s = signature(tensor("A", M), tensor("B", M), symbols=(M,))
    variants = Variants(s)
    assert Specialization((), ("A", "B"), wide=True) == variants.general(Specialization((("M", 8),), ("B",), wide=True))
    assert Specialization() == variants.general(Specialization((("M", 8),)))
