"""Functions that take tensors: classification of arguments, compilation, calls, outputs of T.empty."""

from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.errors import ArgumentError, DeviceAssertError, StagingError
from tilelang.jit.decorator import jit
from tilelang.jit.eager import EagerFunction
from tilelang.jit.kernel import JITKernel
from tilelang.targets.cpu.runtime.checker_builder import BUILDER


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


def test_a_call_runs_and_returns() -> None:
    a = np.random.rand(3, 50).astype(np.float32)
    assert np.array_equal(a * np.float32(2), scaled(a, 2))
    assert np.array_equal(a * np.float32(3), scaled(a, factor=3, block=16))


def test_shapes_are_compiled_once() -> None:
    scaled(ones(3, 50), 2.0)
    kernel = scaled.compile(M=3, N=50)
    count = len(scaled._kernels)
    scaled(ones(3, 50), 5.0)
    assert count == len(scaled._kernels)
    assert isinstance(kernel, JITKernel)
    scaled(ones(3, 51), 5.0)
    assert count < len(scaled._kernels)


def test_several_results_come_in_the_order_of_return() -> None:
    d, s = both(ones(5) * 3, ones(5))
    assert ([2.0] * 5, [4.0] * 5) == (d.tolist(), s.tolist())


def test_torch_in_and_torch_out() -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(3, 50)
    assert torch.equal(a * 2, scaled(a, 2))


def test_building_without_running() -> None:
    kernel = scaled.compile(M=4, N=40, block=8)
    assert [2.0] * 40 == kernel(ones(4, 40), 2.0)[0].tolist()
    assert 'extern "C"' in scaled.get_kernel_source(M=4, N=40)
    assert "scaled" == scaled.get_tir(M=4, N=40).name


def test_many_sizes_are_built_at_once() -> None:
    kernels = scaled.par_compile([{"M": 2, "N": n} for n in (8, 9)])
    assert [(2, 8), (2, 9)] == [tuple(k.params[0].shape) for k in kernels if k]


def test_contradictory_shapes_are_one_error() -> None:
    with pytest.raises(ArgumentError, match="'N' is 5 elsewhere in this call"):
        both(ones(5), ones(6))


def test_wrong_arguments_are_one_error() -> None:
    with pytest.raises(ArgumentError, match="scaled: missing a required argument: 'factor'"):
        scaled(ones(3, 50))


def test_invalid_arguments_of_compile_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'blok' is neither a parameter nor a size") as caught:
        scaled.compile(M=4, N=40, blok=8)
    assert "did you mean 'block'?" == caught.value.hint
    with pytest.raises(ArgumentError, match="scaled: too many positional arguments"):
        scaled.compile(ones(3, 50), 1.0, 8, 9, 10)
    with pytest.raises(ArgumentError, match="scaled: multiple values for argument"):
        scaled.compile(ones(3, 50), A=ones(3, 50))


@jit
def rows(A, scale: float = 2.0):
    """Rows of a matrix of any stride between them, scaled; a stride is a size as well."""
    M, N, ld = T.const("M N ld")
    A: T.StridedTensor((M, N), (ld, 1), "float32")
    B = T.empty(M, N)
    gap = ld - N
    with T.Kernel(1):
        assert gap == ld - N
        for i, j in T.Parallel(M, N):
            B[i, j] = A[i, j] * scale + gap
    return B


def test_a_stride_may_be_a_size() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    for columns in (6, 4, 5):  # the same key, but for the stride
        part = np.ascontiguousarray(whole)[:, :columns]
        assert np.array_equal(part * 2 + 6 - columns, rows(part))
    for stride in (4, 6):
        part = np.zeros((4, stride), np.float32)[:, :4]
        assert (rows(part) == stride - 4).all()


@jit
def blocks(Q, W, block=None):
    heads, D = T.const("heads, D")
    if block is None:
        block = 128 // heads
    S = T.dynamic("S")
    Q: T.Tensor([S * heads, D], "float16")
    C = T.empty([S, block], "float32")
    W: T.Tensor([S, heads], "float32")
    with T.Kernel(S, threads=128) as s:
        for i in T.Parallel(block):
            C[s, i] = W[s, i % heads]
    return C


def test_sizes_may_be_used_before_the_tensor_that_has_them_is_declared() -> None:
    for rows_of_w in (3, 5):
        q, w = np.zeros((rows_of_w * 4, 8), np.float16), np.random.rand(rows_of_w, 4).astype(np.float32)
        assert np.array_equal(np.tile(w, 8), blocks(q, w))
    assert 1 == len(blocks._programs)  # S is no size that a kernel is made for
    assert (2, 16) == blocks(np.zeros((8, 8), np.float16), np.zeros((2, 4), np.float32), 16).shape


