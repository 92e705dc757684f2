"""Sequences of passes that the pipelines of several targets have in common."""

from __future__ import annotations

from tilelang.passes.base import Pass
from tilelang.passes.thread import hoist_comparisons, merge_branches, narrow_bounds_checks, simplify_body
from tilelang.passes.tile import (
    apply_tensor_layouts,
    check_program,
    drop_empty_loops,
    drop_optional_calls,
    expand_library,
    grow_fragments,
    inline_bindings,
    recognize_online_softmax,
    reduce_flags,
    separate_fills,
    unrotate_loads,
    use_minnum_maxnum,
    warn_serialized_loops,
)

FRONT_END: tuple[Pass, ...] = (
    drop_optional_calls.PASS,
    grow_fragments.PASS,
    check_program.PASS,
    use_minnum_maxnum.PASS,
    reduce_flags.PASS,
    warn_serialized_loops.PASS,
    recognize_online_softmax.PASS,
    expand_library.PASS,
    inline_bindings.PASS,
    drop_empty_loops.PASS,
    unrotate_loads.PASS,
    separate_fills.PASS,
    apply_tensor_layouts.PASS,
)
"""From the staged program to a checked one of the operators that targets lower; the same for all targets."""

GPU_SIMPLIFICATION: tuple[Pass, ...] = (
    simplify_body.PASS,
    merge_branches.PASS,
    hoist_comparisons.PASS,
    narrow_bounds_checks.PASS,
)
"""Simplifies the program of a GPU's thread, once shared memory is flat."""
