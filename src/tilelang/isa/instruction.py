"""The record of an instruction: a routine with an effect, its text per language, its requirements and its simulation.

Invariant: `simulate` implements the hardware's manual in terms of `isa.simulated.Warp`; it does not depend on which
waits or barriers passes have inserted.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import DType
from tilelang.ir.callee import Routine
from tilelang.records import record
from tilelang.targets.machine import NOTHING

PORTABLE = "write what every GPU has: T.gemm, T.copy in loops of T.Pipelined, T.sync_threads()"
"""What messages suggest in place of an instruction of one vendor that has no counterpart of its own."""


class ExecutionScope(enum.Enum):
    """The threads that must execute an instruction together."""

    THREAD = "thread"
    WARP = "warp"
    WARP_GROUP = "warp group"  # consecutive warps; their number is in the machine's record
    BLOCK = "block"
    CLUSTER = "cluster"


class Completion(enum.Enum):
    """The way in which threads observe the completion of asynchronous work."""

    GROUPS = "groups"  # commit closes a group of work; wait returns when all but the newest groups are complete
    BARRIER = "barrier"  # a barrier in memory counts bytes


@record(slots=True, eq=False)
class AsyncUnit:
    """A unit that executes work asynchronously to the threads that issue it.

    Attributes:
        name: Name of its work in messages, such as "matrix instruction".
        completion: How threads observe completion.
        per_thread: Whether each thread issues and waits for its own work. Otherwise some threads do so for others,
            which observe completion at barriers.
        per_warp: Whether a warp counts its work as one, and waits for that of all its lanes, whichever are active.
        reads_asynchronously: Whether it reads shared memory at any time before the wait, so that the operands must not
            be overwritten earlier; otherwise they are read when the work is issued.
        async_proxy: Whether it accesses memory through the async proxy, which needs a fence after writes of threads.
        wait_call: The call that waits for all of its work, as written in programs; empty if there is none.
    """

    name: str
    completion: Completion
    per_thread: bool = False
    per_warp: bool = False
    reads_asynchronously: bool = False
    async_proxy: bool = False
    wait_call: str = ""


@record(slots=True)
class MatrixWork:
    """The work of a matrix instruction.

    Attributes:
        multiply_adds: Products that it sums, of all threads that execute it together.
        operand_bits: Of an element of an operand.
        shared_bytes: Of operands that it reads in shared memory.
        cycles: In which it occupies a matrix unit, if the record of the instruction says that; otherwise 0.
    """

    multiply_adds: int
    operand_bits: int
    shared_bytes: int = 0
    cycles: int = 0


class Effect(enum.Flag):
    """An effect of an instruction besides reading and writing the regions of its call."""

    NONE = 0
    SYNC_BLOCK = enum.auto()  # barrier of all threads of the block, with visibility of their writes
    JOIN_BLOCK = enum.auto()  # arrival or wait at a barrier of all threads of the block that waits for no memory access
    SYNC_GRID = enum.auto()  # barrier of all blocks of the grid, with visibility of their writes
    SYNC_SOME = enum.auto()  # barrier of some threads of the block, with visibility of their writes
    ARRIVE = enum.auto()  # arrival at such a barrier for which whole warps wait, without a wait
    SYNC_WARP = enum.auto()  # barrier of the lanes of a warp in the mask that is its first argument
    COMMIT = enum.auto()  # closes a group of work of its asynchronous unit
    WAIT = enum.auto()  # waits for groups of its asynchronous unit
    FENCE = enum.auto()  # orders memory accesses of the thread
    JOIN_LAUNCHES = enum.auto()  # waits for the launches in front, with visibility of their writes


@record(slots=True, eq=False)
class Instruction(Routine):
    """One hardware operation with an effect.

    `texts` holds, per language, the call as a template in which `{0}`, `{1}`, ... stand for the arguments: pointers for
    regions, values for expressions. For an instruction with a `result` the text is an expression, for others a
    statement without the semicolon. `helpers` holds, per language, definitions that must precede it. An instruction
    that several vendors have is without texts; a `codegen.dialect.Dialect` finds that of its language by `dialect_key`.

    Attributes:
        simulate: The meaning: `simulate(warp, *arguments)` with a `simulated.Warp`, where a region arrives as a
            `simulated.Pointer`, an expression as an array with one value per lane, and a constant as a Python number.
            Returns the values of the result, or is a generator that yields `simulated.Wait`s and returns them.
        execution_scope: The threads that must execute it together.
        result: The dtype of its value, if any.
        async_unit: The unit that completes it asynchronously; None if it is synchronous.
        effect: Further effects.
        pending: Number of newest groups that may be in flight after a wait; None if it is the first argument.
        needs: Required feature: a flag of the vendor, or of `targets.machine`.
        written_map: Position of the argument that is the map of a written tensor; calls need not list that tensor among
            their writes.
        predicate: Position of the argument that is the predicate of the global access, for bounds checks.
        overhang: Bytes after the first tile that are fetched but not used; they must be in shared memory.
        optional: Whether targets without it drop it: it affects timing, not results.
        verbatim: Whether it is source of the user, whose arguments are printed unchanged.
        may_diverge: Whether lanes that execute it together may diverge afterwards.
        keeps_uniform: Whether its result is the same in all threads if all its arguments are.
        is_uniform: Whether its result is the same in all threads that execute it together.
        is_index_arithmetic: Whether its result follows from the index of the thread and from its arguments, by a
            `simulate` that asks nothing else of the warp than its index, size and lanes.
        matrix: What it multiplies, if it is a matrix instruction.
        shared_rows: If it copies rows of shared memory whose addresses its first lanes have: how many, and the bytes of
            each.
        instead: What a user may write where a GPU lacks it, as messages say; empty if that is `PORTABLE`.
        source: Manual and section.
        dialect_key: Family and variant, by which `Dialect.instructions` has the text of an instruction without texts.
    """

    simulate: Callable[..., Any]
    execution_scope: ExecutionScope = ExecutionScope.THREAD
    result: DType | None = None
    async_unit: AsyncUnit | None = None
    effect: Effect = Effect.NONE
    pending: int | None = None
    needs: enum.Flag = NOTHING
    written_map: int | None = None
    predicate: int | None = None
    overhang: int = 0
    optional: bool = False
    verbatim: bool = False
    may_diverge: bool = False
    keeps_uniform: bool = False
    is_uniform: bool = False
    is_index_arithmetic: bool = False
    matrix: MatrixWork | None = None
    shared_rows: tuple[int, int] = (0, 0)
    instead: str = ""
    source: str = ""
    dialect_key: tuple[Any, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether threads wait in it for others, or for asynchronous work."""
        return inspect.isgeneratorfunction(self.simulate)

    @property
    def reads_asynchronously(self) -> bool:
        """Whether its unit may read shared memory at any time before a wait."""
        return self.async_unit is not None and self.async_unit.reads_asynchronously

    @property
    def is_per_thread(self) -> bool:
        """Whether each thread issues and waits for its own work."""
        return self.async_unit is not None and self.async_unit.per_thread

