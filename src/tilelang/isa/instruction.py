"""The record of an instruction: a routine with an effect, its text, what it needs and what it does.

Takes nothing from the machine; gives `Instruction` and the words to describe one. Invariant: `simulate` is the meaning
that the hardware's manual gives, told in terms of `isa.simulated.Warp`; it never knows which waits or barriers a pass
thought necessary.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import DType
from tilelang.ir.callee import Routine
from tilelang.records import record
from tilelang.targets.machine import NOTHING


class Group(enum.Enum):
    """Which threads must execute an instruction together."""

    THREAD = "thread"
    WARP = "warp"
    WARP_GROUP = "warp group"  # neighboring warps; how many, the machine says
    BLOCK = "block"
    CLUSTER = "cluster"


class Completion(enum.Enum):
    """How threads learn that asynchronous work is complete."""

    GROUPS = "groups"  # a commit closes a group of work; a wait leaves the newest groups under way, and no others
    BARRIER = "barrier"  # a barrier in memory counts what has arrived


@record(slots=True, eq=False)
class AsyncUnit:
    """A unit of a machine that works on while the threads that started it go on.

    Attributes:
        name: Of its work, for people: "a matrix instruction" is named "matrix instruction".
        completion: How threads learn of the end of its work.
        every_thread: Whether each thread starts work of its own and waits for that, so that its commits and waits tell
            what is complete. Otherwise some do so for others, which learn of it at barriers.
        reads_late: Whether it reads shared memory at some time before the wait, so that it must not be written
            earlier; otherwise operands count as read when the work is started.
        async_proxy: Whether it sees memory through the asynchronous proxy: what threads wrote before needs a fence.
        awaited_by: What a program writes to wait for all of its work; empty if there is no such call.
    """

    name: str
    completion: Completion
    every_thread: bool = False
    reads_late: bool = False
    async_proxy: bool = False
    awaited_by: str = ""


class Effect(enum.Flag):
    """What an instruction does beside reading and writing the regions of its call."""

    NONE = 0
    SYNC_BLOCK = enum.auto()  # a barrier of all threads of the block, which then see each other's writes
    SYNC_GRID = enum.auto()  # a barrier of the threads of all blocks, which then see each other's writes
    SYNC_SOME = enum.auto()  # a barrier of some threads of the block, which then see each other's writes
    SYNC_WARP = enum.auto()  # so do the lanes of a warp that its first argument, a mask, names
    COMMIT = enum.auto()  # closes a group of work of its asynchronous unit
    WAIT = enum.auto()  # waits for groups of its asynchronous unit
    FENCE = enum.auto()  # orders memory accesses of the thread


@record(slots=True, eq=False)
class Instruction(Routine):
    """One hardware operation with an effect.

    `spell` holds, per language, the text of the call as a template in which `{0}`, `{1}`, ... stand for the arguments:
    pointers for regions, values for expressions. For an instruction with a `result` the text is an expression, for
    others a statement without the semicolon. `helper` holds, per language, what must stand before it. An instruction
    that targets of several vendors have is without texts; it has a `form`, by which the dialect of each finds them.

    Attributes:
        simulate: The meaning: `simulate(warp, *arguments)` with a `simulated.Warp`, where a region arrives as a
            `simulated.Pointer`, an expression as an array with one value per lane, and a constant as a Python number.
            It gives the result's values, or is a generator that yields `simulated.Wait`s and returns them.
        group: Which threads must execute it together.
        result: The dtype of its value; None where it has none.
        async_unit: What completes its work later, which then needs a wait; None if it is complete when it was executed.
        effect: What else it does.
        leaves: How many of the newest groups a wait leaves under way; None if its first argument says so.
        needs: What the target must have: a flag of its vendor, or of `targets.machine`.
        written_map: Position of the argument that is the map of a tensor that it writes; calls need not name the tensor
            among their writes.
        predicate: Position of the argument that says whether the global access happens; bounds tests go there.
        overhang: Bytes behind the first tile that it reads which it fetches as well and makes nothing of; there must be
            shared memory of the block.
        optional: Whether a target that lacks it does without: it changes when things happen, not what is computed.
        verbatim: Whether it is a text of the user, whose arguments stay as the user has written them.
        parts_lanes: Whether lanes of a warp that execute it together may go on at different times.
        source: Manual and section.
        form: The family of an instruction whose texts the dialects have, and what chooses one of the family.
    """

    simulate: Callable[..., Any]
    group: Group = Group.THREAD
    result: DType | None = None
    async_unit: AsyncUnit | None = None
    effect: Effect = Effect.NONE
    leaves: int | None = None
    needs: enum.Flag = NOTHING
    written_map: int | None = None
    predicate: int | None = None
    overhang: int = 0
    optional: bool = False
    verbatim: bool = False
    parts_lanes: bool = False
    source: str = ""
    form: tuple[Any, ...] = ()

    @property
    def reads_late(self) -> bool:
        """Whether it lets a unit read shared memory at some time before a wait."""
        return self.async_unit is not None and self.async_unit.reads_late

    @property
    def by_every_thread(self) -> bool:
        """Whether it concerns work that each thread starts and waits for itself."""
        return self.async_unit is not None and self.async_unit.every_thread


Texts = Mapping[str, str]
