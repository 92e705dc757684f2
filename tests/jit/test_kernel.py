import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import needs_nvrtc

import tilelang.language as T
from tilelang.errors import ArgumentError, DeviceAssertError, OptionError
from tilelang.ir.func import PrimFunc
from tilelang.jit.kernel import JITKernel
from tilelang.profile.inputs import TensorSupplyType

Make = Callable[..., PrimFunc]
BOTH = pytest.mark.parametrize("backend", ["cc", "reference"])


def numbers(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float32)


@BOTH
def test_a_kernel_writes_its_output(vector_add: Make, backend: str) -> None:
    a, b, c = numbers(100), numbers(100), np.zeros(100, np.float32)
    assert None is JITKernel(vector_add(100), execution_backend=backend)(a, b, c)
    assert np.array_equal(a + b, c)


@BOTH
@pytest.mark.parametrize("out_idx", [2, -1, [2], (-1,)])
def test_a_kernel_returns_its_output(vector_add: Make, backend: str, out_idx: Any) -> None:
    a, b = numbers(100), numbers(100)
    kernel = JITKernel(vector_add(100), out_idx=out_idx, execution_backend=backend)
    assert np.array_equal(a + b, kernel(a, b))
    assert [2] == kernel.out_idx


@BOTH
def test_outputs_may_be_passed_all_the_same(vector_add: Make, backend: str) -> None:
    a, b, c = numbers(100), numbers(100), np.zeros(100, np.float32)
    assert c is JITKernel(vector_add(100), out_idx=-1, execution_backend=backend)(a, b, c)
    assert np.array_equal(a + b, c)


@BOTH
def test_arguments_may_be_named(vector_add: Make, backend: str) -> None:
    a, b = numbers(100), numbers(100)
    assert np.array_equal(a + b, JITKernel(vector_add(100), out_idx=-1, execution_backend=backend)(a, B=b))


@BOTH
@pytest.mark.parametrize("m", [1, 7])
def test_dynamic_shapes_and_scalars(scale: PrimFunc, backend: str, m: int) -> None:
    a = numbers(m, 8)
    assert np.array_equal(a * np.float32(2.5), JITKernel(scale, out_idx=-1, execution_backend=backend)(a, 2.5))


