"""Fragments that parallel loops index beyond their extents: every iteration has an element of its own."""

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, ProgramWarning
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.passes.tile.grow_fragments import grow_fragments

WAYS = (
    {"execution_backend": "reference"},
    {"target": "cpu"},
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}},
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_80"}},
)


def short() -> PrimFunc:
    @T.prim_func
    def main(S: T.Tensor((8,), "float32"), O: T.Tensor((64,), "float32"), P: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(1, threads=64):
            s, o = T.alloc_fragment((8,), "float32"), T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64):
                s[i] = S[0] + i
            for i in T.Parallel(64):
                o[i] = s[i] * 2
            T.copy(o, O)
            T.copy(s, P)

    return main


def extents(func: PrimFunc) -> list[tuple[int, ...] | None]:
    allocated = [stmt.buffer for stmt in walk(func.body) if isinstance(stmt, Alloc)]
    return [buffer.static_shape for buffer in allocated if buffer.scope is Scope.FRAGMENT]


@pytest.mark.parametrize("way", WAYS, ids=["reference", "cpu", "hopper", "ampere"])
@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
def test_every_iteration_has_its_own_element(way: dict[str, Any]) -> None:
    start, out, front = np.ones(8, np.float32), np.zeros(64, np.float32), np.zeros(8, np.float32)
    tilelang.compile(short(), **way)(start, out, front)
    assert np.array_equal(2 + 2 * np.arange(64, dtype=np.float32), out)
    assert np.array_equal(1 + np.arange(8, dtype=np.float32), front)


def test_a_warning_says_so() -> None:
    with pytest.warns(ProgramWarning) as seen:
        grown = grow_fragments(short())
    assert [(64,), (64,)] == extents(grown)
    first = str(seen[0].message).split("\n")
    assert "'s': index 63 is beyond dimension 0, whose extent is 8: the fragment grows" == first[0]
    assert "hint: allocate it with 64 elements along dimension 0, if that is meant" == first[-1]


@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
def test_only_what_a_parallel_variable_names_grows() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 16), "float32")) -> None:
        with T.Kernel(1, threads=32):
            s = T.alloc_fragment((4, 8), "float32")
            kept = T.alloc_fragment((16,), "float32")
            for i, j in T.Parallel(4, 16):
                s[i, j // 2 + 4] = A[i, j]
            for j in T.Parallel(32):
                if j < 16:
                    kept[j] = A[0, j]

    assert [(4, 12), (16,)] == extents(grow_fragments(main))

    @T.prim_func
    def serial(A: T.Tensor((16,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            s = T.alloc_fragment((8,), "float32")
            for i in T.serial(16):
                s[i] = A[i]

    assert serial is grow_fragments(serial)
    with pytest.raises(ProgramError, match="index 15 is out of range for dimension 0, whose extent is 8"):
        tilelang.compile(serial, execution_backend="reference")


@pytest.mark.parametrize("what", ["data", "named data", "a scalar"])
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_an_index_whose_range_is_that_of_its_dtype_grows_nothing(what: str, dtype: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), I: T.Tensor((64,), dtype), n: T.dtype(dtype)) -> None:
        with T.Kernel(1, threads=64):
            s = T.alloc_fragment((64,), "float32")
            T.copy(A, s)
            for i in T.Parallel(64):
                j = I[i] + 0
                A[i] = s[{"data": I[i], "named data": i + j, "a scalar": i + n}[what]]

    assert main is grow_fragments(main)
