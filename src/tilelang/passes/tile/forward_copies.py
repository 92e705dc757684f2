"""Lets `T.gemm` read operands where they lie, instead of a copy that nothing else looks at.

Takes a tile-level function; a `T.copy` of a run of global memory into a buffer that only matrix products read goes
away together with the buffer. A target whose products read any memory wants this. Invariant: the function never
writes that global memory, the copy is proven to lie inside of it, it fills the whole buffer without converting, and
every product reads after it, so the elements are the same ones. Rows of the copied box are neighbors in memory: tiles
cut from longer rows stay copied, since their rows would compete for the same lines of the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.arith.domain import Domain, behind, of_function
from tilelang.arith.prove import proves
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Atomic, For, If, Launch, ParallelLoop, Print, Seq, Stmt, Store, TileOp, While
from tilelang.ir.visit import Rewriter, expressions, walk, walk_expr
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_body


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    candidates = _candidates(func)
    if not candidates:
        return func
    found: dict[Copy, Region] = {}
    _search(func.body, of_function(func), candidates, found)
    if not found:
        return func
    sources = {copy.dst.buffer: source for copy, source in found.items()}
    return with_body(func, _Forward(sources).visit(func.body))


def _candidates(func: PrimFunc) -> dict[Copy, int]:
    """Copies from memory that is never written into a buffer whose other uses are products; how many of these."""
    copies: dict[Buffer, Copy] = {}
    products: dict[Buffer, int] = {}
    others: set[Buffer] = set()  # storages with any other use
    written: set[Buffer] = set()
    for stmt in walk(func.body):
        for buffer, is_write in _uses(stmt):
            storage = buffer.storage
            if is_write:
                written.add(storage)
            if type(stmt) is Copy and buffer is stmt.dst.buffer and storage not in copies:
                copies[storage] = stmt
            elif isinstance(stmt, Gemm) and not is_write and buffer is not stmt.c.buffer:
                products[storage] = products.get(storage, 0) + 1
            else:
                others.add(storage)
    return {
        copy: products[buffer]
        for buffer, copy in copies.items()
        if buffer in products
        and buffer not in others
        and copy.dst.buffer is buffer
        and copy.src.buffer.storage not in written
        and _is_run(copy)
    }


def _uses(stmt: Stmt) -> Iterator[tuple[Buffer, bool]]:
    """Buffers that a statement itself touches, and whether it writes them."""
    for root in expressions(stmt):
        yield from ((e.buffer, False) for e in walk_expr(root) if isinstance(e, Load))
    match stmt:
        case TileOp():
            yield from ((region.buffer, False) for region in stmt.reads())
            yield from ((region.buffer, True) for region in stmt.writes())
        case Store(buffer=buffer) | Atomic(buffer=buffer):
            yield buffer, True
        case Print(operand=Region(buffer=buffer)):
            yield buffer, False
        case Alloc(buffer=buffer) if buffer.view_of is not None:
            yield from ((buffer.view_of, False), (buffer.view_of, True))


def _is_run(copy: Copy) -> bool:
    """Whether the copy moves neighbors in memory to all of its buffer, as they are."""
    src, dst = copy.src, copy.dst
    shape, extent = dst.buffer.static_shape, src.static_extent
    if src.buffer.scope is not Scope.GLOBAL or dst.buffer.scope not in (Scope.SHARED, Scope.FRAGMENT):
        return False
    if src.dtype != dst.dtype or src.buffer.strides is not None or shape is None or extent is None:
        return False
    if dst.static_extent != shape or len(shape) != 2 or extent[-2:] != shape or any(e != 1 for e in extent[:-2]):
        return False
    if any(isinstance(e, Load) for start in src.start for e in walk_expr(start)):
        return False
    return shape[0] == 1 or int_const(src.buffer.shape[-1]) == shape[1]


def _search(node: Stmt, domain: Domain, candidates: dict[Copy, int], found: dict[Copy, Region]) -> None:
    """Collects the candidates that lie inside of their source, and before all of their products."""
    match node:
        case Seq(body=body):
            for place, child in enumerate(body):
                if isinstance(child, Copy) and child in candidates and _is_inside(child.src, domain):
                    after = (s for later in body[place + 1 :] for s in walk(later) if isinstance(s, Gemm))
                    uses = sum(region.buffer is child.dst.buffer for gemm in after for region in (gemm.a, gemm.b))
                    if uses == candidates[child]:
                        found[child] = child.src
                _search(child, domain, candidates, found)
                domain = behind(child, domain)
        case For(var=var, start=start, stop=stop, step=step):
            _search(node.body, domain.with_loop(var, start, stop, step), candidates, found)
        case ParallelLoop(vars=variables, extents=extents) | Launch(block_vars=variables, grid=extents):
            _search(node.body, domain.with_extents(variables, extents), candidates, found)
        case If():
            _search(node.then_body, domain.assume(node.condition), candidates, found)
            if node.else_body is not None:
                _search(node.else_body, domain, candidates, found)
        case While():
            _search(node.body, domain, candidates, found)


def _is_inside(region: Region, domain: Domain) -> bool:
    parts = zip(region.buffer.shape, region.start, region.extent, strict=True)
    return all(proves(start >= 0, domain) and proves(start + extent <= size, domain) for size, start, extent in parts)


class _Forward(Rewriter):
    """Drops copies and their buffers, and names their sources in products."""

    def __init__(self, sources: dict[Buffer, Region]) -> None:
        self._sources = sources

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Alloc(buffer=buffer) | Copy(dst=Region(buffer=buffer)) if buffer in self._sources:
                return None
            case Gemm(a=a, b=b) if a.buffer in self._sources or b.buffer in self._sources:
                return dataclasses.replace(node, a=self._source(a), b=self._source(b))
        return self.rebuild_stmt(node)

    def _source(self, region: Region) -> Region:
        """The operand's place in the source; products there are more than a user may write."""
        source = self._sources.get(region.buffer)
        if source is None:
            return region
        start: list[Expr] = list(source.start)
        for axis, offset in enumerate(region.start, len(start) - len(region.start)):
            start[axis] = start[axis] if int_const(offset) == 0 else start[axis] + offset
        units = source.extent[: len(start) - len(region.extent)]
        return Region(source.buffer, tuple(start), (*units, *region.extent))


PASS = Pass("forward_copies", _run, Level.TILE, Level.TILE)
