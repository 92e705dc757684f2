"""Warpgroup operations on Hopper: asynchronous gemms by wgmma, and setmaxnreg (level 3).

Takes tiles and numbers, emits a `Gemm` with a request that only wgmma accepts, and calls of the instructions around
it. Invariant: a wait completes the accumulator of a gemm and releases its operands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.errors import ProgramError
from tilelang.ir.expr import ExprLike
from tilelang.language.api import api
from tilelang.language.calls import emit_call, inside_kernel
from tilelang.language.operators import plain_int
from tilelang.language.products import product
from tilelang.language.regions import Operand, tile_region
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.targets.nvidia.isa.registers import REGISTER_COUNTS, set_max_registers
from tilelang.targets.nvidia.requests import request_wgmma

__all__ = [
    "annotate_consumer_reg_alloc",
    "annotate_producer_reg_dealloc",
    "dec_max_nreg",
    "disable_warp_group_reg_alloc",
    "inc_max_nreg",
    "no_set_max_nreg",
    "set_max_nreg",
    "warpgroup_fence_operand",
    "wgmma_gemm",
    "wgmma_mma",
]


@api
def wgmma_gemm(
    A: Operand,
    B: Operand,
    C: Operand,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: ExprLike = False,
    annotations: Mapping[str, object] | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> None:
    """Issues `C += op(A) @ op(B)` asynchronously by wgmma. Needs sm_90a.

    Its instructions are a group of their own. Until `T.wait_wgmma` has waited for it, only further gemms may access C,
    and nothing may write A and B.

    Shapes: as of `T.gemm`; M a multiple of 8 where A is a shared tile, N of 8 for each warpgroup, K of 32 bytes. The
    instructions have 64 rows; rows beyond M are read from the bytes that follow A, and their results are dropped.

    Args:
        A: Left operand, shared or a whole fragment.
        B: Right operand, shared.
        C: Accumulator, a whole fragment.
        transpose_A: Whether A is stored as (K, M).
        transpose_B: Whether B is stored as (N, K).
        policy: How the tile is partitioned among the warpgroups.
        clear_accum: Whether C starts at zero; may be an expression such as `k == 0`.
        annotations: Steer GPU targets only.
        transpose_a: Another spelling of `transpose_A`.
        transpose_b: Another spelling of `transpose_B`.

    Raises:
        ProgramError: Shapes, dtypes or scopes do not fit.
        NoLowering: The GPU has no wgmma, or wgmma cannot do this gemm, with the reason.

    Example:
        `T.wgmma_gemm(A_s[s, :, :], B_s[s, :, :], C_f, clear_accum=k == 0)`
    """
    what = "T.wgmma_gemm"
    del annotations
    stager, _ = inside_kernel(what)
    transposed = transpose_A, transpose_B, transpose_a, transpose_b
    op = product(what, A, B, C, transposed, policy, clear_accum)
    op = dataclasses.replace(op, wait=-1, request=request_wgmma(what, "T.gemm"))
    op.check()
    stager.emit(op)


wgmma_mma = wgmma_gemm


@api
def warpgroup_fence_operand(operand: Operand, *args: object, **kwargs: object) -> None:
    """Orders accesses to a fragment before and after gemms. Does nothing: the compiler orders them in any case.

    Args:
        operand: The fragment.
        args: Accepted for older programs.
        kwargs: Accepted for older programs.
    """
    del args, kwargs
    what = "T.warpgroup_fence_operand"
    inside_kernel(what)
    tile_region(operand, what)


@api
def set_max_nreg(reg_count: int, is_inc: bool) -> None:
    """Sets the registers of each thread of a warpgroup: to fewer than it has, or to more, which others must have freed.

    All threads of a warpgroup come here, each warpgroup at most once. A block begins with the multiple of 8 below 65536
    divided by its threads, in warpgroups, for each of them; all together never have more. Needs sm_90a.

    Args:
        reg_count: A multiple of 8 from 24 to 256.
        is_inc: Whether that is more than the thread has, or fewer.

    Raises:
        ProgramError: The machine does not take that number.

    Example:
        `T.set_max_nreg(24, False)`
    """
    _set_registers("T.set_max_nreg", reg_count, is_inc)


@api
def inc_max_nreg(reg_count: int) -> None:
    """The same as `T.set_max_nreg(reg_count, True)`."""
    _set_registers("T.inc_max_nreg", reg_count, True)


@api
def dec_max_nreg(reg_count: int) -> None:
    """The same as `T.set_max_nreg(reg_count, False)`."""
    _set_registers("T.dec_max_nreg", reg_count, False)


@api
def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """The same as `T.set_max_nreg(reg_count, False)`, for producers."""
    _set_registers("T.annotate_producer_reg_dealloc", reg_count, False)


@api
def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """The same as `T.set_max_nreg(reg_count, True)`, for those that compute."""
    _set_registers("T.annotate_consumer_reg_alloc", reg_count, True)


@api
def disable_warp_group_reg_alloc() -> None:
    """Keeps the compiler from moving registers between the warpgroups of this kernel."""
    inside_kernel("T.disable_warp_group_reg_alloc")[1].move_registers = False


@api
def no_set_max_nreg() -> None:
    """The same as `T.disable_warp_group_reg_alloc`."""
    inside_kernel("T.no_set_max_nreg")[1].move_registers = False


def _set_registers(what: str, reg_count: int, is_inc: bool) -> None:
    number = plain_int(what, "reg_count", reg_count)
    if number not in REGISTER_COUNTS:
        least, most, step = REGISTER_COUNTS[0], REGISTER_COUNTS[-1], REGISTER_COUNTS.step
        raise ProgramError(
            f"{what}: {number} registers, but a thread can have multiples of {step} from {least} to {most}",
            hint=f"write {min(max(round(number / step) * step, least), most)}",
        )
    _, hints = inside_kernel(what)
    if hints.min_blocks_per_sm is None:
        hints.min_blocks_per_sm = 1  # without a bound, ptxas ignores the instruction
    emit_call(what, set_max_registers(number, bool(is_inc)))
