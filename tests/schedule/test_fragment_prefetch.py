"""Loops whose first fragments are loaded an iteration ahead: what is divided, and when its parts run."""

import dataclasses

import numpy as np
import pytest
from harness import run_reference_on_copies

import tilelang.language as T
from tilelang.ir.stmt import For, ForKind, Launch, Seq
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.saved_schedule import in_sequence
from tilelang.schedule.fragment_prefetch import OperandLoads, fragment_prefetch
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import outside_uses, version_counts

STEP, REGISTERS = 16, 10


def program(case="", depth=32):
    """Multiplies tiles of A and B; `case` puts something beside that."""

    @T.prim_func
    def main(A: T.Tensor((32, 2 * depth), "float16"), B: T.Tensor((2 * depth, 32), "float16"), C: T.Tensor((2, 32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((32, depth), "float16"), T.alloc_shared((depth, 32), "float16")
            c, d = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(2, num_stages=3):
                T.copy(A[0, k * depth], a)
                T.copy(B[k * depth, 0], b)
                if case == "before":
                    T.clear(d)
                T.gemm(a, b, c, clear_accum=case == "clears")
                if case == "second":
                    T.gemm(a, b, d)
                if case == "registers":
                    for i, j in T.Parallel(32, 32):
                        d[i, j] = c[i, j]
                if case == "shared":
                    for i, j in T.Parallel(32, 32):
                        d[i, j] += a[i, j]
            T.copy(c, C[0, :, :])
            T.copy(d, C[1, :, :])

    return main


def divided(func, *, registers=2 * REGISTERS, copies_at_the_end=False, divisible=True):
    """What becomes of the loop of a program, whose copies come before or after all else."""
    (launch,) = (s for s in walk(func.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    count = len(LoopBody(loop).statements)
    sequence = [*range(2, count), 0, 1] if copies_at_the_end else range(count)
    placement = in_sequence([0, 0, *[2] * (count - 2)], sequence)
    loads = OperandLoads(STEP, REGISTERS, "load", (ACCEPTED, ACCEPTED)) if divisible else None
    return fragment_prefetch(loop, placement, outside_uses(launch)[loop], lambda gemm: loads, registers)


def made(case="", depth=32, **options):
    return divided(program(case, depth), **options)


def in_order(found):
    """Stage and text of the statements in the order in which they run."""

    def text(stmt):
        if isinstance(stmt, Copy):
            return f"{stmt.src.buffer.name} to {stmt.dst.buffer.name}"
        if not isinstance(stmt, Gemm):
            return "loop"
        ends = [f" from {stmt.first[0].buffer.name}"] if stmt.first else []
        ends += [f" to {stmt.last[0].buffer.name}"] if stmt.last else []
        return f"{stmt.a.buffer.name} by {stmt.b.buffer.name}{''.join(ends)}"

    statements = LoopBody(found.loop).statements
    return [(found.placement.stage[n], text(statements[n])) for n in found.placement.sequence]


def test_the_first_step_is_loaded_before_the_last_is_multiplied_and_copies_come_after_that():
    assert [
        (3, "a by b from a_first to a_last"),
        (2, "a to a_first"), (2, "b to b_first"), (0, "A to a"), (0, "B to b"),
        (3, "a_last by b_last"),
    ] == in_order(made())  # fmt: skip


def test_tiles_keep_their_versions():
    found = made()
    counts = version_counts(LoopBody(found.loop), found.placement)
    assert {"a": 3, "b": 3} == {buffer.name: count for buffer, count in counts.items()}


def test_of_two_gemms_the_first_gives_the_loads_and_the_last_hides_them():
    assert [
        "a by b from a_first", "a by b to a_last", "a to a_first", "b to b_first", "A to a", "B to b", "a_last by b_last",
    ] == [text for _, text in in_order(made("second"))]  # fmt: skip


def test_a_step_of_each_suffices_for_two_gemms():
    assert made("second", depth=16)


def test_what_uses_registers_only_may_come_after_the_last_gemm():
    assert ["a_last by b_last", "loop"] == [text for _, text in in_order(made("registers"))][-2:]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"case": "before"}, id="the iteration begins with something else"),
        pytest.param({"case": "shared"}, id="something else reads shared memory last"),
        pytest.param({"copies_at_the_end": True}, id="copies come last"),
        pytest.param({"depth": 16}, id="the first step is the last"),
        pytest.param({"registers": 2 * REGISTERS - 1}, id="too few registers"),
        pytest.param({"divisible": False}, id="a gemm that the target does not divide"),
    ],
)
def test_loops_that_stay(options):
    assert made(**options) is None


class _Divided(Rewriter):
    """Puts the divided loop in its place, without a pipeline."""

    def __init__(self, found):
        self._found = found

    def stmt(self, node):
        if isinstance(node, For) and node.pipeline is not None:
            loop = dataclasses.replace(self._found.loop, kind=ForKind.SERIAL, pipeline=None)
            return Seq((*self._found.registers, loop))
        return self.rebuild_stmt(node)


@pytest.mark.parametrize("case", ["", "second", "clears"])
@pytest.mark.parametrize("depth", [32, 48])
def test_in_program_order_the_divided_loop_means_what_the_loop_did(case, depth):
    func = program(case, depth)
    after = dataclasses.replace(func, body=_Divided(divided(func)).visit(func.body))
    rng = np.random.default_rng(depth)
    a, b = rng.integers(-3, 4, (32, 2 * depth)), rng.integers(-3, 4, (2 * depth, 32))
    arguments = a.astype(np.float16), b.astype(np.float16), np.zeros((2, 32, 32), np.float32)
    for want, got in zip(run_reference_on_copies(func, arguments), run_reference_on_copies(after, arguments), strict=True):
        np.testing.assert_array_equal(want, got)
