import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import DataRace, OptionError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.launch import LaunchPlan, TensorMap
from tilelang.ir.stmt import Launch, Seq
from tilelang.jit import simulator_runner
from tilelang.jit.simulator_runner import SimulatorRunner
from tilelang.options import CompileOptions
from tilelang.runtime.parameters import Signature
from tilelang.sim.counters import Counters
from tilelang.targets.nvidia.isa.tensor_box import map_fault
from tilelang.targets.target import Target


@pytest.fixture
def reverse() -> PrimFunc:
    @T.prim_func
    def reverse(A: T.Tensor((256,), "float32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_shared((128,), "float32")
            T.copy(A[bx * 128], tile)
            for i in T.Parallel(128):
                C[bx * 128 + i] = tile[127 - i]

    return reverse


def test_a_kernel_compiled_for_the_simulator_is_called_as_any(reverse: PrimFunc) -> None:
    kernel = tilelang.compile(reverse, out_idx=-1, target="sm_80", execution_backend="simulator")
    a = np.arange(256, dtype=np.float32)
    np.testing.assert_array_equal(a.reshape(2, 128)[:, ::-1].reshape(-1), kernel(a))
    assert "__global__" in kernel.get_kernel_source()
    assert "" == kernel.get_host_source()


def test_torch_tensors_of_the_host_go_in_and_out(reverse: PrimFunc) -> None:
    torch = pytest.importorskip("torch")
    kernel = tilelang.compile(reverse, out_idx=-1, target="sm_90a", execution_backend="simulator")
    a = torch.arange(256, dtype=torch.float32)
    assert torch.equal(a.view(2, 128).flip(1).view(-1), kernel(a))


@pytest.mark.parametrize("lazy", [True, False])
def test_any_kernel_for_a_gpu_can_be_simulated_and_counted(
    reverse: PrimFunc, lazy: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tilelang.compile(reverse, out_idx=-1, target="sm_80", execution_backend="reference")
    a = np.arange(256, dtype=np.float32)
    counters = Counters()
    c = kernel.simulate(A=a, report=counters, lazy=lazy, seed=3)
    np.testing.assert_array_equal(kernel(a), c)
    assert (1, 2, 4) == (counters.launches, counters.blocks, counters.warps)
    assert "" == capsys.readouterr().out
    kernel.simulate(a, report=True)
    assert counters.table().splitlines()[0] == capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("m", "k", "step", "mapped"), [(3, 64, 1, ["A"]), (0, 64, 1, []), (3, 60, 1, []), (3, 64, -1, [])]
)
def test_tensors_without_a_valid_map_have_none(
    monkeypatch: pytest.MonkeyPatch, m: int, k: int, step: int, mapped: list[str]
) -> None:
    M, K, S = (Var(name, INT32, index=True) for name in "MKS")
    A = Buffer("A", (M, K), as_dtype("float16"), Scope.GLOBAL, (S, const(1, INT32)))
    launches: list[Launch] = []

    def lowered(func: PrimFunc, target: object, options: object) -> PrimFunc:
        """A program that has a map where rows are known to be multiples of 16 bytes."""
        tensor = func.params[0].buffer
        var, dims, strides = Var("map", as_dtype("uint64")), tensor.shape[::-1], (tensor.strides[0] * 2,)
        one = TensorMap(var, tensor, dims, strides, (16, 1), 0, map_fault)
        fits = tensor.alignment_bytes == 16 and any("S_div" in s.name for s in func.symbols)
        launches.append(Launch((), (), (32, 1, 1), Seq(()), plan=LaunchPlan(tensor_maps=(one,) if fits else ())))
        return PrimFunc(func.name, func.params, Seq((launches[-1],)), Level.THREAD, func.symbols)

    monkeypatch.setattr(simulator_runner, "lowered", lowered)
    func = PrimFunc("f", (TensorParam(A),), Seq(()), symbols=(M, K, S))
    runner = SimulatorRunner(func, Signature.of(func, None), Target("cuda", "sm_90a"), CompileOptions())
    chosen: list[PrimFunc] = []
    monkeypatch.setattr(simulator_runner, "simulate", lambda program, *args, **options: chosen.append(program))
    runner.simulate([np.zeros((8, k), np.float16)[:m][::step]])
    (launch,) = chosen[0].body.body
    assert mapped == [one.tensor.name for one in launch.plan.tensor_maps]


def test_errors_on_the_device_are_reported() -> None:
    @T.prim_func
    def racing(C: T.Tensor((1,), "int32")):
        with T.Kernel(8, threads=32) as bx:
            C[0] = C[0] + bx

    with pytest.raises(DataRace):
        tilelang.compile(racing, target="sm_80", execution_backend="simulator")(np.zeros(1, np.int32))


def test_programs_of_the_cpu_are_not_simulated(reverse: PrimFunc) -> None:
    with pytest.raises(OptionError) as caught:
        tilelang.compile(reverse, target="cpu").simulate()
    assert (
        "simulate: the simulator runs programs of GPUs, and this kernel is compiled for the CPU\n"
        "hint: compile with target={'kind': 'cuda', 'arch': 'sm_90a'}"
    ) == str(caught.value)


def test_alignment_selects_the_program_only(reverse: PrimFunc) -> None:
    kernel = tilelang.compile(reverse, target="sm_80", execution_backend="simulator")
    memory = np.zeros(1024, np.float32)
    start = -memory.ctypes.data % 64 // 4
    counts = []
    for shift in (0, 1, 4, 8):
        a = memory[start + shift :][:256]
        a[...] = np.arange(256)
        c, counters = np.zeros(256, np.float32), Counters()
        kernel.simulate(a, c, report=counters)
        np.testing.assert_array_equal(a.reshape(2, 128)[:, ::-1].reshape(-1), c)
        counts.append(counters.traffic["global load"].extra)
    assert [0, 0, 0] == [counts[0], *counts[2:]]


def test_the_variant_for_the_sizes_of_a_call_is_simulated() -> None:
    N = T.dynamic("N")
    step = T.dynamic("step")

    @T.prim_func
    def double(A: T.StridedTensor((4, N), (step, 1), "float16")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(N):
                A[bx, i] = A[bx, i] * 2

    kernel = tilelang.compile(double, target="sm_80", execution_backend="simulator")
    for n in (64, 8, 7, 1):
        memory = np.ones((4, n + 16), np.float16)
        kernel(memory[:, :n])
        assert (2 == memory[:, :n]).all()
        assert (1 == memory[:, n:]).all()
