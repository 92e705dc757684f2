import re

import pytest
from amd_programs import gemm
from hip_text import GENERATIONS, assembly_of, needs_clang, printed
from thread_kernels import buffer, index, kernel

import tilelang.language as T
from tilelang.dtypes import BOOL, INT32
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Var, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, Atomic, AtomicOp, Bind, CallStmt
from tilelang.targets.amd.codegen.hip import emit
from tilelang.targets.amd.isa.direct_to_lds import direct_to_lds


def test_results_of_atomics_have_names() -> None:
    a, before = buffer("A", (4,), "int32"), Var("before", INT32)
    text = emit(kernel("test", [a], [Atomic(AtomicOp.ADD, a, (as_expr(0),), const(1, INT32), before)])).text
    call = "__hip_atomic_fetch_add(A, (int32_t)(1), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)"
    assert f"const int32_t before = {call};" in text


def test_all_lanes_give_the_address_in_lds_of_the_first_one() -> None:
    text = printed(gemm(160), "gfx950").text
    assert 1 == text.count("const int wave = __builtin_amdgcn_readfirstlane(thread) / 64;")
    targets = re.findall(r"tl_direct_to_lds_16\(&\w+\[([^]]*)\]", text)
    assert {"wave * 1024"} == set(targets)
    assert "int wave" not in printed(gemm(160), "gfx942").text


def test_loads_of_swizzled_rows_have_offsets_of_their_own_and_one_address_in_lds() -> None:
    """Rows of A are permuted by their numbers, those of B alike in each load: these differ by a step of all lanes."""
    lines = printed(gemm(256, rows=256, depth=64), "gfx950").text.splitlines()
    (loads_a,) = [line.strip() for line in lines if "tl_buffer_to_lds_16x4(&A_s" in line]
    (loads_b,) = [line.strip() for line in lines if "tl_buffer_to_lds_16x4(&B_s" in line]
    offsets = ", ".join(f"A_offset[{n}]" + (f" - {1024 * n}u" if n else "") + ", A_moved" for n in range(4))
    assert f"tl_buffer_to_lds_16x4(&A_s[wave * 2048 + ((step + 1) & 1) * 8192], A_from, {offsets});" == loads_a
    assert loads_b.endswith("B_from, B_offset, 0, B_offset, 0, B_offset, 0, B_offset, 0);")
    assert any(line.strip() == "for (int step = 0; step < 4; ++step, A_moved += 128u, B_offset += 16384u) {" for line in lines)


def test_what_instructions_add_to_both_addresses_is_taken_from_steps_between_rows() -> None:
    @T.prim_func
    def main(A: T.Tensor((256, 1024), "float16"), C: T.Tensor((256, 128), "float32")):
        with T.Kernel(1, threads=256):
            tile, sums = T.alloc_shared((64, 128), "float16"), T.alloc_fragment((64, 128), "float32")
            T.annotate_layout({tile: T.Layout((64, 128), lambda i, j: (i, j))})
            T.clear(sums)
            for step in T.Pipelined(4, num_stages=2):
                T.copy(A[step * 64, 128], tile)
                for i, j in T.Parallel(64, 128):
                    sums[i, j] += tile[i, j]
            T.copy(sums, C[:64, :])

    steps = ", ".join(f"A_offset, {n * (4 * 1024 * 2 - 1024)}u" if n else "A_offset, 0" for n in range(4))
    assert f"A_from, {steps});" in printed(main, "gfx950").text


@pytest.mark.parametrize("columns", [512, 1024])  # a row is as much as a load, or more
def test_tiles_of_long_rows_are_loaded(columns: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, columns), "float16"), C: T.Tensor((64, columns), "float16")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((16, columns), "float16")
            for step in T.Pipelined(4, num_stages=2):
                T.copy(A[step * 16, 0], tile)
                T.copy(tile, C[step * 16, 0])

    assert f"tl_buffer_to_lds_16{'x4' if columns == 512 else ''}(&tile" in printed(main, "gfx950").text


