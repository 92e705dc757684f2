"""Statements on pipelines that are missing or misplaced are refused."""

import pytest

from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderBarrier,
    OrderWait,
    Pipeline,
    Release,
    Wait,
    barriers,
)
from tilelang.ir.stmt import For, ForKind, Group, If, Seq, Store
from tilelang.ir.verify_pipelines import verify_pipelines

ZERO, ONE = const(0, INT32), const(1, INT32)
K_S = Buffer("K_s", (const(2, INT32),), INT32, Scope.SHARED)
FULL, EMPTY = (barriers(name, 2) for name in ("full", "empty"))
PRODUCER, CONSUMERS = Group(128, 128), Group(0, 128)
K = Pipeline("K", (K_S,), 2, FULL, EMPTY, PRODUCER, CONSUMERS, 128)
ONCE = Pipeline("K", (K_S,), 2, FULL, None, PRODUCER, CONSUMERS, 128)
ORDER = OrderBarrier("gemms", 2, 128)
THREAD, STEP = Var("thread", INT32, index=True), Var("step", INT32, index=True)
FILL = Store(K_S, (ZERO,), ZERO)


def partition(first, *statements):
    group = Group(first, 128, collective=True)
    loop = For(STEP, ZERO, const(4, INT32), 1, ForKind.SERIAL, Seq(statements))
    return If(group.condition(THREAD), loop, group=group)


def program(*, pipeline=K, init=None, fills=None, reads=None):
    """A producer, and consumers."""
    init = InitPipelines((pipeline,), (ORDER,)) if init is None else init
    fills = (Acquire(pipeline, ZERO, ZERO), FILL, Commit(pipeline, ZERO)) if fills is None else fills
    if reads is None:
        reads = (Wait(pipeline, ZERO, ZERO), OrderWait(ORDER), OrderArrive(ORDER))
        reads += () if pipeline.empty is None else (Release(pipeline, ZERO),)
    return Seq((init, partition(128, *fills), partition(0, *reads)))


def test_producers_and_consumers_are_accepted():
    verify_pipelines(program())
    verify_pipelines(program(pipeline=ONCE))
    verify_pipelines(program(fills=(Acquire(K, ZERO, ZERO), If(STEP > 0, FILL), Commit(K, ZERO))))


ACQUIRE, COMMIT, WAIT, RELEASE = Acquire(K, ZERO, ZERO), Commit(K, ZERO), Wait(K, ZERO, ZERO), Release(K, ZERO)
FAULTS = {
    "without a commit": ({"fills": (ACQUIRE, FILL)}, "a stage is acquired, but never committed"),
    "without an acquire": ({"fills": (FILL, COMMIT)}, "has Wait, but no Acquire"),
    "a commit too many": ({"fills": (ACQUIRE, FILL, COMMIT, COMMIT)}, "a stage is committed that was not acquired here"),
    "a commit elsewhere": (
        {"fills": (ACQUIRE, FILL, If(STEP > 0, Seq((COMMIT,))))},
        "a stage is committed that was not acquired here",
    ),
    "another stage committed": ({"fills": (ACQUIRE, FILL, Commit(K, ONE))}, "another stage is committed than was acquired"),
    "acquired twice": ({"fills": (ACQUIRE, ACQUIRE, FILL, COMMIT)}, "a stage is acquired while another one is filled"),
    "filled too early": ({"fills": (FILL, ACQUIRE, COMMIT)}, "'K_s' is written outside of Acquire and Commit"),
    "filled too late": ({"fills": (ACQUIRE, COMMIT, FILL)}, "'K_s' is written outside of Acquire and Commit"),
    "filled by consumers": ({"reads": (WAIT, FILL, RELEASE)}, "'K_s' is written outside of Acquire and Commit"),
    "without a wait": ({"reads": (RELEASE,)}, "has Acquire, but no Wait"),
    "without a release": ({"reads": (WAIT,)}, "has Wait, but no Release"),
    "without consumers": ({"reads": ()}, "has Acquire, but no Wait"),
    "filled by consumers, too": ({"reads": (WAIT, RELEASE, ACQUIRE, COMMIT)}, "others than its producer fill it"),
    "read by its producer": ({"fills": (ACQUIRE, COMMIT, WAIT)}, "others than its consumers wait for it, or release it"),
    "released without need": (
        {"pipeline": ONCE, "reads": (Wait(ONCE, ZERO, ZERO), Release(ONCE, ZERO))},
        "is released, but no stage is filled twice",
    ),
    "not initialized": ({"init": InitPipelines((), (ORDER,))}, "is never initialized"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_refused(fault):
    options, message = FAULTS[fault]
    with pytest.raises(CompilerBug) as caught:
        verify_pipelines(program(**options))
    assert f"verify: pipeline 'K': {message}" == caught.value.message


ORDER_FAULTS = {
    "no wait": ((OrderArrive(ORDER),), InitPipelines((), (ORDER,)), "has OrderArrive, but no OrderWait"),
    "no arrival": ((OrderWait(ORDER),), InitPipelines((), (ORDER,)), "has OrderWait, but no OrderArrive"),
    "not initialized": ((OrderWait(ORDER), OrderArrive(ORDER)), InitPipelines(), "is never initialized"),
}


@pytest.mark.parametrize("fault", ORDER_FAULTS)
def test_faults_of_order_barriers_are_refused(fault):
    statements, init, message = ORDER_FAULTS[fault]
    with pytest.raises(CompilerBug) as caught:
        verify_pipelines(Seq((init, *statements)))
    assert f"verify: order 'gemms': {message}" == caught.value.message
