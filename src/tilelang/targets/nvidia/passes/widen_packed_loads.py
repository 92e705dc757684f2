"""Loads up to 16 bytes of packed fields at once where the threads of a quad take the four bytes of each word.

Takes unrolled loops after `unpack_in_pairs`, such as those that compute an operand of wgmma, whose fragments give
neighboring elements to the threads of a quad (four threads from a multiple of four on):

    for w in unroll(8):                                      for v in unroll(2):
        y[w] = half2_of_fields(x[r, t % 4 + w * 4], ...)         x_lanes[0:16] = x[r, v * 16 : v * 16 + 16]
                                                      =>         for w in unroll(4):
                                                                     y[v * 4 + w] = half2_of_fields(word w of x_lanes,
                                                                                                    byte t % 4, ...)

The four threads load the same vectors, which takes no more cycles of shared memory than a byte each, and a quarter of
the instructions; the byte permutation that unpacks the fields also picks the byte. Invariant: the same values; a quad
loads the bytes that it loaded before, and no others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property

from tilelang.analysis.access_width import Facts, vector_width
from tilelang.analysis.strides import coefficient
from tilelang.analysis.unrolled_loops import is_unrolled
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, Load, Reinterpret, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Bind, For, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, substitute, substitute_stmt, variables_of, walk, walk_expr
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.nvidia.isa.half2 import UINT32, byte_of_fields, fields_of_word

_QUAD = 4
"""Threads of a quad, and bytes of a word."""
_NOTHING = Domain()


@record(slots=True)
class _WideLoad:
    """The vectors that replace loads of single bytes.

    Attributes:
        load: The load of a byte.
        byte: The number of a thread's byte in each word.
        start: The index of the first byte of the quad in the last dimension.
        width: Bytes of a vector.
        loops: The loops inside the split one that the index depends on, outermost first.
        lanes: The registers, with a vector for each iteration of these loops.
    """

    load: Load
    byte: Expr
    start: Expr
    width: int
    loops: tuple[For, ...]
    lanes: Buffer

    def place(self) -> Expr:
        """The first register of the vector of an iteration."""
        place: Expr = const(0, INT32)
        for loop in self.loops:
            place = place * loop.stop + loop.var
        return place * self.width


class _Widen(Rewriter):
    """Rewrites the loops of one launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch, self._facts = launch, Facts(dict(launch.plan.shared_layouts))

    @cached_property
    def _threads(self) -> frozenset[Var]:
        """The numbers of threads; most launches have no load for which they are asked."""
        return _threads(self._launch)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and _is_counted(node) and _only_fills_registers(node.body):
            return self._widened(node) or self.rebuild_stmt(node)
        return self.rebuild_stmt(node)

    def _widened(self, loop: For) -> Stmt | None:
        """The loop over vectors and the words in them; None where no load in it can be wide."""
        trips = int_const(loop.stop)
        assert trips is not None
        words, fields = min(MAX_VECTOR_BYTES // _QUAD, trips & -trips), _fields_in(loop.body, ())
        while fields and words > 1:
            found = [self._wide(load, loop, words, loops) for load, loops in fields]
            if wide := [one for one in found if one is not None]:
                return _split(loop, words, wide)
            words //= 2
        return None

    def _wide(self, load: Load, loop: For, words: int, loops: Sequence[For]) -> _WideLoad | None:
        """The vectors of `words` words for a load of a byte; None where quads do not share them."""
        *rows, last = load.indices
        if coefficient(last, loop.var) != _QUAD or any(coefficient(index, loop.var) != 0 for index in rows):
            return None
        thread = next((v for v in self._threads & variables_of(last) if _is_shared_by_quads(load.indices, v)), None)
        if thread is None or load.buffer.scope is not Scope.SHARED:
            return None
        width, element = words * _QUAD, Var("byte", INT32, index=True)
        start = simplify(substitute(last, {thread: thread // _QUAD * _QUAD}))
        vector = simplify(substitute(start, {loop.var: loop.var * words}))
        if vector_width(load.buffer, (*rows, vector + element), element, width, _NOTHING, self._facts) < width:
            return None
        around = tuple(inner for inner in loops if any(inner.var in variables_of(index) for index in load.indices))
        size = width * math.prod(int_const(inner.stop) or 1 for inner in around)
        lanes = Buffer(f"{load.buffer.name}_lanes", (const(size, INT32),), load.buffer.dtype, Scope.LOCAL)
        return _WideLoad(load, thread % _QUAD, start, width, around, lanes)


def _split(loop: For, words: int, wide: Sequence[_WideLoad]) -> Stmt:
    """The loop over vectors, which are loaded first, and then over words."""
    outer, inner = Var(loop.var.name, INT32, index=True), Var("word", INT32, index=True)
    first: list[Stmt] = []
    for one in wide:
        start = simplify(substitute(one.start, {loop.var: outer * words}))
        rows = (substitute(index, {loop.var: outer * words}) for index in one.load.indices[:-1])
        value = Load(one.load.buffer, (*rows, start), as_dtype(f"uint8x{one.width}"))
        load: Stmt = Store(one.lanes, (one.place(),), value, loc=loop.loc)
        for around in reversed(one.loops):
            load = dataclasses.replace(around, body=load)
        first += [Alloc(one.lanes, loc=loop.loc), load]
    body = _WithWords({one.load: one for one in wide}, inner).visit(loop.body)
    assert body is not None
    body = substitute_stmt(body, {loop.var: outer * words + inner})
    by_word = dataclasses.replace(loop, var=inner, stop=const(words, INT32), body=body)
    stop = simplify(loop.stop // words)
    return dataclasses.replace(loop, var=outer, stop=stop, body=as_body([*first, by_word], loop.loc))


class _WithWords(Rewriter):
    """Takes fields from words in registers."""

    def __init__(self, wide: dict[Load, _WideLoad], word: Var) -> None:
        self._wide, self._word = wide, word

    def expr(self, node: Expr) -> Expr:
        byte = byte_of_fields(node)
        if byte is None or byte not in self._wide:
            return self.rebuild_expr(node)
        one = self._wide[byte]
        lanes = Load(one.lanes, (one.place() + self._word * _QUAD,), as_dtype(f"uint8x{_QUAD}"))
        return fields_of_word(node, Reinterpret(lanes, UINT32), one.byte)


def _is_counted(loop: For) -> bool:
    return is_unrolled(loop) and int_const(loop.start) == 0 and loop.step == 1


def _only_fills_registers(body: Stmt) -> bool:
    """Whether a body consists of unrolled loops and stores to registers, so that its loads may come first."""
    match body:
        case Seq(body=parts):
            return all(map(_only_fills_registers, parts))
        case For(body=inner):
            return _is_counted(body) and _only_fills_registers(inner)
    return isinstance(body, Store) and body.buffer.scope is Scope.LOCAL


def _fields_in(body: Stmt, loops: tuple[For, ...]) -> list[tuple[Load, tuple[For, ...]]]:
    """The bytes of which a body takes fields, each once, with the loops around them."""
    if isinstance(body, For):
        return _fields_in(body.body, (*loops, body))
    if isinstance(body, Seq):
        return [found for part in body.body for found in _fields_in(part, loops)]
    loads = (byte_of_fields(e) for value in expressions(body) for e in walk_expr(value))
    return [(load, loops) for load in dict.fromkeys(loads) if load is not None]


def _is_shared_by_quads(indices: Sequence[Expr], thread: Var) -> bool:
    """Whether the four threads of a quad access four neighbors in a row, in the order of the threads."""
    quad = Var("quad", INT32, index=True)
    *rows, last = ([substitute(index, {thread: quad * _QUAD + lane}) for lane in range(_QUAD)] for index in indices)
    return all(proves(index == row[0], _NOTHING) for row in rows for index in row) and all(
        proves(index == last[0] + lane, _NOTHING) for lane, index in enumerate(last)
    )


def _threads(launch: Launch) -> frozenset[Var]:
    """The variables whose value is the number of a thread, from a multiple of four on."""
    found = set() if launch.thread is None else {launch.thread}
    for bind in (stmt for stmt in walk(launch.body) if isinstance(stmt, Bind) and stmt.value.is_index):
        if any(proves((bind.value - thread) % _QUAD == 0, _NOTHING) for thread in found):
            found.add(bind.var)
    return frozenset(found)


def _with_wide_loads(launch: Launch) -> Launch:
    body = _Widen(launch).visit(launch.body)
    assert body is not None
    return launch if body is launch.body else dataclasses.replace(launch, body=body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _with_wide_loads)


PASS = Pass(
    "widen_packed_loads", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_VECTORIZED, Property.ACCESSES_UNPREDICATED, Property.LOGICAL_INDICES),
)
