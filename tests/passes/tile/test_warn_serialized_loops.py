import pytest

import tilelang.language as T
from tilelang.errors import ProgramWarning
from tilelang.jit.decisions import decisions
from tilelang.jit.program import lowered, snapshots
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

TARGETS = [Target("cpu"), Target("cuda", "sm_80")]


@T.prim_func
def largest(A: T.Tensor((64,), "float32"), O: T.Tensor((1,), "int32")):
    with T.Kernel(1, threads=32):
        best = T.alloc_fragment((1,), "float32")
        at = T.alloc_fragment((1,), "int32")
        T.fill(best, -1.0)
        T.fill(at, 0)
        for i in T.Parallel(64):
            if A[i] > best[0]:
                best[0] = A[i]
                at[0] = i
        O[0] = at[0]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_an_argmax_by_hand_is_a_warning_at_the_loop(target):
    with pytest.warns(ProgramWarning) as caught:
        text = decisions(snapshots(largest, target, CompileOptions()), CompileOptions())
    (message,) = [str(warning.message) for warning in caught]
    line = largest.loc.line + 6
    what, place, shown, *_, hint = message.split("\n")
    assert what.startswith("T.Parallel: the iterations run serially: iterations write ")
    assert place.endswith(f"{__file__}:{line}:9")
    assert f"{line} |         for i in T.Parallel(64):" == shown
    assert (
        "hint: use a reduction (T.reduce_max, T.argmax) or an atomic (T.atomic_add), give each iteration an element of "
        "its own, or write T.serial if the order is meant"
    ) == hint
    assert f"  line {line}: {what}" in text.splitlines()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_loops_that_can_run_side_by_side_are_none(target):
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), S: T.Tensor((64,), "float32"), H: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            total, counts = T.alloc_fragment((1,), "float32"), T.alloc_shared((4,), "int32")
            once = T.alloc_var("float32", init=0.0)
            T.clear(total)
            T.clear(counts)
            for i, j in T.Parallel(64, 8):
                total[0] += A[i, j]
            for i in T.Parallel(1):
                once += A[i, 0]
            for i in T.Parallel(64):
                value = A[i, 0] * 2
                S[i] = value + total[0] + once
                counts[T.int32(A[i, 1]) % 4] += 1
            T.copy(counts, H)

    lowered(main, target, CompileOptions())
