"""Remainders of a counter are carried in software-pipelined loops, and have the same values."""

import pytest
from programs import index_var

from tilelang.dtypes import INT32, INT64, SCALARS
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import BinaryOp, Load, Var, as_expr, binary, cast, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Bind, Break, CallStmt, Continue, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import expressions, substitute, walk, walk_expr
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_WAIT
from tilelang.targets.nvidia.isa.wgmma import WGMMA_FENCE
from tilelang.targets.nvidia.passes.strength_reduce_remainders import PASS

FIRST, K = map(index_var, ("first", "k"))
BARRIERS = Buffer("full", (as_expr(16),), SCALARS["uint64"], Scope.BARRIER)
FILLS = Buffer("fills", (), INT32, Scope.VAR)
ALL = const(2**31 - 1, INT32)


def floor(op, a, b):
    return binary(BinaryOp.FLOORMOD if op == "%" else BinaryOp.FLOORDIV, a, const(b, INT32))


def trunc(op, a, b):
    return binary(BinaryOp.TRUNCMOD if op == "%" else BinaryOp.TRUNCDIV, a, const(b, INT32))


def wait(version, phase):
    place = Region(BARRIERS, (version,), (const(1, INT32),))
    return CallStmt(MBARRIER_WAIT, (place, phase))


def pipeline(version, phase, *before, start=0, stop=11, step=1, kind=ForKind.SERIAL, more=(), ahead=True):
    """A loop that waits for the barriers of stages and for those of the next iteration, and multiplies."""
    names, others = ((index_var("version"), index_var("phase")) for _ in range(2))
    binds = [Bind(name, value) for name, value in zip(names, (version, phase), strict=True)]
    body = [*before, *binds, wait(*names)]
    if ahead:
        body += (Bind(name, substitute(bind.value, {K: K + 1})) for name, bind in zip(others, binds, strict=True))
        body.append(wait(*others))
    return For(K, as_expr(start), as_expr(stop), step, kind, Seq((*body, CallStmt(WGMMA_FENCE, ()), *more)))


def reduced(*body):
    launch = Launch((FIRST,), (as_expr(100),), (128, 1, 1), Seq(body))
    func = PrimFunc("f", (), launch, Level.THREAD)
    return PASS.run(func, PassContext()).body, launch


def waits(stmt, first, fills=0):
    """The stages and phases for which a program waits."""
    env, memory, found = {FIRST: first}, {FILLS: fills}, []

    def value(expr):
        return evaluate(expr, env, exact=True, load=lambda load, _: memory[load.buffer])

    def run(stmt):
        match stmt:
            case Launch():
                run(stmt.body)
            case Seq():
                for child in stmt.body:
                    run(child)
            case Assume():
                assert value(stmt.value)
            case Bind():
                env[stmt.var] = value(stmt.value)
            case Alloc():
                memory[stmt.buffer] = value(stmt.init)
            case Store():
                memory[stmt.buffer] = value(stmt.value)
            case If():
                if value(stmt.condition):
                    run(stmt.then_body)
            case Break():
                raise StopIteration
            case For():
                for number in range(value(stmt.start), value(stmt.stop), stmt.step):
                    env[stmt.var] = number
                    try:
                        run(stmt.body)
                    except StopIteration:
                        break
            case CallStmt(args=(place, phase)):
                found.append((value(place.start[0]), value(phase)))

    run(stmt)
    return found


def divisions(stmt):
    """How many divisions run in each iteration of a loop."""
    loops = [s for s in walk(stmt) if isinstance(s, For)]
    inside = [e for loop in loops for s in walk(loop.body) for root in expressions(s) for e in walk_expr(root)]
    ops = (BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD)
    return sum(getattr(e, "op", None) in ops for e in inside)


@pytest.mark.parametrize("by", [floor, trunc])
@pytest.mark.parametrize("stages", [3, 5, 10])
@pytest.mark.parametrize(("start", "stop"), [(0, 11), (4, 9), (3, 3)])
def test_index_and_phase_are_carried(by, stages, start, stop):
    count = FIRST + K + 1
    phase = by("%", FIRST + by("/", count, stages), 2)
    made, launch = reduced(pipeline(by("%", count, stages), phase, start=start, stop=stop))
    assert 0 == divisions(made) < divisions(launch)
    for first in range(8):
        assert waits(launch, first) == waits(made, first)


def test_a_phase_may_be_a_quotient_or_count_to_any_number():
    count = FIRST + K
    made, launch = reduced(pipeline(floor("%", count, 3), floor("/", count, 3)))
    assert 0 == divisions(made)
    assert all(waits(launch, first) == waits(made, first) for first in range(8))
    made, launch = reduced(pipeline(floor("%", count, 3), floor("%", floor("/", count, 3) + 1, 4), stop=40))
    assert 0 == divisions(made)
    assert all(waits(launch, first) == waits(made, first) for first in range(8))


