"""The record of an instruction: a routine with an effect, its text per language, what it needs and what it does.

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
from tilelang.targets.target import Feature


class Group(enum.Enum):
    """Which threads must execute an instruction together."""

    THREAD = "thread"
    WARP = "warp"
    WARPGROUP = "warpgroup"
    BLOCK = "block"
    CLUSTER = "cluster"


class Timeline(enum.Enum):
    """The queue on which an instruction's work completes; what is not IN_ORDER needs a wait of its queue."""

    IN_ORDER = "in order"
    CP_ASYNC = "cp.async"
    TMA_LOAD = "TMA load"
    TMA_STORE = "TMA store"
    WGMMA = "wgmma"


class Effect(enum.Flag):
    """What an instruction does beside reading and writing the regions of its call."""

    NONE = 0
    SYNC_BLOCK = enum.auto()  # all threads of the block meet, and see each other's writes
    SYNC_GRID = enum.auto()  # the threads of all blocks meet, and see each other's writes
    SYNC_SOME = enum.auto()  # the threads of a named barrier or a warp meet, and see each other's writes
    COMMIT = enum.auto()  # closes a group of asynchronous work of its timeline
    WAIT = enum.auto()  # waits for groups of its timeline
    FENCE = enum.auto()  # orders memory accesses of the thread


@record(slots=True, eq=False)
class Instruction(Routine):
    """One hardware operation with an effect.

    `spell` holds, per language, the text of the call as a template in which `{0}`, `{1}`, ... stand for the arguments:
    pointers for regions, values for expressions. For an instruction with a `result` the text is an expression, for
    others a statement without the semicolon. `helper` holds, per language, what must stand before it.

    Attributes:
        simulate: The meaning: `simulate(warp, *arguments)` with a `simulated.Warp`, where a region arrives as a
            `simulated.Pointer`, an expression as an array with one value per lane, and a constant as a Python number.
            It gives the result's values, or is a generator that yields `simulated.Wait`s and returns them.
        group: Which threads must execute it together.
        result: The dtype of its value; None where it has none.
        timeline: The queue on which its work completes.
        effect: What else it does.
        needs: What the target must have.
        predicate: Position of the argument that says whether the global access happens; bounds tests go there.
        overhang: Bytes behind the first tile that it reads which it fetches as well and makes nothing of; there must be
            shared memory of the block.
        optional: Whether a target that lacks it does without: it changes when things happen, not what is computed.
        verbatim: Whether it is a text of the user, whose arguments stay as the user has written them.
        source: Manual and section.
    """

    simulate: Callable[..., Any]
    group: Group = Group.THREAD
    result: DType | None = None
    timeline: Timeline = Timeline.IN_ORDER
    effect: Effect = Effect.NONE
    needs: Feature = Feature.NONE
    predicate: int | None = None
    overhang: int = 0
    optional: bool = False
    verbatim: bool = False
    source: str = ""


Texts = Mapping[str, str]
