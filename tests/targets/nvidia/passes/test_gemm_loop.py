"""Loops of gemms whose iterations several blocks can share, and how they do; what cannot be shared is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specialized import gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Bind, For, ForKind, Seq
from tilelang.ir.visit import walk
from tilelang.passes.tile import inline_bindings
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.gemm_loop import NotSplit, find_gemm_loop, split_loop


def reason(func, blocks=2):
    launch = launch_of(warp_specialize(func, passes=(inline_bindings.PASS,)))
    with pytest.raises(NotSplit) as error:
        find_gemm_loop(flatten_sequences(launch), blocks)
    return str(error.value)


def test_the_parts_of_a_program():
    launch = flatten_sequences(launch_of(warp_specialize(gemm_kernel(64, 64, 512, 64, 64, 64), passes=(inline_bindings.PASS,))))
    found = find_gemm_loop(launch, 2)
    assert (*found.before, found.loop, *found.after) == launch.body.body
    assert ["C_l"] == [tile.name for tile in found.tiles]


@given(st.integers(1, 40), st.integers(0, 9), st.sampled_from([1, 3]), st.integers(1, 8))
def test_every_iteration_is_done_once_and_shares_differ_by_one_at_most(count, start, step, blocks):
    var, rank = (Var(name, INT32, index=True) for name in ("k", "rank"))
    first, stop = const(start, INT32), const(start + count * step - (step - 1), INT32)
    loop = For(var, first, stop, step, ForKind.SERIAL, Seq((Bind(Var("seen", INT32, index=True), var + 0),)))
    made = split_loop(loop, rank, blocks)
    shares = []
    for number in range(blocks):
        trip_count = int(evaluate(made.stop, {rank: number}))
        (seen,) = (s.value for s in walk(made.body) if isinstance(s, Bind))
        shares.append([int(evaluate(seen, {rank: number, made.var: turn})) for turn in range(trip_count)])
    assert list(range(start, start + count * step, step)) == [k for share in shares for k in share]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


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
            for k in T.Pipelined(8, num_stages=0 if kind == "no stages" else 2):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
                if kind == "more work":
                    for i, j in T.Parallel(64, 64):
                        C_l[i, j] = C_l[i, j] * 2
                if kind == "carried":
                    for i, j in T.Parallel(64, 64):
                        D_l[i, j] = D_l[i, j] * 2
                if kind == "stored":
                    T.copy(A_s, C)
                if kind == "added up twice":
                    T.atomic_add(C, 1.0)
                    T.atomic_add(C, 2.0)
            if kind == "used later":
                T.copy(A_s, C)
            if kind == "gemm outside":
                T.gemm(A_s, B_s, D_l, clear_accum=True)
            T.copy(C_l, C)

    return main


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("writes before", "global memory is written before the loop"),
        ("prints", "a statement before the loop must be executed once"),
        ("begins with one", "the sums in 'C_l' do not begin with T.clear before the loop"),
        ("not cleared last", "the sums in 'C_l' do not begin with T.clear before the loop"),
        ("no stages", "the loop of the gemm is not pipelined, or has an early exit"),
        ("more work", "'C_l' is more than the sums of one gemm"),
        ("carried", "'D_l' holds something from one iteration to the next"),
        ("stored", "the loop does more with 'C' than one atomic operation"),
        ("added up twice", "the loop does more with 'C' than one atomic operation"),
        ("used later", "'A_s' is written by the loop, and used outside of it"),
        ("gemm outside", "it takes one loop of gemms, and no gemms elsewhere"),
    ],
)
def test_what_cannot_be_shared_is_told(kind, expected):
    assert expected == reason(variant(kind))


def test_sums_beside_what_every_iteration_overwrites_and_adds_up_atomically():
    @T.prim_func
    def main(A: T.Tensor((64, 512), "float16"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l, D_l = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.gemm(A_s, A_s, D_l, transpose_B=True, clear_accum=True)
                T.gemm(A_s, A_s, C_l, transpose_B=True)
                T.atomic_add(D, D_l)
            T.copy(C_l, C)

    launch = launch_of(warp_specialize(main, passes=(inline_bindings.PASS,)))
    assert ["C_l"] == [tile.name for tile in find_gemm_loop(flatten_sequences(launch), 2).tiles]


def test_a_loop_without_sums_is_told():
    @T.prim_func
    def main(A: T.Tensor((64, 512), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s, C_l = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.gemm(A_s, A_s, C_l, transpose_B=True, clear_accum=True)
                T.atomic_add(C, C_l)

    assert "no gemm of the loop adds to what there was before" == reason(main)


def test_rows_that_no_instruction_has_are_told():
    assert "'C_l' has 48 rows, no multiple of 64" == reason(gemm_kernel(48, 64, 512, 48, 64, 64))


def test_fewer_iterations_than_blocks_are_told():
    assert "4 blocks would share iterations of which there are 2" == reason(gemm_kernel(64, 64, 128, 64, 64, 64), 4)
