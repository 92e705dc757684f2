"""Results are stored asynchronously through staging tiles, which are written again only when they have been read."""

import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Seq
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import (
    StageEpilogue,
    split_into_parts,
    stored_directly,
)


def leaving(func):
    launch = flatten_sequences(launch_of(func))
    stores = target_capabilities(func, TABLE, context()).epilogue_stores(launch, 128)
    return stores, to_text(StageEpilogue(stores).visit(launch.body) or Seq(()))


def from_line(text, begin):
    """The lines from the one on that begins so."""
    lines = [line.strip() for line in text.splitlines()]
    return lines[next(n for n, line in enumerate(lines) if line.startswith(begin)) :]


def test_a_fragment_goes_through_a_tile_of_the_result_s_dtype():
    (made,), text = leaving(gemm_kernel(256, 256, 256))
    assert ("C_l_staging", "float16", (128, 128)) == (
        made.staging.name,
        str(made.staging.dtype),
        made.staging.static_shape,
    )
    first, second = from_line(text, "T.copy(C_l, C_l_staging)")[:2]
    assert second.startswith("T.copy(C_l_staging, C[")
    assert "is_async=True" in second
    assert "wait for stores" not in text  # the tile is written once


@pytest.mark.parametrize("first", [0, 64])
def test_a_part_of_a_fragment_goes_through_a_tile_of_its_own_size(first):
    @T.prim_func
    def main(C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            C_l = T.alloc_fragment((64, 128), "float32")
            T.clear(C_l)
            T.copy(C_l[:, first : first + 64], C)

    (made,), text = leaving(main)
    assert (64, 64) == made.staging.static_shape
    assert f"T.copy(C_l[:, {first}:{first + 64}], C_l_staging)" in text


def test_tensors_that_the_copy_engine_cannot_write_are_left_alone():
    stores, text = leaving(gemm_kernel(256, 250, 256))
    assert () == stores
    assert "wait for stores" not in text


def test_a_single_element_is_no_box_for_the_copy_engine():
    @T.prim_func
    def main(A: T.Tensor((4, 1), "float32")):
        with T.Kernel(4, threads=128) as bx:
            A_l = T.alloc_fragment((1,), "float32")
            T.clear(A_l)
            T.copy(A_l, A[bx, :])

    stores, text = leaving(main)
    assert () == stores
    assert "wait for stores" not in text


def added(kind="add", how="relaxed", dtype="float32", value="tile"):
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), dtype)):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[bx * 64, 0], A_s)
                T.gemm(A_s, A_s, C_l)
                if kind == "max":
                    T.atomic_max(C, C_l, memory_order=how)
                else:
                    T.atomic_add(C, C_l if value == "tile" else 1.0, memory_order=how)

    return main


def test_what_is_added_goes_through_a_tile_that_is_written_once_it_has_been_read():
    (made,), text = leaving(added())
    assert made.adds
    assert made.pipelined
    wait, first, second = from_line(text, "wait for stores(read=True)")[:3]  # the order of additions does not matter
    assert "T.copy(C_l, C_l_staging)" == first
    assert second.startswith("T.atomic_add(")
    assert "is_async=True" in second


@pytest.mark.parametrize(
    "what", [{"kind": "max"}, {"how": "release"}, {"how": "seq_cst"}, {"dtype": "float8_e4m3fn"}, {"value": "scalar"}]
)
def test_atomics_that_the_copy_engine_does_not_have_are_left_to_threads(what):
    assert () == leaving(added(**what))[0]


def shifted(by):
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((512, 64), "float16")):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            T.gemm(A_s, A_s, C_l)
            T.copy(C_l, C[bx * 64 + by, 0])

    return main


@pytest.mark.parametrize(("by", "leaves"), [(0, True), (8, True), (1000, True), (-8, False)])
def test_tma_stores_nothing_that_may_begin_before_a_tensor(by, leaves):
    stores, _ = leaving(shifted(by))
    assert leaves == bool(stores)


def own_tile(reads_it="", order=3):
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            C_s = T.alloc_shared((64, 64), "float16")
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            T.gemm(A_s, A_s, C_l)
            for turn in T.serial(order):
                T.copy(C_l, C_s)
                T.copy(C_s, C[bx * 64 + turn, 0])
            if reads_it == "the tile":
                C_l[0, 0] = C_s[0, 0]
            if reads_it == "the result":
                C_l[0, 0] = C[0, 0]

    return main


def test_the_user_s_own_tile_is_taken_where_it_serves_nothing_else():
    (made,), text = leaving(own_tile())
    assert "C_s" == made.staging.name
    assert made.writer is not None
    assert "C_s = T.alloc_shared" not in text
    _, first, second = from_line(text, "wait for stores(read=False)")[:3]
    assert "T.copy(C_l, C_s)" == first
    assert "is_async=True" in second


