"""Decides whether threads of a block specialize, some bringing tiles and others computing, and how they share work.

Takes a target's table of lowerings; gives the pass, which writes `plan.schedule`. Invariant: nothing else changes in
the program but that tiles may get longer rows (`roles.widening`), and that blocks may become those of clusters
(`choose_cluster`); what is wished for in `pass_configs` is kept wherever that is possible, and why there is no schedule
is among the notes of the launch where the user might expect one.

The choices follow measurements on an H200 of kernels that were written by hand: warpgroups of 64 rows each or multiples
of it, as many versions of a tile as hide the latency of memory, blocks that stay as long as there are more tiles than
multiprocessors, and results that leave through shared memory while the next tile is computed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, CallStmt, For, If, Launch, ParallelLoop, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, any_expr, walk
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.passes.tile import demote_fragments, expand_to_loops, flatten_parallel
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.machines import REGISTERS_PER_SM, WARP_SIZE, Feature
from tilelang.targets.nvidia.passes.choose_cluster import Extents, cluster_of, in_clusters, is_cut, not_clustered
from tilelang.targets.nvidia.passes.roles.abilities import Roles, roles_of, rounded
from tilelang.targets.nvidia.passes.roles.epilogue import releasing
from tilelang.targets.nvidia.passes.roles.flight import only_product
from tilelang.targets.nvidia.passes.roles.rings import Ring, Rings, flat, is_pipelined, trips
from tilelang.targets.nvidia.passes.roles.room import room_of
from tilelang.targets.nvidia.passes.roles.widening import widened
from tilelang.targets.nvidia.passes.split_sums import Unsplit, split
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule

_PANEL = 16  # rows of tiles that are walked together; 8 to 32 were the same
_SHALLOW = 2048  # a sum of fewer products does not take long beside storing it
# With 3, one of which is being read, 128x192 tiles at K = 1024 took 12 % longer in turns than shared
_STAGES_OF_TURNS = 4
# Registers for sums that one warpgroup may as well hold. Two with 64x128 each have products of 256 cycles or less, so
# that neither covers the other's wait: at 4096^3 128x128x32 reached 0.85 of cuBLAS with two, and 0.97 to 1.00 with one.
_FEW_SUMS = 128
_SHORT = 64 * 128 * 64 * 16  # such a product: its rows, columns, depth, and bits of an operand, multiplied
_OTHER_REGISTERS = 40  # of a thread, for addresses, loops and what is on its way
# What else is on its way where loops over tiles load elements themselves: with 168 registers for everything, ptxas 13.0
# kept 30 of a residual beside 128 sums in local memory, and 68 of a ragged bias beside 96; with 240 none
_LOADING_REGISTERS = 40
_ROWS_OF_THREAD = 2  # of the results of a product, in each 64 rows

# Registers of a consumer's and a producer's thread, per number of consumers. Source: PTX ISA, "setmaxnreg"; all of a
# block together have as many as it is launched with, which is the multiple of 8 below 65536 / threads.
_REGISTERS = {1: (240, 40), 2: (240, 24), 3: (160, 32), 4: (112, 32)}
# A producer that counts its turns itself, or computes scalars, needs more
_REGISTERS_COUNTING = {**_REGISTERS, 2: (232, 40)}


class _Unfit(Exception):
    """Why a launch gets no schedule, in a few words."""


def choose_schedule(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        if not context.target.has(Feature.TMA | Feature.WGMMA | Feature.MBARRIER):
            return func
        body = _Launches(func, roles_of(func, lowerings, context)).visit(func.body) or Seq((), loc=func.body.loc)
        return func if body is func.body else dataclasses.replace(func, body=body)

    return Pass(
        "choose_schedule", run, Level.TILE, Level.TILE,
        requires=(
            Property.GRID_AS_WRITTEN,
            Property.TENSORS_DIRECT,
            Property.OPERATORS_WHOLE,
            Property.TILES_NARROWED,
            Property.USER_PIPELINES_VERSIONED,
        ),
        establishes=(Property.SCHEDULE_CHOSEN,),
    )


class _Launches(Rewriter):
    def __init__(self, func: PrimFunc, roles: Roles) -> None:
        self._func, self._roles = func, roles

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        wanted = [s for s in walk(node.body) if isinstance(s, For) and is_pipelined(s)]
        if not any(isinstance(s, Gemm) for loop in wanted for s in walk(loop)):
            return node
        wide = widened(node, self._roles.layouts)
        choice = _Choice(self._func, wide, self._roles)
        try:
            schedule = choice.schedule()
        except _Unfit as why:
            note = Note(f"not specialized: {why}", node.loc)
            return dataclasses.replace(node, plan=dataclasses.replace(node.plan, notes=(*node.plan.notes, note)))
        node = wide
        notes = [*node.plan.notes, Note(f"specialized: {schedule}", node.loc), *choice.notes]
        for loop in wanted:
            asked = 0 if loop.pipeline is None else loop.pipeline.num_stages
            if schedule.stages < asked:
                notes.append(Note(f"T.Pipelined: {schedule.stages} of {asked} stages fit or are of use", loop.loc))
        parts = self._roles.context.options.schedule.staged or 1
        if parts > 1 and schedule.staged != parts:
            notes.append(Note(f"tl.staged: no results have rows of {parts} equal parts that can be stored", node.loc))
        if (told := releasing(node)) is not None:
            notes.append(Note("results are stored by threads: other blocks are told of them", told.loc))
        hints = dataclasses.replace(node.hints, cluster=schedule.cluster)
        plan = dataclasses.replace(node.plan, schedule=schedule, notes=tuple(notes))
        return dataclasses.replace(node, hints=hints, plan=plan)


class _Choice:
    """The choices for one launch.

    Attributes:
        notes: What was asked for and is not done, and what the producer computes itself.
    """

    def __init__(self, func: PrimFunc, launch: Launch, roles: Roles) -> None:
        self._func, self._given, self._roles = func, launch, roles
        self._kept: dict[Launch, list[Buffer]] = {}
        self._launch = flat(launch)
        self._target = roles.context.target
        self._wishes = roles.context.options.schedule
        self._split = 1  # blocks that share the sums of a tile
        self.notes: list[Note] = []

    def schedule(self) -> Schedule:
        """The schedule.

        Raises:
            _Unfit: There is none, or none that pays.
        """
        self._check_launch()
        rings = self._roles.rings(self._launch)
        products = self._products(rings, [ring for ring in rings.found if ring.pipelined])
        consumers = self._consumers(products)
        self.notes += self._computed(rings.found)
        if (blocks := self._wishes.split or 1) > 1:
            try:
                return self._of_parts(blocks, consumers)
            except (_Unfit, Unsplit) as why:
                self.notes.append(Note(f"tl.split: blocks do not share sums, since {why}", self._launch.loc))
                self._split, self._launch = 1, flat(self._given)
        return self._of_tiles(rings, consumers)

    def _of_parts(self, blocks: int, consumers: int) -> Schedule:
        """The schedule of so many blocks that share the sums of a tile."""
        if cluster_of(self._launch, self._wishes.cluster)[0] != (1, 1, 1):
            raise _Unfit("blocks run in clusters already")
        if self._wishes.persistent:
            raise _Unfit("tl.persistent lets blocks stay for several tiles")
        self._split, self._launch = blocks, split(self._launch, blocks, consumers)
        return self._best(self._roles.rings(self._launch), consumers, persistent=False)

    def _of_tiles(self, rings: Rings, consumers: int) -> Schedule:
        """The schedule of blocks that do whole tiles."""
        cluster, reason = cluster_of(self._launch, self._wishes.cluster, rings.found)
        made = self._in_clusters(rings, consumers, cluster)
        if made.cluster != cluster:  # which is not the one of the kernel: that one stays
            made = self._in_clusters(rings, consumers, self._launch.hints.cluster)
        if reason:
            self.notes.append(not_clustered(self._launch, reason))
        return made

    def _in_clusters(self, rings: Rings, consumers: int, cluster: Extents) -> Schedule:
        """The same in clusters of these extents, or in none if there is no use in that and nobody says so."""
        made = self._best(rings, consumers, persistent=self._persistent(cluster))
        made, notes = in_clusters(made, self._launch, rings.found, self._roles, cluster)
        if cluster == self._launch.hints.cluster or self._wishes.cluster is not None:  # somebody asks for it
            self.notes += notes
        return made

    def _best(self, rings: Rings, consumers: int, *, persistent: bool) -> Schedule:
        """The schedule of so many warpgroups that share a tile, as long as nothing else is better."""
        only = self._only_product(rings.found)
        turns = persistent and self._takes_turns(consumers, rings.found)
        made = self._fitted(rings, only, consumers, persistent, ping_pong=turns)
        if made.ping_pong and not self._wishes.ping_pong and made.stages < _STAGES_OF_TURNS:
            made = self._fitted(rings, only, consumers, persistent, ping_pong=False)
        if persistent and not made.ping_pong and self._is_better_alone(only):
            made = self._fitted(rings, only, 1, persistent, ping_pong=False)
        return made

    def _fitted(
        self, rings: Rings, only: Gemm | None, consumers: int, persistent: bool, *, ping_pong: bool
    ) -> Schedule:
        """The schedule with as many stages as fit, for so many warpgroups that share a tile, or two that take turns."""
        pipelined = [ring for ring in rings.found if ring.pipelined]
        together = 1 if ping_pong else consumers  # warpgroups that share a tile
        exits = self._roles.exits(self._launch, together * WARPGROUP_THREADS)
        room = room_of(
            self._launch,
            rings.found,
            exits,
            self._target.machine.shared_bytes,
            self._wishes,
            persistent=persistent,
            at_once=2 if ping_pong else 1,
            kept=self._kept_in_shared(),
        )
        if isinstance(room, str):
            raise _Unfit(room)
        consumers = 2 if ping_pong else consumers
        return Schedule(
            consumers,
            room.stages,
            room.tile_stages,
            *self._producer(consumers, together, rings.found),
            persistent=persistent,
            panel=self._panel(pipelined) if persistent else None,
            staged=room.staged,
            in_flight=1 if ping_pong else self._in_flight(consumers, room.stages, only),
            ping_pong=ping_pong,
            split=self._split,
        )

    def _kept_in_shared(self) -> list[Buffer]:
        """The fragments that threads cannot hold, as it will turn out."""
        if self._launch not in self._kept:
            func = dataclasses.replace(self._func, body=self._launch)
            for step in (expand_to_loops.PASS, flatten_parallel.PASS):
                func = step.run(func, self._roles.context)
            launch = next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
            reasons = demote_fragments.judged(func, launch)
            self._kept[self._launch] = [buffer for buffer, reason in reasons.items() if reason]
        return self._kept[self._launch]

    def _check_launch(self) -> None:
        """Refuses launches that say what single threads do, or where they are."""
        launch = self._launch
        if not self._wishes.specialized:
            raise _Unfit("switched off by pass_configs")
        for stmt in walk(launch.body):
            if isinstance(stmt, CallStmt):
                raise _Unfit(f"the kernel calls {stmt.routine.name} itself")
            if isinstance(stmt, TileOp) and stmt.demanded:
                raise _Unfit(f"the kernel calls {stmt.name} itself")
            if isinstance(stmt, Gemm) and stmt.wait:
                raise _Unfit("the kernel says itself when a product is waited for")
            if launch.thread is not None and any_expr(stmt, lambda e: e is launch.thread):
                raise _Unfit("the kernel names the threads")

    def _computed(self, rings: Sequence[Ring]) -> list[Note]:
        """Which scalars the producer computes, too."""
        needed = frozenset[Buffer]().union(*(ring.origins().buffers for ring in rings))
        names = [f"'{s.buffer.name}'" for s in walk(self._launch.body) if isinstance(s, Alloc) and s.buffer in needed]
        return [Note(f"the producer computes {', '.join(names)} for itself", self._launch.loc)] if names else []

    # -- who computes -------------------------------------------------------------------------------------------
    def _products(self, rings: Rings, pipelined: Sequence[Ring]) -> list[Gemm]:
        """The products of pipelined loops, whose operands must all come by rings."""
        brought = {tile for ring in rings.found for tile in ring.tiles}
        filled = {copy.dst.buffer: (copy, reason) for copy, reason in rings.refused}
        loops = [s for s in walk(self._launch.body) if isinstance(s, For) and is_pipelined(s)]
        products = [s for loop in loops for s in walk(loop) if isinstance(s, Gemm)]
        for product in products:
            for operand in (product.a.buffer, product.b.buffer):
                if operand in filled and operand not in brought:
                    copy, reason = filled[operand]
                    raise _Unfit(f"{_line(copy)}T.copy to '{operand.name}': {reason}")
        if not pipelined:
            raise _Unfit("no copy of a pipelined loop brings a tile that others use")
        return list(dict.fromkeys(products))

    def _consumers(self, products: Sequence[Gemm]) -> int:
        """Warpgroups that compute: 64 rows of a product for each, or a multiple of that."""
        threads, fixed = self._given.num_threads, self._fixed_threads()
        if fixed and threads % WARPGROUP_THREADS:
            raise _Unfit(f"the kernel says what each of {threads} threads holds, which are no whole warpgroups")
        wish = threads // WARPGROUP_THREADS if fixed else self._wishes.consumers
        reasons = []
        for count in (wish,) if wish else (2, 3, 1):
            reason = self._unfit_consumers(count, products, wished=wish is not None)
            if not reason:
                return count
            reasons.append(reason)
        raise _Unfit(reasons[-1])

    def _unfit_consumers(self, count: int, products: Sequence[Gemm], *, wished: bool) -> str:
        """Why so many warpgroups are not the right number; empty if they are."""
        threads = count * WARPGROUP_THREADS
        fitting = [p for p in products if not self._roles.refuses(p, threads)]
        if not fitting:
            return f"{_line(products[0])}T.gemm: {self._roles.refuses(products[0], threads)}"
        rows = [int_const(product.sizes[0]) or 0 for product in fitting]
        if not wished and count > 1 and any(-(-m // ROWS) % count for m in rows):
            return f"{count} warpgroups do not divide the rows of a product"
        needed, most = self._registers(count), _REGISTERS.get(count, (0, 0))[0]
        if needed + _OTHER_REGISTERS > most + WARP_SIZE // 2:
            return f"tiles take {needed} registers of a thread"
        return ""

    def _fixed_threads(self) -> bool:
        """Whether the kernel says which thread holds what."""
        if any(isinstance(layout, Fragment) for _, layout in self._launch.hints.layouts):
            return True
        return any(isinstance(s, ParallelLoop | Copy) and s.layout is not None for s in walk(self._launch.body))

    def _registers(self, consumers: int) -> int:
        """Registers of a thread that hold tiles: its share of each, and some elements of each row."""
        tiles = [s.buffer for s in walk(self._launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.FRAGMENT]
        owned = {s.own.buffer for s in walk(self._launch.body) if isinstance(s, ClusterSum) and s.owners > 1}
        # a view has no registers of its own, and what a block owns follows on the sums of which it is a part
        tiles = [tile for tile in tiles if tile not in owned and tile.view_of is None]
        products = [s for s in walk(self._launch.body) if isinstance(s, Gemm)]
        tiles += [rounded(p, 0).buffer for p in products if p.a.dtype != p.operands[0]]
        bits = sum((tile.bytes or 0) * 8 for tile in tiles if tile.rank > 1)
        rows = sum(tile.rank == 1 for tile in tiles) * _ROWS_OF_THREAD
        return -(-bits // (32 * consumers * WARPGROUP_THREADS)) + rows

    def _producer(self, consumers: int, together: int, rings: Sequence[Ring]) -> tuple[int, tuple[int, int] | None]:
        """Threads of the producer, and the registers that it leaves to consumers, so many of which share a tile."""
        alone = WARP_SIZE + consumers * WARPGROUP_THREADS
        # the machine rounds threads up to warpgroups, and registers down to a multiple of 8
        given = min(REGISTERS_PER_SM // (-(-alone // WARPGROUP_THREADS) * WARPGROUP_THREADS) // 8 * 8, 255)
        needed = self._registers(together) + _OTHER_REGISTERS + (_LOADING_REGISTERS if self._loads() else 0)
        counts = any(self._counts(ring) or ring.origins().statements for ring in rings)
        registers = (_REGISTERS_COUNTING if counts else _REGISTERS)[consumers]
        if needed <= given or registers[0] <= given or not self._launch.hints.move_registers:
            return WARP_SIZE, None
        return WARPGROUP_THREADS, registers

    def _loads(self) -> bool:
        """Whether loops over tiles read global memory element by element, such as a bias."""
        nests = [s for s in walk(self._launch.body) if isinstance(s, ParallelLoop)]
        return any(
            any_expr(s, lambda e: isinstance(e, Load) and e.buffer.scope is Scope.GLOBAL)
            for nest in nests
            for s in walk(nest)
        )

    def _in_flight(self, consumers: int, stages: int, only: Gemm | None) -> int:
        """Products that overlap the next: where those of other warpgroups do not keep the machine busy meanwhile."""
        if self._wishes.in_flight is not None:
            return self._wishes.in_flight
        return int(consumers == 1 or only is not None and stages >= _STAGES_OF_TURNS and _is_short(only, consumers))

    def _is_better_alone(self, only: Gemm | None) -> bool:
        """Whether a tile whose products would be short is better computed by one warpgroup than by two."""
        if self._wishes.consumers is not None or self._fixed_threads() or only is None or not _is_short(only, 2):
            return False
        return self._registers(1) <= _FEW_SUMS and not self._unfit_consumers(1, (only,), wished=True)

    def _only_product(self, rings: Sequence[Ring]) -> Gemm | None:
        """The product of the only loop, if a loop of it is what a launch consists of, beside what rings bring."""
        loops = [s for s in walk(self._launch.body) if isinstance(s, For) and _is_of_tiles(s)]
        return only_product(loops[0], rings) if len(loops) == 1 else None

    def _takes_turns(self, consumers: int, rings: Sequence[Ring]) -> bool:
        """Whether two warpgroups take turns with tiles: where storing them takes long beside computing them.

        It does in loops of few products, and where one warpgroup would otherwise do everything.
        """
        if self._wishes.ping_pong is False or any(self._counts(ring) for ring in rings):
            return False
        body = self._launch.body.body if isinstance(self._launch.body, Seq) else ()
        loops = [s for s in body if isinstance(s, For) and _is_of_tiles(s)]
        products = [only_product(loop, rings) for loop in loops]
        if len(loops) != 1 or products[0] is None or self._unfit_consumers(1, (products[0],), wished=True):
            return False
        brought = {tile for ring in rings for tile in ring.tiles}
        exits = {made.staging for made in self._roles.exits(self._launch, WARPGROUP_THREADS)}
        tiles = {s.buffer for s in body if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED}
        if tiles - brought - exits:
            return False
        depth = (int_const(trips(loops[0])) or 0) * (int_const(products[0].sizes[2]) or 0)
        return self._wishes.ping_pong or (consumers == 1 or depth < _SHALLOW) and self._wishes.consumers is None

    def _counts(self, ring: Ring) -> bool:
        """Whether only counting tells how often a ring was filled: its loops differ from tile to tile."""
        if any(isinstance(step, If) for step in ring.path):
            return True  # also a branch around all loops, once tiles follow each other
        origins = ring.scalars.origins(trips(step) for step in ring.path if isinstance(step, For))
        differs = bool(origins.buffers) or not origins.variables.isdisjoint(self._launch.block_vars)
        return differs or ring.uses().number is None

    # -- which tiles of the grid ----------------------------------------------------------------------------------
    def _persistent(self, cluster: Extents) -> bool:
        """Whether blocks stay for several tiles: if there are more than run at once.

        Those of a cluster stay only where whole clusters surely make the grid: the launch no longer tells. They stay
        although data may say how long the loops of each tile are: with 1 to 7 iterations of a product and much
        arithmetic 57 us instead of 66 us, although the machine would balance the work better.
        """
        if not is_cut(self._launch, cluster):
            return False
        if self._wishes.persistent is not None:
            return self._wishes.persistent
        counts = [int_const(extent) for extent in self._launch.grid]
        known = [count for count in counts if count is not None]
        return len(known) < len(counts) or math.prod(known) > self._target.machine.blocks_at_once(
            math.prod(cluster)
        )

    def _panel(self, pipelined: Sequence[Ring]) -> tuple[int, str] | None:
        """How the grid is walked: in panels if neighbors along both dimensions share tiles."""
        if self._launch.hints.swizzle is not None:
            return self._launch.hints.swizzle
        if len(self._launch.grid) < 2:
            return None
        x, y = self._launch.block_vars[:2]
        named = [ring.origins(copy).variables for ring in pipelined for copy in ring.copies]
        shared = any(x not in names for names in named) and any(y not in names for names in named)
        both = any(x in names for names in named) and any(y in names for names in named)
        return (_PANEL, "row") if shared and both else None


def _is_short(product: Gemm, warpgroups: int) -> bool:
    """Whether the others' shares of a product are done before a warpgroup can begin the next one."""
    work = math.prod(int_const(size) or 0 for size in product.sizes) * product.operands[0].bits
    return work * (warpgroups - 1) <= _SHORT * warpgroups


def _is_of_tiles(loop: For) -> bool:
    """Whether a loop does more than to compute scalars."""
    return any(isinstance(s, TileOp | ParallelLoop) for s in walk(loop))


def _line(stmt: Stmt) -> str:
    return f"line {stmt.loc.line}: " if stmt.loc.line else ""
