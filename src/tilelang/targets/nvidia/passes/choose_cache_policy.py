"""Chooses L2 eviction policies for TMA loads: `evict_first` for tensors read once, `evict_last` for shared small ones.

Takes a tile-level function after `choose_schedule`; writes `Copy.eviction` where the user left it open, and
`LaunchPlan.streamed`, from which threads load past the L1 cache (`stream_loads`).
Invariant: policies are hints, so that no result changes; those that are set are among the notes of the launch.

A tensor is streamed where each of its tiles is loaded once in a whole launch, such as the weights of a gemm with few
rows. It would only evict lines that others still read, and dirty lines that the device is about to write back: these it
spares the launch. What is several times as large as the cache is read faster without a policy, though it evicts all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set

from tilelang.analysis.accesses import Access, accesses
from tilelang.arith.affine import Affine, linear_form
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, Launch, ParallelLoop, Stmt, While
from tilelang.ir.visit import Rewriter, variables_of, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.iteration import trip_count
from tilelang.targets.nvidia.machines import Feature

FIRST, LAST = "evict_first", "evict_last"

_SMALL = 4 * 1024 * 1024  # bytes that the L2 cache holds beside everything else: H100 and H200 have 50 MB
# Bytes of a launch up to which a policy for what it streams pays. On an H200 whose L2 is full of dirty lines, with
# `evict_first` and without: gemms of 64 rows, 128 MiB of weights, 38.8 and 43.2 us; 256 MiB, 73.2 and 75.4 us; 512 MiB,
# 139.2 and 136.3 us; decoding with 256 MiB of keys and values, 79.8 and 78.2 us; 384 MiB, 113.9 and 109.3 us; 512 MiB,
# 144.6 and 138.3 us; 2 GiB, 510.7 and 495.3 us. With clean lines there are 2 us between the two at most.
_MOST = 256 * 1024 * 1024
# Bytes below which a tensor that all blocks read is in L2 in any case. Gemms of one row with weights of four bits,
# which read 16 KiB of A, took 34 to 38 us on an H200 with a policy for A; 20 us in a variant without one, which stored
# its results in another way, too. With 16 rows the same kernels took 19 to 22 us.
_FEW = 64 * 1024
# Threads load past L1 in launches that write so many times fewer bytes than they read. On an H200 whose L2 is full of
# dirty lines, without a hint and with it: sums of rows of 32 MiB, 14.8 and 13.5 us; 64 MiB, 27.9 and 21.0 us; matrix
# times vector of 32 MiB, 16.1 and 14.2 us; 128 MiB, 42.3 and 38.5 us; 512 MiB, 131.0 and 135.7 us. With clean lines
# there is no difference. Softmax, which writes as much as it reads, takes 1.01 to 1.04 of the time.
_FEWER = 8


def cache_policies(launch: Launch) -> dict[Copy, str]:
    """The eviction policies of the copies of a launch, where index expressions prove them."""
    found = _policies(launch)
    streamed = sum(copy.src.buffer.storage.bytes or 0 for copy, kind in found.items() if kind == FIRST)
    return found if FIRST in found.values() and streamed <= _MOST else {}


def streamed_tiles(launch: Launch) -> frozenset[Buffer]:
    """The tiles that copies load of tensors which a whole launch reads once."""
    return frozenset(copy.dst.buffer for copy, kind in _policies(launch).items() if kind == FIRST)


def _policies(launch: Launch) -> dict[Copy, str]:
    """What index expressions prove of the copies of a launch, whatever the size of the tensors.

    Only for tensors that one copy reads and nothing writes, and only for operands of gemms, and tiles of which threads
    compute these: others are small.
    """
    operands = {region.buffer for stmt in walk(launch.body) if isinstance(stmt, Gemm) for region in stmt.reads()}
    operands |= _computed_from(launch, operands)
    many, single = _block_variables(launch)
    found: dict[Copy, str] = {}
    for tensor, (access, *others) in _touching(launch).items():
        copy, loops = access.stmt, access.context.loops()
        if others or access.write or not isinstance(copy, Copy) or copy.dst.buffer not in operands:
            continue
        if not all(isinstance(loop, For) for loop in loops):
            continue
        inner = _loop_variables(access)
        if _is_streamed(access, [*many, *inner]):
            found[copy] = FIRST
        elif many and _FEW <= (tensor.bytes or 0) <= _SMALL and _depends_only_on(copy, [*single, *inner]):
            found[copy] = LAST
    return found


def _computed_from(launch: Launch, operands: Set[Buffer]) -> set[Buffer]:
    """The matrices in shared memory of which parallel loops compute operands."""
    loops = (accesses(stmt) for stmt in walk(launch.body) if isinstance(stmt, ParallelLoop))
    computing = (found for found in loops if any(access.buffer in operands for access in found.writes))
    read = {access.buffer for found in computing for access in found.all if not access.write}
    return {buffer for buffer in read if buffer.scope is Scope.SHARED and buffer.rank > 1}


def _streamed_by_threads(launch: Launch) -> tuple[Buffer, ...]:
    """The tensors of which threads read each element once, if the launch writes little."""
    touching, (many, _) = _touching(launch), _block_variables(launch)
    found = [
        tensor
        for tensor, (access, *others) in touching.items()
        if not others and not access.write and _is_streamed(access, [*many, *_loop_variables(access)])
    ]
    written = [tensor.bytes for tensor, all_ in touching.items() if any(access.write for access in all_)]
    if None in written or any(tensor.bytes is None for tensor in found):
        return ()
    read = sum(tensor.bytes or 0 for tensor in found)
    return tuple(found) if sum(size or 0 for size in written) * _FEWER <= read <= _MOST else ()


def _touching(launch: Launch) -> dict[Buffer, list[Access]]:
    """The accesses of a launch to global memory, by tensor."""
    found: dict[Buffer, list[Access]] = {}
    for access in accesses(launch.body).all:
        if access.buffer.scope is Scope.GLOBAL:
            found.setdefault(access.buffer.storage, []).append(access)
    return found


def _block_variables(launch: Launch) -> tuple[list[Var], list[Var]]:
    """The block variables that take several values, and those that take one."""
    extents = dict(zip(launch.block_vars, map(int_const, launch.grid), strict=True))
    many, single = ([var for var, extent in extents.items() if (extent == 1) is one] for one in (False, True))
    return many, single


def _loop_variables(access: Access) -> list[Var]:
    """The variables of serial loops around an access that take several values."""
    loops = (loop for loop in access.context.loops() if isinstance(loop, For))
    return [loop.var for loop in loops if int_const(trip_count(loop)) != 1]


def _is_streamed(access: Access, variables: Sequence[Var]) -> bool:
    """Whether an access reads disjoint elements for different values of each of these variables.

    What the iterations of parallel loops around it read is a tile.
    """
    forms = [linear_form(start) for start in access.start]
    sizes = [1] * len(forms) if access.extent is None else [int_const(extent) for extent in access.extent]
    for loop in access.context.loops():
        if isinstance(loop, While):
            return False
        for var, extent in zip(loop.vars, loop.extents, strict=True) if isinstance(loop, ParallelLoop) else ():
            steps, count = [abs(form.coefficient(var)) if form else 0 for form in forms], int_const(extent)
            if count is None or (count > 1 and not any(steps)):
                return False
            sizes = [size and size + step * (count - 1) for size, step in zip(sizes, steps, strict=True)]
    return all(any(_steps(form, var, size) for form, size in zip(forms, sizes, strict=True)) for var in variables)


def _steps(form: Affine | None, var: Var, size: int | None) -> bool:
    return form is not None and size is not None and abs(form.coefficient(var)) >= size


def _depends_only_on(copy: Copy, variables: Sequence[Var]) -> bool:
    """Whether the source of a copy depends on no other variables than these."""
    return frozenset().union(*map(variables_of, copy.source_indices)) <= frozenset(variables)


def _with_policies(launch: Launch) -> Launch:
    if launch.plan.schedule is None:  # only TMA loads take policies: see `isa.cache_policy`
        streamed = _streamed_by_threads(launch)
        plan = dataclasses.replace(launch.plan, streamed=streamed)
        return dataclasses.replace(launch, plan=plan) if streamed else launch
    chosen = {copy: kind for copy, kind in cache_policies(launch).items() if copy.eviction is None}
    if not chosen:
        return launch
    texts = {copy: f"L2 cache: '{copy.src.buffer.name}' {_DESCRIPTIONS[kind]}" for copy, kind in chosen.items()}
    notes = [Note(text, copy.loc) for copy, text in texts.items()]
    body = _SetPolicy(chosen).visit(launch.body)
    assert body is not None
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    return dataclasses.replace(launch, body=body, plan=plan)


_DESCRIPTIONS = {
    FIRST: "is read once (evict_first)",
    LAST: "is read by all blocks (evict_last)",
}


class _SetPolicy(Rewriter):
    def __init__(self, chosen: Mapping[Copy, str]) -> None:
        self._wanted = chosen

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Copy) and node in self._wanted:
            return dataclasses.replace(node, eviction=self._wanted[node])
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    if not context.target.has(Feature.TMA) or not context.options.l2_hints:
        return func
    return with_launches(func, _with_policies)


PASS = Pass(
    "choose_cache_policy", _run, Level.TILE, Level.TILE,
    requires=(Property.GRID_AS_WRITTEN, Property.SCHEDULE_CHOSEN, Property.OPERATORS_UNEXPANDED),
)
