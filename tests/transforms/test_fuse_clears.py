"""Clears are fused into the first gemm of a loop where that surely runs, and stay where it may not."""

import numpy as np
import pytest
from harness import run_reference_on_copies
from specialized import launch_of

import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.ir.printer import to_text
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.transforms.fuse_clears import fuse_clears


def gemm_kernel(trips=3, start=0, step=1, before=False, scaled=False, twice=False, value=0.0):
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((16, K), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((16, 16), "float16")
            C_l = T.alloc_fragment((16, 16), "float32")
            T.fill(C_l, value)
            if before:
                T.copy(C_l, C)
            for k in T.serial(start, K // 16 if trips is None else trips, step):
                T.copy(A[0, k * 16], A_s)
                if scaled:
                    for i, j in T.Parallel(16, 16):
                        C_l[i, j] *= 2.0
                T.gemm(A_s, A_s, C_l)
                if twice:
                    T.gemm(A_s, A_s, C_l)
            T.copy(C_l, C)

    return main


def changed(func):
    launch = flatten_sequences(launch_of(func))
    made = fuse_clears(launch, of_function(func))
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-3, 3, (16, 160)).astype(np.float16), np.zeros((16, 16), np.float32)]
    after = type(func)(**{**{f: getattr(func, f) for f in func.__dataclass_fields__}, "body": made})
    want, got = (run_reference_on_copies(f, arguments)[1] for f in (func, after))
    np.testing.assert_array_equal(want, got)
    return to_text(made)


@pytest.mark.parametrize(
    "options,first",
    [({}, "k == 0"), ({"start": 2, "trips": 9, "step": 3}, "k == 2"), ({"start": 5, "trips": -1, "step": -2}, "k == 5"),
     ({"twice": True}, "k == 0")],
)  # fmt: skip
def test_the_first_gemm_clears_the_accumulator(options, first):
    text = changed(gemm_kernel(**options))
    assert "T.fill" not in text
    assert 1 == text.count(f"clear_accum={first}")


@pytest.mark.parametrize("options", [{"trips": None}, {"trips": 0}, {"before": True}, {"scaled": True}, {"value": 1.0}])
def test_clears_stay_where_the_first_access_is_no_gemm_or_the_loop_may_be_empty(options):
    text = changed(gemm_kernel(**options))
    assert "T.fill" in text
    assert "clear_accum" not in text
