import numpy as np
from distributed_tiles import BEFORE, SM80, launches, nests

import tilelang.language as T
from tilelang.analysis.tile_uses import tile_uses
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Stmt
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import with_launches
from tilelang.passes.runner import run_passes
from tilelang.sim.tile_interp import run_reference
from tilelang.transforms.convert_layouts import cost_in_bytes, insert_conversions, interchanged, replaced


@T.prim_func
def program(A: T.Tensor((8, 8), T.float16), B: T.Tensor((8, 8), T.float32)):
    with T.Kernel(1, threads=32) as _:
        a = T.alloc_fragment((8, 8), T.float16)
        b = T.alloc_shared((8, 8), T.float16)
        c = T.alloc_fragment((8, 8), T.float32)
        for i, j in T.Parallel(8, 8):
            a[i, j] = A[i, j]
            b[i, j] = A[i, j]
        for i, j in T.Parallel(8, 8):
            c[i, j] = 1
        T.gemm(a, b, c)
        for i, j in T.Parallel(8, 4):
            c[i, j] += a[i, j]
        for i, j in T.Parallel(8, 8):
            B[i, j] = c[i, j]


def converted(pick: str) -> tuple[PrimFunc, str]:
    """The program with everything that `pick` names converted, and its text."""
    func = run_passes(program, BEFORE, SM80)
    (launch,) = launches(func)
    tiles = {s.buffer.name: s.buffer for s in walk(launch.body) if isinstance(s, Alloc)}
    product = next(s for s in walk(launch.body) if isinstance(s, Gemm))
    places: dict[str, Stmt] = {"fill": nests(func)[1], "product": product, "part": nests(func)[2]}
    conversions: dict[Stmt, list[Buffer]] = {}
    for entry in pick.split():
        where, _, what = entry.partition(":")
        conversions[places[where]] = [tiles[name] for name in what.split(",")]
    new = insert_conversions(launch, conversions, tile_uses(func, launch, (Scope.FRAGMENT,)))
    changed = with_launches(func, lambda _: new)
    return changed, to_text(changed.body)


def assert_same_meaning(changed: PrimFunc) -> None:
    a = np.random.default_rng(0).integers(-4, 4, (8, 8)).astype(np.float16)
    expected, actual = (np.zeros((8, 8), np.float32) for _ in range(2))
    run_reference(program, [a, expected])
    run_reference(changed, [a, actual])
    np.testing.assert_array_equal(expected, actual)


def test_a_loop_that_overwrites_a_fragment_reads_nothing_before() -> None:
    changed, text = converted("fill:c")
    assert_same_meaning(changed)
    assert 1 == text.count('alloc_shared((8, 8), "float32")')
    assert len(nests(program)) + 1 == len(nests(changed))


def test_the_plan_counts_the_tiles_of_conversions() -> None:
    assert [0, 1024, 2048] == [launches(converted(pick)[0])[0].plan.conversion_bytes for pick in ("", "fill:c", "fill:c part:c")]


def test_a_loop_that_changes_a_part_reads_all_before() -> None:
    changed, _ = converted("part:c")
    assert_same_meaning(changed)
    assert len(nests(program)) + 2 == len(nests(changed))


def test_an_operator_gets_fragments_of_its_own() -> None:
    changed, text = converted("product:a,c")
    assert_same_meaning(changed)
    assert "T.gemm(a_moved, b, c_moved)" in text
    assert len(nests(program)) + 2 + 4 == len(nests(changed))


def test_several_conversions_at_once() -> None:
    assert_same_meaning(converted("fill:c product:a,c part:a,c")[0])


def test_a_conversion_costs_the_bytes_of_the_fragment() -> None:
    tile = next(s.buffer for s in walk(program.body) if isinstance(s, Alloc))
    assert 128 == cost_in_bytes(tile)


def test_nests_are_turned_and_replaced() -> None:
    first = nests(program)[0]
    other = interchanged(first, [1, 0])
    assert first.vars[::-1] == other.vars
    body = replaced(program.body, {first: other})
    assert [other, *nests(program)[1:]] == nests(PrimFunc("f", program.params, body))
