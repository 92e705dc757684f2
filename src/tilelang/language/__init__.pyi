# ruff: noqa
"""The `T` namespace, as editors and type checkers see it: `import tilelang.language as T`.

Written by docs/generate_stub.py from the tables of the language; `make docs` writes it anew.
"""

import builtins
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tilelang.ir.expr import Expr, ExprLike
from tilelang.language.barriers import Barrier
from tilelang.language.pointers import Place
from tilelang.jit.signature import JITFunc as JITFunc
from tilelang.language.alloc import alloc_fragment as alloc_fragment
from tilelang.language.alloc import alloc_global as alloc_global
from tilelang.language.alloc import alloc_local as alloc_local
from tilelang.language.alloc import alloc_shared as alloc_shared
from tilelang.language.alloc import alloc_var as alloc_var
from tilelang.language.alloc import reshape as reshape
from tilelang.language.alloc import view as view
from tilelang.language.allreduce import comm_reducer as comm_reducer
from tilelang.language.allreduce import tvm_thread_allreduce as tvm_thread_allreduce
from tilelang.language.annotate import annotate_compile_flags as annotate_compile_flags
from tilelang.language.annotate import annotate_l2_hit_ratio as annotate_l2_hit_ratio
from tilelang.language.annotate import annotate_min_blocks_per_sm as annotate_min_blocks_per_sm
from tilelang.language.annotate import annotate_pass_configs as annotate_pass_configs
from tilelang.language.annotate import annotate_restrict_buffers as annotate_restrict_buffers
from tilelang.language.annotate import annotate_safe_value as annotate_safe_value
from tilelang.language.annotate import attr as attr
from tilelang.language.annotate import func_attr as func_attr
from tilelang.language.annotate import func_name as func_name
from tilelang.language.annotate import use_swizzle as use_swizzle
from tilelang.language.annotate_layout import annotate_layout as annotate_layout
from tilelang.language.arithmetic import __ffs as __ffs
from tilelang.language.arithmetic import __fns as __fns
from tilelang.language.arithmetic import __ldg as __ldg
from tilelang.language.arithmetic import abs2 as abs2
from tilelang.language.arithmetic import add2 as add2
from tilelang.language.arithmetic import align_up as align_up
from tilelang.language.arithmetic import cdiv as cdiv
from tilelang.language.arithmetic import fabs as fabs
from tilelang.language.arithmetic import fast_rcp as fast_rcp
from tilelang.language.arithmetic import fma2 as fma2
from tilelang.language.arithmetic import fmul as fmul
from tilelang.language.arithmetic import max2 as max2
from tilelang.language.arithmetic import min2 as min2
from tilelang.language.arithmetic import mul2 as mul2
from tilelang.language.arithmetic import sub2 as sub2
from tilelang.language.assumptions import assume as assume
from tilelang.language.atomic import atomic_add as atomic_add
from tilelang.language.atomic import atomic_addx2 as atomic_addx2
from tilelang.language.atomic import atomic_addx4 as atomic_addx4
from tilelang.language.atomic import atomic_and as atomic_and
from tilelang.language.atomic import atomic_cas as atomic_cas
from tilelang.language.atomic import atomic_exchange as atomic_exchange
from tilelang.language.atomic import atomic_load as atomic_load
from tilelang.language.atomic import atomic_max as atomic_max
from tilelang.language.atomic import atomic_min as atomic_min
from tilelang.language.atomic import atomic_or as atomic_or
from tilelang.language.atomic import atomic_store as atomic_store
from tilelang.language.atomic import atomic_xor as atomic_xor
from tilelang.language.blocks import Else as Else
from tilelang.language.blocks import If as If
from tilelang.language.blocks import Let as Let
from tilelang.language.blocks import Then as Then
from tilelang.language.blocks import While as While
from tilelang.language.blocks import bind as bind
from tilelang.language.blocks import break_loop as break_loop
from tilelang.language.blocks import continue_loop as continue_loop
from tilelang.language.blocks import ignore_loop_partition as ignore_loop_partition
from tilelang.language.blocks import let as let
from tilelang.language.blocks import likely as likely
from tilelang.language.blocks import loop_break as loop_break
from tilelang.language.blocks import undef as undef
from tilelang.language.casts import cast as Cast
from tilelang.language.casts import cast as cast
from tilelang.language.casts import reinterpret as bitcast
from tilelang.language.casts import reinterpret as reinterpret
from tilelang.language.classes import FragmentBuffer as FragmentBuffer
from tilelang.language.classes import LocalBuffer as LocalBuffer
from tilelang.language.classes import PrimExpr as PrimExpr
from tilelang.language.classes import Ref as Ref
from tilelang.language.classes import SharedBuffer as SharedBuffer
from tilelang.language.classes import Var as Var
from tilelang.language.copies import async_copy as async_copy
from tilelang.language.copies import c2d_im2col as c2d_im2col
from tilelang.language.copies import c2d_im2col as im2col
from tilelang.language.copies import copy as copy
from tilelang.language.copies import transpose as transpose
from tilelang.language.debug import device_assert as device_assert
from tilelang.language.debug import print as print
from tilelang.language.derived import all_of as all_of
from tilelang.language.derived import any_of as any_of
from tilelang.language.derived import dp4a as dp4a
from tilelang.language.derived import evaluate as evaluate
from tilelang.language.dtypes import AnyDType as AnyDType
from tilelang.language.dtypes import DataType as DataType
from tilelang.language.dtypes import dtype as dtype
from tilelang.language.dtypes import get_tvm_dtype as get_tvm_dtype
from tilelang.language.dtypes import is_float4 as is_float4
from tilelang.language.dtypes import is_float4_e2m1_unpacked as is_float4_e2m1_unpacked
from tilelang.language.dtypes import is_float4_e2m1fn as is_float4_e2m1fn
from tilelang.language.eager import const as const
from tilelang.language.extern import call_extern as call_extern
from tilelang.language.extern import import_source as import_source
from tilelang.language.groups import ws as ws
from tilelang.language.ieee import ieee_add as ieee_add
from tilelang.language.ieee import ieee_fdiv as ieee_fdiv
from tilelang.language.ieee import ieee_fmaf as ieee_fmaf
from tilelang.language.ieee import ieee_frcp as ieee_frcp
from tilelang.language.ieee import ieee_frsqrt as ieee_frsqrt
from tilelang.language.ieee import ieee_fsqrt as ieee_fsqrt
from tilelang.language.ieee import ieee_mul as ieee_mul
from tilelang.language.ieee import ieee_sub as ieee_sub
from tilelang.language.kernel import ClusterKernel as ClusterKernel
from tilelang.language.kernel import Kernel as Kernel
from tilelang.language.kernel import Kernel as KernelLaunchFrame
from tilelang.language.kernel import block as block
from tilelang.language.legacy_blocks import axis as axis
from tilelang.language.legacy_blocks import env_thread as env_thread
from tilelang.language.legacy_blocks import init as init
from tilelang.language.legacy_blocks import launch_thread as launch_thread
from tilelang.language.legacy_blocks import reads as reads
from tilelang.language.legacy_blocks import sblock as sblock
from tilelang.language.legacy_blocks import sblock_attr as sblock_attr
from tilelang.language.legacy_blocks import thread_binding as thread_binding
from tilelang.language.legacy_blocks import where as where
from tilelang.language.legacy_blocks import writes as writes
from tilelang.language.legacy_calls import Assert as Assert
from tilelang.language.legacy_calls import arg as arg
from tilelang.language.legacy_calls import buffer as buffer
from tilelang.language.legacy_calls import buffer_decl as buffer_decl
from tilelang.language.legacy_calls import buffer_store as buffer_store
from tilelang.language.legacy_calls import call_intrin as call_intrin
from tilelang.language.legacy_calls import call_pure_extern as call_pure_extern
from tilelang.language.legacy_calls import func_ret as func_ret
from tilelang.language.legacy_calls import handle_add_byte_offset as handle_add_byte_offset
from tilelang.language.legacy_calls import index_map as index_map
from tilelang.language.legacy_calls import isnullptr as isnullptr
from tilelang.language.legacy_calls import target as target
from tilelang.language.legacy_calls import tvm_access_ptr as tvm_access_ptr
from tilelang.language.legacy_calls import tvm_storage_sync as tvm_storage_sync
from tilelang.language.legacy_calls import type_annotation as type_annotation
from tilelang.language.legacy_calls import var as var
from tilelang.language.loops import Parallel as Parallel
from tilelang.language.loops import Persistent as Persistent
from tilelang.language.loops import Persistent as persistent
from tilelang.language.loops import Pipelined as Pipelined
from tilelang.language.loops import Pipelined as pipelined
from tilelang.language.loops import grid as grid
from tilelang.language.loops import parallel as parallel
from tilelang.language.loops import pipeline as pipeline
from tilelang.language.loops import serial as Serial
from tilelang.language.loops import serial as serial
from tilelang.language.loops import unroll as Unroll
from tilelang.language.loops import unroll as unroll
from tilelang.language.loops import vectorized as Vectorized
from tilelang.language.loops import vectorized as vectorized
from tilelang.language.macro import macro as macro
from tilelang.language.math import Select as Select
from tilelang.language.math import bitwise_and as bitwise_and
from tilelang.language.math import bitwise_not as bitwise_not
from tilelang.language.math import bitwise_or as bitwise_or
from tilelang.language.math import bitwise_xor as bitwise_xor
from tilelang.language.math import ceildiv as ceildiv
from tilelang.language.math import clamp as clamp
from tilelang.language.math import floordiv as floordiv
from tilelang.language.math import floormod as floormod
from tilelang.language.math import fmax as fmax
from tilelang.language.math import fmin as fmin
from tilelang.language.math import if_then_else as if_then_else
from tilelang.language.math import infinity as infinity
from tilelang.language.math import max as max
from tilelang.language.math import max_value as max_value
from tilelang.language.math import min as min
from tilelang.language.math import min_value as min_value
from tilelang.language.math import round as round
from tilelang.language.math import shift_left as shift_left
from tilelang.language.math import shift_right as shift_right
from tilelang.language.math import truncdiv as truncdiv
from tilelang.language.math import truncmod as truncmod
from tilelang.language.meta import inline as inline
from tilelang.language.meta import meta_class as meta_class
from tilelang.language.meta import meta_var as meta_var
from tilelang.language.nodes import BufferLoad as BufferLoad
from tilelang.language.nodes import Call as Call
from tilelang.language.nodes import CommReducer as CommReducer
from tilelang.language.nodes import IterVar as IterVar
from tilelang.language.nodes import PrimFunc as PrimFunc
from tilelang.language.nodes import PrimFunc as PrimFunc
from tilelang.language.nodes import Range as Range
from tilelang.language.nodes import Reduce as Reduce
from tilelang.language.nodes import SizeVar as SizeVar
from tilelang.language.normalization import online_softmax as online_softmax
from tilelang.language.operator_classes import Add as Add
from tilelang.language.operator_classes import And as And
from tilelang.language.operator_classes import Div as Div
from tilelang.language.operator_classes import EQ as EQ
from tilelang.language.operator_classes import FloatImm as FloatImm
from tilelang.language.operator_classes import FloorDiv as FloorDiv
from tilelang.language.operator_classes import FloorMod as FloorMod
from tilelang.language.operator_classes import GE as GE
from tilelang.language.operator_classes import GT as GT
from tilelang.language.operator_classes import IntImm as IntImm
from tilelang.language.operator_classes import LE as LE
from tilelang.language.operator_classes import LT as LT
from tilelang.language.operator_classes import Max as Max
from tilelang.language.operator_classes import Min as Min
from tilelang.language.operator_classes import Mod as Mod
from tilelang.language.operator_classes import Mul as Mul
from tilelang.language.operator_classes import NE as NE
from tilelang.language.operator_classes import Not as Not
from tilelang.language.operator_classes import Or as Or
from tilelang.language.operator_classes import StringImm as StringImm
from tilelang.language.operator_classes import Sub as Sub
from tilelang.language.parameters import empty as empty
from tilelang.language.parameters import match_buffer as match_buffer
from tilelang.language.pointers import access_ptr as access_ptr
from tilelang.language.pointers import address_of as address_of
from tilelang.language.prim_func import prim_func as prim_func
from tilelang.language.products import gemm as gemm
from tilelang.language.random_numbers import rng_init as rng_init
from tilelang.language.random_numbers import rng_rand as rng_rand
from tilelang.language.random_numbers import rng_rand_float as rng_rand_float
from tilelang.language.reducers import alloc_reducer as alloc_reducer
from tilelang.language.reducers import finalize_reducer as finalize_reducer
from tilelang.language.reducers import reducer_init as reducer_init
from tilelang.language.reducers import reducer_update as reducer_update
from tilelang.language.reductions import reduce as reduce
from tilelang.language.reductions import reduce_absmax as reduce_absmax
from tilelang.language.reductions import reduce_abssum as reduce_abssum
from tilelang.language.reductions import reduce_bitand as reduce_bitand
from tilelang.language.reductions import reduce_bitor as reduce_bitor
from tilelang.language.reductions import reduce_bitxor as reduce_bitxor
from tilelang.language.reductions import reduce_max as reduce_max
from tilelang.language.reductions import reduce_min as reduce_min
from tilelang.language.reductions import reduce_sum as reduce_sum
from tilelang.language.scans import associative_scan as associative_scan
from tilelang.language.scans import cummax as cummax
from tilelang.language.scans import cumsum as cumsum
from tilelang.language.selection import argmax as argmax
from tilelang.language.selection import argmin as argmin
from tilelang.language.selection import gather as gather
from tilelang.language.selection import scatter as scatter
from tilelang.language.selection import sort as sort
from tilelang.language.selection import topk as topk
from tilelang.language.tensors import alloc_buffer as alloc_buffer
from tilelang.language.tensors import alloc_buffer as allocate
from tilelang.language.tensors import decl_buffer as decl_buffer
from tilelang.language.tensors import decl_buffer as sblock_alloc_buffer
from tilelang.language.tensors import make_tensor as make_tensor
from tilelang.language.tensors import make_tensor_from_addr as make_tensor_from_addr
from tilelang.language.thread_return import thread_return as thread_return
from tilelang.language.threads import get_block_binding as get_block_binding
from tilelang.language.threads import get_block_bindings as get_block_bindings
from tilelang.language.threads import get_block_extent as get_block_extent
from tilelang.language.threads import get_block_extents as get_block_extents
from tilelang.language.threads import get_lane_idx as get_lane_idx
from tilelang.language.threads import get_thread_binding as get_thread_binding
from tilelang.language.threads import get_thread_bindings as get_thread_bindings
from tilelang.language.threads import get_thread_extent as get_thread_extent
from tilelang.language.threads import get_thread_extents as get_thread_extents
from tilelang.language.threads import get_warp_group_idx as get_warp_group_idx
from tilelang.language.threads import get_warp_idx as get_warp_idx
from tilelang.language.threads import get_warp_idx_sync as get_warp_idx_sync
from tilelang.language.tile import clear as clear
from tilelang.language.tile import fill as fill
from tilelang.language.tile_scheduler import PersistentTileScheduler as PersistentTileScheduler
from tilelang.language.types import Buffer as Buffer
from tilelang.language.types import PointerType as Ptr
from tilelang.language.types import PointerType as ptr
from tilelang.language.types import StridedTensor as StridedTensor
from tilelang.language.types import TensorType as Tensor
from tilelang.language.types import dyn as dyn
from tilelang.language.types import dynamic as dynamic
from tilelang.language.types import symbolic as symbolic
from tilelang.language.vectors import Broadcast as Broadcast
from tilelang.language.vectors import Broadcast as broadcast
from tilelang.language.vectors import Ramp as Ramp
from tilelang.language.vectors import Ramp as ramp
from tilelang.language.vectors import Shuffle as Shuffle
from tilelang.language.vectors import extract_lane as extract_lane
from tilelang.language.vectors import vectorcombine as vectorcombine
from tilelang.language.vectors import vectorhigh as vectorhigh
from tilelang.language.vectors import vectorlow as vectorlow
from tilelang.layout.fragment import Fragment as Fragment
from tilelang.layout.layout import Layout as Layout
from tilelang.layout.layout import make_linear_layout as make_linear_layout
from tilelang.layout.partial_fragment import PartialFragment as PartialFragment
from tilelang.layout.swizzle import make_mma_swizzle_layout as make_mma_swizzle_layout
from tilelang.layout.swizzle import make_swizzled_layout as make_swizzled_layout
from tilelang.ops.gemm import GemmWarpPolicy as GemmWarpPolicy
from tilelang.targets.gpu.language.warp import shuffle_elect as shuffle_elect
from tilelang.targets.gpu.language.warp import warp_reduce_bitand as warp_reduce_bitand
from tilelang.targets.gpu.language.warp import warp_reduce_bitor as warp_reduce_bitor
from tilelang.targets.gpu.language.warp import warp_reduce_max as warp_reduce_max
from tilelang.targets.gpu.language.warp import warp_reduce_min as warp_reduce_min
from tilelang.targets.gpu.language.warp import warp_reduce_sum as warp_reduce_sum
from tilelang.targets.nvidia.language.async_copies import ptx_cp_async as ptx_cp_async
from tilelang.targets.nvidia.language.barriers import alloc_barrier as alloc_barrier
from tilelang.targets.nvidia.language.barriers import alloc_cluster_barrier as alloc_cluster_barrier
from tilelang.targets.nvidia.language.barriers import barrier_arrive as barrier_arrive
from tilelang.targets.nvidia.language.barriers import create_barriers as create_barriers
from tilelang.targets.nvidia.language.barriers import create_list_of_mbarrier as create_list_of_mbarrier
from tilelang.targets.nvidia.language.barriers import get_mbarrier as get_mbarrier
from tilelang.targets.nvidia.language.barriers import mbarrier_arrive as mbarrier_arrive
from tilelang.targets.nvidia.language.barriers import ptx_init_barrier_thread_count as ptx_init_barrier_thread_count
from tilelang.targets.nvidia.language.blackwell import alloc_tmem as alloc_tmem
from tilelang.targets.nvidia.language.clusters import cluster_load as cluster_load
from tilelang.targets.nvidia.language.clusters import cluster_store as cluster_store
from tilelang.targets.nvidia.language.clusters import cluster_store_async as cluster_store_async
from tilelang.targets.nvidia.language.clusters import cluster_sync as cluster_sync
from tilelang.targets.nvidia.language.clusters import get_cluster_dims as get_cluster_dims
from tilelang.targets.nvidia.language.clusters import get_cluster_extent as get_cluster_extent
from tilelang.targets.nvidia.language.clusters import get_cluster_extents as get_cluster_extents
from tilelang.targets.nvidia.language.clusters import get_cluster_id as get_cluster_id
from tilelang.targets.nvidia.language.clusters import get_cluster_ids as get_cluster_ids
from tilelang.targets.nvidia.language.clusters import get_cluster_size as get_cluster_size
from tilelang.targets.nvidia.language.clusters import sync_cluster as sync_cluster
from tilelang.targets.nvidia.language.copy_engine import tma_copy as tma_copy
from tilelang.targets.nvidia.language.copy_engine import tma_gather4_bytes as tma_gather4_bytes
from tilelang.targets.nvidia.language.hinted_access import ldg as ldg
from tilelang.targets.nvidia.language.hinted_access import stg as stg
from tilelang.targets.nvidia.language.inline_ptx import inline_ptx as inline_ptx
from tilelang.targets.nvidia.language.matrix_instructions import ptx_ldmatrix as ptx_ldmatrix
from tilelang.targets.nvidia.language.matrix_instructions import ptx_mma as ptx_mma
from tilelang.targets.nvidia.language.matrix_instructions import ptx_stmatrix as ptx_stmatrix
from tilelang.targets.nvidia.language.mma_emitter import SparseTensorCoreIntrinEmitter as SparseTensorCoreIntrinEmitter
from tilelang.targets.nvidia.language.mma_emitter import TCGEN05TensorCoreIntrinEmitter as TCGEN05TensorCoreIntrinEmitter
from tilelang.targets.nvidia.language.mma_emitter import TensorCoreIntrinEmitter as TensorCoreIntrinEmitter
from tilelang.targets.nvidia.language.mma_emitter import TensorCoreIntrinEmitterSM120 as TensorCoreIntrinEmitterSM120
from tilelang.targets.nvidia.language.mma_emitter import TensorCoreIntrinEmitterWithLadderTransform as TensorCoreIntrinEmitterWithLadderTransform
from tilelang.targets.nvidia.language.mma_emitter import WGMMATensorCoreIntrinEmitter as WGMMATensorCoreIntrinEmitter
from tilelang.targets.nvidia.language.mma_emitter import WGSparseTensorCoreIntrinEmitter as WGSparseTensorCoreIntrinEmitter
from tilelang.targets.nvidia.language.mma_index import get_ldmatrix_offset as get_ldmatrix_offset
from tilelang.targets.nvidia.language.mma_index import get_mma_micro_size as get_mma_micro_size
from tilelang.targets.nvidia.language.mma_index import get_swizzle_layout as get_swizzle_layout
from tilelang.targets.nvidia.language.mma_index import mma_store_index_map as mma_store_index_map
from tilelang.targets.nvidia.language.multicast import copy_cluster as copy_cluster
from tilelang.targets.nvidia.language.source_kernel import CUDASourceCodeKernel as CUDASourceCodeKernel
from tilelang.targets.nvidia.language.sparse_gemm import gemm_sp as gemm_sp
from tilelang.targets.nvidia.language.sparse_gemm import wgmma_gemm_sp as wgmma_gemm_sp
from tilelang.targets.nvidia.language.sync import named_barrier_arrive as named_barrier_arrive
from tilelang.targets.nvidia.language.sync import sync_threads as sync_threads
from tilelang.targets.nvidia.language.warpgroups import annotate_consumer_reg_alloc as annotate_consumer_reg_alloc
from tilelang.targets.nvidia.language.warpgroups import annotate_producer_reg_dealloc as annotate_producer_reg_dealloc
from tilelang.targets.nvidia.language.warpgroups import dec_max_nreg as dec_max_nreg
from tilelang.targets.nvidia.language.warpgroups import disable_warp_group_reg_alloc as disable_warp_group_reg_alloc
from tilelang.targets.nvidia.language.warpgroups import inc_max_nreg as inc_max_nreg
from tilelang.targets.nvidia.language.warpgroups import no_set_max_nreg as no_set_max_nreg
from tilelang.targets.nvidia.language.warpgroups import set_max_nreg as set_max_nreg
from tilelang.targets.nvidia.language.warpgroups import warpgroup_fence_operand as warpgroup_fence_operand
from tilelang.targets.nvidia.language.warpgroups import wgmma_gemm as wgmma_gemm
from tilelang.targets.nvidia.language.warpgroups import wgmma_gemm as wgmma_mma

