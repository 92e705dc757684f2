"""Leads accesses to global tensors through the layouts that `T.annotate_layout` gives them.

Takes a tile-level function, gives one without such layouts: the tensor's memory gets a second name, in the shape of the
layout's box, and every access goes to the place there that the layout says. An operator on a region goes on as it is
where the layout only exchanges dimensions and keeps the order of those that the region extends along; otherwise it
becomes parallel loops over elements. Invariant: what lies outside of the tensor lies outside of the box, so that loads
there give the safe value and stores do nothing, as before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NoReturn

from tilelang.arith.domain import Domain, of_function
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.errors import NoLowering, ProgramError
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, Var, conjunction, const, int_const, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    Bind,
    For,
    If,
    Launch,
    ParallelLoop,
    Seq,
    Stmt,
    Store,
    TensorLayout,
    TileOp,
)
from tilelang.ir.visit import Rewriter, accessed_buffers, substitute, walk
from tilelang.lowering.by_loop import LOOPS
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property

_BY_ELEMENT = (AtomicTile, Copy, Fill)
"""Operators to which a region is its extents beyond 1, in their order; others number dimensions, units included."""


def permute_tensors(func: PrimFunc) -> PrimFunc:
    """The function with every access where its layout leads it; the same one if no tensor has a layout.

    Raises:
        ProgramError: The bytes of such a tensor get another name in its kernel.
        NoLowering: An operator or an instruction takes such a tensor in a way that loops over elements cannot replace.
    """
    if not any(isinstance(stmt, Launch) and stmt.hints.tensor_layouts for stmt in walk(func.body)):
        return func
    return with_body(func, _Launches(of_function(func)).visit(func.body))


class _Launches(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        if not node.hints.tensor_layouts:
            return node
        placed = {}
        for buffer, layout in node.hints.tensor_layouts:
            name = f"{buffer.name}_permuted"
            laid_out = Buffer(name, layout.shape, buffer.dtype, buffer.scope, view_of=buffer, loc=buffer.loc)
            placed[buffer] = layout, laid_out
        domain = self._domain.with_extents(node.block_vars, node.grid)
        body = _Permute(placed, domain).visit(node.body)
        named = tuple(Alloc(laid_out, loc=node.loc) for _, laid_out in placed.values())
        safe = [(placed[b][1], value) for b, value in node.hints.safe_values if b in placed]
        hints = dataclasses.replace(
            node.hints, tensor_layouts=(), safe_values=(*node.hints.safe_values, *safe)
        )
        whole = Seq((*named, *([] if body is None else [body])), loc=node.loc)
        return dataclasses.replace(node, body=whole, hints=hints)


class _Permute(Rewriter):
    def __init__(self, placed: Mapping[Buffer, tuple[TensorLayout, Buffer]], domain: Domain) -> None:
        self._placed = placed
        self._domain = domain

    # -- statements -------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Seq():
                return self._seq(node)
            case For(var=var, start=start, stop=stop, step=step):
                return self._within(node, self._domain.with_loop(var, start, stop, step))
            case ParallelLoop(vars=variables, extents=extents):
                return self._within(node, self._domain.with_extents(variables, extents))
            case If():
                return self._if(node)
            case Store(buffer=buffer, indices=indices, value=value) if buffer in self._placed:
                laid_out, places = self._place(buffer, self.exprs(indices))
                return dataclasses.replace(node, buffer=laid_out, indices=places, value=self.expr(value))
            case Atomic(buffer=buffer, indices=indices, value=value) if buffer in self._placed:
                laid_out, places = self._place(buffer, self.exprs(indices))
                operand = None if value is None else self.expr(value)
                return dataclasses.replace(node, buffer=laid_out, indices=places, value=operand)
            case Alloc(buffer=buffer) if buffer.view_of in self._placed:
                raise ProgramError(
                    f"'{buffer.name}' names the bytes of '{buffer.storage.name}', which has a layout in this kernel",
                    hint="leave T.annotate_layout out, or access the tensor by its own name",
                )
            case TileOp() if not self._placed.keys().isdisjoint(accessed_buffers(node)):
                return self._operator(node)
        new = self.rebuild_stmt(node)
        if new is not None and not self._placed.keys().isdisjoint(accessed_buffers(new)):
            name = next(buffer.name for buffer in accessed_buffers(new) if buffer in self._placed)
            raise NoLowering(
                f"the address of '{name}' is taken, which has a layout in this kernel, so that its elements do not lie "
                "side by side",
                hint="access it with T.copy, T.atomic_add or element by element",
            )
        return new

    def _seq(self, node: Seq) -> Stmt:
        outer, body, changed = self._domain, [], False
        for old in node.body:
            new = self.visit(old)
            changed |= new is not old
            if new is not None:
                body.append(new)
            if isinstance(old, Bind):
                self._domain = self._domain.with_value(old.var, old.value)
        self._domain = outer
        return Seq(tuple(body), loc=node.loc) if changed else node

    def _within(self, node: Stmt, domain: Domain) -> Stmt | None:
        outer, self._domain = self._domain, domain
        new = self.rebuild_stmt(node)
        self._domain = outer
        return new

    def _if(self, node: If) -> Stmt:
        outer, condition = self._domain, self.expr(node.condition)
        self._domain = outer.assume(node.condition)
        first = self.visit(node.then_body) or Seq((), loc=node.loc)
        self._domain = outer
        second = None if node.else_body is None else self.visit(node.else_body)
        return dataclasses.replace(node, condition=condition, then_body=first, else_body=second)

    def _operator(self, op: TileOp) -> Stmt | None:
        moved = self._by_region(op)
        if moved is not None:
            return moved
        row = LOOPS.get(type(op))
        if row is None or isinstance(op, Copy) and op.request:
            self._refuse(op)
        build = Builder(op.loc)
        row.expand(op, build)
        return self.visit(build.finish())

    def _refuse(self, op: TileOp) -> NoReturn:
        name = next(buffer.name for buffer in accessed_buffers(op) if buffer in self._placed)
        raise NoLowering(
            f"{op.name}: '{name}' has a layout in this kernel that takes its region apart",
            hint="copy it to a shared tile with T.copy first",
        )

    # -- accesses ---------------------------------------------------------------------------------------------
    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._placed:
            laid_out, places = self._place(node.buffer, self.exprs(node.indices))
            return Load(laid_out, places, node.dtype)
        return self.rebuild_expr(node)

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """Where an element lies."""
        layout, laid_out = self._placed[buffer]
        values = dict(zip(layout.variables, indices, strict=True))
        places = [simplify(substitute(place, values), self._domain) for place in layout.coordinates]
        tests = [
            test
            for index, extent in zip(indices, buffer.shape, strict=True)
            for test in (index >= 0, index < extent)
            if not proves(test, self._domain)
        ]
        if tests:
            places[0] = select(conjunction(tests), places[0], const(-1, places[0].dtype))
        return laid_out, tuple(places)

    def _by_region(self, op: TileOp) -> Stmt | None:
        """The operator on the same elements as regions of the boxes, or None if they are none."""
        if type(op) not in _BY_ELEMENT:
            return None
        changes = {}
        for field in dataclasses.fields(op):
            region = getattr(op, field.name)
            if isinstance(region, Region) and region.buffer in self._placed:
                permuted = self._permuted(region)
                if permuted is None:
                    return None
                changes[field.name] = permuted
        return self.rebuild_stmt(dataclasses.replace(op, **changes))  # type: ignore[arg-type]

    def _permuted(self, region: Region) -> Region | None:
        """The region in the box, if the layout exchanges dimensions and these keep their order."""
        layout, laid_out = self._placed[region.buffer]
        sizes = len(layout.coordinates), len(layout.variables)
        if sizes[0] != sizes[1] or set(map(id, layout.coordinates)) != set(map(id, layout.variables)):
            return None
        number = {var: axis for axis, var in enumerate(layout.variables)}
        order = [number[place] for place in layout.coordinates if isinstance(place, Var)]
        long = [axis for axis in order if int_const(region.extent[axis]) != 1]
        if long != sorted(long):
            return None
        return Region(laid_out, tuple(region.start[a] for a in order), tuple(region.extent[a] for a in order))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return permute_tensors(func)


PASS = Pass(
    "permute_tensors", _run, Level.TILE, Level.TILE,
    requires=(Property.INDICES_INLINED, Property.NO_LIBRARY_OPERATORS, Property.OPERATORS_WHOLE),
    establishes=(Property.TENSORS_DIRECT,),
    invalidates=(Property.LOOPS_AS_WRITTEN,),
)
