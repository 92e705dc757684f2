"""Small loops for tests: short ways to write IR by hand, random loop bodies, and a machine that runs them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Var, as_expr, binary, cast
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import For, ForKind, If, Seq, Store
from tilelang.ir.visit import substitute_stmt

i, j, k, bx = (Var(name, INT32, index=True) for name in ("i", "j", "k", "bx"))
M = Var("M", INT32, index=True)


def exprs(*values):
    return tuple(as_expr(v) for v in values)


def buffer(name, *shape, scope=Scope.FRAGMENT, dtype=FLOAT32):
    return Buffer(name, exprs(*shape), dtype, scope)


def load(b, *indices):
    return Load(b, exprs(*indices), b.dtype)


def store(b, *indices_and_value):
    *indices, value = indices_and_value
    return Store(b, exprs(*indices), cast(value, b.dtype))


def largest(a, b):
    return binary(BinaryOp.MAX, a, b)


def serial(var, n, *body):
    return For(var, as_expr(0), as_expr(n), 1, ForKind.SERIAL, Seq(body))


# -- random loops over i, with k fixed around them ---------------------------------------------------------------

TRIPS = 6
A, B = (buffer(name, 8, scope=Scope.GLOBAL, dtype=INT32) for name in "AB")
C = buffer("C", 3, 4, scope=Scope.GLOBAL, dtype=INT32)
y = buffer("y", scope=Scope.VAR, dtype=INT32)
BUFFERS = (A, B, C, y)
ASSOCIATIVE = (BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX, BinaryOp.BITXOR, BinaryOp.SUB)

indices = st.sampled_from([
    as_expr(0), as_expr(2), i, i + 1, i - 1, 5 - i, 2 * i, 2 * i + 1, i // 2, i % 4, i // 4, i + k, i + 3 * k, k, k + 1,
    2 * i - k, i * 0 + 3, i + 6, i % 2 + k,
])  # fmt: skip


@st.composite
def elements(draw):
    b = draw(st.sampled_from(BUFFERS))
    return b, tuple(draw(indices) for _ in b.shape)


@st.composite
def values(draw, target):
    def leaf():
        b, at = draw(elements())
        return draw(st.sampled_from([Load(b, at, INT32), cast(i * 3 + 1, INT32), as_expr(7)]))

    match draw(st.integers(0, 3)):
        case 0:
            return binary(draw(st.sampled_from(ASSOCIATIVE)), Load(*target, INT32), leaf())
        case 1:
            return binary(draw(st.sampled_from(ASSOCIATIVE)), leaf(), Load(*target, INT32))
        case 2:
            return leaf() + leaf()
        case _:
            return leaf()


@st.composite
def statements(draw):
    target = draw(elements())
    made = Store(*target, cast(draw(values(target)), INT32))
    match draw(st.integers(0, 4)):
        case 0:
            return If(i < draw(st.integers(0, 6)), made)
        case 1:
            return If(draw(values(target)) > 5, made)
        case _:
            return made


@st.composite
def bodies(draw):
    made = draw(st.lists(statements(), min_size=1, max_size=3))
    depth = draw(st.integers(0, 2))
    if depth == 0:  # k is fixed around the loop
        return Seq(tuple(made))
    own = Var("own", INT32, index=True)
    inner = serial(own, depth + 1, *(substitute_stmt(stmt, {k: own}) for stmt in made))
    return Seq((inner, draw(statements()))) if draw(st.booleans()) else inner


class Machine:
    """Runs a loop body statement by statement; every iteration is a generator that pauses between effects."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.memory = {
            b: {at: int(rng.integers(-9, 9)) for at in itertools.product(*[range(n) for n in b.static_shape])}
            for b in BUFFERS
        }

    def value(self, expr, env, own):
        def fetch(node, at):
            at = tuple(int(a) for a in at)
            place = own.get((node.buffer, at))
            cells = self.memory[node.buffer] if place is None else place
            return np.int32(cells.get(at, 0))

        return evaluate(expr, env, load=fetch)

    def run(self, node, env, own):
        match node:
            case Seq(body=body):
                for child in body:
                    yield from self.run(child, env, own)
            case If(condition=condition, then_body=then_body):
                taken = bool(self.value(condition, env, own))
                yield
                if taken:
                    yield from self.run(then_body, env, own)
            case For(var=var, stop=stop, body=body):
                for index in range(int(stop.value)):
                    yield from self.run(body, {**env, var: index}, own)
            case Store(buffer=b, indices=at, value=value):
                at = tuple(int(evaluate(a, env)) for a in at)
                result = int(self.value(value, env, own))
                yield
                cells = own.get((b, at), self.memory[b])
                if at in cells or b is y:
                    cells[at] = result
                yield


def run_in_order(body, env, seed):
    machine = Machine(seed)
    for value in range(TRIPS):
        for _ in machine.run(body, {**env, i: value}, {}):
            pass
    return machine.memory
