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


def test_values_of_other_types_are_other_arguments() -> None:
    made = []

    @jit
    def of(value: Any, *, n: int = 64):
        made.append(value)
        return add.get_tir(n)

    values = (1, 1.0, True, "1", None, (1,), (True,), 0.0, -0.0, np.float32(1))
    first = [of(value) for value in values]
    assert len(values) == len(made) == len({id(kernel) for kernel in first})
    for value, kernel in zip(values, first):
        assert kernel is of(value) is of(value=value) is of(n=64, value=value) is of(value, __return_kernel=True)
        assert kernel is of.compile(value)
    nan = of(float("nan"))
    assert nan is of(-float("nan") * -1)
    assert len(values) + 1 == len(made)


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
    for _ in range(2):
        monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
        assert "reference" == add(100).execution_backend
        monkeypatch.delenv("TILELANG_EXECUTION_BACKEND")
        assert compiled is add(100)
    with monkeypatch.context() as patch:
        patch.setattr("os.environ", {"TILELANG_EXECUTION_BACKEND": "reference"})
        assert "reference" == add(100).execution_backend
    assert compiled is add(100)


@pytest.mark.parametrize("method", ["__call__", "compile", "get_tir"])
def test_a_call_that_does_not_fit_the_function_is_one_error(method: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        getattr(add, method)(100, blok=3)
    assert "add: got an unexpected keyword argument 'blok'" == caught.value.message
    assert "the signature is add(n: int, block: int = 64, dtype: Any = 'float32')" == caught.value.hint


def test_a_function_that_returns_no_kernel_is_an_error() -> None:
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


def test_parse_args_for_programs_with_their_own_kernel_cache() -> None:
    expected = ((100, 64, "float32"), None), {}
    assert expected == add.func.parse_args(100)
    assert expected == add.func.parse_args(dtype="float32", n=100)
    assert (((100, 64, "float32", (("M", 7),)), None), {}) == add.func.parse_args(100, M=7)
    with pytest.raises(TypeError, match="multiple values for argument 'n'"):
        add.func.parse_args(100, n=100)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        add.func.parse_args(block=3)


def test_return_kernel_returns_the_kernel() -> None:
    assert add(100) is add(100, __return_kernel=True)


def test_configurations_are_mappings_or_tuples() -> None:
    for wrong in ([3], {"n": 70}, "ab", 3):
        with pytest.raises(ValueError, match="par_compile: expected a list of configurations"):
            add.par_compile(wrong)


def test_tensors_made_by_a_prim_func_are_returned() -> None:
    @jit
    def shifted(n: int):
        @T.prim_func
        def main(A):
            A: T.Tensor[[n], T.float32]
            B = T.empty((n,), "float32")
            C = T.empty(n)
            with T.Kernel(1):
                for i in T.Parallel(n):
                    B[i] = A[i] + 1
                    C[i] = A[i] + 2
            return C, B

        return main

    c, b = shifted(5)(ones(5))
    assert ([3.0] * 5, [2.0] * 5) == (c.tolist(), b.tolist())
    with pytest.raises(ValueError, match="Out index conflict: out_idx=-1, but the function returns 'C', 'B' of T.empty"):
        tilelang.compile(shifted.get_tir(5), out_idx=-1)


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
