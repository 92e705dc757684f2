"""What may hold of a program between two passes, so that passes can say what they require and what they establish.

Gives `Property`, and `in_order`, which builds a pipeline of passes and refuses one in which a pass would meet a program
that lacks what it requires.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilelang.errors import CompilerBug
from tilelang.ir.func import Level

if TYPE_CHECKING:
    from tilelang.passes.base import Pass


class Property(enum.Enum):
    """A fact about a whole function; each member has its name in messages and documents, and its meaning."""

    # of every program that the front end leaves
    LOOPS_AS_WRITTEN = (
        "loops as written",
        "loops, operators, minima and maxima are those of the user, none is generated",
    )
    GRID_AS_WRITTEN = ("grid as written", "the indices of blocks are those of the user's grid")
    BARRIERS_AS_WRITTEN = (
        "barriers as written",
        "barriers in memory and groups of asynchronous copies are those of the user",
    )
    OPERATORS_WHOLE = (
        "operators whole",
        "operators that move or compute element by element are still operators, not loops",
    )
    ACCESSES_UNTESTED = (
        "accesses untested",
        "a load outside of global memory gives the safe value and a store there does nothing, without a test",
    )
    LOGICAL_INDICES = (
        "logical indices",
        "accesses to shared memory have the indices of the tile, not offsets in memory",
    )

    # tile level
    NO_OPTIONAL_CALLS = ("no optional calls", "no call of an optional instruction that the target lacks")
    FRAGMENTS_COVER_LOOPS = ("fragments cover loops", "fragments have all elements that parallel loops index")
    RULES_CHECKED = ("rules checked", "operands fit their operators, and nothing proven wrong is left")
    FLAGS_JOINED = ("flags joined", "flags that iterations of a parallel loop set are associative updates")
    NO_LIBRARY_OPERATORS = ("no library operators", "no sort, top-k, arg-reduction, gather or scatter of rows")
    INDICES_INLINED = ("indices inlined", "subscripts are visibly affine: no index arithmetic hides behind a name")
    TENSORS_DIRECT = ("tensors direct", "no tensor of the user's has a layout of its own")
    THREAD_GROUPS = ("thread groups", "branches that whole neighboring warps take are groups of threads, with a record")
    USER_PIPELINES_VERSIONED = (
        "user's pipelines versioned",
        "tiles and barriers of loops that the user synchronizes have a version per stage",
    )
    TILES_NARROWED = ("tiles narrowed", "tiles of pipelined loops have the narrowest dtype that holds their values")
    SCHEDULE_CHOSEN = (
        "schedule chosen",
        "`LaunchPlan.schedule` says how threads and blocks share the work, if they do",
    )
    PERSISTENT_LOOPS = ("persistent loops written", "blocks that stay have a loop over their tiles of the grid")
    GRID_RASTERIZED = ("grid rasterized", "no launch asks for panels of its grid any more")
    REDUCTION_SPLIT = ("reduction split", "reduction loops with split-K are split among the blocks of a cluster")
    WARPS_SPECIALIZED = ("warps specialized", "producers and consumers of the schedule are groups of threads")
    REGISTER_TILES_FOUND = ("register tiles found", "tiles of serial loops that nobody shares are fragments")
    LOWERINGS_CHOSEN = ("lowerings chosen", "every operator names its lowering, and keeps the plan of it")
    STAGES_ASSIGNED = (
        "stages assigned",
        "statements of pipelined loops have a stage and a position",
    )
    NO_PIPELINED_LOOPS = ("no pipelined loops", "pipelines have their prologue, versions, commits and waits")
    ELEMENTS_IN_LOOPS = ("elements in loops", "operators that go element by element are parallel loops")
    SINGLE_PARALLEL_NESTS = ("single parallel nests", "no parallel loop stands in another one")
    FRAGMENTS_SPREADABLE = (
        "fragments spreadable",
        "every fragment is accessed in ways that a layout over threads allows",
    )
    LAYOUTS_INFERRED = ("layouts inferred", "fragments, parallel loops and shared tiles have their layouts")

    # thread level
    SUBSCRIPTS_CHECKED = ("subscripts checked", "accesses to memory on the chip are in range or asserted to be")
    LOOPS_FUSED = ("loops fused", "neighboring loops over the same range are one where that is worth it")
    VECTOR_LOOPS = ("vector loops marked", "loops over neighboring elements are of kind VECTORIZED")
    ACCESSES_VECTORIZED = ("accesses vectorized", "no VECTORIZED loop is left; accesses move up to 16 bytes")
    ACCESSES_IN_RANGE = ("accesses in range", "no access leaves its global tensor")
    PLACES_NAMED = ("places named", "mutable scalars that loops use in places of memory have names")
    ITERATIONS_OVERLAPPED = ("iterations overlapped", "statements of loops stand where they are to run")
    SHARED_MEMORY_PLANNED = ("shared memory planned", "every shared tile has its offset in the block's shared memory")
    BLOCK_BARRIERS_PLACED = ("block barriers placed", "barriers of the block order accesses to shared memory")
    GROUP_BARRIERS_PLACED = ("group barriers placed", "barriers of groups of threads order what they share")
    FENCES_PLACED = ("fences placed", "proxy fences stand between threads' writes and asynchronous hardware")
    SHARED_MEMORY_FLAT = ("shared memory flat", "shared tiles have one dimension, indexed by the place in memory")
    EXPRESSIONS_SHORT = ("expressions short", "expressions hold nothing that loops and conditions around them settle")
    STORES_STREAMED = ("stores streamed", "results larger than the caches are written past them")
    WARPS_RECONVERGED = ("warps reconverged", "warps that may be divergent are reconverged before they need it")
    TESTS_HOISTED = ("tests hoisted", "tests of unrolled loops compare a literal with a name from outside")

    @property
    def label(self) -> str:
        """Its name in messages and documents."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """What holds of a function that has it."""
        return self.value[1]


AS_WRITTEN = frozenset(
    {
        Property.LOOPS_AS_WRITTEN,
        Property.GRID_AS_WRITTEN,
        Property.BARRIERS_AS_WRITTEN,
        Property.OPERATORS_WHOLE,
        Property.ACCESSES_UNTESTED,
        Property.LOGICAL_INDICES,
    }
)
"""What holds of every function that the front end leaves."""


def in_order(*passes: Pass, holds: Iterable[Property] = (), gives: Iterable[Property] = ()) -> tuple[Pass, ...]:
    """The passes as a pipeline from what the front end leaves to what code generation prints.

    Args:
        passes: In the order in which they run.
        holds: What holds of all functions for the machine from the beginning on, since it has no passes that would do
            otherwise: on one without asynchronous copies no iteration overlaps another one.
        gives: What code generation requires of the last function, which is of thread level.

    Raises:
        CompilerBug: A pass stands where its function lacks a property or level that it requires.
    """
    level, held = Level.TILE, AS_WRITTEN | set(holds)
    for position, step in enumerate(passes):
        if step.reads is not level:
            raise CompilerBug(f"pass {step.name} reads {step.reads.value} level, but gets {level.value} level")
        for needed in step.requires:
            if needed not in held:
                raise CompilerBug(f"pass {step.name} requires '{needed.label}', {_why_not(needed, position, passes)}")
        level = step.writes
        held = (held - set(step.invalidates)) | set(step.establishes)
    for needed in gives:
        if needed not in held:
            raise CompilerBug(f"code generation requires '{needed.label}', {_why_not(needed, len(passes), passes)}")
    if level is not Level.THREAD:
        raise CompilerBug(f"code generation reads thread level, but gets {level.value} level")
    return passes


def _why_not(needed: Property, position: int, passes: tuple[Pass, ...]) -> str:
    """Why a property does not hold in front of the pass at a position."""
    for step in reversed(passes[:position]):
        if needed in step.invalidates:
            return f"which {step.name} in front of it invalidates"
    later = next((step.name for step in passes[position:] if needed in step.establishes), None)
    return "which no pass establishes" if later is None else f"which {later} establishes only behind it"
