"""`T.reduce_*` as loops that carry a running value.

A dimension that is contiguous in memory is reduced into a mutable scalar, which `vectorize_loops` turns into a vector
tree; another one is reduced row by row into a row of running values, so that every access is contiguous.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import Store
from tilelang.lowering.loops import copied_if_overlapping
from tilelang.lowering.lowering import LoweringContext, PlainLowering
from tilelang.lowering.reduce_parts import At, ReduceParts
from tilelang.lowering.regions import indices, load
from tilelang.ops.reduce import Reduce
from tilelang.targets.cpu.lowerings.nest import assign, loop, nest, read, scratch, variable

_SCRATCH_BYTES = 64 * 1024  # a row of running values beyond this is reduced element by element instead


class SerialReduce(PlainLowering):
    """The lowering."""

    name = "reduce.serial"

    def lower(self, op: Reduce, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """Chooses the loop order by where the reduced dimension is."""
        parts = ReduceParts(dataclasses.replace(op, src=copied_if_overlapping(op.name, op.src, op.dst, build)))
        row = [int_const(extent) for extent in parts.inner]
        if not row or None in row or math.prod(e or 0 for e in row) * parts.dtype.storage_bytes > _SCRATCH_BYTES:
            _reduce_elements(parts, build)
        else:
            _reduce_rows(parts, build, [e or 0 for e in row])


def _reduce_elements(parts: ReduceParts, build: Builder) -> None:
    def element(at: tuple[Var, ...]) -> None:
        outer, inner = at[: len(parts.outer)], at[len(parts.outer) :]
        running = variable(build, "folded", parts.dtype, parts.start)
        loop(
            build,
            "k",
            parts.op.src.extent[parts.op.dim],
            lambda k: assign(build, running, parts.combine(read(running), parts.source(outer, k, inner))),
        )
        parts.result(build, at, read(running))

    nest(build, [*parts.outer, *parts.inner], element, "ijlmnop")


def _reduce_rows(parts: ReduceParts, build: Builder, row: list[int]) -> None:
    def rows(outer: tuple[Var, ...]) -> None:
        running = scratch(build, "folded", row, parts.dtype)
        every = tuple(range(len(row)))

        def each(letters: str, value: Callable[[At], Expr]) -> None:
            nest(
                build,
                running.extent,
                lambda at: build.emit(Store(running.buffer, indices(running, at, every), value(at))),
                letters,
            )

        each("jlmnop", lambda _: parts.start)
        loop(
            build,
            "k",
            parts.op.src.extent[parts.op.dim],
            lambda k: each("jlmnop", lambda at: parts.combine(load(running, at, every), parts.source(outer, k, at))),
        )
        nest(build, running.extent, lambda at: parts.result(build, (*outer, *at), load(running, at, every)), "jlmnop")

    nest(build, parts.outer, rows, "iuvw")
