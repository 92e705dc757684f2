"""Makes a program for calls of which something is known: which sizes divide evenly, how arguments are aligned.

Takes a tile-level function and `Facts` about a call, gives a function that is right for such calls only. Invariant: a
symbol that is known to be a multiple of n is written as a new variable times n everywhere, so that whoever asks about
divisibility finds it; the function's parameters keep their order and names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var, const
from tilelang.ir.facts import INDEX_BITS, POSITIVE, Facts
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import CallStmt, Launch, Stmt, TensorLayout
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.nvidia.source_kernel import SourceKernel


def specialize(func: PrimFunc, facts: Facts) -> PrimFunc:
    """The function for calls of which these facts hold."""
    has_source = any(isinstance(s, CallStmt) and isinstance(s.routine, SourceKernel) for s in walk(func.body))
    multiples = {} if has_source else dict(facts.multiples)  # the user's own kernel is given the symbols themselves
    factors = {symbol: multiples[symbol.name] for symbol in func.symbols if symbol.name in multiples}
    parts = {
        symbol: Var(f"{symbol.name}_div{factor}", symbol.dtype, index=symbol.index)
        for symbol, factor in factors.items()
    }
    rewriter = _Specialize(
        {symbol: part * const(factors[symbol], symbol.dtype) for symbol, part in parts.items()},
        frozenset(facts.misaligned),
        frozenset(param.buffer for param in func.params if isinstance(param, TensorParam)),
    )
    body = rewriter.visit(func.body)
    assert body is not None
    known: list[tuple[str, object]] = [(INDEX_BITS, 64)] if facts.wide else []
    known += [(POSITIVE, tuple(part.name for part in parts.values()))] if parts else []
    return dataclasses.replace(
        func,
        params=tuple(
            TensorParam(rewriter.buffer(param.buffer)) if isinstance(param, TensorParam) else param
            for param in func.params
        ),
        body=body,
        symbols=tuple(parts.get(symbol, symbol) for symbol in func.symbols),
        attributes=(*func.attributes, *known),
        assumptions=rewriter.exprs(func.assumptions),
    )


class _Specialize(Rewriter):
    """Puts products in the place of symbols, in the shapes of buffers too."""

    def __init__(self, values: Mapping[Var, Expr], misaligned: frozenset[str], params: frozenset[Buffer]) -> None:
        self._values, self._misaligned, self._params = values, misaligned, params
        self._buffers: dict[Buffer, Buffer] = {}

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Var):
            return self._values.get(node, node)
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        new = self.rebuild_stmt(node)
        if not isinstance(new, Launch):
            return new
        hints = dataclasses.replace(
            new.hints,
            layouts=tuple((self.buffer(buffer), layout) for buffer, layout in new.hints.layouts),
            tensor_layouts=tuple(
                (self.buffer(buffer), TensorLayout(placed.variables, self.exprs(placed.places), self.exprs(placed.box)))
                for buffer, placed in new.hints.tensor_layouts
            ),
            safe_values=tuple((self.buffer(buffer), self.expr(value)) for buffer, value in new.hints.safe_values),
            l2_hit_ratios=tuple((self.buffer(buffer), ratio) for buffer, ratio in new.hints.l2_hit_ratios),
        )
        return dataclasses.replace(new, hints=hints)

    def buffer(self, node: Buffer) -> Buffer:
        if node not in self._buffers:
            self._buffers[node] = self._specialized(node)
        return self._buffers[node]

    def _specialized(self, old: Buffer) -> Buffer:
        shape = self.exprs(old.shape)
        address = None if old.address is None else self.expr(old.address)
        strides = None if old.strides is None else self.exprs(old.strides)
        view_of = None if old.view_of is None else self.buffer(old.view_of)
        alignment = old.alignment_bytes
        pointer = old.address.name if isinstance(old.address, Var) else old.name if old in self._params else ""
        if pointer in self._misaligned:
            alignment = old.dtype.storage_bytes
        same = shape is old.shape and strides is old.strides and view_of is old.view_of and address is old.address
        if same and alignment == old.alignment_bytes:
            return old
        return dataclasses.replace(
            old, shape=shape, strides=strides, view_of=view_of, alignment_bytes=alignment, address=address
        )
