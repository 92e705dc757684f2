from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, StagingError
from tilelang.jit.decorator import jit
from tilelang.jit.kernel import JITKernel


@jit
def add(n: int, block: int = 64, dtype: Any = "float32"):
    """Adds."""

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return main


@jit(out_idx=[-1])
def add_out(n: int, block: int = 64):
    return add.get_tir(n, block)


@jit
def scaled(A, factor: T.float32, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    B = T.empty((M, N), "float32")
    with T.Kernel(M, T.ceildiv(N, block)) as (bx, by):
        for j in T.Parallel(block):
            B[bx, by * block + j] = A[bx, by * block + j] * factor
    return B


@jit
def both(A, B):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B: T.Tensor((N,), "float32")
    S = T.empty((N,), "float32")
    D = T.empty((N,), "float32")
    with T.Kernel(1):
        for i in T.Parallel(N):
            S[i] = A[i] + B[i]
            D[i] = A[i] - B[i]
    return D, S


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_a_call_gives_a_kernel() -> None:
    c = np.zeros(100, np.float32)
    add(100)(ones(100), ones(100), c)
    assert (c == 2).all()
    assert (add_out(100)(ones(100), ones(100)) == 2).all()


def test_the_function_keeps_its_name_and_documentation() -> None:
    assert ("add", "Adds.") == (add.__name__, add.__doc__)


def test_equal_arguments_give_one_kernel() -> None:
    kernel = add(100)
    assert kernel is add(n=100, block=64)
    assert kernel is add(100, dtype=T.float32)
    assert kernel is add(100, dtype=np.float32)
    assert kernel is not add(100, dtype="float64")
    assert kernel is not add(101)


def test_dtypes_of_torch_are_dtypes() -> None:
    torch = pytest.importorskip("torch")
    assert add(64, dtype=torch.float16) is add(64, dtype="float16")


def test_arguments_that_cannot_be_hashed_are_compared_by_content() -> None:
    calls = []

    @jit
    def made(sizes: list[int], table: dict[str, int]):
        calls.append(1)
        return add.get_tir(sizes[0], table["block"])

    assert made([100], {"block": 64}) is made([100], {"block": 64})
    assert made([100], {"block": 32}) is not made([100], {"block": 64})
    assert 2 == len(calls)


def test_the_environment_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = add(100)
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
    assert "reference" == add(100).execution_backend
    monkeypatch.delenv("TILELANG_EXECUTION_BACKEND")
    assert compiled is add(100)


def test_a_call_that_does_not_fit_the_function_is_one_error() -> None:
    with pytest.raises(ArgumentError) as caught:
        add(100, blok=3)
    assert "add: got an unexpected keyword argument 'blok'" == caught.value.message
    assert "the signature is add(n: int, block: int = 64, dtype: Any = 'float32')" == caught.value.hint


def test_a_function_that_returns_no_kernel_is_told_so() -> None:
    @jit
    def nothing(n: int):
        return n

    with pytest.raises(StagingError, match="nothing: a function marked @tilelang.jit returns a kernel, got int"):
        nothing(3)


def test_only_functions_are_decorated() -> None:
    with pytest.raises(StagingError, match="@tilelang.jit needs a function, got int"):
        jit(3)  # type: ignore[call-overload]


def test_a_kernel_itself_can_be_decorated() -> None:
    @jit(out_idx=-1)
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.copy(A, C)

    assert isinstance(main, JITKernel)
    assert [1.0] * 4 == main(ones(4)).tolist()


def test_many_configurations_are_compiled_at_once() -> None:
    kernels = add.par_compile([{"n": 70, "block": b} for b in (8, 16)] + [(70, 64)], num_workers=2)
    assert [add(70, 8), add(70, 16), add(70)] == kernels
    failed = add.par_compile([{"n": 70, "wrong": 1}], ignore_error=True)
    assert [None] == failed


def test_the_source_of_a_configuration() -> None:
    assert 'extern "C"' in add.get_kernel_source(70)


class TestEager:
    def test_a_call_runs_and_returns(self) -> None:
        a = np.random.rand(3, 50).astype(np.float32)
        assert np.array_equal(a * np.float32(2), scaled(a, 2))
        assert np.array_equal(a * np.float32(3), scaled(a, factor=3, block=16))

    def test_shapes_are_compiled_once(self) -> None:
        scaled(ones(3, 50), 2.0)
        kernel = scaled.compile(M=3, N=50)
        count = len(scaled._kernels)
        scaled(ones(3, 50), 5.0)
        assert count == len(scaled._kernels)
        assert isinstance(kernel, JITKernel)
        scaled(ones(3, 51), 5.0)
        assert count < len(scaled._kernels)

    def test_several_results_come_in_the_order_of_return(self) -> None:
        d, s = both(ones(5) * 3, ones(5))
        assert ([2.0] * 5, [4.0] * 5) == (d.tolist(), s.tolist())

    def test_torch_in_and_torch_out(self) -> None:
        torch = pytest.importorskip("torch")
        a = torch.randn(3, 50)
        assert torch.equal(a * 2, scaled(a, 2))

    def test_building_without_running(self) -> None:
        kernel = scaled.compile(M=4, N=40, block=8)
        assert [2.0] * 40 == kernel(ones(4, 40), 2.0)[0].tolist()
        assert 'extern "C"' in scaled.get_kernel_source(M=4, N=40)
        assert "scaled" == scaled.get_tir(M=4, N=40).name

    def test_many_sizes_are_built_at_once(self) -> None:
        kernels = scaled.par_compile([{"M": 2, "N": n} for n in (8, 9)])
        assert [(2, 8), (2, 9)] == [tuple(k.params[0].shape) for k in kernels if k]

    def test_contradictory_shapes_are_one_error(self) -> None:
        with pytest.raises(ArgumentError, match="'N' is 5 elsewhere in this call"):
            both(ones(5), ones(6))

    def test_wrong_arguments_are_one_error(self) -> None:
        with pytest.raises(ArgumentError, match="scaled: missing a required argument: 'factor'"):
            scaled(ones(3, 50))


    def test_what_is_given_to_build_has_a_meaning(self) -> None:
        with pytest.raises(ArgumentError, match="'blok' is neither a parameter nor a size") as caught:
            scaled.compile(M=4, N=40, blok=8)
        assert "did you mean 'block'?" == caught.value.hint
        with pytest.raises(ArgumentError, match="scaled: too many positional arguments"):
            scaled.compile(ones(3, 50), 1.0, 8, 9, 10)
        with pytest.raises(ArgumentError, match="scaled: multiple values for argument"):
            scaled.compile(ones(3, 50), A=ones(3, 50))


def test_the_package_s_name_is_the_decorator() -> None:
    @tilelang.jit(out_idx=[-1])
    def copy(n: int):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
            with T.Kernel(1):
                T.copy(A, C)

        return main

    assert [1.0] * 4 == copy(4)(ones(4)).tolist()


def test_programs_and_sources_are_written_into_a_folder(tmp_path: Path) -> None:
    @tilelang.jit(out_idx=-1, target="c", target_host="c", debug_root_path=tmp_path / "debug")
    def make(n):
        @T.prim_func
        def add(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    C[i] = A[i] + 1

        return add

    kernel = make(8)
    assert kernel.kernel_source == (tmp_path / "debug" / "add.cpp").read_text()
    assert kernel.host_source == (tmp_path / "debug" / "add.py").read_text()
    assert "@T.prim_func" in (tmp_path / "debug" / "add.ir").read_text()
