"""Forwards copies: gemms and loops read the source of a copy directly if nothing else reads the copy.

Takes a tile-level function; a `T.copy` of a box of global memory into a buffer is removed together with the buffer, if
the buffer is otherwise only read, in one of two cases:

- gemms, parallel loops or copies read it, and the rows of the box are contiguous in memory. Boxes of longer rows are
  copied, since their rows would conflict in the cache;
- one parallel loop or copy reads it, and each element at most once.

It is for targets whose gemms and loops can read any memory (CPUs). Invariant: the function never writes that global
memory, the copy is provably in bounds, fills the whole buffer and does not convert, every read is after it and provably
in bounds of the buffer. Between a copy and the loops that read it, no tensor is written.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from tilelang.arith.domain import Domain, facts_after, of_function
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Atomic, Bind, For, If, Launch, ParallelLoop, Print, Seq, Stmt, Store, TileOp, While
from tilelang.ir.visit import Rewriter, expressions, loads_of, walk, written_buffers
from tilelang.lowering.regions import is_whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


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
    """Copies from memory that is never written to a buffer that is otherwise only read, with the number of reads."""
    copies: dict[Buffer, Copy] = {}
    reads: dict[Buffer, int] = {}
    others: set[Buffer] = set()  # storages with any other use
    written: set[Buffer] = set()
    for stmt in walk(func.body):
        for buffer, is_write in _uses(stmt):
            storage = buffer.storage
            if is_write:
                written.add(storage)
            if type(stmt) is Copy and buffer is stmt.dst.buffer and storage not in copies:
                copies[storage] = stmt
            elif not is_write and _is_reader(stmt, buffer):
                reads[storage] = reads.get(storage, 0) + 1
            else:
                others.add(storage)
    return {
        copy: reads[buffer]
        for buffer, copy in copies.items()
        if buffer in reads
        and buffer not in others
        and copy.dst.buffer is buffer
        and copy.src.buffer.storage not in written
        and _fills_as_it_is(copy)
    }


def _is_reader(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement can read the elements of a buffer from elsewhere."""
    match stmt:
        case Gemm(c=c):
            return buffer is not c.buffer
        case TileOp():
            return type(stmt) is Copy and is_whole(stmt.src)
    return isinstance(stmt, Store | Bind | If)


def _uses(stmt: Stmt) -> Iterator[tuple[Buffer, bool]]:
    """Buffers that a statement itself accesses, and whether it writes them."""
    for root in expressions(stmt):
        yield from ((e.buffer, False) for e in loads_of(root))
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


def _fills_as_it_is(copy: Copy) -> bool:
    """Whether the copy is of a box of global memory to a whole buffer, without conversion."""
    src, dst = copy.src, copy.dst
    shape, extent = dst.buffer.static_shape, src.static_extent
    if src.buffer.scope is not Scope.GLOBAL or dst.buffer.scope not in (Scope.SHARED, Scope.FRAGMENT):
        return False
    if src.dtype != dst.dtype or src.buffer.strides is not None or not shape or extent is None:
        return False
    if dst.static_extent != shape or extent[-len(shape) :] != shape or any(e != 1 for e in extent[: -len(shape)]):
        return False
    return not any(map(loads_of, src.start))


def _is_run(copy: Copy) -> bool:
    """Whether the box is contiguous: all its dimensions but the first longer than 1 are whole."""
    shape, whole = copy.dst.buffer.static_shape or (), copy.src.buffer.shape
    first = next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape))
    return all(int_const(whole[axis - len(shape)]) == shape[axis] for axis in range(first + 1, len(shape)))


def _search(node: Stmt, domain: Domain, candidates: dict[Copy, int], found: dict[Copy, Region]) -> None:
    """Collects the candidates that are in bounds of their source and precede all readers."""
    match node:
        case Seq(body=body):
            for index, child in enumerate(body):
                if isinstance(child, Copy) and child in candidates and _is_inside(child.src, domain):
                    if _reads(child, body[index + 1 :], domain) == candidates[child]:
                        found[child] = child.src
                _search(child, domain, candidates, found)
                domain = facts_after(child, domain)
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