def test_a_phase_is_carried_whose_index_is_simplified_otherwise_than_that_of_the_version():
    phase = floor("%", floor("/", FIRST * 33 + K + 6, 6), 2)
    made, launch = reduced(pipeline(floor("%", FIRST * 3 + K, 6), phase, stop=33))
    assert 0 == divisions(made)
    assert all(waits(launch, first) == waits(made, first) for first in range(8))


def test_a_loop_whose_bounds_have_64_bits_carries_values_of_32():
    begin = Var("k_begin", INT64, index=True)
    loop = pipeline(floor("%", FIRST + K, 3), floor("%", floor("/", FIRST + K, 3), 2), start=begin, stop=begin + 7)
    made, launch = reduced(Bind(begin, cast(FIRST * 2, INT64)), loop)
    assert 0 == divisions(made)
    assert {INT32} == {dtype for s in walk(made) if isinstance(s, Alloc) for dtype in (s.buffer.dtype, s.init.dtype)}
    assert all(waits(launch, first) == waits(made, first) for first in range(8))


def test_counts_of_fills_that_are_masked_are_named_before_the_loop():
    fills, body = [index_var("fill") for _ in range(3)], []
    for fill, later in zip(fills, (0, 1, 0), strict=True):  # the third has the value of the first
        version, phase = index_var("version"), index_var("phase")
        body += [
            Bind(fill, binary(BinaryOp.BITAND, Load(FILLS, (), INT32) + (K + later), ALL)),
            Bind(version, trunc("%", fill, 3)),
            Bind(phase, trunc("%", trunc("/", fill, 3), 2)),
            wait(version, phase),
        ]
    loop = For(K, as_expr(0), as_expr(11), 1, ForKind.SERIAL, Seq((*body, CallStmt(WGMMA_FENCE, ()))))
    made, launch = reduced(loop)
    assert 0 == divisions(made)
    (reduced_loop,) = [s for s in walk(made) if isinstance(s, For)]
    assert not any(isinstance(s, Bind) and s.var.name == "fill" for s in walk(reduced_loop))
    assert 4 == sum(isinstance(s, Alloc) for s in walk(made))
    assert all(waits(launch, 0, fills) == waits(made, 0, fills) for fills in range(8))


@pytest.mark.parametrize(
    "loop",
    [
        pipeline(floor("%", FIRST + K, 4), floor("%", floor("/", FIRST + K, 4), 2)),  # shifts and masks
        pipeline(floor("%", FIRST + K * 2, 3), floor("%", floor("/", FIRST + K * 2, 3), 2)),  # steps over some
        pipeline(trunc("%", FIRST + K - 5, 3) + 2, const(0, INT32)),  # rounds up where it is negative
        pipeline(floor("%", FIRST, 3), const(0, INT32)),  # does not change
        pipeline(floor("%", FIRST + K, 3), floor("%", floor("/", FIRST + K, 3), 2), ahead=False),  # one iteration
        pipeline(floor("%", FIRST + K, 3), const(0, INT32), step=2),
        pipeline(floor("%", FIRST + K, 3), const(0, INT32), kind=ForKind.UNROLLED),
        pipeline(floor("%", FIRST + K, 3), const(0, INT32), more=(If(K < 3, Continue()),)),
        pipeline(floor("%", Load(FILLS, (), INT32) + FIRST, 3), const(0, INT32), more=(Store(FILLS, (), K),)),
    ],
)
def test_other_loops_stay_as_they_are(loop):
    made, launch = reduced(loop)
    assert made is launch


def test_a_loop_that_ends_early_carries_them_as_well():
    early = If(K >= 3, Break())
    made, launch = reduced(pipeline(floor("%", FIRST + K, 3), floor("%", floor("/", FIRST + K, 3), 2), more=(early,)))
    assert 0 == divisions(made) < divisions(launch)
    for first in range(8):
        assert 8 == len(waits(made, first))  # two in each of four iterations
        assert waits(launch, first) == waits(made, first)


def test_a_loop_around_loops_that_wait_computes_its_remainders():
    inner = pipeline(floor("%", FIRST + K, 3), floor("%", floor("/", FIRST + K, 3), 2))
    turn = index_var("turn")
    version = index_var("version")
    zero = const(0, INT32)
    body = Seq((Bind(version, floor("%", turn, 3)), wait(version, zero), inner))
    made, launch = reduced(For(turn, zero, as_expr(5), 1, ForKind.SERIAL, body))
    (outer,) = [s for s in walk(made) if isinstance(s, For) and s.var is turn]
    assert body.body[0] is outer.body.body[0]
    assert waits(launch, 4) == waits(made, 4)