def test_a_name_for_a_part_of_the_thread_index_is_of_the_first_lane_too() -> None:
    a, tile = buffer("A", (4096,), "float16"), buffer("tile", (4096,), "float16", Scope.SHARED)
    chunk, thread = index("chunk"), index("thread")
    at = [Region(each, (chunk * 8,), (const(8, INT32),)) for each in (tile, a)]
    body = [Alloc(tile), Bind(chunk, thread // 2), CallStmt(direct_to_lds(16), (*at, Const(True, BOOL)))]
    plan = LaunchPlan(shared_offsets=((tile, 0),), shared_bytes=8192)
    text = emit(kernel("test", [a], body, thread=thread, plan=plan)).text
    assert "tl_direct_to_lds_16(&tile[wave * 256], &A[chunk * 8], true);" in text


@pytest.mark.parametrize(
    ("trips", "count", "pragma"),
    [(16, 2, "#pragma unroll TL_ITERATIONS(2)"), (15, 2, "#pragma unroll 1"), (9, 3, "#pragma unroll TL_ITERATIONS(3)")],
)
def test_as_many_iterations_become_one_as_tiles_have_versions(trips: int, count: int, pragma: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((256, 32 * trips), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256):
            A_s, B_s = T.alloc_shared((128, 32), "float16"), T.alloc_shared((128, 32), "float16")
            C_f = T.alloc_fragment((128, 128), "float32")
            for step in T.Pipelined(trips, num_stages=count):
                T.copy(A[0, step * 32], A_s)
                T.copy(A[128, step * 32], B_s)
                T.gemm(A_s, B_s, C_f, transpose_B=True, clear_accum=False)
            T.copy(C_f, C)

    text = printed(main, "gfx950").text
    assert pragma == text[: text.index("for (int step")].rstrip().splitlines()[-1]


@needs_clang
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_loops_that_load_ahead_do_not_wait_for_what_was_loaded_before_them(arch: str) -> None:
    """The rows of Q are loaded to registers before the loop, which the first iteration alone would wait for."""

    @T.prim_func
    def main(Q: T.Tensor((128, 64), "float16"), K: T.Tensor((1024, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            q, k = T.alloc_fragment((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            sums = T.alloc_fragment((128, 64), "float32")
            T.copy(Q, q)
            T.clear(sums)
            for step in T.Pipelined(16, num_stages=2):
                T.copy(K[step * 64, 0], k)
                T.gemm(q, k, sums, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(sums, C)

    text = printed(main, arch).text
    assert text.index("tl_await_registers(q);") < text.index("for (int step")


@needs_clang
def test_loops_of_direct_loads_wait_for_nothing_loaded_before_them() -> None:
    """Rows of C are loaded to registers before the loop, which only waits for its tiles."""

    @T.prim_func
    def main(A: T.Tensor((128, 512), "float16"), B: T.Tensor((512, 128), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256):
            A_s, B_s = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16")
            C_f = T.alloc_fragment((128, 128), "float32")
            T.copy(C, C_f)
            for step in T.Pipelined(16, num_stages=2):
                T.copy(A[0, step * 32], A_s)
                T.copy(B[step * 32, 0], B_s)
                T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C)

    text = printed(main, "gfx950").text
    code = assembly_of(text, "gfx950")
    assert 2 >= code[code.index("v_mfma") : code.rindex("v_mfma")].count("vmcnt")  # of two iterations, which are one
    assert "tl_wait_for_tracked_loads();" in text
    assert "tl_wait_for_tracked_loads" not in printed(gemm(160), "gfx950").text  # which loads nothing before


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_a_failed_assertion_ends_the_wave(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.device_assert(A[t] >= 0, "no negative numbers")
            A[t] = A[t] + 1

    source = printed(main, arch)
    assert "tl_record_failure(tl_failed, 1);" in source.text
    assert "failure" == source.launches[0].arguments[-1].kind
    assert ["no negative numbers"] == [message for message, *_ in source.asserts]
    text = assembly_of(source.text, arch)
    assert 2 <= text.count("s_endpgm\n") and "cmpswap" in text


@needs_clang
def test_a_failed_assertion_ends_no_wave_that_other_blocks_wait_for() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=64) as bx:
            t = T.get_thread_binding()
            T.device_assert(A[bx, t] >= 0, "no negative numbers")
            T.sync_grid()
            A[bx, t] = A[bx, t] + 1

    text = printed(main, "gfx942").text
    assert "tl_record_failure(tl_failed, 1);" in text and "endpgm" not in text
    assert 1 == assembly_of(text, "gfx942").count("s_endpgm\n")
