"""Runs the passes that distribute tiles over threads, and checks their decisions in every iteration."""

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np
from layouts import owners
from simt import run_in_step

from tilelang.analysis.accesses import Access
from tilelang.analysis.tile_uses import tile_uses
from tilelang.analysis.unrolled_loops import is_unrolled, values
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, Launch, ParallelLoop, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.by_loop import LOOPS
from tilelang.lowering.lowering import LoweringContext, Lowerings, Refusal
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import check_program, demote_fragments, flatten_parallel, inline_bindings
from tilelang.passes.tile.expand_to_loops import expand_to_loops
from tilelang.passes.tile.infer_layouts import infer_layouts
from tilelang.passes.tile.lower_to_threads import lower_to_threads
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.target import Target

SM80 = PassContext(target=Target("cuda", "sm_80"))
BEFORE = (check_program.PASS, inline_bindings.PASS)


def _table(lowerings: Lowerings | None) -> Lowerings:
    """Some lowerings, and loops for all other operators."""
    return {**{kind: (row,) for kind, row in LOOPS.items()}, **(lowerings or {})}


def _chosen(lowerings: Lowerings) -> Pass:
    """Writes the first lowering onto every operator."""

    class Choose(Rewriter):
        def __init__(self, context: PassContext) -> None:
            self._context = LoweringContext(context.target, context.options, 0)

        def stmt(self, node: Stmt) -> Stmt | None:
            if isinstance(node, Launch):
                self._context = dataclasses.replace(self._context, threads=node.num_threads)
            rows = lowerings.get(type(node), ())  # type: ignore[call-overload]
            if not rows:
                return self.rebuild_stmt(node)
            plan = rows[0].accepts(node, self._context)
            assert not isinstance(plan, Refusal)
            return dataclasses.replace(node, choice=rows[0].name, plan=plan)

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        return dataclasses.replace(func, body=Choose(context).visit(func.body))

    return Pass("chosen", run, Level.TILE, Level.TILE)


def demoted(func: PrimFunc, lowerings: Lowerings | None = None) -> PrimFunc:
    """The function up to the decision which tiles are spread."""
    table = _table(lowerings)
    loops = (expand_to_loops(table), flatten_parallel.PASS, demote_fragments.PASS)
    return run_passes(func, (*BEFORE, _chosen(table), *loops), SM80)


def distribute(func: PrimFunc, lowerings: Lowerings | None = None) -> PrimFunc:
    """The function with layouts, every one of them checked."""
    result = run_passes(demoted(func, lowerings), (infer_layouts(_table(lowerings)),), SM80)
    for launch in launches(result):
        _check(result, launch)
    return result


def launches(func: PrimFunc) -> list[Launch]:
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]


def nests(func: PrimFunc) -> list[ParallelLoop]:
    return [stmt for stmt in walk(func.body) if isinstance(stmt, ParallelLoop)]


def fragments(func: PrimFunc) -> dict[str, Fragment]:
    return {buffer.name: layout for launch in launches(func) for buffer, layout in launch.plan.fragments}


def notes(func: PrimFunc) -> list[str]:
    return [note.text for launch in launches(func) for note in launch.plan.notes]


def conversions(func: PrimFunc) -> list[str]:
    return [note for note in notes(func) if "of shared memory for" in note]


def assert_same(func: PrimFunc, *arguments: np.ndarray, lowerings: Lowerings | None = None) -> PrimFunc:
    """Compares the threads of a block, run in step, with the meaning of the program; gives the spread function."""
    expected = [np.array(a) for a in arguments]
    run_reference(func, expected)
    result = distribute(func, lowerings)
    actual, _ = run_in_step(run_passes(result, (lower_to_threads(_table(lowerings)),), SM80), arguments)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(want, got)
    return result


def ints(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    """Small integers, of which sums are exact."""
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(dtype)


# -- brute force -------------------------------------------------------------------------------------------------
def _check(func: PrimFunc, launch: Launch) -> None:
    """Every thread holds the elements that its iterations name, and stores reach all copies."""
    layouts: Mapping[Buffer, Fragment] = dict(launch.plan.fragments)
    uses = tile_uses(func, launch, (Scope.FRAGMENT,))
    for buffer, of in uses.of.items():
        held = owners(layouts[buffer])
        for use in of.nests:
            layout = use.nest.layout
            assert layout is not None
            assert layout.threads == launch.num_threads
            named = _named(use.access, use.nest, layout, held.shape)
            if use.access.write and use.access.update is None:
                touched = named.any(axis=-1)
                assert np.array_equal(named[touched], held[touched])
            elif not held.all():
                assert (named <= held).all()
        if of.scalar or of.calls:
            assert held.all()


def _named(access: Access, nest: ParallelLoop, layout: Fragment, shape: tuple[int, ...]) -> np.ndarray:
    """Which threads name which elements.

    Shapes: (*shape of the buffer, threads).
    """
    table = layout.table
    inside = (table < np.array(layout.shape)).all(axis=-1)
    thread = np.broadcast_to(np.arange(layout.threads)[:, None], inside.shape)[inside]
    env = {var: table[..., axis][inside] for axis, var in enumerate(nest.vars)}
    loops = access.context.loops()
    place = loops.index(nest)
    inner = [loop for loop in loops[place + 1 :] if isinstance(loop, For)]
    inner += [loop for loop in loops[:place] if isinstance(loop, For) and is_unrolled(loop)]
    found = np.zeros(shape, bool)
    for taken in itertools.product(*(values(loop) or () for loop in inner)):
        known = {**env, **dict(zip((loop.var for loop in inner), taken, strict=True))}
        at = [np.broadcast_to(np.asarray(evaluate(index, known, exact=True)), thread.shape) for index in access.start]
        valid = np.all([(a >= 0) & (a < extent) for a, extent in zip(at, shape, strict=False)], axis=0)
        found[(*(a[valid] for a in at), thread[valid])] = True
    return found
