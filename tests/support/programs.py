"""Random small kernels over integers: every statement kind, shapes that tiles do not divide, accesses out of range."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tilelang.dtypes import BOOL, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, as_expr, binary, cast, const, select
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    Continue,
    For,
    ForKind,
    If,
    Launch,
    LaunchHints,
    ParallelLoop,
    Seq,
    Stmt,
    Store,
)
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce, ReduceOp
from tilelang.ops.scan import ScanOp, named_scan

_SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17)
_OPERATORS = (
    *(BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX, BinaryOp.FLOORDIV, BinaryOp.FLOORMOD),
    *(BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD, BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR),
)
_COMPARISONS = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE, BinaryOp.EQ, BinaryOp.NE)


@dataclass(frozen=True)
class Program:
    """A kernel and arguments for it."""

    func: PrimFunc
    arguments: list[np.ndarray]


def index_var(name: str) -> Var:
    """A loop variable or the like."""
    return Var(name, INT32, index=True)


def whole(buffer: Buffer) -> Region:
    """All of a buffer."""
    return Region(buffer, tuple(const(0, INT32) for _ in buffer.shape), buffer.shape)


class _Maker:
    """Makes one launch: a block program over a tile of the output."""

    def __init__(self, seed: int, prefix: str, *, symbolic: bool = False) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        rows, columns = pick(_SIZES), pick(_SIZES)
        self.t0, self.t1 = pick((1, 2, 4, 5)), pick((1, 3, 4, 8, 16))
        self.symbols = (index_var(f"{prefix}m"), index_var(f"{prefix}n")) if symbolic else ()
        self.sizes = (rows, columns)
        n0, n1 = self.symbols or (as_expr(rows), as_expr(columns))
        dtype = as_dtype(pick(("int32", "int32", "int8", "uint8", "int16", "int64")))
        self.a = self._global(f"{prefix}A", (n0, n1), dtype)
        self.b = self._global(f"{prefix}B", (n1,), INT32)
        self.out = self._global(f"{prefix}O", (n0, n1), INT32)
        self.sum = self._global(f"{prefix}T", (n1,), INT32)
        self.params = (self.a, self.b, self.out, self.sum)
        self.bx, self.by = index_var("bx"), index_var("by")
        self.grid = (-(-n1 // self.t1), -(-n0 // self.t0)) if not symbolic else (
            (n1 + (self.t1 - 1)) // self.t1,
            (n0 + (self.t0 - 1)) // self.t0,
        )
        self.s = self._tile("S", (self.t0, self.t1), Scope.SHARED)
        self.f = self._tile("F", (self.t0, self.t1), Scope.FRAGMENT)
        self.turned = self._tile("U", (self.t1, self.t0), Scope.SHARED)
        self.row = self._tile("R", (self.t0,), Scope.FRAGMENT)
        self.column = self._tile("Q", (self.t1,), Scope.LOCAL)
        self.flat = Buffer("V", (as_expr(self.t0 * self.t1),), INT32, Scope.SHARED, view_of=self.s)
        self.square = self._tile("G", (self.t0, self.t0), Scope.FRAGMENT)
        self.var = Buffer("v", (), INT32, Scope.VAR)
        self.depth = 0

    @staticmethod
    def _global(name: str, shape: tuple[Expr, ...], dtype: object) -> Buffer:
        return Buffer(name, shape, as_dtype(dtype), Scope.GLOBAL)

    @staticmethod
    def _tile(name: str, shape: tuple[int, ...], scope: Scope) -> Buffer:
        return Buffer(name, tuple(as_expr(e) for e in shape), INT32, scope)

    # -- expressions ------------------------------------------------------------------------------------------
    def leaf(self, i: Expr, j: Expr, reads: tuple[Buffer, ...]) -> Expr:
        """Something to read at tile coordinates (i, j)."""
        pick, near = self.random.choice, self.random.randint
        kind = near(0, 9)
        if kind <= 2:
            row = self.by * self.t0 + i + near(-2, 2)
            return cast(Load(self.a, (row, self.bx * self.t1 + j * pick((1, 1, 2)) + near(-3, 3)), self.a.dtype), INT32)
        if kind == 3:
            return Load(self.b, (pick((j, self.bx * self.t1 + j, self.t1 - 1 - j)),), INT32)
        if kind == 4:
            return cast(pick((i, j, i * 3 - j, self.bx, self.by * 7 + i)), INT32) + const(0, INT32)
        if kind == 5:
            return const(pick((0, 1, -1, 2, 3, 7, -5, 100, 2**31 - 1)), INT32)
        buffer = pick(reads)
        if buffer is self.var:
            return Load(self.var, (), INT32)
        if buffer.rank == 1:
            return Load(buffer, (i if buffer is self.row else j,), INT32)
        return Load(buffer, (i, j), INT32)

    def expr(self, i: Expr, j: Expr, reads: tuple[Buffer, ...], depth: int = 2) -> Expr:
        """An expression over tile coordinates."""
        if depth == 0 or self.random.random() < 0.2:
            return self.leaf(i, j, reads)
        a, b = self.expr(i, j, reads, depth - 1), self.expr(i, j, reads, depth - 1)
        if self.random.random() < 0.2:
            return select(self.condition(i, j, a), a, b)
        return binary(self.random.choice(_OPERATORS), a, b)

    def condition(self, i: Expr, j: Expr, data: Expr) -> Expr:
        """A condition, on indices or on data."""
        compare = self.random.choice(_COMPARISONS)
        if self.random.random() < 0.5:
            return binary(compare, self.bx * self.t1 + j, self.random.choice((i, 3, self.a.shape[1], 2 * i)))
        return binary(compare, data, self.random.randint(-2, 2))

    # -- statements -------------------------------------------------------------------------------------------
    def statement(self) -> Stmt:
        """One random statement of a block program."""
        choices = [self.elementwise, self.copy, self.fold, self.operator, self.update, self.elementwise, self.atomic]
        if self.depth < 2:
            choices += [self.loop, self.branch]
        return self.random.choice(choices)()

    def elementwise(self) -> Stmt:
        """A parallel nest in which each iteration has elements of its own."""
        i, j = index_var("i"), index_var("j")
        target = self.random.choice((self.s, self.f))
        value = self.expr(i, j, (self.s, self.f, self.row, self.column, self.var))
        body: Stmt = Store(target, (i, j), value)
        if self.random.random() < 0.3:
            named = Var("x", INT32)
            body = Seq((Bind(named, value), Store(target, (i, j), named * named)))
        if self.random.random() < 0.3:
            body = If(self.condition(i, j, self.leaf(i, j, (self.row, self.column))), body)
        return ParallelLoop((i, j), (as_expr(self.t0), as_expr(self.t1)), body)

    def fold(self) -> Stmt:
        """A parallel nest that folds into a few elements."""
        i, j = index_var("i"), index_var("j")
        value = self.expr(i, j, (self.s, self.f, self.column), 1)
        op = self.random.choice((BinaryOp.ADD, BinaryOp.ADD, BinaryOp.MAX, BinaryOp.MIN, BinaryOp.BITXOR))
        target, at = self.random.choice(((self.row, (i,)), (self.row, (const(0, INT32),)), (self.var, ())))
        body: Stmt = Store(target, at, binary(op, Load(target, at, INT32), value))
        if self.random.random() < 0.3:
            body = If(self.condition(i, j, self.leaf(i, j, (self.s,))), body)
        return ParallelLoop((i, j), (as_expr(self.t0), as_expr(self.t1)), body)

    def update(self) -> Stmt:
        """A mutable scalar gets a value."""
        zero = const(0, INT32)
        return Store(self.var, (), self.expr(zero, zero, (self.s, self.row, self.var), 1))

    def copy(self) -> Stmt:
        """A tile moves, in from somewhere around the block's place or between tiles."""
        shift = self.random.randint
        start = (self.by * self.t0 + shift(-2, 2), self.bx * self.t1 + shift(-3, 3))
        tile = (as_expr(self.t0), as_expr(self.t1))
        return self.random.choice(
            (
                Copy(Region(self.a, start, tile), whole(self.s)),
                Copy(Region(self.b, start[1:], tile[1:]), whole(self.column)),
                Copy(whole(self.s), whole(self.f)),
                Copy(Region(self.b, start[1:], tile[1:]), Region(self.s, (as_expr(0), as_expr(0)), (as_expr(1), tile[1]))),
            )
        )

    def operator(self) -> Stmt:
        """A tile operator that works on chip."""
        pick = self.random.choice
        op = pick(list(ReduceOp))
        clear = pick((True, False))
        dim = pick((0, 1))
        return pick(
            (
                Reduce(op, whole(self.s), whole(self.column if dim == 0 else self.row), dim, clear),
                named_scan(
                    pick(list(ScanOp)), whole(self.s), whole(pick((self.s, self.f))), dim, reverse=pick((True, False))
                ),
                Fill(whole(pick((self.f, self.row, self.column))), const(self.random.randint(-3, 3), INT32)),
                Fill(Region(self.s, (as_expr(0), as_expr(0)), (as_expr(1), as_expr(self.t1))), Load(self.var, (), INT32)),
                Transpose(whole(self.s), whole(self.turned)),
                Copy(whole(self.turned), Region(self.turned, (as_expr(0), as_expr(0)), self.turned.shape)),
                Gemm(whole(self.s), whole(self.turned), whole(self.square), clear_accum=pick((None, const(1, BOOL)))),
            )
        )

    def loop(self) -> Stmt:
        """A serial loop, perhaps left early."""
        self.depth += 1
        k = index_var("k")
        start, step = self.random.randint(-2, 2), self.random.choice((1, 1, 2, -1))
        stop = start + step * self.random.randint(0, 3)
        body = [self.statement() for _ in range(self.random.randint(1, 2))]
        if self.random.random() < 0.5:
            leave = self.random.choice((Break(), Continue()))
            body.insert(self.random.randint(0, len(body)), If(binary(BinaryOp.EQ, k, start + step), leave))
        named = Var("y", INT32)
        body.append(Bind(named, Load(self.var, (), INT32) + k))
        body.append(Store(self.var, (), named * 3))
        self.depth -= 1
        kind = self.random.choice((ForKind.SERIAL, ForKind.PIPELINED, ForKind.UNROLLED))
        return For(k, as_expr(start), as_expr(stop), step, kind, Seq(tuple(body)))

    def branch(self) -> Stmt:
        """A branch on the block or on data."""
        self.depth += 1
        then, other = self.statement(), self.statement()
        self.depth -= 1
        condition = self.condition(self.by, self.bx, Load(self.var, (), INT32))
        return If(condition, then, self.random.choice((None, other)))

    def atomic(self) -> Stmt:
        """Blocks add to shared elements."""
        j = index_var("j")
        where = self.bx * self.t1 + j + self.random.randint(-1, 1)
        value = self.expr(const(0, INT32), j, (self.column,), 1)
        one = Atomic(AtomicOp.ADD, self.sum, (where,), value)
        tile = Region(self.sum, (self.bx * self.t1 + self.random.randint(-1, 1),), (as_expr(self.t1),))
        return self.random.choice(
            (
                ParallelLoop((j,), (as_expr(self.t1),), one),
                AtomicTile(AtomicOp.ADD, whole(self.column), tile),
                AtomicTile(AtomicOp.ADD, Load(self.var, (), INT32), tile),
            )
        )

    # -- the whole --------------------------------------------------------------------------------------------
    def launch(self) -> Launch:
        """The kernel: tiles defined, random statements, the tile written to its place."""
        buffers = (self.s, self.f, self.turned, self.row, self.column, self.square)
        first = [Alloc(b) for b in buffers] + [Alloc(self.flat), Alloc(self.var, const(1, INT32))]
        first += [Fill(whole(b), const(n, INT32)) for n, b in enumerate(buffers)]
        i = index_var("i")
        flat = ParallelLoop((i,), self.flat.shape, Store(self.flat, (i,), Load(self.flat, (i,), INT32) + cast(i, INT32)))
        middle = [self.statement() for _ in range(self.random.randint(2, 5))]
        place = Region(self.out, (self.by * self.t0, self.bx * self.t1), (as_expr(self.t0), as_expr(self.t1)))
        r, c = index_var("r"), index_var("c")
        total = Load(self.s, (r, c), INT32) * 5 + Load(self.f, (r, c), INT32) * 3 + Load(self.row, (r,), INT32)
        total = total + Load(self.column, (c,), INT32) * 7 + Load(self.var, (), INT32) + Load(self.turned, (c, r), INT32)
        last = [
            ParallelLoop((r, c), (as_expr(self.t0), as_expr(self.t1)), Store(self.f, (r, c), total)),
            Copy(whole(self.f), place),
        ]
        safe = ((self.a, const(self.random.choice((0, 9)), self.a.dtype)),) if self.random.random() < 0.5 else ()
        body = Seq((*first, flat, *middle, *last))
        grid = tuple(as_expr(extent) for extent in self.grid)
        return Launch((self.bx, self.by), grid, (128, 1, 1), body, LaunchHints(safe_values=safe))

    def arguments(self) -> list[np.ndarray]:
        """Arrays for the launch's parameters."""
        rows, columns = self.sizes
        numbers = np.random.default_rng(self.random.randint(0, 10**6))
        a = numbers.integers(-9 if self.a.dtype.kind.value == "int" else 0, 10, (rows, columns)).astype(self.a.dtype.numpy)
        b = numbers.integers(-9, 10, (columns,)).astype(np.int32)
        return [a, b, np.full((rows, columns), -1, np.int32), np.zeros((columns,), np.int32)]


def random_program(seed: int, launches: int = 1, *, symbolic: bool = False) -> Program:
    """A kernel function of some launches, each over parameters of its own; the same for the same seed."""
    makers = [_Maker(seed * 1000 + n, f"p{n}_", symbolic=symbolic) for n in range(launches)]
    body = [maker.launch() for maker in makers]
    params = tuple(TensorParam(buffer) for maker in makers for buffer in maker.params)
    symbols = tuple(symbol for maker in makers for symbol in maker.symbols)
    func = PrimFunc("random_program", params, Seq(tuple(body)), symbols=symbols)
    return Program(func, [array for maker in makers for array in maker.arguments()])
