"""The offset of a tile with two versions is carried from iteration to iteration, where registers are short."""

import attention_programs
import numpy as np
import pytest
from examples_of import benchmark_programs
from gpu import simulate_func
from programs import index_var

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, as_expr, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Bind, Continue, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import uses, walk
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.passes.carry_offsets import PASS
from tilelang.targets.target import Target

THREAD, K, S, ROW = map(index_var, ("thread", "k", "s", "row"))
TILE = Buffer("tile", (as_expr(1 << 16),), INT32, Scope.SHARED)
FOUND = Buffer("found", (as_expr(4),), INT32, Scope.LOCAL)
SWIZZLED = THREAD // 4 * 64 + (THREAD % 4 ^ THREAD // 4 % 4) * 8  # below 2048


def arrays(size):
    """An array of so many registers, which are live throughout a loop."""
    held = Buffer("held", (as_expr(size),), INT32, Scope.LOCAL)
    zero = const(0, INT32)
    return Alloc(held), Store(held, (zero,), Load(held, (zero,), INT32))


def reading(offset, *before, start=0, kind=ForKind.SERIAL, size=256, step=1):
    """A launch whose loop reads a tile at an offset that the steps of an unrolled loop change."""
    alloc, use = arrays(size)
    load = Store(FOUND, (S,), Load(TILE, (offset ^ S * 16,), INT32))
    steps = For(S, as_expr(0), as_expr(4), 1, ForKind.UNROLLED, load)
    loop = For(K, as_expr(start), as_expr(7), step, kind, Seq((*before, steps, use)))
    return Launch((), (), (128, 1, 1), Seq((alloc, Alloc(FOUND), loop)), thread=THREAD)


def carried(launch):
    func = PrimFunc("f", (), launch, Level.THREAD)
    return PASS.run(func, PassContext(target=Target("cuda", "sm_80"))).body


def offsets(node, thread):
    """The offsets from which a thread reads the tile, in order."""
    env, memory, found = {THREAD: thread}, {}, []

    def value(expr):
        return int(evaluate(expr, env, exact=True, load=lambda load, _: memory[load.buffer]))

    def run(stmt):
        match stmt:
            case Launch() | Seq():
                for child in (stmt.body,) if isinstance(stmt, Launch) else stmt.body:
                    run(child)
            case Bind():
                env[stmt.var] = value(stmt.value)
            case Alloc() if stmt.init is not None:
                memory[stmt.buffer] = value(stmt.init)
            case Store() if stmt.buffer.scope is Scope.VAR:
                memory[stmt.buffer] = value(stmt.value)
            case Store() if stmt.buffer is FOUND:
                found.append(value(stmt.value.indices[0]))
            case For():
                for number in range(value(stmt.start), value(stmt.stop), stmt.step):
                    env[stmt.var] = number
                    run(stmt.body)

    run(node)
    return found


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("before", [0, 1])
def test_the_offset_is_carried(start, before):
    launch = reading(SWIZZLED + (K + before) % 2 * 2048, start=start)
    made = carried(launch)
    assert not any(uses(stmt.body, K) for stmt in walk(made) if isinstance(stmt, For))
    assert all(offsets(launch, thread) == offsets(made, thread) for thread in range(0, 128, 7))


def test_names_in_the_loop_that_do_not_change_are_looked_through():
    made = carried(reading(ROW * 64 + K % 2 * 2048, Bind(ROW, THREAD // 4)))
    assert not any(isinstance(s, Bind) and s.var is ROW for s in walk(made))
    launch = reading(THREAD // 4 * 64 + K % 2 * 2048)
    assert all(offsets(launch, thread) == offsets(made, thread) for thread in range(0, 128, 7))


@pytest.mark.parametrize(
    "launch",
    [
        reading(SWIZZLED + K % 2 * 2048, size=200),  # registers are left
        reading(SWIZZLED + K % 2 * 1024),  # the rest has the bit of the version
        reading(SWIZZLED + K % 2 * 3072),  # which is no single bit
        reading(SWIZZLED - 64 + K % 2 * 2048),  # the rest may be negative
        reading(SWIZZLED + K % 3 * 2048),  # there are three versions
        reading(SWIZZLED + K * 3 % 2 * 2048),
        reading(SWIZZLED + K % 2 * 2048 + K * 4096),
        reading(SWIZZLED),
        reading(K % 2 * 2048),  # of which nothing is left to keep
        reading(SWIZZLED + K % 2 * 2048, step=2),
        reading(SWIZZLED + K % 2 * 2048, kind=ForKind.UNROLLED),
        reading(SWIZZLED + K % 2 * 2048, If(K > 2, Continue())),
    ],
)
def test_other_offsets_stay(launch):
    assert carried(launch) is launch


def test_attention_of_full_registers_is_right():
    q, k, v = (np.random.default_rng(n).standard_normal((1, 1, 128, 128)).astype(np.float16) for n in range(3))
    func = benchmark_programs().attention_program(1, 1, 128, 128, 128, 64, threads=128)
    found = simulate_func(func, [q, k, v, np.zeros_like(q)], "sm_80")[3]
    np.testing.assert_allclose(attention_programs.attention(q[0], k[0], v[0], causal=False), found[0], atol=2e-3)
