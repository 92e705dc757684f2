"""Names for Blackwell's matrix units and the memory of their own (`tcgen05`).

Emits calls of instructions that no target of this version generates. Invariant: a program with one is refused when it
is compiled, by an error that names the target and the instruction, and never before; programs may hold such a branch
beside one for other GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilelang.language.alloc import alloc_fragment
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.proxy import BufferProxy
from tilelang.language.types import DTypeLike, ShapeLike
from tilelang.targets.nvidia.isa.unsupported import unsupported

__all__ = ["alloc_tmem"]

_NAMES = """
deallocate_tmem gemm_blockscaled mma_gemm_blockscaled tcgen05_after_thread_sync tcgen05_before_thread_sync
tcgen05_cp_warpx4 tcgen05_gemm tcgen05_gemm_blockscaled tcgen05_gemm_sp tcgen05_mma tcgen05_mma_arrive
tcgen05_mma_blockscaled tcgen05_sf_warp_transpose tma_gather4 tma_load_2sm tma_scatter4
""".split()


@api
def alloc_tmem(shape: ShapeLike, dtype: DTypeLike = "float32") -> BufferProxy:
    """A tile in the memory of Blackwell's matrix units.

    Raises:
        NoLowering: When the kernel is compiled: no target of this version has that memory.
    """
    emit_call("T.alloc_tmem", unsupported("alloc_tmem"))
    return alloc_fragment(shape, dtype)


def _instruction(name: str) -> Callable[..., None]:
    def call(*args: object, **keywords: object) -> None:
        emit_call(f"T.{name}", unsupported(name))

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = f"`{name}` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."
    return api(call)


INSTRUCTIONS: Mapping[str, Callable[..., None]] = MappingProxyType({name: _instruction(name) for name in _NAMES})