def test_stand_ins_for_tensors() -> None:
    source = both.get_kernel_source(T.Tensor((8,), "float32"), T.Tensor((8,), "float32"))
    assert source == both.get_kernel_source(N=8)
    assert (8,) == both.get_tir(T.Tensor(8), B=T.Tensor((8,))).params[1].buffer.static_shape
    with pytest.raises(ArgumentError, match="both: 'A' is T.Tensor.* whose sizes are not known"):
        both.compile(T.Tensor((T.dynamic("n"),)), T.Tensor((8,)))


def test_sizes_of_a_call_by_keyword() -> None:
    assert [2.0] * 5 == both(ones(5), ones(5), N=5)[1].tolist()
    with pytest.raises(ArgumentError, match="both: 'K' is neither a parameter nor a size of T.const"):
        both(ones(5), ones(5), K=5)


def test_return_kernel_does_not_run_the_kernel() -> None:
    kernel = both(ones(5), ones(5), __return_kernel=True)
    assert isinstance(kernel, JITKernel)
    assert [2.0] * 5 == kernel(ones(5), ones(5))[1].tolist()


def test_parse_args_for_programs_with_their_own_kernel_cache() -> None:
    a = ones(3, 50)
    assert (((32,), (3, 50)), {"A": a, "factor": 2.0}) == scaled.func.parse_args(a, 2.0)
    (key, sizes), tensors = scaled.func.parse_args(block=8, M=4, N=40)
    assert (8, (("M", 4), ("N", 40))) == key
    assert (4, 40) == sizes and {} == tensors


