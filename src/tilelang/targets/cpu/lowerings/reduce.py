"""`T.reduce_*` as loops that carry a running value.

A dimension that is contiguous in memory is folded into a mutable scalar, which `vectorize_loops` turns into a vector
tree; another one is folded row by row into a row of running values, so that every access is contiguous.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.stmt import Store
from tilelang.lowering.fold import At, Fold
from tilelang.lowering.regions import indices, load
from tilelang.ops.reduce import Reduce
from tilelang.targets.cpu.lowerings.copy import copied_if_overlapping
from tilelang.targets.cpu.lowerings.nest import assign, loop, nest, read, scratch, variable

_SCRATCH_BYTES = 64 * 1024  # a row of running values beyond this is folded element by element instead

def lower_reduce(op: Reduce, build: Builder) -> None:
    """Chooses the loop order by where the folded dimension lies."""
    fold = Fold(dataclasses.replace(op, src=copied_if_overlapping(op.name, op.src, op.dst, build)))
    row = [int_const(extent) for extent in fold.inner]
    if not row or None in row or math.prod(e or 0 for e in row) * fold.dtype.storage_bytes > _SCRATCH_BYTES:
        _fold_elements(fold, build)
    else:
        _fold_rows(fold, build, [e or 0 for e in row])


def _fold_elements(fold: Fold, build: Builder) -> None:
    def element(at: tuple[Var, ...]) -> None:
        outer, inner = at[: len(fold.outer)], at[len(fold.outer) :]
        running = variable(build, "folded", fold.dtype, fold.start)
        loop(
            build,
            "k",
            fold.op.src.extent[fold.op.dim],
            lambda k: assign(build, running, fold.combine(read(running), fold.source(outer, k, inner))),
        )
        fold.result(build, at, read(running))

    nest(build, [*fold.outer, *fold.inner], element, "ijlmnop")


def _fold_rows(fold: Fold, build: Builder, row: list[int]) -> None:
    def rows(outer: tuple[Var, ...]) -> None:
        running = scratch(build, "folded", row, fold.dtype)
        every = tuple(range(len(row)))

        def each(letters: str, value: Callable[[At], Expr]) -> None:
            nest(
                build,
                running.extent,
                lambda at: build.emit(Store(running.buffer, indices(running, at, every), value(at))),
                letters,
            )

        each("jlmnop", lambda _: fold.start)
        loop(
            build,
            "k",
            fold.op.src.extent[fold.op.dim],
            lambda k: each("jlmnop", lambda at: fold.combine(load(running, at, every), fold.source(outer, k, at))),
        )
        nest(build, running.extent, lambda at: fold.result(build, (*outer, *at), load(running, at, every)), "jlmnop")

    nest(build, fold.outer, rows, "iuvw")