def _reads(copy: Copy, later: Sequence[Stmt], domain: Domain) -> int:
    """Count the statements after a copy that read its buffer in a way that can be forwarded."""
    buffer, is_run = copy.dst.buffer, _is_run(copy)
    products = loads = 0
    once, writes = True, False
    for stmt in later:
        if is_run and buffer.rank == 2:
            found = (s for s in walk(stmt) if isinstance(s, Gemm))
            products += sum(region.buffer is buffer for gemm in found for region in (gemm.a, gemm.b))
        # a caller may pass one tensor as two parameters
        writes = writes or any(b.scope is Scope.GLOBAL for s in walk(stmt) for b in written_buffers(s))
        if writes:
            continue
        match stmt:
            case Copy(src=Region(buffer=source)):
                loads += source is buffer
            case ParallelLoop(vars=variables, extents=extents):
                inside = domain.with_extents(variables, extents)
                here = [load for load in _loads(stmt, buffer) if _is_inside(_element(load), inside)]
                once = once and (not here or _runs_at_most(stmt, math.prod(buffer.static_shape or ())))
                loads += len(here)
    return products + loads if is_run or loads == 1 and once else 0


def _runs_at_most(loop: ParallelLoop, most: int) -> bool:
    """Whether a loop has at most `most` iterations in total."""
    extents = [int_const(extent) for extent in loop.extents]
    nested = any(isinstance(s, For | While | ParallelLoop) for s in walk(loop.body))
    return not nested and None not in extents and math.prod(e for e in extents if e is not None) <= most


def _loads(stmt: Stmt, buffer: Buffer) -> list[Load]:
    """The loads of a buffer's elements in a statement and those below it."""
    roots = (root for inner in walk(stmt) for root in expressions(inner))
    return [e for root in roots for e in loads_of(root) if e.buffer is buffer]


def _element(load: Load) -> Region:
    return Region(load.buffer, load.indices, tuple(const(1, INT32) for _ in load.indices))


def _is_inside(region: Region, domain: Domain) -> bool:
    parts = zip(region.buffer.shape, region.start, region.extent, strict=True)
    return all(proves(start >= 0, domain) and proves(start + extent <= size, domain) for size, start, extent in parts)


class _Forward(Rewriter):
    """Removes copies and their buffers, and reads their sources instead."""

    def __init__(self, sources: dict[Buffer, Region]) -> None:
        self._sources = sources

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Alloc(buffer=buffer) | Copy(dst=Region(buffer=buffer)) if buffer in self._sources:
                return None
            case Copy(src=Region(buffer=buffer) as src) if buffer in self._sources:
                return dataclasses.replace(node, src=self._source(src))
            case Gemm(a=a, b=b) if a.buffer in self._sources or b.buffer in self._sources:
                return dataclasses.replace(node, a=self._source(a), b=self._source(b))
        return self.rebuild_stmt(node)

    def expr(self, node: Expr) -> Expr:
        if not isinstance(node, Load) or node.buffer not in self._sources:
            return self.rebuild_expr(node)
        source = self._source(_element(node))
        return Load(source.buffer, self.exprs(source.start), node.dtype)

    def _source(self, region: Region) -> Region:
        """The operand's region in the source; gemms read more kinds of regions there than a user may write."""
        source = self._sources.get(region.buffer)
        if source is None:
            return region
        start: list[Expr] = list(source.start)
        for axis, offset in enumerate(region.start, len(start) - len(region.start)):
            start[axis] = start[axis] if int_const(offset) == 0 else start[axis] + offset
        units = source.extent[: len(start) - len(region.extent)]
        return Region(source.buffer, tuple(start), (*units, *region.extent))


PASS = Pass(
    "forward_copies", _run, Level.TILE, Level.TILE,
    requires=(Property.SUBSCRIPTS_AFFINE, Property.TENSOR_LAYOUTS_APPLIED, Property.OPERATORS_UNEXPANDED),
)
