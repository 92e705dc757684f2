"""Barriers: of the grid, of the block and of the lanes of a warp.

Source: CUDA C++ Programming Guide, "Synchronization Functions", "Grid Synchronization"; PTX ISA, "Parallel
Synchronization and Communication Instructions: bar.warp.sync".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from tilelang.dtypes import INT32
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.isa.simulated import Wait, Warp
from tilelang.targets.gpu.isa.lanes import LANE_MASK, participants, spread


def _sync_threads(warp: Warp) -> Iterator[Wait]:
    yield from warp.barrier_sync()


def _sync_grid(warp: Warp) -> Iterator[Wait]:
    yield from warp.barrier_sync()
    yield from warp.grid_sync()


def _sync_warp(warp: Warp, mask: Any) -> Iterator[Wait]:
    participants(warp, mask, "__syncwarp")
    yield from warp.warp_sync(np.asarray(mask))


SYNC_THREADS = Instruction(
    "sync_threads",
    {},
    {},
    _sync_threads,
    execution_scope=ExecutionScope.BLOCK,
    effect=Effect.SYNC_BLOCK,
    source="CUDA C++ Programming Guide, 'Synchronization Functions'",
    dialect_key=("sync_threads",),
)
"""Barrier of the block; no operands."""


def answers(
    warp: Warp, predicate: Any, barrier: Iterator[Wait], answer: Callable[[int, int], int], key: str
) -> Generator[Wait, None, np.ndarray]:
    """What a barrier answers to a predicate.

    Args:
        warp: The warp that executes it.
        predicate: Of each lane.
        barrier: The waits of the barrier.
        answer: Gets the numbers of threads with a true predicate, and of all.
        key: Names the barrier.
    """
    tallies = warp.state(key, list)
    if not tallies:
        tallies.append([0, 0])
    tally = tallies[-1]
    tally[0] += int((spread(warp, predicate).astype(bool) & warp.active).sum())
    tally[1] += int(warp.active.sum())
    yield from barrier
    if tallies[-1] is tally:  # all have arrived
        tallies[:] = [[0, 0]]
    return np.full(warp.size, answer(*tally), np.int32)


def any_thread(yes: int, _: int) -> int:
    """Whether the predicate is true in any thread."""
    return int(yes > 0)


def _sync_threads_answer(name: str, answer: Callable[[int, int], int], dialect_key: str = "") -> Instruction:
    """A block barrier with a predicate; `answer` gets the numbers of threads with a true predicate, and of all."""

    def simulate(warp: Warp, predicate: Any) -> Generator[Wait, None, np.ndarray]:
        return (yield from answers(warp, predicate, warp.barrier_sync(), answer, "sync_threads_answer"))

    return Instruction(
        name,
        {},
        {},
        simulate,
        execution_scope=ExecutionScope.BLOCK,
        result=INT32,
        effect=Effect.SYNC_BLOCK,
        is_uniform=True,
        source="CUDA C++ Programming Guide, 'Synchronization Functions'",
        dialect_key=(dialect_key or name,),
    )


SYNC_THREADS_COUNT = _sync_threads_answer("sync_threads_count", lambda yes, all_: yes)
"""Barrier of the block that returns the number of threads with a true predicate; the operand is the predicate."""

SYNC_THREADS_AND = _sync_threads_answer("sync_threads_and", lambda yes, all_: int(yes == all_))
"""Barrier that returns whether the predicate is true in all threads, as 1 or 0."""

SYNC_THREADS_OR = _sync_threads_answer("sync_threads_or", any_thread)
"""Barrier that returns whether the predicate is true in any thread, as 1 or 0."""

SYNC_GROUP_OR = _sync_threads_answer("sync_group_or", any_thread, "sync_threads_or")
"""The same for the threads of a group: `insert_group_barriers` gives it the barrier of the group around it."""

SYNC_GRID = Instruction(
    "sync_grid",
    {},
    {},
    _sync_grid,
    execution_scope=ExecutionScope.BLOCK,
    effect=Effect.SYNC_BLOCK | Effect.SYNC_GRID,
    source="CUDA C++ Programming Guide, 'Grid Synchronization'",
    dialect_key=("sync_grid",),
)
"""Barrier of the grid, in a cooperative launch; no operands."""

SYNC_WARP = Instruction(
    "sync_warp",
    {},
    {},
    _sync_warp,
    execution_scope=ExecutionScope.WARP,
    effect=Effect.SYNC_WARP,
    instead="write T.sync_warp() without a mask, for all lanes of a warp",
    source="PTX ISA, 'Parallel Synchronization and Communication Instructions: bar.warp.sync'",
    dialect_key=("sync_warp",),
)
"""Barrier of the lanes of a mask, with visibility of their writes; the operand is the mask."""


_NO_PREDICATE = ("ProgramTypeError: The predicate is neither.",)

FUNCTIONS = (
    Function(
        "syncthreads_count",
        SYNC_THREADS_COUNT,
        "Barrier of the block; returns the number of threads whose predicate is true.",
        (Parameter("predicate", ParameterKind.PREDICATE, "An integer or bool of each thread."),),
        raises=_NO_PREDICATE,
        example="valid = T.syncthreads_count(A[tx] > 0)",
    ),
    Function(
        "syncthreads_and",
        SYNC_THREADS_AND,
        "Barrier of the block; returns whether the predicate is true in all threads: 1 or 0.",
        (Parameter("predicate", ParameterKind.PREDICATE),),
    ),
    Function(
        "syncthreads_or",
        SYNC_THREADS_OR,
        "Barrier of the block; returns whether the predicate is true in any thread: 1 or 0.",
        (Parameter("predicate", ParameterKind.PREDICATE),),
    ),
    Function(
        "sync_grid",
        SYNC_GRID,
        """Every thread of every block waits here for all others, and sees their writes to global memory from then on.

        All blocks must run at the same time, so that a grid has at most as many as the GPU holds at once; a launch with
        more is refused. Nothing else may keep one block from coming here as often as the others.
        """,
        example="T.sync_grid()",
    ),
    Function(
        "sync_warp",
        SYNC_WARP,
        "Barrier of the lanes of a warp in `mask`, with visibility of their writes.",
        (LANE_MASK,),
    ),
)


def instructions() -> Iterator[Instruction]:
    """The instructions of this file, one of each form."""
    yield from (SYNC_THREADS, SYNC_THREADS_COUNT, SYNC_THREADS_AND, SYNC_THREADS_OR, SYNC_GROUP_OR)
    yield from (SYNC_GRID, SYNC_WARP)
