import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError


def kernel(dtype="float16", stages=3, arch="sm_80"):
    @T.prim_func
    def gemm(A: T.Tensor((256, 128), dtype), B: T.Tensor((128, 256), dtype), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_s = T.alloc_shared((128, 32), dtype)
            B_s = T.alloc_shared((32, 128), dtype)
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[by * 128, k * 32], A_s)
                T.copy(B[k * 32, bx * 128], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * 128, bx * 128])

    target = {"kind": "cuda", "arch": arch}
    return tilelang.compile(gemm, target=target, execution_backend="simulator")


def test_every_lowering_is_explained_with_its_line():
    text = kernel().explain()
    assert "T.copy is lowered by copy.cp_async" in text
    assert "T.gemm is lowered by gemm.mma" in text
    assert "49152 bytes of shared memory: 'A_s' at 0, 'B_s' at 24576" in text
    assert "fixed by T.gemm" in text


def test_reasons_against_pipelining_are_explained():
    assert "the loop stays serial" not in kernel().explain()
    assert "T.gemm is lowered by gemm.fma" in kernel("float32").explain()


def soft(target, **keywords):
    @T.prim_func
    def main(A: T.Tensor((64, 512), "float32"), B: T.Tensor((64, 512), "float32")):
        with T.Kernel(64, threads=128) as bx:
            x = T.alloc_fragment((512,), "float32")
            m = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], x)
            T.reduce_max(x, m, dim=0)
            for j in T.Parallel(512):
                B[bx, j] = x[j] / m[0]

    first = main.loc.line
    return [
        line if not line.startswith("  line ") else f"{int(line.split()[1][:-1]) - first}: {line.partition(': ')[2]}"
        for line in tilelang.compile(main, target=target, **keywords).explain().splitlines()
    ]


def test_loops_access_widths_and_reductions_of_a_gpu_are_explained():
    text = soft({"kind": "cuda", "arch": "sm_80"}, execution_backend="simulator")
    for line in (
        "4: T.copy is lowered by copy.loop",
        "5: T.reduce_max is lowered by reduce.loop",
        "4: a thread loads 'A' by 16 bytes at a time",
        "5: threads combine partial results by 1 redux.sync instruction, and warps through shared memory",
        "6: T.Parallel: 128 threads run 4 iterations each",
        "7: a thread stores 'B' by 16 bytes at a time",
    ):
        assert line in text
    older = soft({"kind": "cuda", "arch": "sm_75"}, execution_backend="simulator")
    assert "5: threads combine partial results by 5 shuffles, and warps through shared memory" in older


@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
def test_a_loop_that_runs_serially_is_not_said_to_be_spread_over_threads():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=64):
            best = T.alloc_var("float32", init=0)
            for i in T.Parallel(128):
                if A[i] > best:
                    best = A[i]
            B[0] = best

    text = tilelang.compile(main, target="sm_80", execution_backend="simulator").explain()
    assert "T.Parallel: the iterations run serially" in text
    assert "threads run" not in text


def test_blocks_tiles_and_vector_lanes_of_a_cpu_are_explained():
    assert [
        "main, kernel 1: a grid of 64, blocks run on the processor's threads; the tiles of a block take 2052 bytes: "
        "'x' 2048, 'm' 4",
        "4: T.copy is lowered by copy.loop",
        "5: T.reduce_max is lowered by reduce.serial",
        "4: the loop over i runs as SIMD lanes, and reduces by max, |",
        "6: the loop over j runs as SIMD lanes",
    ] == soft("cpu", execution_backend="reference")


def test_timelines_of_pipelined_loops_are_explained_and_drawn(tmp_path):
    path = tmp_path / "pipeline.svg"
    text = kernel().explain(svg=path)
    assert "T.Pipelined: copies run 2 iterations ahead: by estimate an iteration keeps the warps busy for" in text
    assert "copies run 2 iterations ahead" in path.read_text()
    with pytest.raises(OptionError, match="explain: no loop of this kernel is pipelined, so that there is no timeline"):
        kernel(stages=0).explain(svg=path)


def test_the_loop_of_specialized_warps_has_a_timeline_too(tmp_path):
    path = tmp_path / "pipeline.svg"
    text = kernel(arch="sm_90a").explain(svg=path)
    cycles = "by estimate an iteration takes 256 cycles, and keeps the matrix unit busy for 256 cycles"
    assert f"T.Pipelined: in program order, with 1 gemm in flight: {cycles}" in text
    assert "matrix unit" in path.read_text()
