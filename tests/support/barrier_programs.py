"""Thread-level programs for tests of inserted barriers, and a search for races in all of their executions."""

import itertools

import numpy as np

from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Load, Var, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import (
    Alloc,
    CallStmt,
    For,
    ForKind,
    If,
    Launch,
    Seq,
    Store,
)
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.passes.thread.insert_barriers import insert_barriers
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP

THREADS = 64
UINT32 = as_dtype("uint32")
T = Var("t", INT32, index=True)
BX = Var("bx", INT32, index=True)


def c(value):
    return const(value, INT32)


def index(name):
    return Var(name, INT32, index=True)


def buffer(name, *shape, scope=Scope.SHARED):
    return Buffer(name, tuple(c(e) for e in shape), FLOAT32, scope)


S, R, V2 = buffer("S", 64), buffer("R", 64), buffer("V", 2, 64)
G = buffer("G", 4, 64, scope=Scope.GLOBAL)
ACC = buffer("acc", 8, scope=Scope.LOCAL)


def write(target, *indices):
    return Store(target, tuple(as_expr(i) for i in indices), Const(1.0, FLOAT32))


def read(source, *indices):
    return Store(ACC, (c(0),), Load(source, tuple(as_expr(i) for i in indices), FLOAT32))


def serial(var, trips, *body):
    return For(var, c(0), as_expr(trips), 1, ForKind.SERIAL, Seq(body))


def placed(*body, threads=THREADS, plan=LaunchPlan()):
    launch = Launch((BX,), (c(2),), (threads, 1, 1), Seq((Alloc(ACC), *body)), thread=T, plan=plan)
    return insert_barriers(launch, 32)


def is_barrier(stmt):
    return isinstance(stmt, CallStmt) and stmt.routine in (SYNC_THREADS, SYNC_WARP)


def barriers(launch):
    return [s for s in walk(launch.body) if is_barrier(s)]


class Execution:
    """What every thread touches, and between which barriers: an execution of a program without data."""

    def __init__(self, threads=THREADS, skip=None):
        self.threads = np.arange(threads)
        self.skip = skip
        self.epoch = 0
        self.instance = 0
        self.touched = {}  # (buffer, element, epoch) -> [(instance, thread, write)]

    def run(self, stmt, env, active):
        self.instance += 1
        match stmt:
            case Seq():
                for child in stmt.body:
                    self.run(child, env, active)
            case For():
                for value in range(int(evaluate(stmt.start, env)), int(evaluate(stmt.stop, env)), stmt.step):
                    self.run(stmt.body, {**env, stmt.var: value}, active)
            case If():
                self.reads(stmt, env, active)
                holds = np.broadcast_to(evaluate(stmt.condition, env), active.shape).astype(bool)
                if (active & holds).any():
                    self.run(stmt.then_body, env, active & holds)
                if stmt.else_body is not None and (active & ~holds).any():
                    self.run(stmt.else_body, env, active & ~holds)
            case _ if is_barrier(stmt):
                assert active.all(), "a barrier that some threads do not reach"
                self.epoch += stmt is not self.skip
            case Store():
                self.reads(stmt, env, active)
                if stmt.buffer.scope is not Scope.LOCAL:
                    self.note(stmt.buffer, stmt.indices, env, active, write=True)
        return self

    def reads(self, stmt, env, active):
        for root in expressions(stmt):
            for node in walk_expr(root):
                if isinstance(node, Load) and node.buffer.scope is not Scope.LOCAL:
                    self.note(node.buffer, node.indices, env, active, write=False)

    def note(self, target, indices, env, active, *, write):
        places = [np.broadcast_to(evaluate(i, env), active.shape) for i in indices]
        for thread in self.threads[active]:
            where = (target, tuple(int(p[thread]) for p in places), self.epoch)
            self.touched.setdefault(where, []).append((self.instance, int(thread), write))

    @property
    def races(self):
        return [
            where
            for where, accesses in self.touched.items()
            if any(
                a[0] != b[0] and a[1] != b[1] and (a[2] or b[2]) for a, b in itertools.combinations(accesses, 2)
            )
        ]


def races(launch, skip=None, symbols=()):
    env = {T: np.arange(THREADS), BX: 1, **dict(symbols)}
    return Execution(skip=skip).run(launch.body, env, np.ones(THREADS, bool)).races


def before(launch):
    """The statements that follow barriers, as text."""
    found = []
    for stmt in walk(launch.body):
        if isinstance(stmt, Seq):
            found += [b for a, b in itertools.pairwise(stmt.body) if is_barrier(a)]
    return found
