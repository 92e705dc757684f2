"""Pipelined loops on AMD's GPUs: what runs ahead, and what stays serial and why."""

import json
import re

import numpy as np
import pytest
from amd_programs import attention
from gathered_rows import arguments, gathered
from gpu import assert_simulates, lower_func

import tilelang
import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, CallStmt, For, Launch, Store
from tilelang.ir.visit import loads_of, walk
from tilelang.targets.amd.isa.barriers import lds_barrier
from tilelang.targets.amd.isa.direct_to_lds import DIRECT_LOADS
from tilelang.targets.amd.isa.wait_counters import Counters

ARCHS = ["gfx942", "gfx1100"]


def gemm(m, n, k, tile=(32, 32, 16), stages=2, threads=128, case="", dtype="float16"):
    rows, columns, depth = tile

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((depth, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, i * depth], a)
                T.copy(B[i * depth, bx * columns], b)
                T.gemm(a, b, c)
                if case == "changed":
                    T.clear(a)
            T.copy(c, C[by * rows, bx * columns])

    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n))]
    return main, [*arrays, np.zeros((m, n), np.float32)]


def launch_of(func, arch):
    return next(s for s in walk(lower_func(func, arch).body) if isinstance(s, Launch))


def notes(func, arch="gfx942"):
    return [note.text for note in launch_of(func, arch).plan.notes]


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
def test_any_number_of_stages_gives_the_same_product(arch, stages):
    main, arguments = gemm(32, 40, 40, stages=stages)
    assert_simulates(main, *arguments, arch=arch, seeds=(0,))


@pytest.mark.parametrize("trips", [1, 2, 3])
@pytest.mark.parametrize("stages", [2, 3])
def test_loops_shorter_than_their_pipeline_are_right(trips, stages):
    main, arguments = gemm(32, 32, 16 * trips, stages=stages)
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0,))


def test_tiles_that_are_converted_are_loaded_as_they_are():
    main, arguments = gemm(32, 32, 48, dtype="float32")
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0,))
    registers = {s.buffer.name: s.buffer.dtype for s in walk(lower_func(main, "gfx942").body) if isinstance(s, Alloc)}
    assert "float32" == str(registers["a_next"])


@pytest.mark.parametrize(("stages", "versions"), [(1, {}), (2, {}), (3, {"a": 2, "b": 2}), (5, {"a": 2, "b": 2})])
def test_shared_tiles_have_one_version_or_two(stages, versions):
    launch = launch_of(gemm(64, 64, 64, stages=stages)[0], "gfx942")
    assert versions == {buffer.name: count for buffer, count in launch.plan.versions}
    assert (stages > 1) == any(isinstance(s, Alloc) and s.buffer.name == "a_next" for s in walk(launch.body))


def test_a_second_version_saves_a_barrier_in_each_iteration():
    def barriers(stages):
        loops = [s for s in walk(launch_of(gemm(64, 64, 64, stages=stages)[0], "gfx942").body) if type(s).__name__ == "For" and s.var.name == "i"]
        return sum(isinstance(s, CallStmt) and s.routine is lds_barrier(Counters.LOADS_AND_STORES) for s in walk(loops[0].body))

    assert (2, 1) == (barriers(2), barriers(3))


def test_a_second_version_that_does_not_fit_is_left_out():
    main, _ = gemm(128, 128, 256, (128, 128, 96), stages=3, threads=256)
    assert () == launch_of(main, "gfx942").plan.versions
    assert launch_of(main, "gfx950").plan.versions


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("stages", "count"), [(2, 2), (3, 3), (5, 5)])
def test_direct_loads_run_ahead_in_as_many_versions_as_there_are_stages(stages, count):
    main, arguments = gemm(64, 64, 96, (64, 64, 16), stages=stages)
    launch = launch_of(main, "gfx950")
    assert {"a": count, "b": count} == {buffer.name: versions for buffer, versions in launch.plan.versions}
    assert any(isinstance(s, CallStmt) and s.routine is DIRECT_LOADS[16] for s in walk(launch.body))
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0, 1))


@pytest.mark.parametrize(("arch", "versions"), [("gfx950", {2}), ("gfx942", set())])
def test_stages_that_do_not_fit_are_left_out_and_that_is_said(arch, versions):
    main, _ = gemm(256, 256, 256, (256, 256, 64), stages=4, threads=256)
    launch = launch_of(main, arch)
    assert versions == {count for _, count in launch.plan.versions}
    assert "T.Pipelined: 2 of 4 stages fit or are of use" in [note.text for note in launch.plan.notes]


@pytest.mark.parametrize(("arch", "stages", "count"), [("gfx950", 5, 0), ("gfx942", 3, 0), ("gfx942", 5, 1)])
def test_stages_are_said_to_be_of_no_use_where_they_are(arch, stages, count):
    found = [note for note in notes(gemm(64, 64, 96, (64, 64, 16), stages=stages)[0], arch) if "of use" in note]
    assert [f"T.Pipelined: 3 of {stages} stages fit or are of use"] * count == found


