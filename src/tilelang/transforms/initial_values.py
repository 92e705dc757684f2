"""Replaces initial values of mutable scalars in a pipelined loop by stores.

Takes a loop; gives one in which allocations have no initial value. Invariant: a pipeline may move allocations to the
start of an iteration, and the scalars still get the values computed by preceding statements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.ir.stmt import Alloc, Bind, For, PipelineSpec, Seq, Stmt, Store


def with_initial_values_stored(loop: For) -> For:
    """The loop with initial values of mutable scalars as stores, which are scheduled like other statements.

    Manual `order` and `stage` have no entries for these stores: each is placed right before the next statement of the
    last stage.

    Args:
        loop: A pipelined loop, with or without manual `order` and `stage`.
    """
    stores: set[Stmt] = set()
    body = _split(loop.body, stores)
    if not stores:
        return loop
    spec = loop.pipeline
    if spec is not None and (spec.order is not None or spec.stage is not None):
        spec = _spec_with([s in stores for s in body if not isinstance(s, Alloc | Bind)], spec)
    return dataclasses.replace(loop, body=Seq(tuple(body), loc=loop.body.loc), pipeline=spec)


def _split(stmt: Stmt, stores: set[Stmt]) -> list[Stmt]:
    """The statements of a body with initial values as stores, which are added to `stores`."""
    if isinstance(stmt, Seq):
        return [made for child in stmt.body for made in _split(child, stores)]
    if not isinstance(stmt, Alloc) or stmt.init is None:
        return [stmt]
    store = Store(stmt.buffer, (), stmt.init, loc=stmt.loc)
    stores.add(store)
    return [dataclasses.replace(stmt, init=None), store]


def _spec_with(is_new: Sequence[bool], spec: PipelineSpec) -> PipelineSpec:
    """The manual `order` and `stage` for a body in which some statements are new."""
    count = len(is_new)
    known = count - sum(is_new)
    order, stage = spec.order or tuple(range(known)), spec.stage or (0,) * known
    if len(order) != known or len(stage) != known:
        return spec
    last = max(stage, default=0)
    orders, stages, old = [], [], 0
    for position, new in enumerate(is_new):
        if not new:
            orders.append(order[old] * (count + 1))
            stages.append(stage[old])
            old += 1
            continue
        end = max(order, default=0) + 1
        following = next((o for o, s in zip(order[old:], stage[old:], strict=True) if s == last), end)
        orders.append(following * (count + 1) - count + position)
        stages.append(last)
    return PipelineSpec(spec.num_stages, tuple(orders), tuple(stages))
