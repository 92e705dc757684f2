"""Properties of a function between two passes, which passes require, establish and invalidate.

`build_pipeline` checks that every pass of a pipeline has the properties that it requires.
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
    """A property of a whole function: (label in messages and documents, meaning)."""

    # of every function that the front end makes
    LOOPS_AS_WRITTEN = ("loops as written", "all loops, operators, minima and maxima are the user's")
    GRID_AS_WRITTEN = ("grid as written", "block indices are those of the user's grid")
    BARRIERS_AS_WRITTEN = ("barriers as written", "all transaction barriers and async copy groups are the user's")
    OPERATORS_UNEXPANDED = ("operators unexpanded", "operators that are lowered by loops are still operators")
    ACCESSES_UNPREDICATED = (
        "accesses unpredicated",
        "out of bounds of global memory, a load gives the safe value and a store does nothing, without a predicate",
    )
    LOGICAL_INDICES = (
        "logical indices",
        "accesses to shared memory have indices of the tile, not offsets in memory",
    )

    # tile level
    WARP_SIZE_KNOWN = ("warp size known", "the size of a warp is a number, and masks of lanes have as many bits")
    NO_OPTIONAL_CALLS = ("no optional calls", "no call of an optional instruction that the target lacks")
    FRAGMENTS_COVER_LOOPS = ("fragments cover loops", "fragments have every element that parallel loops index")
    RULES_CHECKED = ("rules checked", "operands fit their operators, and no access is provably out of bounds")
    FLAGS_REDUCED = ("flags reduced", "flags that iterations of a parallel loop set are reductions")
    NO_LIBRARY_OPERATORS = ("no library operators", "no sort, top-k, arg-reduction, gather or scatter of rows")
    SUBSCRIPTS_AFFINE = ("subscripts affine", "subscripts use no names that are bound to index arithmetic")
    TENSOR_LAYOUTS_APPLIED = ("tensor layouts applied", "no global tensor has an annotated layout")
    THREAD_GROUPS_DETECTED = (
        "thread groups detected",
        "branches that whole neighboring warps take are marked with their `Group`",
    )
    USER_PIPELINES_VERSIONED = (
        "user's pipelines versioned",
        "tiles and barriers of loops that the user synchronizes have a version per stage",
    )
    TILE_DTYPES_NARROWED = (
        "tile dtypes narrowed",
        "tiles of pipelined loops have the narrowest dtype that holds their values",
    )
    SCHEDULE_CHOSEN = ("schedule chosen", "`LaunchPlan.schedule` has partitions, stages and clusters, if there are any")
    PERSISTENT_LOOPS_INSERTED = (
        "persistent loops inserted",
        "blocks of a persistent launch loop over tiles of the grid",
    )
    GRID_RASTERIZED = ("grid rasterized", "no launch has a `T.use_swizzle` request")
    REDUCTION_SPLIT = ("reduction split", "the cluster split-K of the schedule is written out")
    WARPS_SPECIALIZED = ("warps specialized", "producers and consumers of the schedule are groups of threads")
    TILES_PROMOTED = ("tiles promoted", "tiles of serial loops whose elements no two threads share are fragments")
    LOWERINGS_CHOSEN = ("lowerings chosen", "every operator has the name and plan of its lowering")
    STAGES_ASSIGNED = ("stages assigned", "statements of pipelined loops have a stage and an order")
    NO_PIPELINED_LOOPS = ("no pipelined loops", "pipelines have their prologue, versions, commits and waits")
    OPERATORS_EXPANDED = ("operators expanded", "operators that are lowered by loops are parallel loops")
    PARALLEL_LOOPS_FLAT = ("parallel loops flat", "no parallel loop is nested in another one")
    FRAGMENTS_DISTRIBUTABLE = (
        "fragments distributable",
        "all accesses to a fragment are such that a layout can distribute it over threads",
    )
    LAYOUTS_INFERRED = ("layouts inferred", "fragments, parallel loops and shared tiles have their layouts")

    # thread level
    SUBSCRIPTS_CHECKED = ("subscripts checked", "accesses to on-chip memory are proven or asserted to be in bounds")
    LOOPS_FUSED = ("loops fused", "neighboring loops over the same range are fused where that is profitable")
    VECTOR_LOOPS = ("vector loops marked", "loops over contiguous elements are of kind VECTORIZED")
    ACCESSES_VECTORIZED = ("accesses vectorized", "no loop is of kind VECTORIZED; accesses move up to 16 bytes")
    ACCESSES_IN_RANGE = ("accesses in range", "no access to a global tensor is out of bounds")
    SCALAR_LOADS_HOISTED = (
        "scalar loads hoisted",
        "subscripts in loops use no mutable scalar that is loop-invariant",
    )
    SHARED_MEMORY_ALLOCATED = (
        "shared memory allocated",
        "every shared buffer has its offset in the block's shared memory",
    )
    BLOCK_BARRIERS_INSERTED = ("block barriers inserted", "block barriers order conflicting accesses to shared memory")
    GROUP_BARRIERS_INSERTED = ("group barriers inserted", "barriers of thread groups order accesses within each group")
    PROXY_FENCES_INSERTED = (
        "proxy fences inserted",
        "proxy fences separate writes of threads from accesses through the async proxy",
    )
    SHARED_MEMORY_FLAT = ("shared memory flat", "shared buffers have one dimension, indexed by offset in memory")
    EXPRESSIONS_SIMPLIFIED = (
        "expressions simplified",
        "expressions have nothing that facts of enclosing loops and conditions decide",
    )
    STORES_STREAMED = ("stores streamed", "results larger than the caches are written by non-temporal stores")
    WARPS_RECONVERGED = ("warps reconverged", "warps that may be divergent reconverge before warp-wide instructions")
    COMPARANDS_HOISTED = (
        "comparands hoisted",
        "comparisons in unrolled loops compare a literal with a loop-invariant name",
    )

    @property
    def label(self) -> str:
        """The name in messages and documents."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """The statement that holds for functions with the property."""
        return self.value[1]


INITIAL = frozenset(
    {
        Property.LOOPS_AS_WRITTEN,
        Property.GRID_AS_WRITTEN,
        Property.BARRIERS_AS_WRITTEN,
        Property.OPERATORS_UNEXPANDED,
        Property.ACCESSES_UNPREDICATED,
        Property.LOGICAL_INDICES,
    }
)
"""Properties of every function that the front end makes."""


def build_pipeline(
    *passes: Pass, assumes: Iterable[Property] = (), establishes: Iterable[Property] = ()
) -> tuple[Pass, ...]:
    """Checks the order of the passes of a target, from the front end to code generation, and returns them.

    Args:
        passes: In the order in which they run.
        assumes: Properties that all functions for the machine have from the start, since it lacks the passes that
            would break them: without asynchronous copies, no iteration overlaps another one.
        establishes: Properties that code generation requires of the last function, which is at thread level.

    Raises:
        CompilerBug: A pass would run on a function without a property or level that it requires.
    """
    level, held = Level.TILE, INITIAL | set(assumes)
    for position, step in enumerate(passes):
        if step.reads is not level:
            raise CompilerBug(f"pass {step.name} reads {step.reads.value} level, but gets {level.value} level")
        for needed in step.requires:
            if needed not in held:
                raise CompilerBug(f"pass {step.name} requires '{needed.label}', {_why_not(needed, position, passes)}")
        level = step.writes
        held = (held - set(step.invalidates)) | set(step.establishes)
    for needed in establishes:
        if needed not in held:
            raise CompilerBug(f"code generation requires '{needed.label}', {_why_not(needed, len(passes), passes)}")
    if level is not Level.THREAD:
        raise CompilerBug(f"code generation reads thread level, but gets {level.value} level")
    return passes


def _why_not(needed: Property, position: int, passes: tuple[Pass, ...]) -> str:
    """Why a property does not hold before the pass at `position`."""
    for step in reversed(passes[:position]):
        if needed in step.invalidates:
            return f"which {step.name} before it invalidates"
    later = next((step.name for step in passes[position:] if needed in step.establishes), None)
    return "which no pass establishes" if later is None else f"which {later} establishes only after it"