def test_one_copy_that_cannot_be_direct_sends_all_through_registers():
    main, arguments = gemm(64, 64, 48, (64, 64, 16), dtype="float32")
    assert "a_next" in {s.buffer.name for s in walk(launch_of(main, "gfx950").body) if isinstance(s, Alloc)}
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0,))


def test_tiles_too_large_for_registers_stay_in_place_and_that_is_said():
    main, _ = gemm(128, 128, 128, (128, 128, 64), threads=64)
    assert any("the loop stays serial: its tiles would take 32768 bytes of registers" in note for note in notes(main))


def test_a_tile_that_is_changed_stays_in_place():
    main, arguments = gemm(32, 32, 48, case="changed", stages=3)
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0,))


@pytest.mark.parametrize(
    ("order", "stage"), [([0, 1, 2], [0, 0, 1]), ([1, 0, 2], [0, 0, 0]), ([0, 1, 2], [0, 0, 2])]
)
def test_statements_placed_by_hand_run_in_their_stages(order, stage):
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for i in T.Pipelined(4, num_stages=2, order=order, stage=stage):
                T.copy(A[0, i * 16], a)
                T.copy(B[i * 16, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 64), (64, 32))]
    assert_simulates(main, *arrays, np.zeros((32, 32), np.float32), arch="gfx942")


def moves(arch):
    """What the loop of attention loads, computes and stores, in order."""
    launch = launch_of(attention(192, dim=128, held=True), arch)
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.var.name == "step")
    found = []
    for stmt in walk(loop.body):
        if isinstance(stmt, CallStmt) and stmt.routine.matrix is not None:
            found.append(f"{stmt.args[2].buffer.name.partition('_')[0]} multiplied")
        elif isinstance(stmt, Store):
            found += [f"{load.buffer.name} loaded" for load in loads_of(stmt.value) if load.buffer.scope is Scope.GLOBAL]
            found += [f"{stmt.buffer.name[0]} stored"] * (stmt.buffer.scope is Scope.SHARED)
    return list(dict.fromkeys(found))


def test_tiles_take_turns_where_matrix_instructions_hold_operands_twice():
    turns = ["K loaded", "K multiplied", "K stored", "V loaded", "V multiplied", "V stored"]
    assert turns == moves("gfx1100")
    assert ["K loaded", "V loaded", "K multiplied", "V multiplied", "V stored", "K stored"] == moves("gfx1200")


def test_tiles_that_take_turns_are_right():
    keys = 200  # the last tiles are ragged
    arrays = [np.random.default_rng(n).standard_normal((n, 128)).astype(np.float16) for n in (64, keys, keys, 64)]
    assert_simulates(attention(keys, dim=128, held=True), *arrays, arch="gfx1100", seeds=(0,), rtol=2e-2, atol=2e-3)


# -- parallel loops ------------------------------------------------------------------------------------------------
AHEAD = ["row", "named", "turned", "selected", "selected turned", "chosen", "twice", "plain", "offset", "columns", "other", "within"]
IN_PLACE = ["branch", "table", "held", "changed", "half", "converted", "shifted", "two"]


def loaded_ahead(func, arch):
    """The names of the registers to which tiles, indices and what loops compute with are loaded ahead."""
    allocs = [s.buffer.name for s in walk(launch_of(func, arch).body) if isinstance(s, Alloc)]
    return {name for name in allocs if name.endswith(("_next", "_rows"))}


@pytest.mark.parametrize("form", AHEAD)
def test_rows_that_are_gathered_are_loaded_ahead(form):
    names = {"plain": {"tile_next"}}.get(form, {"tile_next", "index_rows"})
    assert names == loaded_ahead(gathered(form), "gfx942")


@pytest.mark.parametrize("form", IN_PLACE)
def test_other_loops_stay_in_place(form):
    assert "tile_next" not in loaded_ahead(gathered(form), "gfx942")


@pytest.mark.slow(every=48)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100"])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("form", [*AHEAD, *IN_PLACE, "computed"])
def test_loops_that_gather_mean_what_they_did(form, stages, arch):
    for trip_count in (1, 2, 5):
        assert_simulates(gathered(form, stages, trip_count, threads=64), *arguments(trip_count), arch=arch, seeds=(0,))


def test_rows_out_of_bounds_have_the_safe_value():
    assert_simulates(gathered("row", 2, 4, safe=3, threads=64), *arguments(4), arch="gfx942", seeds=(0,))


