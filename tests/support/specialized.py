"""Gemms and other loops for warp-specialized blocks, and the passes that specialize them."""

from types import MappingProxyType

import tilelang.language as T
from tilelang.ir.func import Level
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.lowering.lowering import ACCEPTED, Refusal
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import check_program, inline_bindings
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.lowerings.atomic_tma import TmaReduce
from tilelang.targets.nvidia.lowerings.copy_tma import TmaLoad
from tilelang.targets.nvidia.lowerings.copy_tma_store import TmaStore
from tilelang.targets.nvidia.passes import cluster_split_k, persist_grid
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.specialize_warps import specialize_warps
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import WGMMA_GEMM
from tilelang.targets.target import Target

TARGET = Target("cuda", "sm_90a")


class WgmmaStub:
    """Stands for the lowering of gemms to wgmma."""

    name = WGMMA_GEMM

    def accepts(self, op, context):
        accepted = context.threads % 128 == 0 and op.a.dtype == "float16"
        return ACCEPTED if accepted else Refusal("not by warpgroups")


TABLE = MappingProxyType({AtomicTile: (TmaReduce(),), Copy: (TmaLoad(), TmaStore()), Gemm: (WgmmaStub(),)})


def context(**pass_configs):
    configs = {f"tl.{name}": value for name, value in pass_configs.items()}
    return PassContext(CompileOptions.from_user(configs), TARGET)


def warp_specialize(func, *, passes=None, **pass_configs):
    """The function with its warps specialized, as far as these passes go."""
    passes = passes or (
        check_program.PASS,
        inline_bindings.PASS,
        choose_schedule(TABLE),
        persist_grid.PASS,
        cluster_split_k.PASS,
        specialize_warps(TABLE),
    )
    return run_passes(func, passes, context(**pass_configs))


def launch_of(func):
    """The only launch of a function."""
    (found,) = (s for s in walk(func.body) if isinstance(s, Launch))
    return found


def notes_of(func, last="specialize_warps", **pass_configs):
    """What `kernel.explain()` says of a function's launches, as far as passes up to one of the pipeline note it."""
    count = [step.name for step in BACKEND.passes].index(last) + 1
    made = run_passes(func, BACKEND.passes[:count], context(**pass_configs))
    return [note.text for stmt in walk(made.body) if isinstance(stmt, Launch) for note in stmt.plan.notes]


def gemm_kernel(M, N, K, bm=128, bn=128, bk=64, stages=3, out="float16", swizzle=None, cluster=1):
    """The tiled gemm of the seeds."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128, cluster_dims=cluster) as (bx, by):
            A_s = T.alloc_shared((bm, bk), "float16")
            B_s = T.alloc_shared((bk, bn), "float16")
            C_l = T.alloc_fragment((bm, bn), "float32")
            if swizzle is not None:
                T.use_swizzle(swizzle)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                T.copy(A[by * bm, k * bk], A_s)
                T.copy(B[k * bk, bx * bn], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * bm, bx * bn])

    return gemm


FEW = 2  # blocks, so that each has several tiles


def lowered(func, *, blocks=FEW, **pass_configs):
    """The whole program of a warp-specialized launch; persistent ones have `blocks` blocks."""
    few = Pass("persist_grid", lambda f, _: persist_grid.persist(f, blocks), Level.TILE, Level.TILE)
    passes = [few if step.name == few.name else step for step in BACKEND.passes]
    made = run_passes(func, passes, context(**pass_configs))
    assert any(isinstance(s, Launch) and s.plan.schedule is not None for s in walk(made.body))
    return made
