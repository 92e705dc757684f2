"""Heads of iterations run during the last matrix instructions of the iteration before, where nobody can tell."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import BOOL, FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Var, as_expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Bind, Break, CallStmt, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.isa.atom import mma
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.ldmatrix import ldmatrix
from tilelang.targets.nvidia.isa.mma import choose_atom
from tilelang.targets.nvidia.passes.overlap_iterations import PASS
from tilelang.targets.target import Target

SM80 = Target("cuda", "sm_80")
STAGES = 4
FLOAT16 = as_dtype("float16")


# -- programs as users write them ---------------------------------------------------------------------------------
def product(m, n, k, bm=32, bn=32, bk=32, stages=3, threads=64, dtype="float16", rows=None):
    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a, b = T.alloc_shared((bm, bk), dtype), T.alloc_shared((bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, ko * bk], a)
                T.copy(B[ko * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    return main


def compiled(func, target=SM80):
    backend = importlib.import_module("tilelang.targets.nvidia.backend").BACKEND
    return run_passes(func, backend.passes, PassContext(target=target))


def in_order(loop):
    """What the statements of a loop do: "wait", "barrier", "copy", "commit", "load", "multiply"."""
    names = {"cp_async_wait": "wait", "sync_threads": "barrier", "cp_async_commit": "commit"}
    found = []
    for stmt in walk(loop.body):
        if isinstance(stmt, CallStmt):
            name = stmt.routine.name
            kind = names.get(name) or ("copy" if "cp_async" in name else "load" if "ldmatrix" in name else "multiply")
            found += [kind] if found[-1:] != [kind] else []
    return found


def serial_loops(func):
    return [s for s in walk(func.body) if isinstance(s, For) and s.kind is ForKind.SERIAL]


def ran(func, m, n, k, dtype="float16", **options):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    simulate(func, [a, b, c], target=SM80, **options)
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), c)


def test_an_iteration_waits_copies_and_loads_before_the_last_instructions_of_the_one_before():
    func = compiled(product(64, 64, 256))
    (loop,) = serial_loops(func)
    assert ["load", "multiply", "wait", "barrier", "load", "copy", "commit", "multiply"] == in_order(loop)


@settings(max_examples=6, deadline=None)
@given(
    depth=st.integers(1, 7).map(lambda n: n * 16),
    bk=st.sampled_from([16, 32, 48, 64]),
    stages=st.integers(1, 4),
    lazy=st.booleans(),
)
def test_results_are_those_of_the_program(depth, bk, stages, lazy):
    ran(compiled(product(32, 32, depth, bk=bk, stages=stages)), 32, 32, depth, lazy=lazy)


def test_loads_meet_no_bank_conflicts():
    counters = Counters()
    ran(compiled(product(64, 64, 128, 64, 64, 32, threads=128)), 64, 64, 128, report=counters)
    assert 0 == counters.traffic["shared load"].extra


def test_what_else_the_loop_does_with_the_sums_stays_behind_them():
    @T.prim_func
    def scaled(A: T.Tensor((32, 96), "float16"), B: T.Tensor((96, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for ko in T.Pipelined(3, num_stages=2):
                T.copy(A[0, ko * 32], a)
                T.copy(B[ko * 32, 0], b)
                T.gemm(a, b, c)
                for i, j in T.Parallel(32, 32):
                    c[i, j] = c[i, j] * 2.0
            T.copy(c, C)

    func = compiled(scaled)
    assert "multiply" == in_order(serial_loops(func)[0])[-1]
    rng = np.random.default_rng(1)
    a, b = rng.integers(-3, 4, (32, 96)).astype(np.float16), rng.integers(-3, 4, (96, 32)).astype(np.float16)
    c = np.zeros((32, 32), np.float32)
    simulate(func, [a, b, c], target=SM80)
    parts = [a[:, at : at + 32].astype(np.float32) @ b[at : at + 32].astype(np.float32) for at in (0, 32, 64)]
    np.testing.assert_array_equal(parts[0] * 8 + parts[1] * 4 + parts[2] * 2, c)


# -- loops by hand ------------------------------------------------------------------------------------------------
K, N, BX, THREAD = (Var(name, INT32, index=True) for name in ("k", "n", "bx", "thread"))
ONE = const(1, INT32)
ATOM = choose_atom(SM80, FLOAT16, FLOAT16, FLOAT32, 16)


def buffer(name, shape, dtype, scope):
    return Buffer(name, tuple(as_expr(e) for e in shape), dtype, scope)


G = buffer("g", (1024, 8), FLOAT16, Scope.GLOBAL)
S = buffer("s", (STAGES, 256), FLOAT16, Scope.SHARED)
R = buffer("r", (16,), FLOAT16, Scope.LOCAL)
C = buffer("c", (4,), FLOAT32, Scope.LOCAL)


def part(owner, *start, count=1):
    at = tuple(as_expr(e) for e in start)
    return Region(owner, at, (*(ONE for _ in at[1:]), const(count, INT32)))


def copy(k):
    target, source = part(S, k % STAGES, THREAD * 8), part(G, k, 0, count=8)
    return CallStmt(cp_async(16), (target, source, Const(True, BOOL)), (source,), (target,))


def load(k, first=0):
    target, source = part(R, first, count=8), part(S, k % STAGES, THREAD * 8)
    return CallStmt(ldmatrix(4), (target, source), (source,), (target,))


def multiply(first=8):
    regions = (part(C, 0, count=4), part(R, first, count=8), part(R, first, count=4))
    return CallStmt(mma(ATOM), regions, regions, regions[:1])


WAIT, COMMIT = CallStmt(CP_ASYNC_WAIT, (const(2, INT32),)), CallStmt(CP_ASYNC_COMMIT, ())


def ahead(condition=None):
    return If(K + 3 < N if condition is None else condition, copy(K + 3))


def moved(*body, var=K, start=0, step=1):
    """Whether anything of a loop is done earlier."""
    loop = For(var, as_expr(start), N, step, ForKind.SERIAL, Seq(body))
    launch = Launch((BX,), (ONE,), (32, 1, 1), Seq((Alloc(S), Alloc(C), loop)), thread=THREAD)
    func = PrimFunc("main", (), launch, level=Level.THREAD)
    return PASS.run(func, PassContext(target=SM80)) is not func


REST = (load(K, 8), multiply(0), multiply(8))


def test_a_loop_over_any_number_of_iterations():
    assert moved(WAIT, ahead(), COMMIT, Alloc(R), load(K), *REST)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((WAIT, copy(K + 3), COMMIT, Alloc(R), load(K), *REST), id="reads beyond the last iteration"),
        pytest.param((WAIT, ahead(K + 3 != N), Alloc(R), load(K), *REST), id="a test that says nothing of the end"),
        pytest.param((WAIT, ahead(), Alloc(R), load(K, 8), load(K), multiply(0), multiply(8)), id="same registers"),
        pytest.param((WAIT, ahead(), load(K), *REST), id="registers that outlive the loop"),
        pytest.param((WAIT, ahead(), Alloc(R), multiply(8)), id="nothing to load"),
        pytest.param((WAIT, ahead(), Alloc(R), load(K), multiply(0), load(K, 8)), id="nothing at the end"),
        pytest.param(
            (WAIT, ahead(), Alloc(R), load(K), *REST, If(K == 5, Break()), multiply(8)), id="an end that is not known"
        ),
        pytest.param(
            (WAIT, Store(S, (K % STAGES, THREAD), Const(0.0, FLOAT16)), Alloc(R), load(K), *REST), id="writes tiles"
        ),
    ],
)
def test_loops_that_stay(body):
    assert not moved(*body)


def test_a_place_beyond_the_tile_is_not_read():
    far = part(buffer("t", (N, 256), FLOAT16, Scope.SHARED), K, THREAD * 8)
    target = part(R, 0, count=8)
    beyond = CallStmt(ldmatrix(4), (target, far), (far,), (target,))
    assert not moved(WAIT, ahead(), Alloc(R), beyond, *REST)


@pytest.mark.parametrize(("slot", "swapped"), [(K + 3, True), (K + 4, False), (K * 3, False)])
def test_loads_pass_copies_to_other_versions(slot, swapped):
    target, source = part(S, slot % STAGES, THREAD * 8), part(G, K, 0, count=8)
    start = CallStmt(cp_async(16), (target, source, Const(True, BOOL)), (source,), (target,))
    loop = For(K, as_expr(0), N, 1, ForKind.SERIAL, Seq((WAIT, ahead(), If(K < N, start), Alloc(R), load(K), *REST)))
    launch = Launch((BX,), (ONE,), (32, 1, 1), Seq((Alloc(S), Alloc(C), loop)), thread=THREAD)
    func = PASS.run(PrimFunc("main", (), launch, level=Level.THREAD), PassContext(target=SM80))
    behind = ["load", "copy"] if swapped else ["copy", "load"]
    assert ["load", "multiply", "wait", *behind, "multiply"] == in_order(serial_loops(func)[0])


def test_backward_loops_stay():
    assert not moved(WAIT, ahead(), Alloc(R), load(K), *REST, step=-1)


def test_names_follow_their_iteration():
    slot = Var("slot", INT32, index=True)
    own = Var("own", INT32, index=True)
    target, source = part(R, 0, count=8), part(S, slot, own)
    fetch = CallStmt(ldmatrix(4), (target, source), (source,), (target,))
    body = (WAIT, ahead(), Bind(slot, K % STAGES), Bind(own, THREAD * 8), Alloc(R), fetch, *REST)
    loop = For(K, as_expr(0), N, 1, ForKind.SERIAL, Seq(body))
    launch = Launch((BX,), (ONE,), (32, 1, 1), Seq((Alloc(S), Alloc(C), loop)), thread=THREAD)
    func = PASS.run(PrimFunc("main", (), launch, level=Level.THREAD), PassContext(target=SM80))
    (new,) = serial_loops(func)
    binds = [s for s in walk(func.body) if isinstance(s, Bind)]
    assert ["own", "slot", "slot", "slot"] == sorted(s.var.name for s in binds)
    assert ["slot", "slot"] == [s.var.name for s in walk(new.body) if isinstance(s, Bind)]
    assert len({s.var for s in binds}) == 4


def test_no_statement_stands_in_two_places():
    func = compiled(product(32, 32, 128))
    seen = [id(s) for s in walk(func.body)]
    assert len(seen) == len(set(seen))