@pytest.mark.parametrize("reads_it", ["", "the tile"])
def test_results_are_stored_from_registers_where_the_user_s_own_tile_serves_nothing_else(reads_it):
    func = own_tile(reads_it=reads_it)
    launch = flatten_sequences(launch_of(func))
    stores = target_capabilities(func, TABLE, context()).epilogue_stores(launch, 128)
    assert bool(stores) is not bool(reads_it)
    made = stored_directly(launch, stores)
    assert (made is launch) is bool(reads_it)
    if not reads_it:
        (store,) = from_line(to_text(made.body), "T.copy(C_l, ")[:1]
        assert store.startswith("T.copy(C_l, C[bx * 64")
        assert "C_s" not in to_text(made.body)


def test_results_pass_in_parts_beside_the_user_s_own_tile():
    func = own_tile(order=1)
    launch = flatten_sequences(launch_of(func))
    (made,) = target_capabilities(func, TABLE, context()).epilogue_stores(launch, 128)
    parts = split_into_parts(made, 2)
    assert (2, (64, 32)) == (parts.parts, parts.staging.static_shape)
    text = to_text(StageEpilogue([parts]).visit(launch.body))
    assert "C_s" not in text
    assert 2 == text.count("T.copy(C_l[") == text.count("is_async=True")


def test_a_tile_that_is_not_stored_at_once_keeps_what_registers_lose():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            C_l = T.alloc_fragment((64, 64), "float32")
            C_s = T.alloc_shared((64, 64), "float16")
            T.copy(A, C_l)
            T.copy(C_l, C_s)
            T.clear(C_l)
            T.copy(C_s, C)

    (made,) = target_capabilities(main, TABLE, context()).epilogue_stores(flatten_sequences(launch_of(main)), 128)
    assert "C_s" == made.staging.name
    assert made == split_into_parts(made, 2)


@pytest.mark.parametrize("what", ["the tile", "the result"])
def test_what_else_is_read_stays_where_the_program_sees_it(what):
    stores, text = leaving(own_tile(reads_it=what))
    assert () == stores
    assert "pending" not in text


def test_tiles_of_the_grid_are_disjoint_so_that_a_wait_for_reads_suffices():
    func = own_tile()
    launch = flatten_sequences(launch_of(func))
    stores = target_capabilities(func, TABLE, context()).epilogue_stores(launch, 128)
    text = to_text(StageEpilogue(stores, independent_loops=1).visit(launch.body) or Seq(()))
    assert "wait for stores(read=True)" in text


@pytest.mark.parametrize(
    ("what", "stays"), [("ticket", True), ("tile", True), ("relaxed", False), ("look", False), ("shared", False)]
)
def test_results_before_a_release_are_not_stored_asynchronously(what, stays):
    @T.prim_func
    def main(
        A: T.Tensor((256, 64), "float16"), C: T.Tensor((256, 64), "float16"), n: T.Tensor((4,), "int32")
    ):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            near = T.alloc_shared((4,), "int32")
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            T.gemm(A_s, A_s, C_l)
            T.copy(C_l, C[bx * 64, 0])
            if what == "ticket":
                T.atomic_add(n[0], 1, return_prev=True)
            if what == "tile":
                T.atomic_add(n[0:4], 1, memory_order="release")
            if what == "relaxed":
                T.atomic_add(n[0], 1)
            if what == "look":
                T.atomic_load(n[0])
            if what == "shared":
                T.atomic_add(near[0], 1, memory_order="release")

    assert (() == leaving(main)[0]) is stays


def in_branches(how="tile", turns=0):
    @T.prim_func
    def main(
        A: T.Tensor((256, 64), "float16"), ends: T.Tensor((4,), "int32"), C: T.Tensor((256, 64), "float16")
    ):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            C_s = T.alloc_shared((64, 64), "float16")
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            T.gemm(A_s, A_s, C_l)
            for _ in T.serial(turns or 1) if turns else range(1):
                if how != "fragment":
                    T.copy(C_l, C_s)
                if ends[bx] >= 64:
                    T.copy(C_l if how == "fragment" else C_s, C[bx * 64, 0])
                    if how == "twice":
                        C[bx * 64, 0] = 1
                else:
                    if how == "written":
                        T.clear(C_s)
                    for i, j in T.Parallel(64, 64):
                        if i < ends[bx]:
                            C[bx * 64 + i, j] = C_l[i, j] if how == "fragment" else C_s[i, j]
                if how == "read behind":
                    C_l[0, 0] = C_s[0, 0]

    return main


@pytest.mark.parametrize("how", ["tile", "fragment"])
def test_the_copy_engine_stores_whole_tiles_where_threads_store_others(how):
    (made,), text = leaving(in_branches(how))
    assert "C_s" == made.staging.name if how == "tile" else made.writer is None
    assert "is_async=True" in from_line(text, f"T.copy({made.staging.name}, C[")[0]
    assert "C[bx * 64 + i, j] = " in text  # by threads


@pytest.mark.parametrize(
    "what", [{"how": "twice"}, {"how": "written"}, {"how": "read behind"}, {"turns": 2}, {"how": "fragment", "turns": 2}]
)
def test_stores_in_a_branch_stay_where_others_may_meet_them(what):
    assert () == leaving(in_branches(**what))[0]
