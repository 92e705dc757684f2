"""Loops whose copies pass registers: what is divided, and when its parts run."""

import pytest
from gathered_rows import gathered

import tilelang.language as T
from tilelang.ir.stmt import For, Launch, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.im2col import Im2Col
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import outside_uses, version_counts
from tilelang.schedule.register_prefetch import Prefetched, prefetched


def program(case=""):
    """Multiplies tiles of A and B; `case` puts something in the way of those of B."""

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, k * 16], a)
                if case == "part":
                    T.copy(B[k * 16 : k * 16 + 8, :], b[0:8, :])
                    T.copy(B[k * 16 + 8 : k * 16 + 16, :], b[8:16, :])
                elif case == "condition":
                    if k < 3:
                        T.copy(B[k * 16, 0], b)
                else:
                    T.copy(B[k * 16, 0], b)
                T.gemm(a, b, c)
                if case == "source":
                    T.copy(b, B[k * 16, 0])
            if case == "after":
                T.copy(b, B[0, 0])
            T.copy(c, C)

    (launch,) = (s for s in walk(main.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    return loop, outside_uses(launch)[loop]


def divided(case="", versions=1, register_bytes=1 << 20, free_bytes=1 << 20):
    return prefetched(*program(case), versions, register_bytes, free_bytes)


def loaded(made):
    """The names of the tiles that are loaded to registers ahead."""
    return [alloc.buffer.name for alloc in made.registers]


@pytest.mark.parametrize(("versions", "expected"), [(1, {}), (2, {"a": 2, "b": 2}), (5, {"a": 2, "b": 2})])
def test_tiles_have_as_many_versions_as_asked_for_up_to_two(versions, expected):
    made = divided(versions=versions)
    counts = version_counts(LoopBody(made.loop), made.placement)
    assert expected == {buffer.name: count for buffer, count in counts.items()}


def test_loads_come_first_and_stores_last_in_reverse():
    made = divided()
    statements = LoopBody(made.loop).statements
    names = {n: f"{s.src.buffer.name} to {s.dst.buffer.name}" if isinstance(s, Copy) else "gemm" for n, s in enumerate(statements)}
    order = [names[n] for n in sorted(names, key=lambda n: made.placement.order[n])]
    assert ["A to a_next", "B to b_next", "gemm", "b_next to b", "a_next to a"] == order
    assert (0, 0, 0, 0, 1) == made.placement.stage
    assert ["a_next", "b_next"] == loaded(made)


@pytest.mark.parametrize("case", ["part", "condition", "after", "source"])
def test_copies_that_cannot_run_ahead_stay_in_place(case):
    assert ["a_next"] == loaded(divided(case))


def test_registers_are_not_spent_beyond_their_share():
    size = 2 * (32 * 16 + 16 * 32)
    assert isinstance(divided(register_bytes=size), Prefetched)
    assert divided(register_bytes=size - 1) == f"its tiles would take {size} bytes of registers, and {size - 1} are spared for them"


def test_without_a_copy_there_is_a_reason():
    loop, outside = program()
    body = [s for s in walk(loop.body) if not isinstance(s, Copy)][-1]
    assert "no copy from global memory" in prefetched(For(loop.var, loop.start, loop.stop, 1, loop.kind, body), outside, 1, 1, 1)


def test_patches_of_an_image_are_loaded_as_such():
    @T.prim_func
    def main(A: T.Tensor((1, 8, 8, 16), "float16"), W: T.Tensor((144, 32), "float16"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 16), "float16")
            w = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(9, num_stages=2):
                T.im2col(A, a, 0, k, 3, 1, 1, 1)
                T.copy(W[k * 16, 0], w)
                T.gemm(a, w, c)
            T.copy(c, C)

    (launch,) = (s for s in walk(main.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    made = prefetched(loop, outside_uses(launch)[loop], 1, 1 << 20, 1 << 20)
    (load,) = (s for s in walk(made.loop) if isinstance(s, Im2Col))
    assert "im2col.loop" == load.choice


@pytest.mark.parametrize(
    ("spared", "names"),
    [
        (256 + 512 + 64 + 256, ["index_next", "index_rows", "table_next", "tile_next"]),
        (256 + 512 + 64, ["index_rows", "table_next", "tile_next"]),
        (256, ["table_next"]),
    ],
)
def test_what_parallel_loops_load_is_left_in_place_where_registers_are_few(spared, names):
    @T.prim_func
    def main(A: T.Tensor((24, 16), "float16"), B: T.Tensor((5, 64), "int32"), index: T.Tensor((5, 64), "int32"), C: T.Tensor((5, 16, 16), "float16")):
        with T.Kernel(1, threads=64):
            tile, table, named = T.alloc_shared((16, 16), "float16"), T.alloc_shared((64,), "int32"), T.alloc_shared((64,), "bool")
            for k in T.Pipelined(5, num_stages=2):
                T.copy(B[k, 0:64], table)
                for i in T.Parallel(64):
                    named[i] = index[k, i] >= 0
                for i, j in T.Parallel(16, 16):
                    tile[i, j] = A[index[k, i], j]
                for i, j in T.Parallel(16, 16):
                    C[k, i, j] = T.if_then_else(named[i], tile[i, j], table[j])

    (launch,) = (s for s in walk(main.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    made = prefetched(loop, outside_uses(launch)[loop], 1, spared, spared)
    assert names == sorted(loaded(made))


def test_indices_run_two_iterations_ahead_and_rows_one():
    loop = next(s for s in walk(gathered("row").body) if isinstance(s, For))
    made = prefetched(loop, {}, 1, 1 << 20, 1 << 20)
    statements = LoopBody(made.loop).statements
    rows = [s for s in statements if isinstance(s, ParallelLoop)][:2]
    index, load = (statements.index(s) for s in rows)
    assert (0, 1, 2) == (made.placement.stage[index], made.placement.stage[load], made.placement.last)
    assert made.placement.order[load] < made.placement.order[index]


# -- turns -------------------------------------------------------------------------------------------------------
def in_turn(uses, *, versions=1, free_bytes=0):
    """Each statement, in the order of the pipelined loop, as what it stores; tile n is as wide as n + 1 others.

    Args:
        uses: Of each computation, the tiles that it reads.
        versions: Versions of each tile.
        free_bytes: Of registers.
    """
    numbers, reads = tuple(range(1 + max(map(max, uses)))), tuple(enumerate(uses))

    @T.prim_func
    def main(A: T.Tensor((len(numbers), 64, 64), "float32"), C: T.Tensor((len(uses), 16, 64), "float32")):
        with T.Kernel(1, threads=64):
            tiles = [T.alloc_shared((16, 16 * (n + 1)), "float32") for n in numbers]
            for k in T.Pipelined(4, num_stages=2):
                for n in numbers:
                    T.copy(A[n, k * 16, 0], tiles[n])
                for step, read in reads:
                    for i, j in T.Parallel(16, 16):
                        C[step, i, j] = sum(tiles[n][15 - i, j] for n in read)

    (launch,) = (s for s in walk(main.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    made = prefetched(loop, outside_uses(launch)[loop], versions, 1 << 20, free_bytes)
    statements = LoopBody(made.loop).statements
    assert {0, 1} == set(made.placement.stage) or versions == 2
    tiles = [alloc.buffer for alloc in made.registers]
    return " ".join(_named(statements[n], tiles) for n in made.placement.sequence)


def _named(stmt, tiles):
    """`load0` is that of the first tile, `store0` its store, and `compute` everything else."""
    if not isinstance(stmt, Copy):
        return "compute"
    target = stmt.dst.buffer
    return f"load{tiles.index(target)}" if target in tiles else f"store{tiles.index(stmt.src.buffer)}"


def test_tiles_that_are_read_one_after_another_take_turns_where_registers_are_few():
    assert "load0 compute store0 load1 compute store1" == in_turn([[0], [1]])
    size = 16 * (16 + 32) * 4
    assert "load0 compute store0 load1 compute store1" == in_turn([[0], [1]], free_bytes=size - 1)
    assert "load0 load1 compute compute store1 store0" == in_turn([[0], [1]], free_bytes=size)
    assert "load0 load1 compute compute store1 store0" == in_turn([[0], [1]], versions=2)


@pytest.mark.parametrize("uses", [[[0, 1]], [[0], [1], [0]], [[0, 1], [1]]])
def test_tiles_that_are_read_together_are_loaded_together(uses):
    computations = " ".join(["compute"] * len(uses))
    assert f"load0 load1 {computations} store1 store0" == in_turn(uses)


def test_turns_are_two_and_as_equal_as_they_can_be():
    assert "load0 load1 compute compute store1 store0 load2 compute store2" == in_turn([[0], [1], [2]])
    assert "load2 compute store2 load0 load1 compute compute store1 store0" == in_turn([[2], [1], [0]])
    assert "load0 load1 compute store1 store0 load2 compute compute store2" == in_turn([[0, 1], [2], [2]])