def test_out_idx_has_no_meaning() -> None:
    @jit(out_idx=[-1])
    def copied(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            A[0] = 1.0

    with pytest.raises(ValueError, match="copied: out_idx=\\[-1\\] has no meaning in eager style"):
        copied(ones(3))


def test_none_stands_for_a_tensor_that_is_not_touched() -> None:
    @jit
    def biased(A, bias, use: bool):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        bias: T.Tensor((N,), "float32")
        C = T.empty((N,))
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = A[i] + (bias[i] if use else 0)
        return C

    assert [2.0] * 3 == biased(ones(3), ones(3), True).tolist()
    assert [1.0] * 3 == biased(ones(3), None, False).tolist()
    with pytest.raises(RuntimeError, match="'bias'"):
        biased(ones(3), None, True)


def test_a_parameter_that_is_stated_on_one_path_only() -> None:
    @jit
    def maybe(A, bias=None, use: bool = False):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        if use:
            bias: T.Tensor((N,), "float32")
        C = T.empty((N,))
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = A[i] + 1
                if use:
                    C[i] += bias[i]
        return C

    assert [2.0] * 3 == maybe(ones(3)).tolist()
    assert [3.0] * 3 == maybe(ones(3), ones(3), True).tolist()


def test_a_tensor_without_a_type_is_one_error() -> None:
    @jit
    def untyped(A, B):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            A[0] = 1.0

    with pytest.raises(StagingError, match="'B' is given a tensor, but its type is not stated"):
        untyped(ones(3), ones(3))


def test_further_keywords_are_compile_time_values() -> None:
    @jit
    def filled(A, **options):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            T.fill(A, options["value"])

    a = ones(3)
    filled(a, value=7)
    assert [7.0] * 3 == a.tolist()
    assert ((3, 4), 5) == (filled.func.parse_args(a, x=(3, 4))[0][0][0][0][1], 5)


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls whose kernels are not found at once."""
    calls: list[Any] = []
    original = EagerFunction._call_anew

    def counted(self: EagerFunction, args: Any, keywords: Any) -> Any:
        calls.append(args)
        return original(self, args, keywords)

    monkeypatch.setattr(EagerFunction, "_call_anew", counted)
    monkeypatch.setattr(BUILDER, "start", lambda: None)  # machine code learns calls anew
    return calls


def test_calls_find_their_kernel_whether_their_arguments_have_names_or_not(anew: list[Any]) -> None:
    a, b = ones(3, 50), ones(4, 50)
    forms = (((2.0,), {}), ((), {"factor": 2.0}), ((2.0,), {"block": 16}), ((2.0, 16), {}), ((2.0,), {"block": 32}))
    calls = [(array, *form) for array in (a, b) for form in forms]
    for array, args, keywords in calls:
        scaled(array, *args, **keywords)
        scaled(A=array, **dict(zip(("factor", "block"), args), **keywords))
    programs = len(scaled._programs)
    anew.clear()
    for array, args, keywords in calls:
        assert (scaled(array, *args, **keywords) == 2).all()
        assert (scaled(A=array, **dict(zip(("factor", "block"), args), **keywords)) == 2).all()
        assert (scaled(array * 3, *args, **keywords) == 6).all()
    assert ([], programs) == (anew, len(scaled._programs))


def test_calls_by_name_find_their_kernel_in_any_order_and_with_defaults(anew: list[Any]) -> None:
    @jit
    def shifted(A, B=None, shift: T.float32 = 1.0, use: bool = False):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        if use:
            B: T.Tensor((N,), "float32")
        with T.Kernel(1):
            for i in T.Parallel(N):
                A[i] = B[i] if use else shift

    b = np.full(20, 3.0, np.float32)
    calls: list[tuple[dict[str, Any], float]] = [
        ({}, 1), ({"B": b, "use": True}, 3), ({"B": None}, 1), ({"shift": 2.0}, 2), ({"use": True, "B": b}, 3),
        ({"shift": 2.0, "use": False}, 2), ({"use": False, "shift": 4.0}, 4), ({"shift": 2.0, "B": None}, 2),
    ]  # fmt: skip
    for known in (False, True):
        for keywords, want in calls:
            for named in (False, True):
                a = ones(20)
                shifted(**{"A": a}, **keywords) if named else shifted(a, **keywords)
                assert (a == want).all(), (keywords, named)
        if known:
            assert [] == anew
        anew.clear()


def test_unaccepted_arguments_take_the_slow_path(anew: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    a = ones(3, 50)
    scaled(a, 2.0)
    with pytest.raises(ArgumentError, match="must be float32|expected float32|float64"):
        scaled(a.astype(np.float64), 2.0)
    with pytest.raises(ArgumentError):
        scaled(np.ones((50, 3), np.float32).T, 2.0)
    with pytest.raises(ArgumentError, match="missing a required argument: 'factor'"):
        scaled(a)
    with pytest.raises(ArgumentError, match="'blok' is neither a parameter nor a size of T.const"):
        scaled(a, 2.0, blok=16)
    anew.clear()
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
    for _ in range(2):
        assert (scaled(a, 2.0) == 2).all()
    monkeypatch.delenv("TILELANG_EXECUTION_BACKEND")
    assert 2 == len(anew)  # the reference has no fast path
    assert (scaled(a, 2.0) == 2).all()
    assert 2 == len(anew)


@jit
def chosen(A, mode=0):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    with T.Kernel(1):
        T.fill(A, {"bool": 1, "int": 2, "float": 3, "NoneType": 4, "str": 5, "tuple": 6}[type(mode).__name__])


def test_values_of_other_types_are_other_values() -> None:
    a = ones(4)
    for _ in range(2):
        for expected, mode in enumerate((True, 1, 1.0, None, "1", (1,)), 1):
            chosen(a, mode)
            assert [expected] * 4 == a.tolist()
            chosen(A=a, mode=mode)
            assert [expected] * 4 == a.tolist()


@jit
def biased(A, bias=None, use: bool = False):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    if use:
        bias: T.Tensor((N,), "float32")
    with T.Kernel(1):
        for i in T.Parallel(N):
            if use:
                A[i] = A[i] + bias[i]
            else:
                A[i] = A[i] + 1


def test_optional_tensors_may_be_none_in_some_calls(anew: list[Any]) -> None:
    for _ in range(2):
        a = ones(4)
        biased(a)
        biased(a, None)
        biased(a, bias=None)
        biased(a, ones(4) * 10, True)
        biased(a, use=True, bias=ones(4) * 100)
        assert [114.0] * 4 == a.tolist()
        count, _ = len(anew), anew.clear()
    assert (0, 2) == (count, len(biased._programs))


def test_errors_on_the_fast_path_have_no_frames_of_the_package() -> None:
    @jit
    def positive(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        with T.Kernel(1):
            T.device_assert(A[0] > 0, "not positive")

    positive(ones(4))
    refusal(lambda: positive(-ones(4)), (DeviceAssertError,), "not positive")


def test_quick_keys_contain_compile_time_keywords_only() -> None:
    a = ones(3, 50)
    assert scaled._quick_key((a,), {"factor": 2.0}) == scaled._quick_key((a,), {"factor": 3.0})
    assert scaled._quick_key((a, 2.0), {"block": 16}) != scaled._quick_key((a, 2.0), {"block": 32})
    assert scaled._quick_key((a,), {"x": object()}) is None