__all__ = [
"DataType", "Fragment", "GemmWarpPolicy", "Layout", "PartialFragment", "dtype", "make_linear_layout",
"make_mma_swizzle_layout", "make_swizzled_layout", "alloc_fragment", "alloc_global", "alloc_local", "alloc_shared",
"alloc_var", "reshape", "view", "comm_reducer", "tvm_thread_allreduce", "annotate_compile_flags",
"annotate_l2_hit_ratio", "annotate_min_blocks_per_sm", "annotate_pass_configs", "annotate_restrict_buffers",
"annotate_safe_value", "attr", "func_attr", "func_name", "use_swizzle", "annotate_layout", "__ffs", "__fns", "__ldg",
"abs2", "add2", "align_up", "cdiv", "fabs", "fast_rcp", "fma2", "fmul", "max2", "min2", "mul2", "sub2", "assume",
"atomic_add", "atomic_addx2", "atomic_addx4", "atomic_and", "atomic_cas", "atomic_exchange", "atomic_load",
"atomic_max", "atomic_min", "atomic_or", "atomic_store", "atomic_xor", "Else", "If", "Let", "Then", "While", "bind",
"break_loop", "continue_loop", "ignore_loop_partition", "let", "likely", "loop_break", "undef", "Cast", "bitcast",
"cast", "reinterpret", "FragmentBuffer", "LocalBuffer", "PrimExpr", "Ref", "SharedBuffer", "Var", "async_copy",
"c2d_im2col", "copy", "im2col", "transpose", "device_assert", "print", "all_of", "any_of", "dp4a", "evaluate", "const",
"call_extern", "import_source", "ws", "ieee_add", "ieee_fdiv", "ieee_fmaf", "ieee_frcp", "ieee_frsqrt", "ieee_fsqrt",
"ieee_mul", "ieee_sub", "ClusterKernel", "Kernel", "block", "axis", "env_thread", "init", "launch_thread", "reads",
"sblock", "sblock_attr", "thread_binding", "where", "writes", "Assert", "arg", "buffer", "buffer_decl", "buffer_store",
"call_intrin", "call_pure_extern", "func_ret", "handle_add_byte_offset", "index_map", "isnullptr", "target",
"tvm_access_ptr", "tvm_storage_sync", "type_annotation", "var", "Parallel", "Persistent", "Pipelined", "Serial",
"Unroll", "Vectorized", "grid", "parallel", "persistent", "pipeline", "pipelined", "serial", "unroll", "vectorized",
"macro", "Select", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceildiv", "clamp", "floordiv",
"floormod", "fmax", "fmin", "if_then_else", "infinity", "max", "max_value", "min", "min_value", "round", "shift_left",
"shift_right", "truncdiv", "truncmod", "inline", "meta_class", "meta_var", "BufferLoad", "Call", "CommReducer",
"IterVar", "PrimFunc", "Range", "Reduce", "SizeVar", "online_softmax", "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "And",
"Div", "FloatImm", "FloorDiv", "FloorMod", "IntImm", "Max", "Min", "Mod", "Mul", "Not", "Or", "StringImm", "Sub",
"empty", "match_buffer", "access_ptr", "address_of", "prim_func", "gemm", "rng_init", "rng_rand", "rng_rand_float",
"alloc_reducer", "finalize_reducer", "reducer_init", "reducer_update", "reduce", "reduce_absmax", "reduce_abssum",
"reduce_bitand", "reduce_bitor", "reduce_bitxor", "reduce_max", "reduce_min", "reduce_sum", "associative_scan",
"cummax", "cumsum", "argmax", "argmin", "gather", "scatter", "sort", "topk", "alloc_buffer", "allocate", "decl_buffer",
"make_tensor", "make_tensor_from_addr", "sblock_alloc_buffer", "thread_return", "get_block_binding",
"get_block_bindings", "get_block_extent", "get_block_extents", "get_lane_idx", "get_thread_binding",
"get_thread_bindings", "get_thread_extent", "get_thread_extents", "get_warp_group_idx", "get_warp_idx",
"get_warp_idx_sync", "clear", "fill", "PersistentTileScheduler", "Buffer", "Ptr", "StridedTensor", "Tensor", "dyn",
"dynamic", "ptr", "symbolic", "Broadcast", "Ramp", "Shuffle", "broadcast", "extract_lane", "ramp", "vectorcombine",
"vectorhigh", "vectorlow", "shuffle_elect", "warp_reduce_bitand", "warp_reduce_bitor", "warp_reduce_max",
"warp_reduce_min", "warp_reduce_sum", "ptx_cp_async", "alloc_barrier", "alloc_cluster_barrier", "barrier_arrive",
"create_barriers", "create_list_of_mbarrier", "get_mbarrier", "mbarrier_arrive", "ptx_init_barrier_thread_count",
"alloc_tmem", "cluster_load", "cluster_store", "cluster_store_async", "cluster_sync", "get_cluster_dims",
"get_cluster_extent", "get_cluster_extents", "get_cluster_id", "get_cluster_ids", "get_cluster_size", "sync_cluster",
"tma_copy", "tma_gather4_bytes", "ldg", "stg", "inline_ptx", "ptx_ldmatrix", "ptx_mma", "ptx_stmatrix",
"SparseTensorCoreIntrinEmitter", "TCGEN05TensorCoreIntrinEmitter", "TensorCoreIntrinEmitter",
"TensorCoreIntrinEmitterSM120", "TensorCoreIntrinEmitterWithLadderTransform", "WGMMATensorCoreIntrinEmitter",
"WGSparseTensorCoreIntrinEmitter", "get_ldmatrix_offset", "get_mma_micro_size", "get_swizzle_layout",
"mma_store_index_map", "copy_cluster", "CUDASourceCodeKernel", "gemm_sp", "wgmma_gemm_sp", "named_barrier_arrive",
"sync_threads", "annotate_consumer_reg_alloc", "annotate_producer_reg_dealloc", "dec_max_nreg",
"disable_warp_group_reg_alloc", "inc_max_nreg", "no_set_max_nreg", "set_max_nreg", "warpgroup_fence_operand",
"wgmma_gemm", "wgmma_mma", "bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32",
"uint64", "float16", "bfloat16", "float32", "tfloat32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
"float8_e5m2fnuz", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn",
"float4_e2m1fn", "float4_e2m1_unpacked", "boolx2", "boolx4", "boolx8", "boolx16", "boolx32", "boolx64", "int4x2",
"int4x4", "int4x8", "int4x16", "int4x32", "int4x64", "int8x2", "int8x4", "int8x8", "int8x16", "int8x32", "int8x64",
"int16x2", "int16x4", "int16x8", "int16x16", "int16x32", "int16x64", "int32x2", "int32x4", "int32x8", "int32x16",
"int32x32", "int32x64", "int64x2", "int64x4", "int64x8", "int64x16", "int64x32", "int64x64", "uint4x2", "uint4x4",
"uint4x8", "uint4x16", "uint4x32", "uint4x64", "uint8x2", "uint8x4", "uint8x8", "uint8x16", "uint8x32", "uint8x64",
"uint16x2", "uint16x4", "uint16x8", "uint16x16", "uint16x32", "uint16x64", "uint32x2", "uint32x4", "uint32x8",
"uint32x16", "uint32x32", "uint32x64", "uint64x2", "uint64x4", "uint64x8", "uint64x16", "uint64x32", "uint64x64",
"float16x2", "float16x4", "float16x8", "float16x16", "float16x32", "float16x64", "bfloat16x2", "bfloat16x4",
"bfloat16x8", "bfloat16x16", "bfloat16x32", "bfloat16x64", "float32x2", "float32x4", "float32x8", "float32x16",
"float32x32", "float32x64", "tfloat32x2", "tfloat32x4", "tfloat32x8", "tfloat32x16", "tfloat32x32", "tfloat32x64",
"float64x2", "float64x4", "float64x8", "float64x16", "float64x32", "float64x64", "float8_e4m3fnx2", "float8_e4m3fnx4",
"float8_e4m3fnx8", "float8_e4m3fnx16", "float8_e4m3fnx32", "float8_e4m3fnx64", "float8_e5m2x2", "float8_e5m2x4",
"float8_e5m2x8", "float8_e5m2x16", "float8_e5m2x32", "float8_e5m2x64", "float8_e4m3fnuzx2", "float8_e4m3fnuzx4",
"float8_e4m3fnuzx8", "float8_e4m3fnuzx16", "float8_e4m3fnuzx32", "float8_e4m3fnuzx64", "float8_e5m2fnuzx2",
"float8_e5m2fnuzx4", "float8_e5m2fnuzx8", "float8_e5m2fnuzx16", "float8_e5m2fnuzx32", "float8_e5m2fnuzx64",
"float8_e3m4x2", "float8_e3m4x4", "float8_e3m4x8", "float8_e3m4x16", "float8_e3m4x32", "float8_e3m4x64",
"float8_e4m3b11fnuzx2", "float8_e4m3b11fnuzx4", "float8_e4m3b11fnuzx8", "float8_e4m3b11fnuzx16",
"float8_e4m3b11fnuzx32", "float8_e4m3b11fnuzx64", "float8_e8m0fnux2", "float8_e8m0fnux4", "float8_e8m0fnux8",
"float8_e8m0fnux16", "float8_e8m0fnux32", "float8_e8m0fnux64", "float6_e2m3fnx2", "float6_e2m3fnx4", "float6_e2m3fnx8",
"float6_e2m3fnx16", "float6_e2m3fnx32", "float6_e2m3fnx64", "float6_e3m2fnx2", "float6_e3m2fnx4", "float6_e3m2fnx8",
"float6_e3m2fnx16", "float6_e3m2fnx32", "float6_e3m2fnx64", "float4_e2m1fnx2", "float4_e2m1fnx4", "float4_e2m1fnx8",
"float4_e2m1fnx16", "float4_e2m1fnx32", "float4_e2m1fnx64", "float4_e2m1_unpackedx2", "float4_e2m1_unpackedx4",
"float4_e2m1_unpackedx8", "float4_e2m1_unpackedx16", "float4_e2m1_unpackedx32", "float4_e2m1_unpackedx64", "float",
"half", "double", "int", "uint", "long", "short", "boolean", "bf16", "fp16", "fp32", "fp64", "tf32", "float8_e4m3",
"e4m3_float8", "e5m2_float8", "handle", "void", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt",
"rsqrt", "pow", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
"atanh", "atan2", "hypot", "copysign", "nextafter", "ldexp", "fmod", "floor", "ceil", "trunc", "nearbyint", "fma",
"abs", "isnan", "isinf", "isfinite", "__exp", "__exp2", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos",
"__tan", "__pow", "__fdividef", "popcount", "clz", "ptx_cp_async_bulk", "make_blockscaled_gemm_layout", "ptx_mma_sm70",
"clc_try_cancel", "clc_try_cancel_multicast", "clc_is_canceled", "clc_get_first_ctaid_x", "clc_get_first_ctaid_y",
"clc_get_first_ctaid_z", "call_llvm_intrin", "call_llvm_pure_intrin", "q_multiply_shift", "tma_load", "tma_store",
"create_tma_descriptor", "alloc_descriptor", "ptx_wgmma_ss", "ptx_wgmma_rs", "ptx_wgmma_sp_ss", "ptx_wgmma_sp_rs",
"initialize_wgmma_descriptor", "alloc_wgmma_desc", "increase_descriptor_offset", "compute_gmma_descriptor",
"compute_umma_descriptor", "initialize_tcgen05_descriptor", "alloc_tcgen05_instr_desc",
"alloc_tcgen05_instruction_desc", "alloc_tcgen05_smem_desc", "ptx_tcgen05_mma_ss", "ptx_tcgen05_mma_ts",
"ptx_tcgen05_mma_blockscaled_ss", "ptx_mma_sp", "ptx_mma_block_scale", "tvm_mma_sync", "tvm_bmma_sync",
"tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_store_matrix_sync", "mma_fill", "mma_store", "tvm_call_packed",
"tvm_call_cpacked", "tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "call_packed", "call_cpacked",
"call_packed_lowered", "call_cpacked_lowered", "tvm_stack_alloca", "tvm_stack_make_array", "tvm_stack_make_shape",
"tvm_struct_get", "tvm_struct_set", "tvm_tuple", "tvm_throw_last_error", "tvm_thread_invariant", "anylist_getitem",
"anylist_resetitem", "anylist_setitem_call_packed", "anylist_setitem_call_cpacked", "TVMBackendAllocWorkspace",
"TVMBackendFreeWorkspace", "WSSchedule", "WSRole", "WSPipeline", "WSScope", "WSSync", "WSSyncKind", "WSID", "WSInstr",
"WSOpRef", "ws_op", "annotate_ws_schedule", "annotate_ws_pipeline_depth", "deallocate_tmem", "gemm_blockscaled",
"mma_gemm_blockscaled", "tcgen05_after_thread_sync", "tcgen05_before_thread_sync", "tcgen05_cp_warpx4", "tcgen05_gemm",
"tcgen05_gemm_blockscaled", "tcgen05_gemm_sp", "tcgen05_mma", "tcgen05_mma_arrive", "tcgen05_mma_blockscaled",
"tcgen05_sf_warp_transpose", "tma_gather4", "tma_load_2sm", "tma_scatter4", "syncthreads_count", "syncthreads_and",
"syncthreads_or", "sync_grid", "sync_warp", "thread_fence", "shfl_sync", "shfl_xor", "shfl_up", "shfl_down",
"tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "any_sync", "all_sync", "ballot_sync", "ballot",
"match_any_sync", "match_all_sync", "warp_redux_add", "warp_redux_min", "warp_redux_max", "warp_redux_and",
"warp_redux_or", "warp_redux_xor", "activemask", "tvm_warp_activemask", "pdl_trigger", "pdl_sync",
"block_rank_in_cluster", "get_cluster_block_nums", "cluster_arrive", "cluster_arrive_relaxed", "cluster_wait",
"ptx_arrive_cluster_barrier", "ptx_commit_group", "ptx_wait_group", "mbarrier_expect_tx", "mbarrier_arrive_expect_tx",
"barrier_wait", "mbarrier_wait_parity", "barrier_test_wait", "cp_async_barrier_noinc", "ptx_cp_async_barrier",
"ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "ptx_wait_barrier", "ptx_fence_barrier_init", "fence_proxy_async",
"tma_store_arrive", "tma_store_wait", "prefetch_global", "clock64", "globaltimer", "nanosleep", "wait_wgmma",
"warpgroup_wait", "warpgroup_arrive", "warpgroup_commit_batch", "ldg32", "ldg64", "ldg128", "ldg256", "lds32", "lds64",
"lds128", "stg32", "stg64", "stg128", "stg256", "sts32", "sts64", "sts128"
]