def flagged(stages=2):
    """A tile of rows, and flags that say which of them there are."""

    @T.prim_func
    def main(A: T.Tensor((24, 64), "float16"), index: T.Tensor((5, 16), "int32"), C: T.Tensor((5, 16, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile, named = T.alloc_shared((16, 64), "float16"), T.alloc_shared((16,), "bool")
            for k in T.Pipelined(5, num_stages=stages):
                for i in T.Parallel(16):
                    named[i] = index[k, i] >= 0
                for i, j in T.Parallel(16, 64):
                    tile[i, j] = A[T.max(index[k, i], 0), j]
                for i, j in T.Parallel(16, 64):
                    C[k, i, j] = T.if_then_else(named[15 - i], tile[15 - i, j], -1)

    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (24, 64)).astype(np.float16), rng.integers(-3, 24, (5, 16)).astype(np.int32)]
    return main, [*arrays, np.zeros((5, 16, 64), np.float32)]


def test_what_a_loop_computes_with_is_loaded_ahead_too():
    main, arguments = flagged()
    assert {"tile_next", "index_rows", "index_next"} == loaded_ahead(main, "gfx942")
    assert_simulates(main, *arguments, arch="gfx942", seeds=(0, 1))


def test_nothing_new_is_in_flight_where_an_iteration_waits():
    """Loads complete in the order of issue: waits for flags and indices come before rows are issued."""
    launch = launch_of(flagged()[0], "gfx942")
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.var.name == "k")
    order = []
    for stmt in walk(loop.body):
        if isinstance(stmt, Store):
            order += [f"{load.buffer.name} to {stmt.buffer.name}" for load in loads_of(stmt.value)]
    flags, rows, *indices = map(order.index, ("index_next to named", "A to A_lanes", "index to index_rows", "index to index_next"))
    assert flags < rows < min(indices)


def compiled(func, arch, schedule=None):
    configs = {} if schedule is None else {"tl.schedule": schedule}
    return tilelang.compile(
        func, target={"kind": "hip", "arch": arch}, execution_backend="simulator", pass_configs=configs
    )


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_saved_schedule_gives_the_same_kernel(arch):
    main, _ = gemm(64, 64, 96, (64, 64, 16), stages=3)
    kernel = compiled(main, arch)
    text = kernel.explain().rpartition("schedule: ")[2]
    assert 1 == len(json.loads(text)[0]["loops"])
    assert kernel.get_kernel_source() == compiled(main, arch, text).get_kernel_source()


@pytest.mark.parametrize(("arch", "first", "copies"), [("gfx942", "C", "AC"), ("gfx950", "B", "AB")])
def test_loads_that_run_ahead_are_explained_by_a_timeline(arch, first, copies):
    main, _ = gemm(64, 64, 96, (64, 64, 16), stages=3)
    text = compiled(main, arch).explain()
    assert "T.Pipelined: copies run 2 iterations ahead: by estimate an iteration keeps the warps busy for" in text
    assert f"copies |{copies}...." in text
    assert re.search(rf"{first} line [0-9]+ \(2 iterations ahead\)", text)


def test_a_saved_schedule_without_a_placement_leaves_the_loop_serial():
    main, arguments = gemm(32, 32, 48, (32, 32, 16))
    serial, _ = gemm(32, 32, 48, (32, 32, 16), stages=0)
    made = compiled(main, "gfx942", '[{"loops": [null]}]')
    assert made.get_kernel_source().count("__syncthreads") == compiled(serial, "gfx942").get_kernel_source().count("__syncthreads")
    assert "a_next" not in made.get_kernel_source()
    *inputs, out = arguments
    made(*inputs, out)
    np.testing.assert_array_equal(out, inputs[0].astype(np.float32) @ inputs[1].astype(np.float32))


def placed(func, arch, place):
    """The saved schedule of a kernel, with another stage of each statement of its loop."""
    (chosen,) = json.loads(compiled(func, arch).explain().rpartition("schedule: ")[2])
    (loop,) = chosen["loops"]
    loop["stage"] = [place(stage) for stage in loop["stage"]]
    return json.dumps([chosen])


def test_an_edited_schedule_is_kept():
    main, (*inputs, out) = gemm(32, 32, 80, (32, 32, 16))
    made = compiled(main, "gfx942", placed(main, "gfx942", lambda stage: 2 * stage))  # the gemm another iteration later
    assert '"stage": [0, 0, 0, 0, 2]' in made.explain()
    made(*inputs, out)
    np.testing.assert_array_equal(out, inputs[0].astype(np.float32) @ inputs[1].astype(np.float32))


def test_an_edited_schedule_against_a_dependence_is_refused():
    main, _ = gemm(32, 32, 80, (32, 32, 16))
    with pytest.raises(tilelang.ProgramError) as raised:
        compiled(main, "gfx942", placed(main, "gfx942", lambda stage: 1 - stage))
    assert "order=[0, 4, 1, 3, 2], stage=[1, 1, 1, 1, 0], but 'a' would be used before it is filled" in str(raised.value)
    assert "order=[0, 4, 1, 3, 2], stage=[0, 0, 0, 0, 1] is the nearest that can be" in str(raised.value)
    assert "for i in T.Pipelined(" in str(raised.value)


def test_a_saved_schedule_of_another_loop_is_refused():
    main, _ = gemm(32, 32, 48, (32, 32, 16))
    with pytest.raises(tilelang.ProgramError, match="the loop has 5 statements, not 2"):
        compiled(main, "gfx942", '[{"loops": [{"order": [0, 1], "stage": [0, 1]}]}]')
    with pytest.raises(tilelang.ProgramError, match="'tl.schedule' places 2 loops, but the kernel has 1 pipelined loop"):
        compiled(main, "gfx942", '[{"loops": [null, null]}]')
