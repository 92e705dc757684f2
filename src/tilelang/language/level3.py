"""The names of level 3 that no target of this version gives a meaning.

Gives one function per name. Invariant: staging one is an error that says what to write instead; nothing is ever
silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NoReturn

from tilelang.errors import NoLowering
from tilelang.language.api import api
from tilelang.language.stage import current

_COPY = "write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine"
_GEMM = "write T.gemm: the compiler chooses the matrix instruction"
_CALL = "write T.call_extern with a function of T.import_source"
_GROUPS_OF_WARPS = "write T.ws and T.Pipelined"

# names of instructions that this version emits for no target, and those whose operands only the code generator of
# published TileLang can make
_ABSENT = "no target of this version has it"
_INTERNAL = "internal to published TileLang, not part of this package"

_GROUPS: tuple[tuple[str, str, str], ...] = (
    (_ABSENT, _COPY, "ptx_cp_async_bulk"),
    (_ABSENT, _GEMM, "make_blockscaled_gemm_layout ptx_mma_sm70"),
    (
        _ABSENT,
        "write T.Persistent, or T.PersistentTileScheduler",
        "clc_try_cancel clc_try_cancel_multicast clc_is_canceled clc_get_first_ctaid_x clc_get_first_ctaid_y "
        "clc_get_first_ctaid_z",
    ),
    (_ABSENT, _CALL, "call_llvm_intrin call_llvm_pure_intrin q_multiply_shift"),
    (_INTERNAL, _COPY, "tma_load tma_store create_tma_descriptor alloc_descriptor"),
    (
        _INTERNAL,
        "write T.wgmma_gemm, which makes the descriptors of its operands",
        "ptx_wgmma_ss ptx_wgmma_rs ptx_wgmma_sp_ss ptx_wgmma_sp_rs initialize_wgmma_descriptor alloc_wgmma_desc "
        "increase_descriptor_offset compute_gmma_descriptor compute_umma_descriptor initialize_tcgen05_descriptor "
        "alloc_tcgen05_instr_desc alloc_tcgen05_instruction_desc alloc_tcgen05_smem_desc ptx_tcgen05_mma_ss "
        "ptx_tcgen05_mma_ts ptx_tcgen05_mma_blockscaled_ss",
    ),
    (
        _INTERNAL,
        "write T.gemm, or T.gemm_sp for sparse operands",
        "ptx_mma_sp ptx_mma_block_scale tvm_mma_sync tvm_bmma_sync tvm_fill_fragment tvm_load_matrix_sync "
        "tvm_store_matrix_sync mma_fill mma_store",
    ),
    (
        _INTERNAL,
        _CALL,
        "tvm_call_packed tvm_call_cpacked tvm_call_packed_lowered tvm_call_cpacked_lowered call_packed call_cpacked "
        "call_packed_lowered call_cpacked_lowered tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape "
        "tvm_struct_get tvm_struct_set tvm_tuple tvm_throw_last_error tvm_thread_invariant anylist_getitem "
        "anylist_resetitem anylist_setitem_call_packed anylist_setitem_call_cpacked TVMBackendAllocWorkspace "
        "TVMBackendFreeWorkspace",
    ),
    (
        _INTERNAL,
        _GROUPS_OF_WARPS,
        "WSSchedule WSRole WSPipeline WSScope WSSync WSSyncKind WSID WSInstr WSOpRef ws_op annotate_ws_schedule "
        "annotate_ws_pipeline_depth",
    ),
)

# name: why it cannot be called, and what to write instead
HINTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {name: (reason, hint) for reason, hint, names in _GROUPS for name in names.split()}
)


def refuse(name: str) -> NoReturn:
    """Says that a name has no meaning on any target of this version.

    Raises:
        NoLowering: Always.
    """
    reason, hint = HINTS[name]
    raise NoLowering(f"T.{name}: {reason}", hint=hint)


def _primitive(name: str) -> Callable[..., NoReturn]:
    def primitive(*args: object, **kwargs: object) -> NoReturn:
        current(f"T.{name}")
        refuse(name)

    primitive.__name__ = primitive.__qualname__ = name
    reason, hint = HINTS[name]
    primitive.__doc__ = f"Cannot be called: {reason}. Instead, {hint}."
    return api(primitive)


PRIMITIVES: Mapping[str, Callable[..., NoReturn]] = MappingProxyType({name: _primitive(name) for name in HINTS})
