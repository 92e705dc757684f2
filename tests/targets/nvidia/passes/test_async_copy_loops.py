"""Parallel loops that copy rows from anywhere run ahead in pipelines as copies do, and mean what they meant."""

import numpy as np
import pytest
from gathered_rows import arguments, gathered
from gpu import lower_func
from harness import run_reference_on_copies
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_copies import expanded, planned, run_lazily

import tilelang.language as T
from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.errors import ResourceError
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Launch, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.target import Target

FORMS = {  # name: whether such a loop is a copy
    "row": True,
    "named": True,
    "turned": True,
    "selected": True,
    "selected turned": True,
    "branch": True,
    "chosen": True,  # what decides comes from memory
    "table": True,  # the index lies in shared memory
    "held": True,  # the index lies in registers
    "twice": True,  # an index of an index
    "plain": True,
    "changed": False,  # the loop writes the index
    "offset": False,  # runs are not aligned
    "columns": False,  # no runs at all
    "other": False,  # something else than 0 instead
    "half": False,  # what is not written keeps its value
    "within": False,  # decides within runs
    "converted": False,
    "shifted": False,  # elements of a row change places
    "computed": False,
    "two": False,
}


def asynchronous(func):
    return [s for s in walk(func.body) if isinstance(s, ParallelLoop) and asynchronous_store(s)]


@pytest.mark.parametrize("form,copies", FORMS.items())
def test_loops_run_ahead_that_only_copy_runs_of_rows_into_a_whole_tile(form, copies):
    func = gathered(form)
    made = expanded(func)
    # a prologue for each of the two iterations ahead, and the loop
    assert (3 if copies else 0) == len(asynchronous(made))
    expected = run_reference_on_copies(func, arguments(5))
    actual, under_way = run_lazily(made, arguments(5))
    np.testing.assert_array_equal(expected[3], actual[3])
    assert (2 if copies else 0) == under_way


@settings(max_examples=10)
@given(
    st.sampled_from([form for form, copies in FORMS.items() if copies]), st.integers(2, 4), st.integers(0, 6),
    st.integers(0, 99),
)  # fmt: skip
def test_however_late_they_land_the_result_is_the_same(form, stages, trip_count, seed):
    func = gathered(form, stages, trip_count)
    expected = run_reference_on_copies(func, arguments(trip_count, seed=seed))
    actual, _ = run_lazily(expanded(func), arguments(trip_count, seed=seed))
    np.testing.assert_array_equal(expected[3], actual[3])


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "form,dtype,threads,width",
    [
        ("named", "float16", 64, 16),
        ("chosen", "float32", 32, 16),
        ("table", "int8", 33, 8),  # rows of 24 bytes
        ("branch", "float16", 32, 16),
        ("turned", "float16", 256, 16),
        ("held", "float16", 32, 16),
        ("twice", "float16", 32, 16),
    ],
)
def test_the_program_of_the_threads_means_the_same(form, dtype, threads, width, arch):
    func = gathered(form, 3, 4, dtype, threads=threads)
    expected = run_reference_on_copies(func, arguments(4, dtype))[3]
    made = lower_func(func, arch)
    text = emit(made).text
    in_loop = text[text.index("for (int k = 0;") :]
    # without the instruction the loop is what it was
    assert (1 if arch != "sm_75" else 0) == in_loop.count(f"tl_cp_async_{width}(&")
    assert (arch != "sm_75") == ("tl_cp_async_wait<1>();" in in_loop)
    for lazy in (False, True):
        actual = [np.array(a) for a in arguments(4, dtype)]
        simulate(made, actual, target=Target("cuda", arch), lazy=lazy, seed=1)
        np.testing.assert_array_equal(expected, actual[3])


def test_what_is_no_zero_outside_of_the_tensor_is_not_filled_in_by_hardware():
    func = gathered("row", safe=3)
    assert [] == asynchronous(planned(func))
    expected = run_reference_on_copies(func, arguments(5))
    actual, _ = run_lazily(expanded(func), arguments(5))
    np.testing.assert_array_equal(expected[3], actual[3])
    assert 3 in actual[3]


def test_loops_without_a_pipeline_and_with_one_version_stay_as_they_are():
    for stages in (0, 1):
        assert [] == asynchronous(expanded(gathered("row", stages)))


def wide(rows, stages):
    """Tiles of `rows` x 256 float32, gathered; and a table as large as one of them beside."""

    @T.prim_func
    def main(A: T.Tensor((512, 256), "float32"), index: T.Tensor((4 * rows,), "int32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tile, total = T.alloc_shared((rows, 256), "float32"), T.alloc_fragment((256,), "float32")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=stages):
                for i, j in T.Parallel(rows, 256):
                    tile[i, j] = A[index[k * rows + i], j]
                for i, j in T.Parallel(rows, 256):
                    total[j] += tile[i, j]
            T.copy(total, C)

    return main


def test_loops_stay_in_place_where_shared_memory_has_no_room_for_versions():
    shared = {}
    for rows in (64, 128):
        lowered = lower_func(wide(rows, 3), "sm_90a")
        (launch,) = (s for s in walk(lowered.body) if isinstance(s, Launch))
        shared[rows] = launch.plan.shared_bytes // (rows * 1024), [note.text for note in launch.plan.notes]
    note = "T.Parallel: does not run ahead: the versions of its tile would take too much shared memory"
    assert (3, False) == (shared[64][0], note in shared[64][1])
    assert (1, True) == (shared[128][0], note in shared[128][1])
    with pytest.raises(ResourceError, match="a block needs 262144 bytes"):  # nothing helps
        lower_func(wide(256, 3), "sm_90a")


@pytest.mark.parametrize("form", ["named", "held", "twice"])
def test_indices_are_loaded_an_iteration_before_the_copies_that_need_them(form):
    text = emit(lower_func(gathered(form, 3, 9), "sm_80")).text
    in_loop = text[text.index("for (int k = 0;") :]
    copied, loaded, committed = (in_loop.index(word) for word in ("tl_cp_async_16(&", "rows[0] = ", "tl_cp_async_commit"))
    assert copied < committed < loaded
    assert "if (k < 7) {" in in_loop[:copied]
    assert "if (k < 6) {" in in_loop[committed:loaded]


def test_neighbors_share_a_row_so_that_each_thread_waits_for_few_indices():
    text = emit(lower_func(wide(64, 2), "sm_80")).text
    in_loop = text[text.index("for (int k = 0;") :]
    copy = next(line for line in in_loop.splitlines() if "tl_cp_async_16(&" in line)
    assert "thread >> 3" in copy  # lines of 128 bytes
    assert "asynchronous" in to_text(planned(wide(64, 2)))
