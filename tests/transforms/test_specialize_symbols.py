import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.arith.prove import proves
from tilelang.errors import ProgramError
from tilelang.ir.compare import digest
from tilelang.ir.expr import Var
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.printer import to_text
from tilelang.ir.specialization import INDEX_BITS, Specialization
from tilelang.ir.verify import verify
from tilelang.ir.visit import any_expr
from tilelang.passes.tile.check_program import check_program
from tilelang.sim.tile_interp import run_reference
from tilelang.transforms.specialize_symbols import generalize, specialize


@pytest.fixture(scope="module")
def scaled() -> PrimFunc:
    M, N = T.dynamic("M"), T.dynamic("N")

    @T.prim_func
    def scaled(A: T.Tensor((M, N), "float32"), C: T.Tensor((N, M), "float32")):
        workspace = T.alloc_global((M, N), "float32")
        with T.Kernel(M) as bx:
            T.annotate_safe_value({A: 3.0})
            for j in T.Parallel(N):
                workspace[bx, j] = A[bx, j] * 2 + M
        with T.Kernel(M) as bx:
            flat = T.reshape(C, (M * N,))
            for j in T.serial(N):
                flat[j * M + bx] = workspace[bx, j] + N

    return scaled


def tensor_of(func: PrimFunc, index: int) -> TensorParam:
    param = func.params[index]
    assert isinstance(param, TensorParam)
    return param


def test_without_facts_nothing_changes(scaled: PrimFunc) -> None:
    assert digest(scaled) == digest(specialize(scaled, Specialization()))


@pytest.mark.parametrize("names", [(), ("M",), ("N",), ("M", "N")])
def test_the_meaning_stays(scaled: PrimFunc, names: tuple[str, ...]) -> None:
    special = specialize(scaled, Specialization(tuple((name, 4) for name in names), misaligned=("A",), wide=True))
    verify(special)
    kernel = tilelang.compile(special, target="cpu")  # whose calls solve 4 * M_div4 for M_div4
    for m, n in ((1, 1), (2, 3), (5, 1)):
        a = np.arange(16 * m * n, dtype=np.float32).reshape(4 * m, 4 * n)
        expected, actual = (np.zeros((4 * n, 4 * m), np.float32) for _ in range(2))
        run_reference(scaled, [a, expected])
        kernel(a, actual)
        np.testing.assert_array_equal(expected, actual)


def test_a_symbol_that_divides_is_gone_and_its_multiple_can_be_proven(scaled: PrimFunc) -> None:
    special = specialize(scaled, Specialization((("N", 16),)))
    assert ["M", "N_div16"] == [symbol.name for symbol in special.symbols]
    old = scaled.symbols[1]
    assert not any_expr(special.body, lambda e: isinstance(e, Var) and e is old)
    assert "N_div16 * 16" in to_text(special)
    extent = tensor_of(special, 0).shape[1]
    assert proves(extent % 16 == 0, of_function(special))
    assert not proves(tensor_of(special, 0).shape[0] % 16 == 0, of_function(special))


def test_a_multiple_is_never_zero(scaled: PrimFunc) -> None:
    special = specialize(scaled, Specialization((("N", 4),)))
    (part,) = [symbol for symbol in special.symbols if symbol.name == "N_div4"]
    assert proves(part >= 1, of_function(special))
    (whole,) = [symbol for symbol in special.symbols if symbol.name == "M"]
    assert not proves(whole >= 1, of_function(special))


def test_a_misaligned_tensor_says_so(scaled: PrimFunc) -> None:
    special = specialize(scaled, Specialization(misaligned=("A",)))
    assert [4, 16] == [tensor_of(special, n).buffer.alignment_bytes for n in (0, 1)]
    assert digest(scaled) != digest(special)


def test_a_wide_program_says_so(scaled: PrimFunc) -> None:
    assert ((INDEX_BITS, 64),) == specialize(scaled, Specialization(wide=True)).attributes
    assert digest(scaled) != digest(specialize(scaled, Specialization(wide=True)))


def test_buffers_are_replaced_everywhere(scaled: PrimFunc) -> None:
    special = specialize(scaled, Specialization((("M", 8), ("N", 8))))
    text = to_text(special)
    for name in ("(M,", " M)", "M *", "N)"):
        assert name not in text.replace("M_div8", "").replace("N_div8", "")


def test_what_only_some_calls_bring_makes_no_program_wrong() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((64, n), "int32")):
        with T.Kernel(1):
            few = T.alloc_local((100,), "int32")
            few[n - 1] = A[0, n - 1]  # right where n is small
            A[0, 0] = few[n - 1]

    special = specialize(main, Specialization((("n", 128),)))
    assert check_program(special) is special


def test_what_was_specialized_is_general_again(scaled: PrimFunc) -> None:
    special = specialize(scaled, Specialization((("M", 4), ("N", 128))))
    again = generalize(special)
    assert to_text(scaled) == to_text(again)
    assert ["M", "N"] == [symbol.name for symbol in again.symbols]
    assert scaled is generalize(scaled)


def test_a_size_that_no_multiple_of_the_usual_one_fits_may_index_a_tile() -> None:
    N = T.dynamic("N")

    @T.prim_func
    def marked(A: T.Tensor((4, N), "int32"), C: T.Tensor((100,), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((100,), "int32")
            T.clear(tile)
            tile[N] = A[1, N - 1]
            T.copy(tile, C)

    kernel = tilelang.compile(marked, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    a, c = np.arange(28, dtype=np.int32).reshape(4, 7), np.zeros(100, np.int32)
    kernel(a, c)
    expected = np.zeros(100, np.int32)
    expected[7] = 13
    np.testing.assert_array_equal(expected, c)


def test_an_access_that_no_size_allows_is_named_as_it_was_written() -> None:
    N = T.dynamic("N")

    @T.prim_func
    def outside(A: T.Tensor((4, N), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((100,), "int32")
            tile[N + 100] = A[1, 0]

    with pytest.raises(ProgramError, match=r"'tile\[N \+ 100\]': index 100 is out of range for dimension 0"):
        tilelang.lower(outside, target={"kind": "cuda", "arch": "sm_90a"})
