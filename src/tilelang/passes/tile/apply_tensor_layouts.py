"""Applies the layouts of global tensors given by `T.annotate_layout` to their accesses.

Takes a tile-level function, gives one without such layouts: each tensor gets a view with the output shape of its
layout, and accesses use indices of that view. An operator on a region remains an operator if the layout only permutes
dimensions and preserves the order of those that the region extends along; otherwise it is expanded to parallel loops.
Invariant: out-of-bounds accesses stay out of bounds, so loads there give the safe value and stores do nothing.
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
from tilelang.ir.launch import TensorLayout
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


def apply_tensor_layouts(func: PrimFunc) -> PrimFunc:
    """The function with layouts of tensors applied; the same one if no tensor has a layout.

    Raises:
        ProgramError: The kernel has a view of such a tensor.
        NoLowering: An operator or instruction on such a tensor cannot be expanded to loops.
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
        views = {}
        for buffer, layout in node.hints.tensor_layouts:
            name = f"{buffer.name}_permuted"
            view = Buffer(name, layout.shape, buffer.dtype, buffer.scope, view_of=buffer, loc=buffer.loc)
            views[buffer] = layout, view
        domain = self._domain.with_extents(node.block_vars, node.grid)
        body = _ApplyLayouts(views, domain).visit(node.body)
        named = tuple(Alloc(view, loc=node.loc) for _, view in views.values())
        safe = [(views[b][1], value) for b, value in node.hints.safe_values if b in views]
        hints = dataclasses.replace(
            node.hints, tensor_layouts=(), safe_values=(*node.hints.safe_values, *safe)
        )
        whole = Seq((*named, *([] if body is None else [body])), loc=node.loc)
        return dataclasses.replace(node, body=whole, hints=hints)


class _ApplyLayouts(Rewriter):
    def __init__(self, views: Mapping[Buffer, tuple[TensorLayout, Buffer]], domain: Domain) -> None:
        self._views = views
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
            case Store(buffer=buffer, indices=indices, value=value) if buffer in self._views:
                view, indices_in_view = self._element(buffer, self.exprs(indices))
                return dataclasses.replace(node, buffer=view, indices=indices_in_view, value=self.expr(value))
            case Atomic(buffer=buffer, indices=indices, value=value) if buffer in self._views:
                view, indices_in_view = self._element(buffer, self.exprs(indices))
                operand = None if value is None else self.expr(value)
                return dataclasses.replace(node, buffer=view, indices=indices_in_view, value=operand)
            case Alloc(buffer=buffer) if buffer.view_of in self._views:
                raise ProgramError(
                    f"'{buffer.name}' is a view of '{buffer.storage.name}', which has a layout in this kernel",
                    hint="leave T.annotate_layout out, or access the tensor by its own name",
                )
            case TileOp() if not self._views.keys().isdisjoint(accessed_buffers(node)):
                return self._operator(node)
        new = self.rebuild_stmt(node)
        if new is not None and not self._views.keys().isdisjoint(accessed_buffers(new)):
            name = next(buffer.name for buffer in accessed_buffers(new) if buffer in self._views)
            raise NoLowering(
                f"the address of '{name}' is taken, which has a layout in this kernel, so that its elements are not "
                "contiguous",
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
        by_region = self._by_region(op)
        if by_region is not None:
            return by_region
        row = LOOPS.get(type(op))
        if row is None or isinstance(op, Copy) and op.request:
            self._refuse(op)
        build = Builder(op.loc)
        row.expand(op, build)
        return self.visit(build.finish())

    def _refuse(self, op: TileOp) -> NoReturn:
        name = next(buffer.name for buffer in accessed_buffers(op) if buffer in self._views)
        raise NoLowering(
            f"{op.name}: '{name}' has a layout in this kernel that splits its region",
            hint="copy it to a shared tile with T.copy first",
        )

    # -- accesses ---------------------------------------------------------------------------------------------
    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._views:
            view, indices_in_view = self._element(node.buffer, self.exprs(node.indices))
            return Load(view, indices_in_view, node.dtype)
        return self.rebuild_expr(node)

    def _element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """The view of a tensor, and the indices of an element in it; the first is -1 out of bounds."""
        layout, view = self._views[buffer]
        values = dict(zip(layout.variables, indices, strict=True))
        indices_in_view = [simplify(substitute(result, values), self._domain) for result in layout.coordinates]
        tests = [
            test
            for index, extent in zip(indices, buffer.shape, strict=True)
            for test in (index >= 0, index < extent)
            if not proves(test, self._domain)
        ]
        if tests:
            indices_in_view[0] = select(conjunction(tests), indices_in_view[0], const(-1, indices_in_view[0].dtype))
        return view, tuple(indices_in_view)

    def _by_region(self, op: TileOp) -> Stmt | None:
        """The operator on regions of the views; None if the elements are no regions there."""
        if type(op) not in _BY_ELEMENT:
            return None
        changes = {}
        for field in dataclasses.fields(op):
            region = getattr(op, field.name)
            if isinstance(region, Region) and region.buffer in self._views:
                permuted = self._permuted(region)
                if permuted is None:
                    return None
                changes[field.name] = permuted
        return self.rebuild_stmt(dataclasses.replace(op, **changes))  # type: ignore[arg-type]

    def _permuted(self, region: Region) -> Region | None:
        """The region in the view, if the layout permutes dimensions and preserves the order of the extended ones."""
        layout, view = self._views[region.buffer]
        sizes = len(layout.coordinates), len(layout.variables)
        if sizes[0] != sizes[1] or set(map(id, layout.coordinates)) != set(map(id, layout.variables)):
            return None
        number = {var: axis for axis, var in enumerate(layout.variables)}
        order = [number[result] for result in layout.coordinates if isinstance(result, Var)]
        long = [axis for axis in order if int_const(region.extent[axis]) != 1]
        if long != sorted(long):
            return None
        return Region(view, tuple(region.start[a] for a in order), tuple(region.extent[a] for a in order))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return apply_tensor_layouts(func)


PASS = Pass(
    "apply_tensor_layouts", _run, Level.TILE, Level.TILE,
    requires=(Property.SUBSCRIPTS_AFFINE, Property.NO_LIBRARY_OPERATORS, Property.OPERATORS_UNEXPANDED),
    establishes=(Property.TENSOR_LAYOUTS_APPLIED,),
    invalidates=(Property.LOOPS_AS_WRITTEN,),
)
