"""Pipelines between partitions of a block, order barriers, waits for stores: records, and the statements that use them.

Names are those of CUTLASS: a producer acquires a stage, fills its tiles and commits it; a consumer waits for the stage,
reads its tiles and releases it. A pipeline state is the index of a stage and the phase of its fill, 0 and 1 in turns.
All stand at tile level only, in launches whose warps are specialized; each vendor lowers them to its own barriers, late
(`LaunchPlan.schedule` has the partitions). `ir.verify_pipelines` has the rules.
"""

from __future__ import annotations

from dataclasses import field

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import Group, Stmt
from tilelang.records import record


def barriers(name: str, count: int) -> Buffer:
    """So many barriers in shared memory, each an opaque object of 64 bits."""
    return Buffer(name, (const(count, INT32),), SCALARS["uint64"], Scope.BARRIER)


@record(slots=True, eq=False)
class Pipeline:
    """Tiles with several stages, which one partition fills and another one reads.

    Attributes:
        name: Its name in printed programs.
        tiles: The buffers. With several stages, the first dimension is that of the stages.
        stages: The number of stages.
        full: A barrier for each stage, at which consumers wait.
        empty: A barrier for each stage, at which the producer waits; None where no stage is filled twice, so that
            nothing is released.
        producer: The threads that fill it.
        consumers: The threads that read it.
        readers: How many of these read each fill.
        bytes: Bytes of each fill, by asynchronous copies that name the full barrier; 0 where threads store elements.
        only_mma_reads: Whether only matrix units read the tiles.
        blocks: Blocks of a cluster that fill a stage together; each of them reads what all have filled.
    """

    name: str
    tiles: tuple[Buffer, ...]
    stages: int
    full: Buffer
    empty: Buffer | None
    producer: Group
    consumers: Group
    readers: int
    bytes: int = 0
    only_mma_reads: bool = False
    blocks: int = 1

    def __str__(self) -> str:
        """The text of its initialization in printed programs."""
        tiles = ", ".join(tile.name for tile in self.tiles)
        parts = [f"{self.stages} stage{'s' if self.stages > 1 else ''} of {tiles}"]
        producer, consumers = (f"threads {each.first} to {each.end - 1}" for each in (self.producer, self.consumers))
        parts.append(f"{producer} {f'copy {self.bytes} bytes' if self.bytes else 'store elements'}")
        some = "" if self.readers == self.consumers.count else f"{self.readers} of "
        parts.append(f"{some}{consumers} read{' by matrix units only' if self.only_mma_reads else ''}")
        if self.blocks > 1:
            parts.append(f"shared by {self.blocks} blocks")
        return "; ".join(parts)


@record(slots=True, eq=False)
class OrderBarrier:
    """Lets groups of threads do something one after another, the first one after the last.

    Attributes:
        name: Its name in printed programs.
        groups: How many groups there are.
        threads: Threads of a group.
        barriers: A barrier for each group, whose phases count its turns; None where a group that has had its turn waits
            for the next one before all others have had two.
    """

    name: str
    groups: int
    threads: int
    barriers: Buffer | None = None

    def __str__(self) -> str:
        """The text of its initialization in printed programs."""
        return f"{self.groups} groups of {self.threads} threads"


@record(eq=False)
class PipelineStmt(Stmt):
    """Base class of the statements on pipelines and order barriers; they access no memory but barriers."""


@record(eq=False)
class InitPipelines(PipelineStmt):
    """Initializes pipelines and order barriers; all threads of the block wait, and those of blocks that share any.

    Attributes:
        pipelines: The pipelines.
        orders: The order barriers.
        counted: Further barriers, each of which completes a phase with one arrival and all announced bytes.
    """

    pipelines: tuple[Pipeline, ...] = ()
    orders: tuple[OrderBarrier, ...] = ()
    counted: tuple[Region, ...] = ()

    @property
    def barriers(self) -> tuple[Buffer, ...]:
        """The barriers in memory that it initializes."""
        found = [each for pipeline in self.pipelines for each in (pipeline.full, pipeline.empty)]
        found += [order.barriers for order in self.orders]
        found += [region.buffer for region in self.counted]
        return tuple(each for each in found if each is not None)


@record(eq=False)
class Acquire(PipelineStmt):
    """The producer waits until a stage is empty, and announces the bytes of the copies that will fill it."""

    pipeline: Pipeline
    index: Expr
    phase: Expr


@record(eq=False)
class Commit(PipelineStmt):
    """The producer has filled a stage, or issued all copies that do."""

    pipeline: Pipeline
    index: Expr


@record(eq=False)
class Wait(PipelineStmt):
    """A consumer waits until a stage is full."""

    pipeline: Pipeline
    index: Expr
    phase: Expr


@record(eq=False)
class Release(PipelineStmt):
    """Consumers have read the tiles of a stage."""

    pipeline: Pipeline
    index: Expr


@record(eq=False)
class ReleaseTo(PipelineStmt):
    """In the rest of the sequence, releases of a pipeline are for the producers of several blocks of a cluster.

    Attributes:
        pipeline: The pipeline.
        blocks: Their ranks.
    """

    pipeline: Pipeline
    blocks: tuple[Expr, ...]


@record(eq=False)
class OrderWait(PipelineStmt):
    """Waits for the turn of a group.

    Attributes:
        order: The order barrier.
        member: The group that waits; None for that of each executing thread.
        phase: The phase of its barrier; None without barriers.
    """

    order: OrderBarrier
    member: int | None = None
    phase: Expr | None = field(default=None, kw_only=True)


@record(eq=False)
class OrderArrive(PipelineStmt):
    """Ends the turn of a group, of which it may be any: the next one may go on.

    Attributes:
        order: The order barrier.
        member: The group whose turn ends; None for that of each executing thread.
    """

    order: OrderBarrier
    member: int | None = None


@record(eq=False)
class StoreWait(PipelineStmt):
    """Waits for all asynchronous stores of the executing thread.

    Attributes:
        read: Whether it is enough that their tiles have been read, and may be written again.
    """

    read: bool