@pytest.mark.parametrize("backend", ["reference", "cc", "simulator"])
def test_none_is_taken_for_a_tensor_that_is_not_touched(backend: str) -> None:
    use_bias, n = False, T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), bias: T.Tensor((64, n), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = A[i] + (bias[i, 0] if use_bias else 0)

    target = {"kind": "cuda", "arch": "sm_90a"} if backend == "simulator" else "cpu"
    kernel = JITKernel(main, target=target, execution_backend=backend)
    for bias in (None, np.zeros((64, 2), np.float32), None):
        a, c = numbers(64), np.zeros(64, np.float32)
        kernel(a, bias, c)
        assert np.array_equal(a, c)
    with pytest.raises(RuntimeError, match="'A' is None"):
        kernel(None, None, np.zeros(64, np.float32))


@BOTH
def test_an_empty_grid_is_refused_on_fast_and_slow_paths(scale: PrimFunc, backend: str) -> None:
    kernel = JITKernel(scale, out_idx=-1, execution_backend=backend)
    for m in (0, 2, 0):  # the second call may take the fast path
        if m:
            kernel(numbers(m, 8), 2.5)
            continue
        with pytest.raises(RuntimeError, match=r"scale: the grid \(M,\), which is \(0,\) here, has no blocks"):
            kernel(numbers(m, 8), 2.5)


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint64", "float64"])
def test_dtypes_of_the_caller(vector_add: Make, backend: str, dtype: str) -> None:
    row = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    a = np.arange(5).astype(row)
    result = JITKernel(vector_add(5, dtype), out_idx=-1, execution_backend=backend)(a, a)
    assert (a.dtype, (a + a).tolist()) == (result.dtype, result.tolist())


@BOTH
def test_torch_in_and_torch_out(vector_add: Make, backend: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = JITKernel(vector_add(50, "bfloat16"), out_idx=-1, execution_backend=backend)
    a, b = torch.randn(50).bfloat16(), torch.randn(50).bfloat16()
    assert torch.equal(a + b, kernel(a, b))


@BOTH
def test_arrays_of_two_frameworks_in_one_call(vector_add: Make, backend: str) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(50), numbers(50)
    result = JITKernel(vector_add(50), out_idx=-1, execution_backend=backend)(a, b)
    assert isinstance(result, torch.Tensor)
    assert np.array_equal(a.numpy() + b, result.numpy())


@BOTH
def test_strided_arguments(backend: str) -> None:
    ld = T.dynamic("ld")

    @T.prim_func
    def double(A: T.StridedTensor((4, 3), (ld, 1), "float32"), C: T.Tensor((4, 3), "float32")):
        with T.Kernel(1):
            for i, j in T.Parallel(4, 3):
                C[i, j] = A[i, j] * 2

    base = numbers(4, 10)
    kernel = JITKernel(double, out_idx=-1, execution_backend=backend)
    assert np.array_equal(base[:, :3] * 2, kernel(base[:, :3]))
    assert np.array_equal(base[::-1, 2:5] * 2, kernel(base[::-1, 2:5]))


@BOTH
def test_a_wrong_call_names_the_parameter_and_touches_nothing(vector_add: Make, backend: str) -> None:
    kernel = JITKernel(vector_add(100), execution_backend=backend)
    c = np.full(100, 7, np.float32)
    with pytest.raises(ArgumentError, match=r"add: 'B' has shape \(99,\), expected \(100,\)") as caught:
        kernel(numbers(100), numbers(99), c)
    assert "def add(A: T.Tensor" in str(caught.value)
    assert (c == 7).all()


@BOTH
def test_a_failed_assertion_has_its_message_and_line(asserting: PrimFunc, backend: str) -> None:
    kernel = JITKernel(asserting, out_idx=-1, execution_backend=backend)
    assert [1, 2, 3, 4] == kernel(np.array([1, 2, 3, 4], np.float32)).tolist()
    with pytest.raises(DeviceAssertError, match="too large") as caught:
        kernel(np.array([1, 2, 30, 4], np.float32))
    assert 'T.device_assert(A[i] < 10, "too large")' in str(caught.value)


def test_threads_may_call_one_kernel_at_once(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(10_000), out_idx=-1)
    wrong = []

    def work() -> None:
        a, b = np.random.default_rng().random((2, 10_000), np.float32)
        wrong.extend(1 for _ in range(50) if not np.array_equal(a + b, kernel(a, b)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong


def test_a_kernel_shows_its_program(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(100), out_idx=-1)
    assert "@T.prim_func" in kernel.show_ir("input")
    assert "# input\n" in kernel.show_ir()
    assert [("A", False), ("B", False), ("C", False)] == [(param.name, param.is_scalar()) for param in kernel.params]
    assert "JITKernel(add, target='cpu')" == repr(kernel)


def test_the_adapter_is_the_kernel_itself(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(3), out_idx=-1)
    one = np.ones(3, np.float32)
    assert kernel is kernel.adapter
    assert [2.0] * 3 == kernel.torch_function(one, one).tolist() == kernel.adapter(one, one).tolist()
    assert (3,) == tuple(kernel.run_once().shape)
    assert 7 == kernel.run_once(lambda a, b: 7)


def test_the_kernel_holds_the_result_of_its_tuning(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(3), out_idx=-1)
    with pytest.raises(ValueError, match="get_tuner_result: kernel 'add' was not tuned"):
        kernel.get_tuner_result()
    assert kernel is kernel.update_tuner_result(latency=0.5, config={"block": 8}, ref_latency=None)
    assert {"latency": 0.5, "config": {"block": 8}, "ref_latency": None} == kernel.get_tuner_result()
    assert (0.5, {"block": 8}, None) == (kernel.latency, kernel.config, kernel.ref_latency)


def test_the_source_can_be_read_without_having_been_compiled(vector_add: Make) -> None:
    assert 'extern "C"' in JITKernel(vector_add(9), execution_backend="reference").get_kernel_source()


def test_an_unknown_pass_names_the_nearest(vector_add: Make) -> None:
    with pytest.raises(OptionError) as caught:
        JITKernel(vector_add(100)).show_ir("inputs")
    assert "show_ir: unknown name 'inputs'\nhint: did you mean 'input'?" == str(caught.value)


def test_only_kernels_are_compiled() -> None:
    with pytest.raises(OptionError) as caught:
        JITKernel(lambda a: a)  # type: ignore[arg-type]
    assert (
        "compile: expected a kernel, got function\n"
        "hint: pass a function marked @T.prim_func; call the function that returns it first"
    ) == str(caught.value)


def test_the_environment_chooses_the_execution_backend(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
    assert "reference" == JITKernel(vector_add(10)).execution_backend


def test_a_kernel_has_a_profiler(vector_add: Make) -> None:
    profiler = JITKernel(vector_add(100), out_idx=-1).get_profiler(TensorSupplyType.Integer)
    profiler.assert_allclose(lambda a, b: a + b, rtol=0, atol=0)
    assert profiler.do_bench(warmup=1, rep=1) > 0


@pytest.mark.parametrize("backend", ["cc", "reference"])
def test_no_wrong_call_touches_an_output(backend: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), s: T.float32):
        with T.Kernel(n) as bx:
            B[bx] = A[bx] * s

    kernel = JITKernel(main, target="cpu", execution_backend=backend)
    a, b = np.ones(4, np.float32), np.full(4, 7, np.float32)
    wrong: list[tuple[object, ...]] = [
        (a, b),
        (a, b, 1.0, 1.0),
        (a, b, "x"),
        (a, b, None),
        (None, b, 1.0),
        (a.tolist(), b, 1.0),
        (a[:3], b, 1.0),
        (a.reshape(2, 2), b, 1.0),
        (a.astype(np.float64), b, 1.0),
        (np.ones(8, np.float32)[::2], b, 1.0),
        (a, b[::-1], 1.0),
        (a, b.view(np.int32), 1.0),
    ]
    for arguments in wrong:
        with pytest.raises(ArgumentError):
            kernel(*arguments)
    assert [7.0] * 4 == b.tolist()


def test_kernels_of_the_same_code_have_the_same_identity(vector_add: Make) -> None:
    def identity(n: int, **options: Any) -> str:
        return JITKernel(vector_add(n), **options).identity

    assert identity(100) == identity(100)
    assert identity(100) != identity(101)
    assert identity(100) != identity(100, out_idx=-1)
    assert identity(100) != identity(100, pass_configs={"tl.enable_fast_math": True})
    interpreted = [JITKernel(vector_add(100), execution_backend="reference") for _ in range(2)]
    assert interpreted[0].identity != interpreted[1].identity


def test_a_kernel_that_was_not_tuned_has_no_tuner_result(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(100), execution_backend="reference")
    assert (None, None, None) == (kernel.config, kernel.latency, kernel.ref_latency)


@needs_nvrtc
def test_options_without_effect_do_not_change_the_identity(vector_add: Make) -> None:
    kernels = [JITKernel(vector_add(100), target="sm_80", pass_configs=c) for c in (None, {"tl.stages": 3})]
    assert kernels[0].identity == kernels[1].identity


@T.prim_func
def tiled(A: T.Tensor((512, 256), "float16"), B: T.Tensor((256, 512), "float16"), C: T.Tensor((512, 512), "float16")):
    with T.Kernel(4, 4, threads=128) as (bx, by):
        A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
        C_f = T.alloc_fragment((128, 128), "float32")
        T.clear(C_f)
        for k in T.Pipelined(4, num_stages=3):
            T.copy(A[by * 128, k * 64], A_s)
            T.copy(B[k * 64, bx * 128], B_s)
            T.gemm(A_s, B_s, C_f)
        T.copy(C_f, C[by * 128, bx * 128])


@pytest.mark.parametrize(
    ("arch", "pass_name", "shown"),
    [
        ("sm_90a", "choose_schedule", ["# schedule: 2 consumer warpgroups, a producer of 32 threads, 4 stages"]),
        ("sm_90a", "specialize_warps", ["# 32 threads together", "# 256 threads together", "alloc_shared((4, 128, 64)"]),
        ("sm_90a", "choose_lowerings", ["# copy.tma\n", "# gemm.wgmma: m64n128k16_f32_f16_f16 of 2 x 1 warpgroups\n", "# copy.tma_store\n"]),
        ("sm_80", "choose_lowerings", ["# copy.cp_async: 8 elements at a time\n", "# gemm.mma: m16n8k16_f32_f16_f16 of 2 x 2 warps\n"]),
        ("sm_80", "plan_pipeline", ["T.Pipelined(4, num_stages=3, order=[3, 4, 1, 2, 0, 5], stage=[0, 0, 2, 2, 3, 3])"]),
        ("sm_80", "expand_pipeline", ['A_s = T.alloc_shared((3, 128, 64), "float16")  # 3 versions']),
        (
            "sm_90a",
            "infer_layouts",
            [
                '"float32")  # 256 threads hold 64 values each: thread 4:(0,2) 8:(1,0) 4:(16,0) 2:(64,0), value 2:(0,1) ',
                "layout [_i, _j] -> [_i, (_j // 8 ^ _i % 8) * 8 + _j % 8]",
                "# 256 threads run 64 iterations each: thread ",
            ],
        ),
        ("sm_90a", "lower_to_threads", ["# A_map: boxes of 64 x 128 elements of 256 x 512 of 'A', swizzled within 128 bytes"]),
        ("sm_80", "allocate_shared_memory", ["# 131072 bytes of shared memory", "; at byte 0\n", "; at byte 49152\n"]),
    ],
)
def test_show_ir_shows_the_decisions_of_a_pass(arch: str, pass_name: str, shown: list[str]) -> None:
    kernel = JITKernel(tiled, target={"kind": "cuda", "arch": arch}, execution_backend="simulator")
    text = kernel.show_ir(pass_name)
    assert [] == [each for each in shown if each not in text], text
