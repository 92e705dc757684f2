"""Specializes a program for calls with known facts: divisibility of sizes, alignment of arguments.

Takes a tile-level function and a `Specialization`, gives a function for such calls only. Invariant: a symbol that is
known to be a multiple of n is replaced by a new variable times n everywhere, so that divisibility is provable; the
function's parameters keep their order and names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Expr, Var, const, int_const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.launch import TensorLayout
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.specialization import INDEX_BITS, MULTIPLES, Specialization
from tilelang.ir.stmt import CallStmt, Launch, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.instruction import Instruction


def specialize(func: PrimFunc, specialization: Specialization) -> PrimFunc:
    """The function for calls that fit a specialization."""
    routines = [s.routine for s in walk(func.body) if isinstance(s, CallStmt)]
    verbatim = any(isinstance(routine, Instruction) and routine.verbatim for routine in routines)
    multiples = {} if verbatim else dict(specialization.multiples)
    factors = {symbol: multiples[symbol.name] for symbol in func.symbols if symbol.name in multiples}
    parts = {
        symbol: Var(f"{symbol.name}_div{factor}", symbol.dtype, index=symbol.index)
        for symbol, factor in factors.items()
    }
    rewriter = _Specialize(
        {symbol: part * const(factors[symbol], symbol.dtype) for symbol, part in parts.items()},
        frozenset(specialization.misaligned),
        frozenset(param.buffer for param in func.params if isinstance(param, TensorParam)),
    )
    known: list[tuple[str, object]] = [(INDEX_BITS, 64)] if specialization.wide else []
    names = tuple((part.name, symbol.name, factors[symbol]) for symbol, part in parts.items())
    known += [(MULTIPLES, names)] if parts else []
    return _rewritten(func, rewriter, parts, (*func.attributes, *known))


def generalize(func: PrimFunc) -> PrimFunc:
    """The function with the sizes that the user wrote, which may have any value, in the place of multiples.

    Checks for mistakes of the user read this one, since multiples hold for some calls only.
    """
    symbols = {symbol.name: symbol for symbol in func.symbols}
    whole: dict[Var, Var] = {}
    factors: dict[Var, int] = {}
    multiples = dict(func.attributes).get(MULTIPLES, ())
    assert isinstance(multiples, tuple)
    for name, general, factor in multiples:
        part = symbols[name]
        whole[part], factors[part] = Var(general, part.dtype, index=part.index), factor
    if not whole:
        return func
    attributes = tuple((key, value) for key, value in func.attributes if key != MULTIPLES)
    return _rewritten(func, _Generalize(whole, factors), whole, attributes)


def _rewritten(
    func: PrimFunc, rewriter: _Symbols, symbols: Mapping[Var, Var], attributes: tuple[tuple[str, object], ...]
) -> PrimFunc:
    body = rewriter.visit(func.body)
    assert body is not None
    return dataclasses.replace(
        func,
        params=tuple(
            TensorParam(rewriter.buffer(param.buffer)) if isinstance(param, TensorParam) else param
            for param in func.params
        ),
        body=body,
        symbols=tuple(symbols.get(symbol, symbol) for symbol in func.symbols),
        attributes=attributes,
        assumptions=rewriter.exprs(func.assumptions),
    )


class _Symbols(Rewriter):
    """Puts expressions in the place of symbols, in the shapes of buffers and in hints too."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        self._values = values
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
                (self.buffer(buffer), TensorLayout(old.variables, self.exprs(old.coordinates), self.exprs(old.shape)))
                for buffer, old in new.hints.tensor_layouts
            ),
            safe_values=tuple((self.buffer(buffer), self.expr(value)) for buffer, value in new.hints.safe_values),
            l2_hit_ratios=tuple((self.buffer(buffer), ratio) for buffer, ratio in new.hints.l2_hit_ratios),
        )
        return dataclasses.replace(new, hints=hints)

    def buffer(self, node: Buffer) -> Buffer:
        if node not in self._buffers:
            self._buffers[node] = self._rewritten(node)
        return self._buffers[node]

    def alignment(self, old: Buffer) -> int:
        """The alignment that the rewritten buffer has."""
        return old.alignment_bytes

    def _rewritten(self, old: Buffer) -> Buffer:
        shape = self.exprs(old.shape)
        address = None if old.address is None else self.expr(old.address)
        strides = None if old.strides is None else self.exprs(old.strides)
        view_of = None if old.view_of is None else self.buffer(old.view_of)
        alignment = self.alignment(old)
        same = shape is old.shape and strides is old.strides and view_of is old.view_of and address is old.address
        if same and alignment == old.alignment_bytes:
            return old
        return dataclasses.replace(
            old, shape=shape, strides=strides, view_of=view_of, alignment_bytes=alignment, address=address
        )


class _Specialize(_Symbols):
    """Replaces symbols by multiples of new symbols; some tensors may be misaligned."""

    def __init__(self, values: Mapping[Var, Expr], misaligned: frozenset[str], params: frozenset[Buffer]) -> None:
        super().__init__(values)
        self._misaligned, self._params = misaligned, params

    def alignment(self, old: Buffer) -> int:
        pointer = old.address.name if isinstance(old.address, Var) else old.name if old in self._params else ""
        return old.dtype.storage_bytes if pointer in self._misaligned else old.alignment_bytes


class _Generalize(_Symbols):
    """Replaces such multiples by the original symbols."""

    def __init__(self, whole: Mapping[Var, Var], factors: Mapping[Var, int]) -> None:
        super().__init__({part: symbol // const(factors[part], symbol.dtype) for part, symbol in whole.items()})
        self._whole, self._factors = whole, factors

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Binary) and node.op is BinaryOp.MUL and isinstance(node.a, Var):
            part = node.a
            if part in self._whole and int_const(node.b) == self._factors[part]:
                return self._whole[part]
        return super().expr(node)
