"""The copy engine adds tiles to tensors where the program waits for that, as one that may come at any time."""

import pytest
from answers import reason
from thread_kernels import buffer

from tilelang.ir.buffer import Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import AtomicOp, CallStmt, MemoryOrder, MemoryScope
from tilelang.ir.visit import walk
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.atomic import AtomicTile
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_reduce
from tilelang.targets.nvidia.lowerings.atomic_tma import TmaReduce
from tilelang.targets.target import Target


def added(
    op=AtomicOp.ADD, dtype="float32", *, memory=Scope.SHARED, source=None, order=MemoryOrder.RELAXED,
    among=MemoryScope.GPU, is_async=True
):  # fmt: skip
    source = whole(buffer("S", (64, 64), dtype, memory)) if source is None else source
    return AtomicTile(op, source, whole(buffer("C", (64, 64), dtype)), order, among, is_async=is_async)


def context(arch="sm_90a", **more):
    return LoweringContext(Target("cuda", arch), CompileOptions(), 128, **more)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (added(), ""),
        (added(dtype="float16"), ""),
        (added(AtomicOp.MAX, "int32"), ""),
        (added(is_async=False), "the program does not wait for it"),
        (added(AtomicOp.MAX), "the copy engine has no max of float32"),
        (added(dtype="int8"), "the copy engine has no add of int8"),
        (added(source=as_expr(1.0)), "it adds a scalar"),
        (added(memory=Scope.FRAGMENT), "copies between global and shared memory only"),
        (
            added(order=MemoryOrder.RELEASE),
            "the copy engine has relaxed atomics among all threads of the GPU only",
        ),
        (
            added(among=MemoryScope.SYSTEM),
            "the copy engine has relaxed atomics among all threads of the GPU only",
        ),
    ],
)
def test_what_the_copy_engine_does(op, expected):
    assert expected == reason(TmaReduce(), op, context())


def test_gpus_before_hopper_have_none():
    assert "sm_80 has no copy engine for tiles" == reason(TmaReduce(), added(), context("sm_80"))


def test_boxes_are_folded_and_committed():
    op, at = added(), context(thread=as_expr(0))
    build = Builder(op.loc)
    plan = TmaReduce().accepts(op, at)
    TmaReduce().lower(op, plan, at, build)
    calls = [s.routine for s in walk(build.finish()) if isinstance(s, CallStmt)]
    assert [tma_reduce(2, "add"), TMA_STORE_COMMIT] == calls
