"""Which software-pipelined loops are rotated, and where their iterations are divided."""

import pytest
from specialized import launch_of, warp_specialize

import tilelang.language as T
from tilelang.ir.pipeline import OrderArrive, OrderWait
from tilelang.ir.stmt import For, If
from tilelang.ir.visit import sub_statements, walk
from tilelang.ops.gemm import Gemm


def attention(dim=64, rows=128, ragged=False, limited="", through_memory=False):
    """Two gemms with exponentials between them; `limited` is where the number of iterations without masks is read."""
    threads = rows * 2

    @T.prim_func
    def main(Q: T.Tensor((rows, dim), "float16"), K: T.Tensor((250 if ragged else 256, dim), "float16"),
             V: T.Tensor((250 if ragged else 256, dim), "float16"), L: T.Tensor((4,), "int32"),
             O: T.Tensor((rows, dim), "float32")):
        with T.Kernel(1, threads=threads):
            q, k, v = (T.alloc_shared((n, dim), "float16") for n in (rows, 64, 64))
            scores, out = T.alloc_fragment((rows, 64), "float32"), T.alloc_fragment((rows, dim), "float32")
            most = T.alloc_fragment((rows,), "float32")
            p = T.alloc_shared((rows, 64), "float16") if through_memory else T.alloc_fragment((rows, 64), "float16")
            limits = T.alloc_shared((4,), "int32")
            T.copy(Q, q)
            T.copy(L, limits)
            T.clear(out)
            limit = T.bind(limits[0] if limited == "shared" else L[0]) if limited else 4
            for i in T.Pipelined(4, num_stages=2):
                T.copy(K[i * 64, 0], k)
                T.copy(V[i * 64, 0], v)
                if ragged:
                    for r, c in T.Parallel(rows, 64):
                        scores[r, c] = T.if_then_else(i * 64 + c < 250, 0.0, -1e4)
                else:
                    T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if limited:
                    for r, c in T.Parallel(rows, 64):
                        scores[r, c] = T.if_then_else(i < limit, scores[r, c], -1e4)
                T.reduce_max(scores, most, dim=1)
                for r, c in T.Parallel(rows, 64):
                    scores[r, c] = T.exp2(scores[r, c] - most[r])
                T.copy(scores, p)
                T.gemm(p, v, out, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, O)

    return main


def loop(func):
    """The consumers' loop, and the branch of it that computes a gemm, if there is one."""
    loops = [s for s in walk(launch_of(warp_specialize(func, stages=2)).body) if isinstance(s, For)]
    (found,) = [each for each in loops if any(isinstance(s, Gemm) for s in sub_statements(each.body))]
    branches = [s for s in sub_statements(found.body) if isinstance(s, If) and any(isinstance(i, Gemm) for i in walk(s))]
    return found, branches


def is_order_step(stmt):
    return isinstance(stmt, OrderWait | OrderArrive)


def test_the_first_gemm_of_the_next_iteration_is_in_a_branch_and_the_second_is_not():
    found, (branch,) = loop(attention())
    assert "i + 1 < 4" == str(branch.condition)
    assert ["scores"] == [s.c.buffer.name for s in walk(branch) if isinstance(s, Gemm)]
    assert ["out"] == [s.c.buffer.name for s in sub_statements(found.body) if isinstance(s, Gemm)]
    assert "4" == str(found.stop)


@pytest.mark.parametrize("ragged", [False, True])
def test_warpgroups_that_issue_in_order_pass_as_many_order_barriers_without_a_next_iteration(ragged):
    found, (branch,) = loop(attention(dim=128, rows=192, ragged=ragged))
    ahead, otherwise = ([type(s) for s in walk(b) if is_order_step(s)] for b in (branch.then_body, branch.else_body))
    assert [OrderWait] == ahead == otherwise
    assert [OrderArrive] == [type(s) for s in sub_statements(found.body) if is_order_step(s)]


OTHERS = {
    "what is split into loops with and without masks": {"ragged": True},
    "what is split at a limit in global memory": {"limited": "global"},
    "what is split at a limit in shared memory": {"limited": "shared"},
    "warpgroups that issue in order and compute for longer than their gemms": {"rows": 192},
    "more descriptors than are uniform": {"dim": 256},
    "tiles that other warps read": {"through_memory": True},
}


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS.keys())
def test_other_loops_keep_a_prologue_with_all_of_stage_0(options):
    found, branches = loop(attention(**options))
    assert not branches
    assert ["scores", "out"] == [s.c.buffer.name for s in sub_statements(found.body) if isinstance(s, Gemm)]
