"""Blocks share the iterations of a loop of products, and then the columns of what it gives; what is not so is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specialized import TABLE, gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, For, ForKind, Seq
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes import cluster_split_k
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.cluster_split_k import NotSplit
from tilelang.targets.target import Target

PASSES = (inline_bindings.PASS, choose_schedule(TABLE), cluster_split_k.PASS)


def text(func, blocks, **pass_configs):
    made = warp_specialize(func, passes=PASSES, split=blocks, **pass_configs)
    verify(made)
    lines = to_text(made).splitlines()
    begin = next(n for n, line in enumerate(lines) if "T.Kernel" in line)
    return [line.strip() for line in lines[begin:] if line.strip()]


def reason(func, blocks=2):
    launch = launch_of(warp_specialize(func, passes=(inline_bindings.PASS,)))
    with pytest.raises(NotSplit) as error:
        cluster_split_k.split(launch, blocks, 1)
    return str(error.value)


def test_each_block_has_its_share_and_its_columns():
    shown = text(gemm_kernel(64, 256, 512, 64, 128, 64), 2, stages=3)
    assert shown == [
        "with T.Kernel(4, 1, threads=128) as (block, by):",
        "# cluster (2, 1, 1)",
        "# schedule: 1 consumer warpgroup, a producer of 32 threads, 3 stages, split-K over clusters of 2 blocks, asynchronous "
        "epilogue stores through shared memory, 1 gemm in flight",
        "bx = T.min(block // 2, 1)",
        "rank = block % 2",
        'C_l_sent = T.alloc_barrier((1,), "uint64")',
        'C_l_parts = T.alloc_shared((4096,), "float32")',
        'A_s = T.alloc_shared((64, 64), "float16")',
        'B_s = T.alloc_shared((64, 128), "float16")',
        'C_l = T.alloc_fragment((64, 128), "float32")',
        "T.fill(C_l, 0.0)",
        "for k in T.Pipelined(4, num_stages=3):",
        "T.copy(A[by * 64:by * 64 + 64, (rank * 4 + k) * 64:(rank * 4 + k) * 64 + 64], A_s)",
        "T.copy(B[(rank * 4 + k) * 64:(rank * 4 + k) * 64 + 64, bx * 128:bx * 128 + 128], B_s)",
        "T.gemm(A_s, B_s, C_l)  # gemm.wgmma",
        'C_l_own = T.alloc_fragment((64, 64), "float32")',
        "sum over a cluster(C_l, C_l_own, C_l_parts, C_l_sent, rank, blocks=2)",
        "T.copy(C_l_own, C[by * 64:by * 64 + 64, bx * 128 + rank * 64:bx * 128 + rank * 64 + 64])",
    ]


def test_the_first_block_does_the_rest_where_columns_are_too_few():
    shown = text(gemm_kernel(64, 32, 512, 64, 32, 64), 3)
    assert "sum over a cluster(C_l, C_l, C_l_parts, C_l_sent, rank, blocks=3)" in shown
    assert "if rank < 1:" == shown[shown.index("sum over a cluster(C_l, C_l, C_l_parts, C_l_sent, rank, blocks=3)") + 1]


def test_some_of_the_blocks_own_columns_where_there_are_few():
    shown = text(gemm_kernel(64, 32, 512, 64, 32, 64), 4)
    assert "if rank < 2:" in shown
    assert 'C_l_own = T.alloc_fragment((64, 16), "float32")' in shown


@given(st.integers(1, 40), st.integers(0, 9), st.sampled_from([1, 3]), st.integers(1, 8))
def test_every_iteration_is_done_once_and_shares_differ_by_one_at_most(count, start, step, blocks):
    var, rank = (Var(name, INT32, index=True) for name in ("k", "rank"))
    first, stop = const(start, INT32), const(start + count * step - (step - 1), INT32)
    loop = For(var, first, stop, step, ForKind.SERIAL, Seq((Bind(Var("seen", INT32, index=True), var + 0),)))
    made = cluster_split_k._split_loop(loop, rank, blocks)
    shares = []
    for number in range(blocks):
        trip_count = int(evaluate(made.stop, {rank: number}))
        (seen,) = (s.value for s in walk(made.body) if isinstance(s, Bind))
        shares.append([int(evaluate(seen, {rank: number, made.var: turn})) for turn in range(trip_count)])
    assert list(range(start, start + count * step, step)) == [k for share in shares for k in share]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_indices_are_visibly_within_a_symbolic_grid():
    func = gemm_kernel(64, T.dynamic("n") * 8, 512, 64, 128, 64)
    launch = launch_of(warp_specialize(func, passes=PASSES, split=2, persistent=False))
    domain = of_function(func)
    for var, extent in zip(launch.block_vars, launch.grid, strict=True):
        domain = domain.with_loop(var, 0, extent)
    bx, rank = launch.body.body[:2]
    assert proves(bx.value * 2 < launch.grid[0], domain)
    assert proves(rank.value < 2, domain)


def test_launches_without_a_schedule_or_with_one_block_for_each_tile_stay_as_they_are():
    func = warp_specialize(gemm_kernel(64, 128, 512, 64, 128, 64), passes=PASSES[:2])
    assert cluster_split_k.PASS.run(func, PassContext(target=Target("cuda", "sm_90a"))) is func


def variant(kind):
    """A product with something about it that keeps blocks from sharing it."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 512), "float16"), B: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            D_l = T.alloc_fragment((64, 64), "float32")
            if kind == "writes before":
                T.clear(C[0:64, 0:64])
            if kind == "prints":
                T.print(1.0)
            T.fill(C_l, 1.0 if kind == "begins with one" else 0.0)
            if kind == "not cleared last":
                T.copy(C, C_l)
            for k in T.Pipelined(8, num_stages=1 if kind == "one stage" else 2):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
                if kind == "two products":
                    T.gemm(A_s, B_s, D_l, clear_accum=True)
                if kind == "more work":
                    for i, j in T.Parallel(64, 64):
                        C_l[i, j] = C_l[i, j] * 2
            if kind == "used later":
                T.copy(A_s, C)
            T.copy(C_l, C)

    return main


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("writes before", "global memory is written before the loop"),
        ("prints", "a statement before the loop must be executed once"),
        ("begins with one", "the sums in 'C_l' do not begin with T.clear before the loop"),
        ("not cleared last", "the sums in 'C_l' do not begin with T.clear before the loop"),
        ("one stage", "the loop of the gemm is not pipelined, or has an early exit"),
        ("two products", "it takes one loop with one gemm, and no other gemms"),
        ("more work", "the loop does more than to load tiles and to multiply them"),
        ("used later", "a tile that the loop loads is used outside of it"),
    ],
)
def test_what_cannot_be_shared_is_told(kind, expected):
    assert expected == reason(variant(kind))


def test_rows_that_no_instruction_has_are_told():
    assert "'C_l' has 48 rows, no multiple of 64" == reason(gemm_kernel(48, 64, 512, 48, 64, 64))


def test_fewer_iterations_than_blocks_are_told():
    assert "4 blocks would share iterations of which there are 2" == reason(gemm_kernel(64, 64, 128, 64, 64, 64), 4)
