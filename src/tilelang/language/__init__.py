"""The `T` namespace: `import tilelang.language as T`.

Gathers what kernels are written with. Names that come in families (dtypes, intrinsics, thread primitives) are added
from their tables; a name that does not exist is an error with the nearest one that does.
"""

from __future__ import annotations

import difflib
from typing import Any

from tilelang.errors import UnknownName
from tilelang.language.alloc import (
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_reducer,
    alloc_shared,
    alloc_var,
    finalize_reducer,
    reshape,
    view,
)
from tilelang.language.annotate import (
    annotate_l2_hit_ratio,
    annotate_layout,
    annotate_min_blocks_per_sm,
    annotate_safe_value,
    func_attr,
    use_swizzle,
)
from tilelang.language.atomic import (
    atomic_add,
    atomic_addx2,
    atomic_addx4,
    atomic_and,
    atomic_exchange,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_store,
    atomic_xor,
)
from tilelang.language.debug import device_assert, print
from tilelang.language.derived import all_of, any_of, dp4a, evaluate, rng_init, rng_rand
from tilelang.language.eager import const, empty
from tilelang.language.kernel import Kernel, block
from tilelang.language.level3 import PRIMITIVES
from tilelang.language.loops import (
    Parallel,
    Persistent,
    Pipelined,
    Serial,
    Unroll,
    Vectorized,
    grid,
    parallel,
    persistent,
    pipeline,
    pipelined,
    serial,
    unroll,
    vectorized,
)
from tilelang.language.macro import macro
from tilelang.language.math import (
    FUNCTIONS,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceildiv,
    clamp,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    max,
    max_value,
    min,
    min_value,
    reinterpret,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from tilelang.language.prim_func import prim_func
from tilelang.language.threads import (
    get_block_binding,
    get_block_bindings,
    get_lane_idx,
    get_thread_binding,
    get_thread_bindings,
    get_warp_group_idx,
    get_warp_idx,
    thread_binding,
)
from tilelang.language.tile import (
    async_copy,
    c2d_im2col,
    clear,
    copy,
    cummax,
    cumsum,
    fill,
    gemm,
    im2col,
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_max,
    reduce_min,
    reduce_sum,
    transpose,
)
from tilelang.language.types import (
    DTYPES,
    Buffer,
    StridedTensor,
    Tensor,
    Var,
    dtype,
    dyn,
    dynamic,
    ptr,
    symbolic,
)
from tilelang.layout import Layout, make_linear_layout, make_swizzled_layout
from tilelang.ops.gemm import GemmWarpPolicy

Cast = cast
Select = if_then_else

globals().update(DTYPES)  # float16, int8x4, half, ...
globals().update(FUNCTIONS)  # exp, sqrt, __exp, ...
globals().update(PRIMITIVES)  # sync_threads, get_thread_binding, ...

__all__ = [
    "Buffer",
    "Cast",
    "GemmWarpPolicy",
    "Kernel",
    "Layout",
    "Parallel",
    "Persistent",
    "Pipelined",
    "Select",
    "Serial",
    "StridedTensor",
    "Tensor",
    "Unroll",
    "Var",
    "Vectorized",
    "all_of",
    "alloc_fragment",
    "alloc_global",
    "alloc_local",
    "alloc_reducer",
    "alloc_shared",
    "alloc_var",
    "annotate_l2_hit_ratio",
    "annotate_layout",
    "annotate_min_blocks_per_sm",
    "annotate_safe_value",
    "any_of",
    "async_copy",
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_and",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_xor",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "block",
    "c2d_im2col",
    "cast",
    "ceildiv",
    "clamp",
    "clear",
    "const",
    "copy",
    "cummax",
    "cumsum",
    "device_assert",
    "dp4a",
    "dtype",
    "dyn",
    "dynamic",
    "empty",
    "evaluate",
    "fill",
    "finalize_reducer",
    "floordiv",
    "floormod",
    "func_attr",
    "gemm",
    "get_block_binding",
    "get_block_bindings",
    "get_lane_idx",
    "get_thread_binding",
    "get_thread_bindings",
    "get_warp_group_idx",
    "get_warp_idx",
    "grid",
    "if_then_else",
    "im2col",
    "infinity",
    "macro",
    "make_linear_layout",
    "make_swizzled_layout",
    "max",
    "max_value",
    "min",
    "min_value",
    "parallel",
    "persistent",
    "pipeline",
    "pipelined",
    "prim_func",
    "print",
    "ptr",
    "reduce",
    "reduce_absmax",
    "reduce_abssum",
    "reduce_bitand",
    "reduce_bitor",
    "reduce_bitxor",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
    "reinterpret",
    "reshape",
    "rng_init",
    "rng_rand",
    "serial",
    "shift_left",
    "shift_right",
    "symbolic",
    "thread_binding",
    "transpose",
    "truncdiv",
    "truncmod",
    "unroll",
    "use_swizzle",
    "vectorized",
    "view",
    *DTYPES,
    *FUNCTIONS,
    *PRIMITIVES,
]


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):  # Python's own probes
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __all__, n=1, cutoff=0.6)
    raise UnknownName(f"T.{name}: there is no such name", hint=f"did you mean T.{near[0]}?" if near else "")
