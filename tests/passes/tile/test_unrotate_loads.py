"""Loads for the next iteration stand in the iteration that reads them, where nothing else that is computed changes."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, If, Launch
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.passes.tile.unrotate_loads import PASS

N = 4


def unrotated(func):
    return PASS.run(inline_bindings.PASS.run(func, PassContext()), PassContext())


def loads(func):
    """The first indices of all loads of tile K_s, and whether they are in a loop's sequence."""
    loops = [s for s in walk(func.body) if isinstance(s, For)]
    inside = {s for loop in loops for s in flat_statements(loop.body)}
    found = [s for s in walk(func.body) if isinstance(s, Copy) and s.dst.buffer.name == "K_s"]
    return [(to_text(copy.src.start[0]), copy in inside) for copy in found]


def kernel(within, first=lambda K, K_s, at: T.copy(K[0, 0], K_s), behind=None, start=0, stages=2, **placed):
    """A loop of a gemm with tile K_s, in front of, within and behind which users load it."""

    @T.prim_func
    def main(K: T.Tensor((64 * N + 64, 64), "float16"), at: T.Tensor((N + 1,), "int32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            K_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            count = T.alloc_var("int32", init=1)
            T.clear(C_l)
            first(K, K_s, at)
            for j in T.Pipelined(start, N, num_stages=stages, **placed):
                T.gemm(K_s, K_s, C_l)
                within(K, K_s, at, j, count, C_l)
            if behind is not None:
                behind(K_s, C_l)
            T.copy(C_l, C)

    return main


def plain(K, K_s, at, j, count, C_l):
    T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def guarded(K, K_s, at, j, count, C_l):
    if j + 1 < N:
        T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def guarded_twice(K, K_s, at, j, count, C_l):
    if j < N - 1:
        row = (j + 1) * 64
        if j != N - 1:
            T.copy(K[row, 0], K_s)
            C_l[0, 0] += 1


@T.macro
def from_table(K, K_s, at, j, count, C_l):
    row = at[j + 1]
    T.copy(K[row * 64, 0], K_s)


def behind_another_writer(K, K_s, at, j, count, C_l):
    K_s[0, 0] = 1
    T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def behind_another_load(K, K_s, at, j, count, C_l):
    T.copy(K[at[j] * 64, 0], K_s)
    T.gemm(K_s, K_s, C_l)
    if j + 1 < N:
        T.copy(K[(j + 1) * 64, 0], K_s)


def first_from_table(K, K_s, at):
    T.copy(K[at[0] * 64, 0], K_s)


ROTATED = [
    pytest.param(kernel(plain), "j * 64", id="plain"),
    pytest.param(kernel(guarded), "j * 64", id="guarded"),
    pytest.param(kernel(guarded_twice), "j * 64", id="in inner branches beside others"),
    pytest.param(kernel(plain, lambda K, K_s, at: T.copy(K[64, 0], K_s), start=1), "j * 64", id="from another start"),
    pytest.param(kernel(behind_another_writer), "j * 64", id="behind another writer"),
    pytest.param(kernel(from_table, first_from_table), "at[j] * 64", id="from a table"),
    pytest.param(
        kernel(plain, lambda K, K_s, at: T.copy(K[128, 0], K_s)), "T.if_then_else(j == 0, 128, j * 64)", id="from another place"
    ),
]


@pytest.mark.parametrize(("func", "row"), ROTATED)
def test_a_load_for_the_next_iteration_is_done_in_that_iteration(func, row):
    assert [(row, True)] == loads(unrotated(func))


def assert_computes_the_same(func, arch, *tables):
    """Compares the simulator with the reference for tables of which tiles are loaded; gives the simulated kernel."""
    keys = np.random.default_rng(5).integers(-2, 3, func.params[0].buffer.static_shape).astype(np.float16)
    reference = tilelang.compile(func, execution_backend="reference")
    kernel = tilelang.compile(func, target=arch, execution_backend="simulator")
    for table in tables:
        expected, actual = np.zeros((2, 64, 64), np.float32)
        reference(keys, table, expected)
        kernel(keys, table, actual)
        np.testing.assert_array_equal(expected, actual)
    return kernel


ORDER = np.random.default_rng(5).permutation(N + 1).astype(np.int32)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("func", "row"), ROTATED)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_loop_computes_the_same(func, row, arch):
    assert_computes_the_same(func, arch, ORDER)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_load_stands_before_another_one_of_its_tile(arch):
    func = kernel(behind_another_load)
    assert [("j * 64", True), ("at[j] * 64", True)] == loads(unrotated(func))
    assert_computes_the_same(func, arch, ORDER)


def test_branches_keep_what_else_is_in_them():
    func = unrotated(kernel(guarded_twice))
    assert 2 == len([s for s in walk(func.body) if isinstance(s, If)])
    assert not [s for s in walk(unrotated(kernel(guarded)).body) if isinstance(s, If)]


def test_a_note_names_the_tile():
    (launch,) = (s for s in walk(unrotated(kernel(plain)).body) if isinstance(s, Launch))
    (note,) = launch.plan.notes
    assert "T.Pipelined: 'K_s' is loaded in the iteration that reads it, not in the one before" == note.text


@T.macro
def guarded_by_data(K, K_s, at, j, count, C_l):
    if at[j] > 2:
        T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def guarded_too_soon(K, K_s, at, j, count, C_l):
    if j + 2 < N:
        T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def in_either_branch(K, K_s, at, j, count, C_l):
    if j + 1 < N:
        T.copy(K[(j + 1) * 64, 0], K_s)
    else:
        C_l[0, 0] = 1


def read_behind(K, K_s, at, j, count, C_l):
    T.copy(K[(j + 1) * 64, 0], K_s)
    T.gemm(K_s, K_s, C_l)


def at_a_moved_place(K, K_s, at, j, count, C_l):
    T.copy(K[count * 64, 0], K_s)
    count += 1


def of_a_part(K, K_s, at, j, count, C_l):
    T.copy(K[(j + 1) * 64, 0], K_s[0:32, :])


def with_written_source(K, K_s, at, j, count, C_l):
    T.copy(K[(j + 1) * 64, 0], K_s)
    K[0, 0] = 1


def written_behind(K, K_s, at, j, count, C_l):
    T.copy(K[(j + 1) * 64, 0], K_s)
    K_s[0, 0] = 1


# -- under conditions on data ------------------------------------------------------------------------------------
def masked(within, first=None, read=lambda at, j: at[j] > 1, rows=64 * N, stages=2):
    """Products of the tiles that a table selects, loaded for the next iteration."""

    @T.prim_func
    def main(K: T.Tensor((rows, 64), "float16"), at: T.Tensor((N + 1,), "int32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            K_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            if first is None:
                if at[0] > 1:
                    T.copy(K[0, 0], K_s)
            else:
                first(K, K_s, at)
            for j in T.Pipelined(N, num_stages=stages):
                if read(at, j):
                    T.gemm(K_s, K_s, C_l, transpose_A=True)
                within(K, K_s, at, j, C_l)
            T.copy(C_l, C)

    return main


@T.macro
def selected(K, K_s, at, j, C_l):
    if j + 1 < N:
        if at[j + 1] > 1:
            T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def selected_at_once(K, K_s, at, j, C_l):
    if T.And(j + 1 < N, at[j + 1] > 1):
        T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def selected_by_name(K, K_s, at, j, C_l):
    chosen = at[j + 1]
    if chosen > 1:
        if j < N - 1:
            T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def selected_more(K, K_s, at, j, C_l):
    if j + 1 < N:
        if at[j + 1] > 2:
            T.copy(K[(j + 1) * 64, 0], K_s)


@T.macro
def selected_where_this_one_is(K, K_s, at, j, C_l):
    if at[j] > 1:
        if at[j + 1] > 1:
            T.copy(K[(j + 1) * 64, 0], K_s)


def unconditional_first(K, K_s, at):
    T.copy(K[0, 0], K_s)


@T.macro
def another_first(K, K_s, at):
    if at[0] > 2:
        T.copy(K[0, 0], K_s)


SELECTED = {
    "nested": masked(selected),
    "at once": masked(selected_at_once),
    "by name": masked(selected_by_name),
    "first one always": masked(selected, unconditional_first),
    "with more to read": masked(selected, read=lambda at, j: T.And(at[j] > 1, j != 2)),
    "of a part of the rows": masked(selected, rows=64 * N - 24),
}


@pytest.mark.parametrize("name", SELECTED)
def test_a_load_under_a_condition_on_data_goes_to_the_branch_that_reads_it(name):
    func = unrotated(SELECTED[name])
    (branch,) = (s for s in walk(func.body) if isinstance(s, If))
    load, gemm = flat_statements(branch.then_body)
    assert "j * 64" == to_text(load.src.start[0]) and isinstance(gemm, Gemm)
    assert load.dst.buffer is gemm.a.buffer


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", SELECTED)
def test_loops_over_what_data_selects_compute_the_same_with_a_producer(name, arch):
    tables = (np.random.default_rng(seed).integers(0, 4, N + 1).astype(np.int32) for seed in range(4))
    kernel = assert_computes_the_same(SELECTED[name], arch, *tables)
    assert (arch == "sm_90a") == ("a producer of" in kernel.explain())


@T.prim_func
def compared_with_a_count_that_changes(
    K: T.Tensor((64 * N, 64), "float16"), at: T.Tensor((N + 1,), "int32"), C: T.Tensor((64, 64), "float32")
):
    """Reads tiles of a smaller number than those that are loaded, though a count has both numbers in turn."""
    with T.Kernel(1, threads=128):
        K_s = T.alloc_shared((64, 64), "float16")
        C_l = T.alloc_fragment((64, 64), "float32")
        count = T.alloc_var("int32", init=0)
        T.clear(C_l)
        T.copy(K[0, 0], K_s)
        for j in T.Pipelined(N, num_stages=2):
            count = 2
            if count == 2:
                count = 1
                if at[j] == count:
                    T.gemm(K_s, K_s, C_l, transpose_A=True)
            if j + 1 < N:
                if at[j + 1] == 2:
                    T.copy(K[(j + 1) * 64, 0], K_s)
        T.copy(C_l, C)


@pytest.mark.parametrize(
    "func",
    [
        pytest.param(masked(selected_more), id="selects fewer loads"),
        pytest.param(masked(selected_where_this_one_is), id="under the condition of the one before"),
        pytest.param(masked(selected, another_first), id="fewer first ones"),
        pytest.param(compared_with_a_count_that_changes, id="under conditions at two times"),
    ],
)
def test_what_may_be_read_without_a_load_stays(func):
    func = inline_bindings.PASS.run(func, PassContext())
    assert PASS.run(func, PassContext()) is func


def of_pixels(first):
    """A loop that loads tiles of the im2col matrix of an image for the next iteration."""

    @T.prim_func
    def main(K: T.Tensor((2, 8, 8, 64), "float16"), at: T.Tensor((N + 1,), "int32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            K_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            first(K, K_s, at)
            for j in T.Pipelined(N, num_stages=2):
                T.gemm(K_s, K_s, C_l)
                T.im2col(K, K_s, at[0] % 2, j + 1, 3, 1, 1, 1)
            T.copy(C_l, C)

    return main


LEFT = {
    "of pixels": of_pixels(lambda K, K_s, at: T.im2col(K, K_s, at[0] % 2, 0, 3, 1, 1, 1)),
    "of pixels, the first one of an image": of_pixels(lambda K, K_s, at: T.copy(K[0, 0, 0, 0], K_s)),
    "guarded by data": kernel(guarded_by_data),
    "guarded too soon": kernel(guarded_too_soon),
    "in a branch with another one": kernel(in_either_branch),
    "read behind it": kernel(read_behind),
    "read behind the loop": kernel(plain, behind=lambda K_s, C_l: T.gemm(K_s, K_s, C_l)),
    "at a moved place": kernel(at_a_moved_place),
    "of a part": kernel(of_a_part),
    "of what is written": kernel(with_written_source),
    "written behind it": kernel(written_behind),
    "from two tables": kernel(from_table, lambda K, K_s, at: T.copy(K[at[1] * 64, 0], K_s)),
    "not pipelined": kernel(plain, stages=0),
    "placed": kernel(plain, order=[0, 1], stage=[0, 0]),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_loads_stay_where_they_are(name):
    func = inline_bindings.PASS.run(LEFT[name], PassContext())
    assert PASS.run(func, PassContext()) is func