def exp(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """e to the power x.

    `T.exp(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def exp2(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """2 to the power x.

    `T.exp2(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def exp10(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """10 to the power x.

    `T.exp10(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def log(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The natural logarithm.

    `T.log(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def log2(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The logarithm to base 2.

    `T.log2(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def log10(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The logarithm to base 10.

    `T.log10(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def log1p(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The natural logarithm of 1 + x.

    `T.log1p(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def sqrt(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The square root.

    `T.sqrt(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def rsqrt(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """1 over the square root.

    `T.rsqrt(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def pow(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The first operand to the power of the second.

    `T.pow(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def tanh(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The hyperbolic tangent.

    `T.tanh(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def sigmoid(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """1 / (1 + exp(-x)).

    `T.sigmoid(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def erf(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The error function.

    `T.erf(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def sin(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The sine.

    `T.sin(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def cos(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The cosine.

    `T.cos(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def tan(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The tangent.

    `T.tan(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def asin(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function asin of mathematics.

    `T.asin(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def acos(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function acos of mathematics.

    `T.acos(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def atan(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function atan of mathematics.

    `T.atan(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def sinh(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function sinh of mathematics.

    `T.sinh(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def cosh(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function cosh of mathematics.

    `T.cosh(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def asinh(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function asinh of mathematics.

    `T.asinh(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def acosh(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function acosh of mathematics.

    `T.acosh(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def atanh(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function atanh of mathematics.

    `T.atanh(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def atan2(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function atan2 of mathematics.

    `T.atan2(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def hypot(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function hypot of mathematics.

    `T.hypot(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def copysign(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function copysign of mathematics.

    `T.copysign(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def nextafter(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function nextafter of mathematics.

    `T.nextafter(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def ldexp(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function ldexp of mathematics.

    `T.ldexp(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def fmod(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function fmod of mathematics.

    `T.fmod(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def floor(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The largest integer not above x.

    `T.floor(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def ceil(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The smallest integer not below x.

    `T.ceil(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def trunc(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """x without its fraction.

    `T.trunc(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def nearbyint(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function nearbyint of mathematics.

    `T.nearbyint(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def fma(x: ExprLike, y: ExprLike, z: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """a * b + c, rounded once.

    `T.fma(x, y, z)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def abs(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The magnitude; NaN stays NaN.

    `T.abs(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def isnan(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """Whether x is not a number.

    `T.isnan(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def isinf(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """Whether x is infinite.

    `T.isinf(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def isfinite(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """Whether x is neither infinite nor NaN.

    `T.isfinite(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __exp(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.exp`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__exp(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __exp2(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.exp2`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__exp2(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __exp10(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.exp10`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__exp10(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __log(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.log`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__log(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __log2(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.log2`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__log2(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __log10(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.log10`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__log10(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __sin(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.sin`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__sin(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __cos(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.cos`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__cos(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __tan(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.tan`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__tan(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __pow(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `T.pow`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__pow(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def __fdividef(x: ExprLike, y: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The fast variant of `x / y`: a GPU may use a less exact instruction; elsewhere it is the same.

    `T.__fdividef(x, y)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def popcount(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The number of set bits of an integer.

    `T.popcount(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def clz(x: ExprLike, *, span: object = None, dtype: object = None) -> Any:
    """The function clz of mathematics.

    `T.clz(x)` works on scalars, elementwise in loops. Floats narrower than 32 bits are
    computed in float32 and rounded once; functions of floats convert integers to float32.
    """

def ptx_cp_async_bulk(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine."""

def make_blockscaled_gemm_layout(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.gemm: the compiler chooses the matrix instruction."""

def ptx_mma_sm70(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.gemm: the compiler chooses the matrix instruction."""

def clc_try_cancel(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.Persistent, or T.PersistentTileScheduler."""

def clc_try_cancel_multicast(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.Persistent, or T.PersistentTileScheduler."""

def clc_is_canceled(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.Persistent, or T.PersistentTileScheduler."""

def clc_get_first_ctaid_x(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.Persistent, or T.PersistentTileScheduler."""

def clc_get_first_ctaid_y(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.Persistent, or T.PersistentTileScheduler."""

def clc_get_first_ctaid_z(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.Persistent, or T.PersistentTileScheduler."""

def call_llvm_intrin(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.call_extern with a function of T.import_source."""

def call_llvm_pure_intrin(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.call_extern with a function of T.import_source."""

def q_multiply_shift(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: no target of this version has it. Instead, write T.call_extern with a function of T.import_source."""

def tma_load(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine."""

def tma_store(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine."""

def create_tma_descriptor(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine."""

def alloc_descriptor(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine."""

def ptx_wgmma_ss(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_wgmma_rs(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_wgmma_sp_ss(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_wgmma_sp_rs(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def initialize_wgmma_descriptor(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def alloc_wgmma_desc(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def increase_descriptor_offset(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def compute_gmma_descriptor(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def compute_umma_descriptor(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def initialize_tcgen05_descriptor(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def alloc_tcgen05_instr_desc(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def alloc_tcgen05_instruction_desc(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def alloc_tcgen05_smem_desc(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_tcgen05_mma_ss(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_tcgen05_mma_ts(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_tcgen05_mma_blockscaled_ss(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.wgmma_gemm, which makes the descriptors of its operands."""

def ptx_mma_sp(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def ptx_mma_block_scale(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def tvm_mma_sync(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def tvm_bmma_sync(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def tvm_fill_fragment(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def tvm_load_matrix_sync(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def tvm_store_matrix_sync(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def mma_fill(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def mma_store(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.gemm, or T.gemm_sp for sparse operands."""

def tvm_call_packed(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_call_cpacked(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_call_packed_lowered(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_call_cpacked_lowered(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def call_packed(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def call_cpacked(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def call_packed_lowered(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def call_cpacked_lowered(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_stack_alloca(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_stack_make_array(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_stack_make_shape(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_struct_get(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_struct_set(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_tuple(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_throw_last_error(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def tvm_thread_invariant(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def anylist_getitem(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def anylist_resetitem(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def anylist_setitem_call_packed(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def anylist_setitem_call_cpacked(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def TVMBackendAllocWorkspace(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def TVMBackendFreeWorkspace(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.call_extern with a function of T.import_source."""

def WSSchedule(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSRole(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSPipeline(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSScope(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSSync(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSSyncKind(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSID(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSInstr(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def WSOpRef(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def ws_op(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def annotate_ws_schedule(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def annotate_ws_pipeline_depth(*args: object, **kwargs: object) -> NoReturn:
    """Cannot be called: internal to published TileLang, not part of this package. Instead, write T.ws and T.Pipelined."""

def deallocate_tmem(*args: object, **keywords: object) -> None:
    """`deallocate_tmem` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def gemm_blockscaled(*args: object, **keywords: object) -> None:
    """`gemm_blockscaled` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def mma_gemm_blockscaled(*args: object, **keywords: object) -> None:
    """`mma_gemm_blockscaled` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_after_thread_sync(*args: object, **keywords: object) -> None:
    """`tcgen05_after_thread_sync` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_before_thread_sync(*args: object, **keywords: object) -> None:
    """`tcgen05_before_thread_sync` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_cp_warpx4(*args: object, **keywords: object) -> None:
    """`tcgen05_cp_warpx4` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_gemm(*args: object, **keywords: object) -> None:
    """`tcgen05_gemm` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_gemm_blockscaled(*args: object, **keywords: object) -> None:
    """`tcgen05_gemm_blockscaled` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_gemm_sp(*args: object, **keywords: object) -> None:
    """`tcgen05_gemm_sp` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_mma(*args: object, **keywords: object) -> None:
    """`tcgen05_mma` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_mma_arrive(*args: object, **keywords: object) -> None:
    """`tcgen05_mma_arrive` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_mma_blockscaled(*args: object, **keywords: object) -> None:
    """`tcgen05_mma_blockscaled` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tcgen05_sf_warp_transpose(*args: object, **keywords: object) -> None:
    """`tcgen05_sf_warp_transpose` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tma_gather4(*args: object, **keywords: object) -> None:
    """`tma_gather4` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tma_load_2sm(*args: object, **keywords: object) -> None:
    """`tma_load_2sm` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def tma_scatter4(*args: object, **keywords: object) -> None:
    """`tma_scatter4` of Blackwell GPUs: `NoLowering` when the kernel is compiled; write T.gemm."""

def syncthreads_count(predicate: ExprLike) -> Expr:
    """Barrier of the block; returns the number of threads whose predicate is true.

    Args:
        predicate: An integer or bool of each thread.

    Raises:
        ProgramTypeError: The predicate is neither.

    Example:
        `valid = T.syncthreads_count(A[tx] > 0)`
    """

def syncthreads_and(predicate: ExprLike) -> Expr:
    """Barrier of the block; returns whether the predicate is true in all threads: 1 or 0."""

def syncthreads_or(predicate: ExprLike) -> Expr:
    """Barrier of the block; returns whether the predicate is true in any thread: 1 or 0."""

def sync_grid() -> None:
    """Every thread of every block waits here for all others, and sees their writes to global memory from then on.

    All blocks must run at the same time, so that a grid has at most as many as the GPU holds at once; a launch with
    more is refused. Nothing else may keep one block from coming here as often as the others.

    Example:
        `T.sync_grid()`
    """

def sync_warp(mask: ExprLike = 4294967295) -> None:
    """Barrier of the lanes of a warp in `mask`, with visibility of their writes."""

def thread_fence(scope: str = 'device') -> None:
    """Puts the memory accesses of this thread before it in front of those after it, as others see them.

    Args:
        scope: Who sees them in that order: "block", "device" or "system".

    Raises:
        ProgramError: There is no such scope.
    """

def shfl_sync(value: ExprLike, srcLane: ExprLike, width: builtins.int = 32, mask: ExprLike = 4294967295) -> Expr:
    """The value of lane `srcLane`.

    Args:
        value: The value of each lane, of any scalar dtype.
        srcLane: The source lane, within segments of `width` lanes.
        width: 1, 2, 4, 8, 16 or 32; 64 where warps have 64 lanes.
        mask: The participating lanes, one bit each.
    """

def shfl_xor(value: ExprLike, delta: ExprLike, width: builtins.int = 32, mask: ExprLike = 4294967295) -> Expr:
    """The value of lane `lane ^ delta`. As `T.shfl_sync` otherwise."""

def shfl_up(value: ExprLike, delta: ExprLike, width: builtins.int = 32, mask: ExprLike = 4294967295) -> Expr:
    """The value of lane `lane - delta`, or the own value if there is none. As `T.shfl_sync` otherwise."""

def shfl_down(value: ExprLike, delta: ExprLike, width: builtins.int = 32, mask: ExprLike = 4294967295) -> Expr:
    """The value of lane `lane + delta`, or the own value if there is none. As `T.shfl_sync` otherwise."""

def tvm_warp_shuffle(mask: ExprLike, value: ExprLike, lane: ExprLike, width: builtins.int, warp_size: builtins.int = 32) -> Expr:
    """`T.shfl_sync(value, lane, width, mask)`."""

def tvm_warp_shuffle_up(mask: ExprLike, value: ExprLike, offset: ExprLike, width: builtins.int, warp_size: builtins.int = 32) -> Expr:
    """`T.shfl_up(value, offset, width, mask)`."""

def tvm_warp_shuffle_down(mask: ExprLike, value: ExprLike, offset: ExprLike, width: builtins.int, warp_size: builtins.int = 32) -> Expr:
    """`T.shfl_down(value, offset, width, mask)`."""

def any_sync(predicate: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """Whether the condition is true in any participating lane."""

def all_sync(predicate: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """Whether the condition is true in all participating lanes."""

def ballot_sync(predicate: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The lanes in which the condition is true, one bit each, as a uint64.

    Raises:
        ProgramTypeError: The predicate is neither an integer nor a bool.
    """

def ballot(predicate: ExprLike) -> Expr:
    """`T.ballot_sync` of all lanes of the warp."""

def match_any_sync(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The lanes with the same value as this one, one bit each, as a uint32."""

def match_all_sync(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """`mask` if all participating lanes have the same value, else 0, as a uint32."""

def warp_redux_add(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The sum over the lanes that take part, the same in each of them, by one instruction.

    Sums wrap. `T.warp_reduce_sum` takes other dtypes and GPUs, too, by shuffles.

    Args:
        value: What each lane adds, an int32 or uint32.

    Raises:
        NoLowering: The instruction does not take that dtype, or the GPU has none.
    """

def warp_redux_min(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The minimum over the participating lanes, or NaN. As `T.warp_redux_add` otherwise.

    Args:
        value: An int32, uint32 or float32.

    Raises:
        NoLowering: The instruction does not take that dtype, or the GPU has none.
    """

def warp_redux_max(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The maximum over the participating lanes, or NaN. As `T.warp_redux_add` otherwise.

    Args:
        value: An int32, uint32 or float32.

    Raises:
        NoLowering: The instruction does not take that dtype, or the GPU has none.
    """

def warp_redux_and(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The bitwise and over the participating lanes. As `T.warp_redux_add` otherwise."""

def warp_redux_or(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The bitwise or over the participating lanes. As `T.warp_redux_add` otherwise."""

def warp_redux_xor(value: ExprLike, mask: ExprLike = 4294967295) -> Expr:
    """The bitwise exclusive or over the participating lanes. As `T.warp_redux_add` otherwise."""

def activemask() -> Expr:
    """The lanes of the warp that currently execute together, one bit each, as a uint32."""

def tvm_warp_activemask() -> Expr:
    """The same as `T.activemask`."""

def pdl_trigger() -> None:
    """Lets the next launch on the stream begin, once every block has come here or ended (`griddepcontrol`).

    That launch overlaps with this one if its kernel waits for it, by `T.pdl_sync` or because the compiler lets it;
    what this kernel writes afterwards is seen after that wait all the same. Nothing on targets before sm_90.
    """

def pdl_sync() -> None:
    """Waits until all launches before this one have ended and their writes are there (`griddepcontrol`).

    A kernel that calls it is launched so that it may begin before they have ended; before the call it must not
    touch what they write. Most kernels without a call wait as their first statement. Nothing on targets before
    sm_90, where a launch begins when those before it have ended.

    Example:
        `T.pdl_sync()`
    """

def block_rank_in_cluster() -> Expr:
    """The number of the executing block in its cluster, x running fastest.

    Example:
        `rank = T.block_rank_in_cluster()`
    """

def get_cluster_block_nums() -> Expr:
    """The number of blocks of a cluster."""

def cluster_arrive() -> None:
    """Every thread arrives at the barrier of the cluster and goes on; those that wait see what it did before."""

def cluster_arrive_relaxed() -> None:
    """As `T.cluster_arrive`, but what the thread wrote need not be seen by others: all are there, no more."""

def cluster_wait() -> None:
    """Every thread waits until all of the cluster have arrived, as it has itself."""

def ptx_arrive_cluster_barrier(mbarrier: Barrier, cta_id: ExprLike) -> None:
    """The same as `T.barrier_arrive` at the barrier of another block of the cluster."""

def ptx_commit_group() -> None:
    """Closes a group of the copies that `T.ptx_cp_async` has begun."""

def ptx_wait_group(pending: builtins.int) -> None:
    """Waits until at most `pending` groups of copies are on their way."""

def mbarrier_expect_tx(mbarrier: Barrier, tx: ExprLike) -> None:
    """Every thread that gets here adds `tx` bytes to those of the phase, and does not arrive. Needs sm_90.

    `T.tma_copy` announces its bytes itself.

    Args:
        mbarrier: `bar[i]`.
        tx: The number of bytes.

    Raises:
        ProgramError: The number is below 0, or more than a barrier counts.
    """

def mbarrier_arrive_expect_tx(mbarrier: Barrier, tx: ExprLike) -> None:
    """Every thread that gets here announces `tx` bytes, and then arrives. As `T.mbarrier_expect_tx` otherwise."""

def barrier_wait(mbarrier: Barrier, parity: ExprLike) -> None:
    """Waits until the phase of this parity is complete.

    The first phase has parity 0, the next one 1, then 0 again. Waiting for parity 1 at a fresh barrier goes through
    at once, which is how producers begin.

    Args:
        mbarrier: `bar[i]`.
        parity: 0 or 1, such as `k // stages % 2`.

    Raises:
        ProgramError: It is another constant.
    """

def mbarrier_wait_parity(mbarrier: Barrier, parity: ExprLike) -> None:
    """The same as `T.barrier_wait`."""

def barrier_test_wait(mbarrier: Barrier, parity: ExprLike) -> Expr:
    """Whether the phase of this parity is complete; does not wait. As `T.barrier_wait` otherwise."""

def cp_async_barrier_noinc(mbarrier: Barrier) -> None:
    """Every thread that gets here arrives as soon as all copies are there that it has begun with `T.ptx_cp_async`."""

def ptx_cp_async_barrier(mbarrier: Barrier) -> None:
    """The phase also waits for all copies that the threads that get here have begun with `T.ptx_cp_async`.

    Unlike with `T.cp_async_barrier_noinc`, that is no arrival: the barrier counts others as it did.
    """

def ptx_arrive_barrier(mbarrier: Barrier) -> None:
    """The same as `T.barrier_arrive`."""

def ptx_arrive_barrier_expect_tx(mbarrier: Barrier, byte_count: ExprLike) -> None:
    """The same as `T.mbarrier_arrive_expect_tx`."""

def ptx_wait_barrier(mbarrier: Barrier) -> None:
    """Waits until the first phase of the barrier is complete. As `T.barrier_wait` for parity 0."""

def ptx_fence_barrier_init() -> None:
    """Lets the copy engine and other blocks of the cluster see which barriers this thread has initialized."""

def fence_proxy_async(space: str = 'shared') -> None:
    """Makes the thread's writes visible to the async proxy: the copy engine and the matrix units.

    TMA and wgmma access memory through the async proxy, which is not ordered with threads. Between tile
    operators the compiler puts this fence where it is needed. It does not for `T.tma_copy` of global memory that
    threads have written in the same launch: there, execute it with "global" in the thread that issues the TMA copy,
    after the operation that synchronizes with the writer, such as an atomic with acquire.

    Args:
        space: "shared" or "global": the memory that the thread has written.

    Raises:
        ProgramError: There is no such memory.
    """

def tma_store_arrive() -> None:
    """Closes a group of the stores that the thread has started since the last one.

    `T.tma_copy` has closed its own already, so that this one is empty: `T.tma_store_wait` counts it, too.
    """

def tma_store_wait(count: builtins.int = 0, read: builtins.bool = True) -> None:
    """Waits until all stores of `T.tma_copy` but the newest ones have been read, so that their tiles may be written.

    It is for the thread that started them to wait: the first one of the block, or of the group around. The compiler
    keeps the others from writing the tile before.

    Args:
        count: How many of the newest groups of stores may be pending.
        read: False waits until they have been written to global memory as well.

    Raises:
        ProgramError: The count is no plain number, or negative.
    """

def prefetch_global(element: Place, level: str = 'L2') -> None:
    """Fetches the cache line of an element of a global tensor before it is needed; nothing out of bounds.

    A hint, which changes no result. Targets that cannot do so go on without.

    Args:
        element: `A[i, j]`.
        level: The cache: "L1" or "L2"; "L2::evict_last" and "L2::evict_normal" say how long L2 keeps it.

    Raises:
        NoLowering: There is no such cache.

    Example:
        `T.prefetch_global(A[i + 64, j])`
    """

def clock64() -> Expr:
    """The clock of the multiprocessor in cycles, as an int64; two readings differ by the time between them.

    Example:
        `start = T.clock64()`
    """

def globaltimer() -> Expr:
    """The clock of the GPU in nanoseconds, as a uint64, which all multiprocessors share."""

def nanosleep(nanoseconds: ExprLike) -> None:
    """Lets other warps run for about as many nanoseconds, as in a loop that waits for a flag in memory.

    Args:
        nanoseconds: At most a million.

    Raises:
        ProgramError: The number is negative, or larger.

    Example:
        `T.nanosleep(100)`
    """

def wait_wgmma(count: builtins.int = 0) -> None:
    """Waits until all but the `count` newest gemms of `T.wgmma_gemm` are complete.

    Args:
        count: How many may be pending.

    Raises:
        ProgramError: It is no plain number from 0 to 7.
    """

def warpgroup_wait(count: builtins.int = 0) -> None:
    """The same as `T.wait_wgmma`."""

def warpgroup_arrive() -> None:
    """Orders accesses to registers before wgmma instructions that use them; `T.wgmma_gemm` does so itself."""

def warpgroup_commit_batch() -> None:
    """Commits the wgmma instructions since the last commit to a group.

    `T.wgmma_gemm` has closed its own already, so that this one is empty: `T.wait_wgmma` counts it, too.
    """

def ldg32(src: Place, pred: ExprLike | None = None) -> Expr:
    """4 bytes of global memory from the element `src` on, as a uint32.

    Args:
        src: `A[i, j]`, an element of a tensor that nothing writes while the kernel runs, or the first of a region.
        pred: Where it is false nothing is read, and the value is 0.

    Raises:
        ProgramError: The element is not in global memory, or its dtype does not divide the access.
    """

def ldg64(src: Place, pred: ExprLike | None = None) -> Expr:
    """`T.ldg32` of 8 bytes, a uint32x2."""

def ldg128(src: Place, pred: ExprLike | None = None) -> Expr:
    """`T.ldg32` of 16 bytes, a uint32x4."""

def ldg256(src: Place, pred: ExprLike | None = None) -> Expr:
    """`T.ldg32` of 32 bytes, a uint32x8, by two loads."""

def lds32(src: Place) -> Expr:
    """4 bytes of shared memory from the element `src` on, as a uint32.

    Raises:
        ProgramError: The element is not in shared memory, or its dtype does not divide the access.
    """

def lds64(src: Place) -> Expr:
    """`T.lds32` of 8 bytes, a uint32x2."""

def lds128(src: Place) -> Expr:
    """`T.lds32` of 16 bytes, a uint32x4."""

def stg32(dst: Place, value: ExprLike, pred: ExprLike | None = None) -> None:
    """Writes a uint32 to the 4 bytes of global memory from the element `dst` on.

    Args:
        dst: `A[i, j]`, or the first element of a region.
        value: A value of 4 bytes.
        pred: Where it is false nothing is written.

    Raises:
        ProgramError: The element is not in global memory, or its dtype does not divide the access.
        ProgramTypeError: The value has another size.
    """

def stg64(dst: Place, value: ExprLike, pred: ExprLike | None = None) -> None:
    """`T.stg32` of 8 bytes, a uint32x2."""

def stg128(dst: Place, value: ExprLike, pred: ExprLike | None = None) -> None:
    """`T.stg32` of 16 bytes, a uint32x4."""

def stg256(dst: Place, value: ExprLike, pred: ExprLike | None = None) -> None:
    """`T.stg32` of 32 bytes, a uint32x8, by two stores."""

def sts32(dst: Place, value: ExprLike) -> None:
    """Writes a uint32 to the 4 bytes of shared memory from the element `dst` on.

    Raises:
        ProgramError: The element is not in shared memory, or its dtype does not divide the access.
        ProgramTypeError: The value has another size.
    """

def sts64(dst: Place, value: ExprLike) -> None:
    """`T.sts32` of 8 bytes, a uint32x2."""

def sts128(dst: Place, value: ExprLike) -> None:
    """`T.sts32` of 16 bytes, a uint32x4."""

class _Dtype(Any):  # type: ignore[misc]
    def __new__(cls, *values: ExprLike | str) -> Expr: ...  # type: ignore[misc]

class bool(_Dtype):
    """The dtype `bool`: `T.bool(x)` converts, `n: T.bool` declares a scalar parameter."""
class int4(_Dtype):
    """The dtype `int4`: `T.int4(x)` converts, `n: T.int4` declares a scalar parameter."""
class int8(_Dtype):
    """The dtype `int8`: `T.int8(x)` converts, `n: T.int8` declares a scalar parameter."""
class int16(_Dtype):
    """The dtype `int16`: `T.int16(x)` converts, `n: T.int16` declares a scalar parameter."""
class int32(_Dtype):
    """The dtype `int32`: `T.int32(x)` converts, `n: T.int32` declares a scalar parameter."""
class int64(_Dtype):
    """The dtype `int64`: `T.int64(x)` converts, `n: T.int64` declares a scalar parameter."""
class uint4(_Dtype):
    """The dtype `uint4`: `T.uint4(x)` converts, `n: T.uint4` declares a scalar parameter."""
class uint8(_Dtype):
    """The dtype `uint8`: `T.uint8(x)` converts, `n: T.uint8` declares a scalar parameter."""
class uint16(_Dtype):
    """The dtype `uint16`: `T.uint16(x)` converts, `n: T.uint16` declares a scalar parameter."""
class uint32(_Dtype):
    """The dtype `uint32`: `T.uint32(x)` converts, `n: T.uint32` declares a scalar parameter."""
class uint64(_Dtype):
    """The dtype `uint64`: `T.uint64(x)` converts, `n: T.uint64` declares a scalar parameter."""
class float16(_Dtype):
    """The dtype `float16`: `T.float16(x)` converts, `n: T.float16` declares a scalar parameter."""
class bfloat16(_Dtype):
    """The dtype `bfloat16`: `T.bfloat16(x)` converts, `n: T.bfloat16` declares a scalar parameter."""
class float32(_Dtype):
    """The dtype `float32`: `T.float32(x)` converts, `n: T.float32` declares a scalar parameter."""
class tfloat32(_Dtype):
    """The dtype `tfloat32`: `T.tfloat32(x)` converts, `n: T.tfloat32` declares a scalar parameter."""
class float64(_Dtype):
    """The dtype `float64`: `T.float64(x)` converts, `n: T.float64` declares a scalar parameter."""
class float8_e4m3fn(_Dtype):
    """The dtype `float8_e4m3fn`: `T.float8_e4m3fn(x)` converts, `n: T.float8_e4m3fn` declares a scalar parameter."""
class float8_e5m2(_Dtype):
    """The dtype `float8_e5m2`: `T.float8_e5m2(x)` converts, `n: T.float8_e5m2` declares a scalar parameter."""
class float8_e4m3fnuz(_Dtype):
    """The dtype `float8_e4m3fnuz`: `T.float8_e4m3fnuz(x)` converts, `n: T.float8_e4m3fnuz` declares a scalar parameter."""
class float8_e5m2fnuz(_Dtype):
    """The dtype `float8_e5m2fnuz`: `T.float8_e5m2fnuz(x)` converts, `n: T.float8_e5m2fnuz` declares a scalar parameter."""
class float8_e3m4(_Dtype):
    """The dtype `float8_e3m4`: `T.float8_e3m4(x)` converts, `n: T.float8_e3m4` declares a scalar parameter."""
class float8_e4m3b11fnuz(_Dtype):
    """The dtype `float8_e4m3b11fnuz`: `T.float8_e4m3b11fnuz(x)` converts, `n: T.float8_e4m3b11fnuz` declares a scalar parameter."""
class float8_e8m0fnu(_Dtype):
    """The dtype `float8_e8m0fnu`: `T.float8_e8m0fnu(x)` converts, `n: T.float8_e8m0fnu` declares a scalar parameter."""
class float6_e2m3fn(_Dtype):
    """The dtype `float6_e2m3fn`: `T.float6_e2m3fn(x)` converts, `n: T.float6_e2m3fn` declares a scalar parameter."""
class float6_e3m2fn(_Dtype):
    """The dtype `float6_e3m2fn`: `T.float6_e3m2fn(x)` converts, `n: T.float6_e3m2fn` declares a scalar parameter."""
class float4_e2m1fn(_Dtype):
    """The dtype `float4_e2m1fn`: `T.float4_e2m1fn(x)` converts, `n: T.float4_e2m1fn` declares a scalar parameter."""
class float4_e2m1_unpacked(_Dtype):
    """The dtype `float4_e2m1_unpacked`: `T.float4_e2m1_unpacked(x)` converts, `n: T.float4_e2m1_unpacked` declares a scalar parameter."""
class boolx2(_Dtype):
    """The dtype `boolx2`: `T.boolx2(x)` converts, `n: T.boolx2` declares a scalar parameter."""
class boolx4(_Dtype):
    """The dtype `boolx4`: `T.boolx4(x)` converts, `n: T.boolx4` declares a scalar parameter."""
class boolx8(_Dtype):
    """The dtype `boolx8`: `T.boolx8(x)` converts, `n: T.boolx8` declares a scalar parameter."""
class boolx16(_Dtype):
    """The dtype `boolx16`: `T.boolx16(x)` converts, `n: T.boolx16` declares a scalar parameter."""
class boolx32(_Dtype):
    """The dtype `boolx32`: `T.boolx32(x)` converts, `n: T.boolx32` declares a scalar parameter."""
class boolx64(_Dtype):
    """The dtype `boolx64`: `T.boolx64(x)` converts, `n: T.boolx64` declares a scalar parameter."""
class int4x2(_Dtype):
    """The dtype `int4x2`: `T.int4x2(x)` converts, `n: T.int4x2` declares a scalar parameter."""
class int4x4(_Dtype):
    """The dtype `int4x4`: `T.int4x4(x)` converts, `n: T.int4x4` declares a scalar parameter."""
class int4x8(_Dtype):
    """The dtype `int4x8`: `T.int4x8(x)` converts, `n: T.int4x8` declares a scalar parameter."""
class int4x16(_Dtype):
    """The dtype `int4x16`: `T.int4x16(x)` converts, `n: T.int4x16` declares a scalar parameter."""
class int4x32(_Dtype):
    """The dtype `int4x32`: `T.int4x32(x)` converts, `n: T.int4x32` declares a scalar parameter."""
class int4x64(_Dtype):
    """The dtype `int4x64`: `T.int4x64(x)` converts, `n: T.int4x64` declares a scalar parameter."""
class int8x2(_Dtype):
    """The dtype `int8x2`: `T.int8x2(x)` converts, `n: T.int8x2` declares a scalar parameter."""
class int8x4(_Dtype):
    """The dtype `int8x4`: `T.int8x4(x)` converts, `n: T.int8x4` declares a scalar parameter."""
class int8x8(_Dtype):
    """The dtype `int8x8`: `T.int8x8(x)` converts, `n: T.int8x8` declares a scalar parameter."""
class int8x16(_Dtype):
    """The dtype `int8x16`: `T.int8x16(x)` converts, `n: T.int8x16` declares a scalar parameter."""
class int8x32(_Dtype):
    """The dtype `int8x32`: `T.int8x32(x)` converts, `n: T.int8x32` declares a scalar parameter."""
class int8x64(_Dtype):
    """The dtype `int8x64`: `T.int8x64(x)` converts, `n: T.int8x64` declares a scalar parameter."""
class int16x2(_Dtype):
    """The dtype `int16x2`: `T.int16x2(x)` converts, `n: T.int16x2` declares a scalar parameter."""
class int16x4(_Dtype):
    """The dtype `int16x4`: `T.int16x4(x)` converts, `n: T.int16x4` declares a scalar parameter."""
class int16x8(_Dtype):
    """The dtype `int16x8`: `T.int16x8(x)` converts, `n: T.int16x8` declares a scalar parameter."""
class int16x16(_Dtype):
    """The dtype `int16x16`: `T.int16x16(x)` converts, `n: T.int16x16` declares a scalar parameter."""
class int16x32(_Dtype):
    """The dtype `int16x32`: `T.int16x32(x)` converts, `n: T.int16x32` declares a scalar parameter."""
class int16x64(_Dtype):
    """The dtype `int16x64`: `T.int16x64(x)` converts, `n: T.int16x64` declares a scalar parameter."""
class int32x2(_Dtype):
    """The dtype `int32x2`: `T.int32x2(x)` converts, `n: T.int32x2` declares a scalar parameter."""
class int32x4(_Dtype):
    """The dtype `int32x4`: `T.int32x4(x)` converts, `n: T.int32x4` declares a scalar parameter."""
class int32x8(_Dtype):
    """The dtype `int32x8`: `T.int32x8(x)` converts, `n: T.int32x8` declares a scalar parameter."""
class int32x16(_Dtype):
    """The dtype `int32x16`: `T.int32x16(x)` converts, `n: T.int32x16` declares a scalar parameter."""
class int32x32(_Dtype):
    """The dtype `int32x32`: `T.int32x32(x)` converts, `n: T.int32x32` declares a scalar parameter."""
class int32x64(_Dtype):
    """The dtype `int32x64`: `T.int32x64(x)` converts, `n: T.int32x64` declares a scalar parameter."""
class int64x2(_Dtype):
    """The dtype `int64x2`: `T.int64x2(x)` converts, `n: T.int64x2` declares a scalar parameter."""
class int64x4(_Dtype):
    """The dtype `int64x4`: `T.int64x4(x)` converts, `n: T.int64x4` declares a scalar parameter."""
class int64x8(_Dtype):
    """The dtype `int64x8`: `T.int64x8(x)` converts, `n: T.int64x8` declares a scalar parameter."""
class int64x16(_Dtype):
    """The dtype `int64x16`: `T.int64x16(x)` converts, `n: T.int64x16` declares a scalar parameter."""
class int64x32(_Dtype):
    """The dtype `int64x32`: `T.int64x32(x)` converts, `n: T.int64x32` declares a scalar parameter."""
class int64x64(_Dtype):
    """The dtype `int64x64`: `T.int64x64(x)` converts, `n: T.int64x64` declares a scalar parameter."""
class uint4x2(_Dtype):
    """The dtype `uint4x2`: `T.uint4x2(x)` converts, `n: T.uint4x2` declares a scalar parameter."""
class uint4x4(_Dtype):
    """The dtype `uint4x4`: `T.uint4x4(x)` converts, `n: T.uint4x4` declares a scalar parameter."""
class uint4x8(_Dtype):
    """The dtype `uint4x8`: `T.uint4x8(x)` converts, `n: T.uint4x8` declares a scalar parameter."""
class uint4x16(_Dtype):
    """The dtype `uint4x16`: `T.uint4x16(x)` converts, `n: T.uint4x16` declares a scalar parameter."""
class uint4x32(_Dtype):
    """The dtype `uint4x32`: `T.uint4x32(x)` converts, `n: T.uint4x32` declares a scalar parameter."""
class uint4x64(_Dtype):
    """The dtype `uint4x64`: `T.uint4x64(x)` converts, `n: T.uint4x64` declares a scalar parameter."""
class uint8x2(_Dtype):
    """The dtype `uint8x2`: `T.uint8x2(x)` converts, `n: T.uint8x2` declares a scalar parameter."""
class uint8x4(_Dtype):
    """The dtype `uint8x4`: `T.uint8x4(x)` converts, `n: T.uint8x4` declares a scalar parameter."""
class uint8x8(_Dtype):
    """The dtype `uint8x8`: `T.uint8x8(x)` converts, `n: T.uint8x8` declares a scalar parameter."""
class uint8x16(_Dtype):
    """The dtype `uint8x16`: `T.uint8x16(x)` converts, `n: T.uint8x16` declares a scalar parameter."""
class uint8x32(_Dtype):
    """The dtype `uint8x32`: `T.uint8x32(x)` converts, `n: T.uint8x32` declares a scalar parameter."""
class uint8x64(_Dtype):
    """The dtype `uint8x64`: `T.uint8x64(x)` converts, `n: T.uint8x64` declares a scalar parameter."""
class uint16x2(_Dtype):
    """The dtype `uint16x2`: `T.uint16x2(x)` converts, `n: T.uint16x2` declares a scalar parameter."""
class uint16x4(_Dtype):
    """The dtype `uint16x4`: `T.uint16x4(x)` converts, `n: T.uint16x4` declares a scalar parameter."""
class uint16x8(_Dtype):
    """The dtype `uint16x8`: `T.uint16x8(x)` converts, `n: T.uint16x8` declares a scalar parameter."""
class uint16x16(_Dtype):
    """The dtype `uint16x16`: `T.uint16x16(x)` converts, `n: T.uint16x16` declares a scalar parameter."""
class uint16x32(_Dtype):
    """The dtype `uint16x32`: `T.uint16x32(x)` converts, `n: T.uint16x32` declares a scalar parameter."""
class uint16x64(_Dtype):
    """The dtype `uint16x64`: `T.uint16x64(x)` converts, `n: T.uint16x64` declares a scalar parameter."""
class uint32x2(_Dtype):
    """The dtype `uint32x2`: `T.uint32x2(x)` converts, `n: T.uint32x2` declares a scalar parameter."""
class uint32x4(_Dtype):
    """The dtype `uint32x4`: `T.uint32x4(x)` converts, `n: T.uint32x4` declares a scalar parameter."""
class uint32x8(_Dtype):
    """The dtype `uint32x8`: `T.uint32x8(x)` converts, `n: T.uint32x8` declares a scalar parameter."""
class uint32x16(_Dtype):
    """The dtype `uint32x16`: `T.uint32x16(x)` converts, `n: T.uint32x16` declares a scalar parameter."""
class uint32x32(_Dtype):
    """The dtype `uint32x32`: `T.uint32x32(x)` converts, `n: T.uint32x32` declares a scalar parameter."""
class uint32x64(_Dtype):
    """The dtype `uint32x64`: `T.uint32x64(x)` converts, `n: T.uint32x64` declares a scalar parameter."""
class uint64x2(_Dtype):
    """The dtype `uint64x2`: `T.uint64x2(x)` converts, `n: T.uint64x2` declares a scalar parameter."""
class uint64x4(_Dtype):
    """The dtype `uint64x4`: `T.uint64x4(x)` converts, `n: T.uint64x4` declares a scalar parameter."""
class uint64x8(_Dtype):
    """The dtype `uint64x8`: `T.uint64x8(x)` converts, `n: T.uint64x8` declares a scalar parameter."""
class uint64x16(_Dtype):
    """The dtype `uint64x16`: `T.uint64x16(x)` converts, `n: T.uint64x16` declares a scalar parameter."""
class uint64x32(_Dtype):
    """The dtype `uint64x32`: `T.uint64x32(x)` converts, `n: T.uint64x32` declares a scalar parameter."""
class uint64x64(_Dtype):
    """The dtype `uint64x64`: `T.uint64x64(x)` converts, `n: T.uint64x64` declares a scalar parameter."""
class float16x2(_Dtype):
    """The dtype `float16x2`: `T.float16x2(x)` converts, `n: T.float16x2` declares a scalar parameter."""
class float16x4(_Dtype):
    """The dtype `float16x4`: `T.float16x4(x)` converts, `n: T.float16x4` declares a scalar parameter."""
class float16x8(_Dtype):
    """The dtype `float16x8`: `T.float16x8(x)` converts, `n: T.float16x8` declares a scalar parameter."""
class float16x16(_Dtype):
    """The dtype `float16x16`: `T.float16x16(x)` converts, `n: T.float16x16` declares a scalar parameter."""
class float16x32(_Dtype):
    """The dtype `float16x32`: `T.float16x32(x)` converts, `n: T.float16x32` declares a scalar parameter."""
class float16x64(_Dtype):
    """The dtype `float16x64`: `T.float16x64(x)` converts, `n: T.float16x64` declares a scalar parameter."""
class bfloat16x2(_Dtype):
    """The dtype `bfloat16x2`: `T.bfloat16x2(x)` converts, `n: T.bfloat16x2` declares a scalar parameter."""
class bfloat16x4(_Dtype):
    """The dtype `bfloat16x4`: `T.bfloat16x4(x)` converts, `n: T.bfloat16x4` declares a scalar parameter."""
class bfloat16x8(_Dtype):
    """The dtype `bfloat16x8`: `T.bfloat16x8(x)` converts, `n: T.bfloat16x8` declares a scalar parameter."""
class bfloat16x16(_Dtype):
    """The dtype `bfloat16x16`: `T.bfloat16x16(x)` converts, `n: T.bfloat16x16` declares a scalar parameter."""
class bfloat16x32(_Dtype):
    """The dtype `bfloat16x32`: `T.bfloat16x32(x)` converts, `n: T.bfloat16x32` declares a scalar parameter."""
class bfloat16x64(_Dtype):
    """The dtype `bfloat16x64`: `T.bfloat16x64(x)` converts, `n: T.bfloat16x64` declares a scalar parameter."""
class float32x2(_Dtype):
    """The dtype `float32x2`: `T.float32x2(x)` converts, `n: T.float32x2` declares a scalar parameter."""
class float32x4(_Dtype):
    """The dtype `float32x4`: `T.float32x4(x)` converts, `n: T.float32x4` declares a scalar parameter."""
class float32x8(_Dtype):
    """The dtype `float32x8`: `T.float32x8(x)` converts, `n: T.float32x8` declares a scalar parameter."""
class float32x16(_Dtype):
    """The dtype `float32x16`: `T.float32x16(x)` converts, `n: T.float32x16` declares a scalar parameter."""
class float32x32(_Dtype):
    """The dtype `float32x32`: `T.float32x32(x)` converts, `n: T.float32x32` declares a scalar parameter."""
class float32x64(_Dtype):
    """The dtype `float32x64`: `T.float32x64(x)` converts, `n: T.float32x64` declares a scalar parameter."""
class tfloat32x2(_Dtype):
    """The dtype `tfloat32x2`: `T.tfloat32x2(x)` converts, `n: T.tfloat32x2` declares a scalar parameter."""
class tfloat32x4(_Dtype):
    """The dtype `tfloat32x4`: `T.tfloat32x4(x)` converts, `n: T.tfloat32x4` declares a scalar parameter."""
class tfloat32x8(_Dtype):
    """The dtype `tfloat32x8`: `T.tfloat32x8(x)` converts, `n: T.tfloat32x8` declares a scalar parameter."""
class tfloat32x16(_Dtype):
    """The dtype `tfloat32x16`: `T.tfloat32x16(x)` converts, `n: T.tfloat32x16` declares a scalar parameter."""
class tfloat32x32(_Dtype):
    """The dtype `tfloat32x32`: `T.tfloat32x32(x)` converts, `n: T.tfloat32x32` declares a scalar parameter."""
class tfloat32x64(_Dtype):
    """The dtype `tfloat32x64`: `T.tfloat32x64(x)` converts, `n: T.tfloat32x64` declares a scalar parameter."""
class float64x2(_Dtype):
    """The dtype `float64x2`: `T.float64x2(x)` converts, `n: T.float64x2` declares a scalar parameter."""
class float64x4(_Dtype):
    """The dtype `float64x4`: `T.float64x4(x)` converts, `n: T.float64x4` declares a scalar parameter."""
class float64x8(_Dtype):
    """The dtype `float64x8`: `T.float64x8(x)` converts, `n: T.float64x8` declares a scalar parameter."""
class float64x16(_Dtype):
    """The dtype `float64x16`: `T.float64x16(x)` converts, `n: T.float64x16` declares a scalar parameter."""
class float64x32(_Dtype):
    """The dtype `float64x32`: `T.float64x32(x)` converts, `n: T.float64x32` declares a scalar parameter."""
class float64x64(_Dtype):
    """The dtype `float64x64`: `T.float64x64(x)` converts, `n: T.float64x64` declares a scalar parameter."""
class float8_e4m3fnx2(_Dtype):
    """The dtype `float8_e4m3fnx2`: `T.float8_e4m3fnx2(x)` converts, `n: T.float8_e4m3fnx2` declares a scalar parameter."""
class float8_e4m3fnx4(_Dtype):
    """The dtype `float8_e4m3fnx4`: `T.float8_e4m3fnx4(x)` converts, `n: T.float8_e4m3fnx4` declares a scalar parameter."""
class float8_e4m3fnx8(_Dtype):
    """The dtype `float8_e4m3fnx8`: `T.float8_e4m3fnx8(x)` converts, `n: T.float8_e4m3fnx8` declares a scalar parameter."""
class float8_e4m3fnx16(_Dtype):
    """The dtype `float8_e4m3fnx16`: `T.float8_e4m3fnx16(x)` converts, `n: T.float8_e4m3fnx16` declares a scalar parameter."""
class float8_e4m3fnx32(_Dtype):
    """The dtype `float8_e4m3fnx32`: `T.float8_e4m3fnx32(x)` converts, `n: T.float8_e4m3fnx32` declares a scalar parameter."""
class float8_e4m3fnx64(_Dtype):
    """The dtype `float8_e4m3fnx64`: `T.float8_e4m3fnx64(x)` converts, `n: T.float8_e4m3fnx64` declares a scalar parameter."""
class float8_e5m2x2(_Dtype):
    """The dtype `float8_e5m2x2`: `T.float8_e5m2x2(x)` converts, `n: T.float8_e5m2x2` declares a scalar parameter."""
class float8_e5m2x4(_Dtype):
    """The dtype `float8_e5m2x4`: `T.float8_e5m2x4(x)` converts, `n: T.float8_e5m2x4` declares a scalar parameter."""
class float8_e5m2x8(_Dtype):
    """The dtype `float8_e5m2x8`: `T.float8_e5m2x8(x)` converts, `n: T.float8_e5m2x8` declares a scalar parameter."""
class float8_e5m2x16(_Dtype):
    """The dtype `float8_e5m2x16`: `T.float8_e5m2x16(x)` converts, `n: T.float8_e5m2x16` declares a scalar parameter."""
class float8_e5m2x32(_Dtype):
    """The dtype `float8_e5m2x32`: `T.float8_e5m2x32(x)` converts, `n: T.float8_e5m2x32` declares a scalar parameter."""
class float8_e5m2x64(_Dtype):
    """The dtype `float8_e5m2x64`: `T.float8_e5m2x64(x)` converts, `n: T.float8_e5m2x64` declares a scalar parameter."""
class float8_e4m3fnuzx2(_Dtype):
    """The dtype `float8_e4m3fnuzx2`: `T.float8_e4m3fnuzx2(x)` converts, `n: T.float8_e4m3fnuzx2` declares a scalar parameter."""
class float8_e4m3fnuzx4(_Dtype):
    """The dtype `float8_e4m3fnuzx4`: `T.float8_e4m3fnuzx4(x)` converts, `n: T.float8_e4m3fnuzx4` declares a scalar parameter."""
class float8_e4m3fnuzx8(_Dtype):
    """The dtype `float8_e4m3fnuzx8`: `T.float8_e4m3fnuzx8(x)` converts, `n: T.float8_e4m3fnuzx8` declares a scalar parameter."""
class float8_e4m3fnuzx16(_Dtype):
    """The dtype `float8_e4m3fnuzx16`: `T.float8_e4m3fnuzx16(x)` converts, `n: T.float8_e4m3fnuzx16` declares a scalar parameter."""
class float8_e4m3fnuzx32(_Dtype):
    """The dtype `float8_e4m3fnuzx32`: `T.float8_e4m3fnuzx32(x)` converts, `n: T.float8_e4m3fnuzx32` declares a scalar parameter."""
class float8_e4m3fnuzx64(_Dtype):
    """The dtype `float8_e4m3fnuzx64`: `T.float8_e4m3fnuzx64(x)` converts, `n: T.float8_e4m3fnuzx64` declares a scalar parameter."""
class float8_e5m2fnuzx2(_Dtype):
    """The dtype `float8_e5m2fnuzx2`: `T.float8_e5m2fnuzx2(x)` converts, `n: T.float8_e5m2fnuzx2` declares a scalar parameter."""
class float8_e5m2fnuzx4(_Dtype):
    """The dtype `float8_e5m2fnuzx4`: `T.float8_e5m2fnuzx4(x)` converts, `n: T.float8_e5m2fnuzx4` declares a scalar parameter."""
class float8_e5m2fnuzx8(_Dtype):
    """The dtype `float8_e5m2fnuzx8`: `T.float8_e5m2fnuzx8(x)` converts, `n: T.float8_e5m2fnuzx8` declares a scalar parameter."""
class float8_e5m2fnuzx16(_Dtype):
    """The dtype `float8_e5m2fnuzx16`: `T.float8_e5m2fnuzx16(x)` converts, `n: T.float8_e5m2fnuzx16` declares a scalar parameter."""
class float8_e5m2fnuzx32(_Dtype):
    """The dtype `float8_e5m2fnuzx32`: `T.float8_e5m2fnuzx32(x)` converts, `n: T.float8_e5m2fnuzx32` declares a scalar parameter."""
class float8_e5m2fnuzx64(_Dtype):
    """The dtype `float8_e5m2fnuzx64`: `T.float8_e5m2fnuzx64(x)` converts, `n: T.float8_e5m2fnuzx64` declares a scalar parameter."""
class float8_e3m4x2(_Dtype):
    """The dtype `float8_e3m4x2`: `T.float8_e3m4x2(x)` converts, `n: T.float8_e3m4x2` declares a scalar parameter."""
class float8_e3m4x4(_Dtype):
    """The dtype `float8_e3m4x4`: `T.float8_e3m4x4(x)` converts, `n: T.float8_e3m4x4` declares a scalar parameter."""
class float8_e3m4x8(_Dtype):
    """The dtype `float8_e3m4x8`: `T.float8_e3m4x8(x)` converts, `n: T.float8_e3m4x8` declares a scalar parameter."""
class float8_e3m4x16(_Dtype):
    """The dtype `float8_e3m4x16`: `T.float8_e3m4x16(x)` converts, `n: T.float8_e3m4x16` declares a scalar parameter."""
class float8_e3m4x32(_Dtype):
    """The dtype `float8_e3m4x32`: `T.float8_e3m4x32(x)` converts, `n: T.float8_e3m4x32` declares a scalar parameter."""
class float8_e3m4x64(_Dtype):
    """The dtype `float8_e3m4x64`: `T.float8_e3m4x64(x)` converts, `n: T.float8_e3m4x64` declares a scalar parameter."""
class float8_e4m3b11fnuzx2(_Dtype):
    """The dtype `float8_e4m3b11fnuzx2`: `T.float8_e4m3b11fnuzx2(x)` converts, `n: T.float8_e4m3b11fnuzx2` declares a scalar parameter."""
class float8_e4m3b11fnuzx4(_Dtype):
    """The dtype `float8_e4m3b11fnuzx4`: `T.float8_e4m3b11fnuzx4(x)` converts, `n: T.float8_e4m3b11fnuzx4` declares a scalar parameter."""
class float8_e4m3b11fnuzx8(_Dtype):
    """The dtype `float8_e4m3b11fnuzx8`: `T.float8_e4m3b11fnuzx8(x)` converts, `n: T.float8_e4m3b11fnuzx8` declares a scalar parameter."""
class float8_e4m3b11fnuzx16(_Dtype):
    """The dtype `float8_e4m3b11fnuzx16`: `T.float8_e4m3b11fnuzx16(x)` converts, `n: T.float8_e4m3b11fnuzx16` declares a scalar parameter."""
class float8_e4m3b11fnuzx32(_Dtype):
    """The dtype `float8_e4m3b11fnuzx32`: `T.float8_e4m3b11fnuzx32(x)` converts, `n: T.float8_e4m3b11fnuzx32` declares a scalar parameter."""
class float8_e4m3b11fnuzx64(_Dtype):
    """The dtype `float8_e4m3b11fnuzx64`: `T.float8_e4m3b11fnuzx64(x)` converts, `n: T.float8_e4m3b11fnuzx64` declares a scalar parameter."""
class float8_e8m0fnux2(_Dtype):
    """The dtype `float8_e8m0fnux2`: `T.float8_e8m0fnux2(x)` converts, `n: T.float8_e8m0fnux2` declares a scalar parameter."""
class float8_e8m0fnux4(_Dtype):
    """The dtype `float8_e8m0fnux4`: `T.float8_e8m0fnux4(x)` converts, `n: T.float8_e8m0fnux4` declares a scalar parameter."""
class float8_e8m0fnux8(_Dtype):
    """The dtype `float8_e8m0fnux8`: `T.float8_e8m0fnux8(x)` converts, `n: T.float8_e8m0fnux8` declares a scalar parameter."""
class float8_e8m0fnux16(_Dtype):
    """The dtype `float8_e8m0fnux16`: `T.float8_e8m0fnux16(x)` converts, `n: T.float8_e8m0fnux16` declares a scalar parameter."""
class float8_e8m0fnux32(_Dtype):
    """The dtype `float8_e8m0fnux32`: `T.float8_e8m0fnux32(x)` converts, `n: T.float8_e8m0fnux32` declares a scalar parameter."""
class float8_e8m0fnux64(_Dtype):
    """The dtype `float8_e8m0fnux64`: `T.float8_e8m0fnux64(x)` converts, `n: T.float8_e8m0fnux64` declares a scalar parameter."""
class float6_e2m3fnx2(_Dtype):
    """The dtype `float6_e2m3fnx2`: `T.float6_e2m3fnx2(x)` converts, `n: T.float6_e2m3fnx2` declares a scalar parameter."""
class float6_e2m3fnx4(_Dtype):
    """The dtype `float6_e2m3fnx4`: `T.float6_e2m3fnx4(x)` converts, `n: T.float6_e2m3fnx4` declares a scalar parameter."""
class float6_e2m3fnx8(_Dtype):
    """The dtype `float6_e2m3fnx8`: `T.float6_e2m3fnx8(x)` converts, `n: T.float6_e2m3fnx8` declares a scalar parameter."""
class float6_e2m3fnx16(_Dtype):
    """The dtype `float6_e2m3fnx16`: `T.float6_e2m3fnx16(x)` converts, `n: T.float6_e2m3fnx16` declares a scalar parameter."""
class float6_e2m3fnx32(_Dtype):
    """The dtype `float6_e2m3fnx32`: `T.float6_e2m3fnx32(x)` converts, `n: T.float6_e2m3fnx32` declares a scalar parameter."""
class float6_e2m3fnx64(_Dtype):
    """The dtype `float6_e2m3fnx64`: `T.float6_e2m3fnx64(x)` converts, `n: T.float6_e2m3fnx64` declares a scalar parameter."""
class float6_e3m2fnx2(_Dtype):
    """The dtype `float6_e3m2fnx2`: `T.float6_e3m2fnx2(x)` converts, `n: T.float6_e3m2fnx2` declares a scalar parameter."""
class float6_e3m2fnx4(_Dtype):
    """The dtype `float6_e3m2fnx4`: `T.float6_e3m2fnx4(x)` converts, `n: T.float6_e3m2fnx4` declares a scalar parameter."""
class float6_e3m2fnx8(_Dtype):
    """The dtype `float6_e3m2fnx8`: `T.float6_e3m2fnx8(x)` converts, `n: T.float6_e3m2fnx8` declares a scalar parameter."""
class float6_e3m2fnx16(_Dtype):
    """The dtype `float6_e3m2fnx16`: `T.float6_e3m2fnx16(x)` converts, `n: T.float6_e3m2fnx16` declares a scalar parameter."""
class float6_e3m2fnx32(_Dtype):
    """The dtype `float6_e3m2fnx32`: `T.float6_e3m2fnx32(x)` converts, `n: T.float6_e3m2fnx32` declares a scalar parameter."""
class float6_e3m2fnx64(_Dtype):
    """The dtype `float6_e3m2fnx64`: `T.float6_e3m2fnx64(x)` converts, `n: T.float6_e3m2fnx64` declares a scalar parameter."""
class float4_e2m1fnx2(_Dtype):
    """The dtype `float4_e2m1fnx2`: `T.float4_e2m1fnx2(x)` converts, `n: T.float4_e2m1fnx2` declares a scalar parameter."""
class float4_e2m1fnx4(_Dtype):
    """The dtype `float4_e2m1fnx4`: `T.float4_e2m1fnx4(x)` converts, `n: T.float4_e2m1fnx4` declares a scalar parameter."""
class float4_e2m1fnx8(_Dtype):
    """The dtype `float4_e2m1fnx8`: `T.float4_e2m1fnx8(x)` converts, `n: T.float4_e2m1fnx8` declares a scalar parameter."""
class float4_e2m1fnx16(_Dtype):
    """The dtype `float4_e2m1fnx16`: `T.float4_e2m1fnx16(x)` converts, `n: T.float4_e2m1fnx16` declares a scalar parameter."""
class float4_e2m1fnx32(_Dtype):
    """The dtype `float4_e2m1fnx32`: `T.float4_e2m1fnx32(x)` converts, `n: T.float4_e2m1fnx32` declares a scalar parameter."""
class float4_e2m1fnx64(_Dtype):
    """The dtype `float4_e2m1fnx64`: `T.float4_e2m1fnx64(x)` converts, `n: T.float4_e2m1fnx64` declares a scalar parameter."""
class float4_e2m1_unpackedx2(_Dtype):
    """The dtype `float4_e2m1_unpackedx2`: `T.float4_e2m1_unpackedx2(x)` converts, `n: T.float4_e2m1_unpackedx2` declares a scalar parameter."""
class float4_e2m1_unpackedx4(_Dtype):
    """The dtype `float4_e2m1_unpackedx4`: `T.float4_e2m1_unpackedx4(x)` converts, `n: T.float4_e2m1_unpackedx4` declares a scalar parameter."""
class float4_e2m1_unpackedx8(_Dtype):
    """The dtype `float4_e2m1_unpackedx8`: `T.float4_e2m1_unpackedx8(x)` converts, `n: T.float4_e2m1_unpackedx8` declares a scalar parameter."""
class float4_e2m1_unpackedx16(_Dtype):
    """The dtype `float4_e2m1_unpackedx16`: `T.float4_e2m1_unpackedx16(x)` converts, `n: T.float4_e2m1_unpackedx16` declares a scalar parameter."""
class float4_e2m1_unpackedx32(_Dtype):
    """The dtype `float4_e2m1_unpackedx32`: `T.float4_e2m1_unpackedx32(x)` converts, `n: T.float4_e2m1_unpackedx32` declares a scalar parameter."""
class float4_e2m1_unpackedx64(_Dtype):
    """The dtype `float4_e2m1_unpackedx64`: `T.float4_e2m1_unpackedx64(x)` converts, `n: T.float4_e2m1_unpackedx64` declares a scalar parameter."""
class float(_Dtype):
    """The dtype `float32` by another name: `T.float(x)` converts, `n: T.float` declares a scalar parameter."""
class half(_Dtype):
    """The dtype `float16` by another name: `T.half(x)` converts, `n: T.half` declares a scalar parameter."""
class double(_Dtype):
    """The dtype `float64` by another name: `T.double(x)` converts, `n: T.double` declares a scalar parameter."""
class int(_Dtype):
    """The dtype `int32` by another name: `T.int(x)` converts, `n: T.int` declares a scalar parameter."""
class uint(_Dtype):
    """The dtype `uint32` by another name: `T.uint(x)` converts, `n: T.uint` declares a scalar parameter."""
class long(_Dtype):
    """The dtype `int64` by another name: `T.long(x)` converts, `n: T.long` declares a scalar parameter."""
class short(_Dtype):
    """The dtype `int16` by another name: `T.short(x)` converts, `n: T.short` declares a scalar parameter."""
class boolean(_Dtype):
    """The dtype `bool` by another name: `T.boolean(x)` converts, `n: T.boolean` declares a scalar parameter."""
class bf16(_Dtype):
    """The dtype `bfloat16` by another name: `T.bf16(x)` converts, `n: T.bf16` declares a scalar parameter."""
class fp16(_Dtype):
    """The dtype `float16` by another name: `T.fp16(x)` converts, `n: T.fp16` declares a scalar parameter."""
class fp32(_Dtype):
    """The dtype `float32` by another name: `T.fp32(x)` converts, `n: T.fp32` declares a scalar parameter."""
class fp64(_Dtype):
    """The dtype `float64` by another name: `T.fp64(x)` converts, `n: T.fp64` declares a scalar parameter."""
class tf32(_Dtype):
    """The dtype `tfloat32` by another name: `T.tf32(x)` converts, `n: T.tf32` declares a scalar parameter."""
class float8_e4m3(_Dtype):
    """The dtype `float8_e4m3fn` by another name: `T.float8_e4m3(x)` converts, `n: T.float8_e4m3` declares a scalar parameter."""
class e4m3_float8(_Dtype):
    """The dtype `float8_e4m3fn` by another name: `T.e4m3_float8(x)` converts, `n: T.e4m3_float8` declares a scalar parameter."""
class e5m2_float8(_Dtype):
    """The dtype `float8_e5m2` by another name: `T.e5m2_float8(x)` converts, `n: T.e5m2_float8` declares a scalar parameter."""
class handle(_Dtype):
    """The dtype `handle`: `T.handle(x)` converts, `n: T.handle` declares a scalar parameter."""
class void(_Dtype):
    """The dtype `void`: `T.void(x)` converts, `n: T.void` declares a scalar parameter."""
