"""Loops of persistent blocks begin with an iteration of their own where their results are computed with."""

import numpy as np
import pytest
from specialized import context, launch_of

import tilelang
import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.ir.stmt import For
from tilelang.ir.visit import sub_statements, walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.runner import run_passes
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes.peel_first_iterations import PASS, peel_first_iterations

HOPPER = {"kind": "cuda", "arch": "sm_90a"}
PERSISTENT = {"persistent": True, "ping_pong": False}
TILES, ROWS, COLUMNS, DEPTH = 5, 128, 64, 64


def program(steps=3, use="in place", clears="before"):
    """A product of several tiles, with something computed of its sums in place, in another tile, or while copied."""

    @T.prim_func
    def main(
        A: T.Tensor((TILES * ROWS, DEPTH * 4), "float16"), B: T.Tensor((COLUMNS, DEPTH * 4), "float16"),
        n: T.int32, C: T.Tensor((TILES * ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(TILES, threads=128) as bx:
            A_s = T.alloc_shared((ROWS, DEPTH), "float16")
            B_s = T.alloc_shared((COLUMNS, DEPTH), "float16")
            C_l = T.alloc_fragment((ROWS, COLUMNS), "float32")
            D_l = T.alloc_fragment((ROWS, COLUMNS), "float32")
            if clears == "before":
                T.clear(C_l)
            for k in T.Pipelined(n if steps is None else steps, num_stages=2):
                T.copy(A[bx * ROWS, k * DEPTH], A_s)
                T.copy(B[0, k * DEPTH], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True, clear_accum=False if clears == "before" else k == 0)
            if use == "nothing":
                T.copy(C_l, C[bx * ROWS, 0])
            elif use == "in place":
                for i, j in T.Parallel(ROWS, COLUMNS):
                    C_l[i, j] = C_l[i, j] * 2
                T.copy(C_l, C[bx * ROWS, 0])
            else:
                for i, j in T.Parallel(ROWS, COLUMNS):
                    D_l[i, j] = C_l[i, j] * 2
                T.copy(D_l, C[bx * ROWS, 0])

    return main


def gemms(func, **options):
    """Of each gemm behind the pass: when it overwrites its sums, and where the loop around begins if it is in one."""
    passes = BACKEND.passes
    specialized = run_passes(func, passes[: passes.index(PASS)], context(**options))
    launch = peel_first_iterations(launch_of(specialized), of_function(specialized))
    around = {s: loop for loop in walk(launch.body) if isinstance(loop, For) for s in sub_statements(loop.body)}
    found = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    return [(str(s.clear_accum), str(around[s].start) if s in around else "") for s in found]


@pytest.mark.parametrize("clears", ["before", "by the gemm"])
@pytest.mark.parametrize("use", ["in place", "another tile"])
def test_the_first_iteration_stands_in_front_of_the_loop(use, clears):
    assert [("True", ""), ("None", "1")] == gemms(program(use=use, clears=clears), **PERSISTENT)


def test_in_ping_pong_only_results_of_which_other_tiles_are_made_begin_in_front_of_the_loop():
    in_place, another = (
        gemms(program(use=use), persistent=True, ping_pong=True) for use in ("in place", "another tile")
    )
    assert [("k == 0", "0")] * 2 == in_place
    assert [("True", ""), ("None", "1")] * 2 == another


@pytest.mark.parametrize(
    ("options", "persistent"),
    [
        ({"use": "nothing"}, True),
        ({}, False),  # no other tile follows
        ({"steps": 1}, True),  # no other iteration
        ({"steps": None, "clears": "by the gemm"}, True),  # there may be none
    ],
)
def test_other_loops_stay_whole(options, persistent):
    assert [("k == 0", "0")] == gemms(program(**options), persistent=persistent, ping_pong=False)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("steps", [2, 4])
@pytest.mark.parametrize(
    ("use", "configs"),
    [
        ("in place", {"tl.ping_pong": False}),
        ("another tile", {"tl.ping_pong": True}),
        ("another tile", {"tl.ping_pong": True, "tl.in_flight": 0}),
    ],
)
def test_it_computes_the_same(steps, use, configs):
    rng = np.random.default_rng(steps)
    a, b = (rng.integers(-3, 4, (rows, DEPTH * 4)).astype(np.float16) for rows in (TILES * ROWS, COLUMNS))
    c = np.full((TILES * ROWS, COLUMNS), np.nan, np.float32)
    kernel = tilelang.compile(
        program(steps, use), target=HOPPER, execution_backend="simulator", pass_configs={**configs, "tl.persistent": True}
    )
    kernel(a, b, 0, c)
    depth = DEPTH * steps
    np.testing.assert_array_equal(c, a[:, :depth].astype(np.float32) @ b[:, :depth].T.astype(np.float32) * 2)


def test_no_wgmma_of_a_tile_has_a_predicate():
    configs = {f"tl.{name}": value for name, value in PERSISTENT.items()}
    kernel = tilelang.compile(program(), target=HOPPER, pass_configs=configs)
    assert "scale_d" not in kernel.get_kernel_source()
