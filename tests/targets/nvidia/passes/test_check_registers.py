import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from gpu import simulate_func
from harness import run_cpu_on_copies

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, ProgramWarning, ResourceError
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.isa.registers import requested_registers
from tilelang.targets.target import Target


def _spilling(M, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, 256), "float16"), C: T.Tensor((M, 256), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, 256), "float16")
            c = T.alloc_fragment((M, 256), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main


@pytest.mark.slow(every=20)
@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
@pytest.mark.parametrize(("M", "K"), [(128, 16), (256, 16), (256, 0)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_does_not_fit_lies_in_local_memory_and_is_right(M, K, arch):
    a, b = (np.random.randint(-4, 5, shape).astype(np.float16) for shape in ((M, K), (K, 256)))
    c = np.full((M, 256), 7, np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(expected, simulate_func(_spilling(M, K), [a, b, c], arch)[2])
    np.testing.assert_array_equal(expected, run_cpu_on_copies(_spilling(M, K), [a, b, c])[2])


@needs_nvrtc
@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
def test_an_accumulator_of_exactly_256_registers_compiles():
    kernel = tilelang.compile(_spilling(128, 64), target={"kind": "cuda", "arch": "sm_90a"})
    assert 255 == kernel.resources.registers
    assert kernel.resources.spill_bytes > 0


def _rescaled(count):
    @T.prim_func
    def main(P: T.Tensor((64, 64), "bfloat16"), V: T.Tensor((64, 512), "bfloat16"), O: T.Tensor((128, 512), "float32")):
        with T.Kernel(2, threads=256) as bx:
            first = bx * 64
            last = first + 64
            p, v = T.alloc_shared((64, 64), "bfloat16"), T.alloc_shared((64, 512), "bfloat16")
            m = T.alloc_fragment((64,), "float32")
            T.copy(P, p)
            T.copy(V, v)
            T.fill(m, 2.0)
            sums = [T.alloc_fragment((64, 512), "float32") for _ in range(count)]
            for o in sums:
                T.fill(o, 1.0)
                for i, j in T.Parallel(64, 512):
                    o[i, j] *= m[i]
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(64, 512):
                    o[i, j] /= m[i]
                T.copy(o, O[first:last, :])

    return main


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_large_accumulators_stay_in_registers_while_they_are_rescaled_and_stored(count, arch):
    lowered_func = lowered(_rescaled(count), Target("cuda", arch), CompileOptions())
    (launch,) = (s for s in walk(lowered_func.body) if isinstance(s, Launch))
    assert not [note.text for note in launch.plan.notes if "is kept in shared memory" in note.text]
    held = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.LOCAL]
    assert count == sum(buffer.static_shape == (128,) and buffer.dtype == "float32" for buffer in held)


def moving(threads, *requests, blocks=None):
    """A kernel in which group n does requests[n]: how many registers, and whether that is more."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=threads):
            if blocks is not None:
                T.annotate_min_blocks_per_sm(blocks)
            for group, move in enumerate(requests):
                with T.ws(group):
                    T.set_max_nreg(*move)

    return main


def lower_for_hopper(func):
    return lowered(func, Target("cuda", "sm_90a"), CompileOptions())


@pytest.mark.parametrize(
    ("threads", "requests", "blocks"),
    [
        (384, [(24, False), (240, True), (240, True)], None),
        (384, [(160, False), (168, True)], None),
        (256, [(40, False), (256, True)], None),
        (512, [(32, False), (160, True), (160, True), (160, True)], None),
        (256, [(24, False), (232, True)], 2),
    ],
)
def test_warpgroups_may_ask_for_what_others_free(threads, requests, blocks):
    lower_for_hopper(moving(threads, *requests, blocks=blocks))


@pytest.mark.parametrize(
    ("threads", "requests", "blocks", "message"),
    [
        (384, [(32, False), (240, True), (240, True)], None, "ask for 32 + 240 + 240 = 512 registers of a thread, but have 504"),
        (384, [(24, False), (248, True), (240, True)], None, "24 + 248 + 240 = 512"),
        (256, [(40, False), (240, True)], 2, "40 + 240 = 280 registers of a thread, but have 256 together: 128 each"),
    ],
)
def test_warpgroups_that_ask_for_more_would_wait_for_ever(threads, requests, blocks, message):
    with pytest.raises(ResourceError) as caught:
        lower_for_hopper(moving(threads, *requests, blocks=blocks))
    assert message in str(caught.value)


def test_registers_move_the_way_that_is_said():
    with pytest.raises(ProgramError, match="a thread has 168 registers here, so that 240 are more"):
        lower_for_hopper(moving(384, (240, False)))


def test_registers_that_a_warpgroup_has_already_are_not_asked_for():
    with pytest.warns(ProgramWarning) as caught:
        func = lower_for_hopper(moving(256, (24, False), (240, True)))
    assert str(caught[0].message).startswith("T.set_max_nreg: no effect: a thread has 256 registers here already, and 240")
    assert "hint: leave it out, or launch more threads" in str(caught[0].message)
    requests = [s.routine.name for s in walk(func.body) if isinstance(s, CallStmt) and requested_registers(s.routine)]
    assert 1 == len(requests), requests


def test_who_comes_there_may_not_be_known():
    @T.prim_func
    def main(n: T.int32):
        with T.Kernel(1, threads=384):
            if T.get_thread_binding() < n:
                T.set_max_nreg(240, True)

    lower_for_hopper(main)
