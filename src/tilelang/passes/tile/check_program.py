"""Checks semantic rules of a whole program: operators, on-chip bounds, independence, manually ordered pipelines.

Takes a tile-level function and returns it unchanged. Invariant: after it, operands fit their operators, no access is
provably out of bounds of on-chip memory, and no iterations of a `T.Parallel` loop provably depend on each other.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence

from tilelang.analysis.accesses import Access, Context, accesses, negation
from tilelang.analysis.dependence import check_parallel
from tilelang.analysis.dropped_stores import warn_of_dropped_stores
from tilelang.analysis.fixed_layouts import fixed_layouts
from tilelang.analysis.stage_order import Dependence, keeps, nearest_legal
from tilelang.analysis.subscripts import Comparison
from tilelang.arith.domain import Domain, of_function
from tilelang.arith.interval import bounds
from tilelang.arith.prove import proves
from tilelang.arith.ranges import Interval, add, scale
from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, Loc, NoLowering, Note, ProgramError, ProgramValueError, ResourceError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.conversion import STOCHASTIC, refuse_stochastic
from tilelang.ir.expr import Binary, Call, Const, Expr, Load, Var, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import effectful
from tilelang.ir.stmt import Bind, CallStmt, For, Launch, ParallelLoop, Store, TileOp
from tilelang.ir.verify import verify
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.isa.instruction import PORTABLE, Effect, Instruction
from tilelang.language.random_numbers import SEQUENCE_OF_THREAD
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.properties import Property
from tilelang.saved_schedule import Placement
from tilelang.targets.machine import NOTHING, Machine
from tilelang.targets.registry import families
from tilelang.targets.target import Target
from tilelang.transforms.specialize_symbols import generalize

_UNCHECKED = (Scope.GLOBAL, Scope.BARRIER)


def check_program(func: PrimFunc, context: PassContext | None = None) -> PrimFunc:
    """The function unchanged, if it obeys the rules of the language.

    Raises:
        ProgramError: The first rule that is violated, with its location.
        NoLowering: The program uses single threads, and the target has none.
        ResourceError: A grid or cluster is larger than the target can launch.
    """
    checked, func = func, generalize(func)  # facts about the arguments of one call must not cause errors
    target = (context or PassContext()).target
    machine = target.machine
    verify(func, warp_size=machine.warp_size)
    if target.is_gpu:
        _check_features(func, target)
        _check_grids(func, machine)
    else:
        refuse_threads(func, "target cpu", "share the work with T.Parallel and tile operators, or compile for a GPU")
    launches: list[Launch] = []
    for stmt in walk(func.body):
        for node in (node for root in expressions(stmt) for node in walk_expr(root) if isinstance(node, Call)):
            if node.callee is STOCHASTIC:
                with stmt.loc:
                    refuse_stochastic(node.dtype)
        if isinstance(stmt, TileOp):
            with stmt.loc:
                stmt.check()
        elif isinstance(stmt, ParallelLoop):
            _check_iterations(stmt)
        elif isinstance(stmt, Launch):
            launches.append(stmt)
    around = _with_blocks(of_function(func), launches)
    for launch in launches:
        with launch.loc:
            _check_launch(launch, around, machine.max_threads)
    warn_of_dropped_stores(func, {})
    return checked


# operators that write each element once, so that iterations can execute them in parallel
_BY_ELEMENT = (AtomicTile, Copy, Fill, Im2Col, Transpose)


def _check_iterations(loop: ParallelLoop) -> None:
    """Refuses collective operators in the iterations of a parallel loop.

    Raises:
        ProgramValueError: At the first one.
    """
    for stmt in walk(loop.body):
        if isinstance(stmt, TileOp) and not isinstance(stmt, _BY_ELEMENT):
            raise ProgramValueError(
                f"{stmt.name}: is inside of a T.Parallel loop, whose iterations run in parallel",
                loc=stmt.loc,
                hint="write it before or after the loop, or T.serial instead of T.Parallel around it",
            )


def refuse_threads(func: PrimFunc, where: str, hint: str) -> None:
    """Refuses a program that uses single threads.

    Raises:
        NoLowering: At the first statement that does.
    """
    threads = {launch.thread for launch in walk(func.body) if isinstance(launch, Launch) and launch.thread is not None}
    for stmt in walk(func.body):
        inside = [e for root in expressions(stmt) for e in walk_expr(root)]
        name = ""
        if isinstance(stmt, CallStmt):
            name = stmt.name
        elif any(e in threads for e in inside):
            calls = (s.written for s in walk(stmt) if isinstance(s, CallStmt) and s.loc == stmt.loc)
            name = next(filter(None, calls), "the thread index")  # such as T.alloc_barrier, which one thread does
            if isinstance(stmt, Bind) and stmt.var.name.startswith(SEQUENCE_OF_THREAD):
                name = "T.rng_init without seq"
                hint = "name the sequence: T.rng_init(seed, bx), or T.rng_init(seed, i) in a T.Parallel loop over i"
        elif any(_is_wide(e.buffer, e.dtype) for e in inside if isinstance(e, Load)) or (
            isinstance(stmt, Store) and _is_wide(stmt.buffer, stmt.value.dtype)
        ):
            name = "an access to several elements at once"
        if name:
            with stmt.loc:
                raise NoLowering(
                    f"{name}: is for single GPU threads, and {where} has none", hint=hint
                )


def _is_wide(buffer: Buffer, dtype: DType) -> bool:
    return dtype.lanes > buffer.dtype.lanes


def _check_features(func: PrimFunc, target: Target) -> None:
    """Refuses instructions and clusters that the GPU does not support."""
    for stmt in walk(func.body):
        required, instead, needs, texts = "", "", NOTHING, frozenset[str]()
        if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction):
            feature, needs = stmt.name, stmt.routine.needs
            texts, instead = frozenset(stmt.routine.texts), stmt.routine.instead
        elif isinstance(stmt, TileOp):
            feature = stmt.name
            if stmt.request is not None:
                needs, required = stmt.request.needs, stmt.request.requires
                instead = f"write {stmt.request.instead}"
            if isinstance(stmt, Gemm):
                with stmt.loc:
                    stmt.check_scopes(Scope.SHARED, Scope.FRAGMENT)  # local arrays are private to a thread
        elif isinstance(stmt, Launch) and stmt.hints.cluster != (1, 1, 1):
            feature, instead = f"T.Kernel: cluster_dims={stmt.hints.cluster}", "leave cluster_dims out"
        else:
            continue
        blocks = 2 if isinstance(stmt, Launch) else 1
        if (texts and target.kind not in texts) or not _supports(target.machine, needs, blocks):
            with stmt.loc:
                raise _unsupported(feature, (required, instead), target, needs, blocks, texts)


def _supports(machine: Machine, needs: enum.Flag, blocks: int) -> bool:
    """Whether a machine has features, and clusters of `blocks` blocks."""
    return machine.has(needs) and machine.max_cluster >= blocks


def _unsupported(
    feature: str, hints: tuple[str, str], target: Target, needs: enum.Flag, blocks: int, texts: frozenset[str]
) -> NoLowering:
    """The error for a feature that the target lacks, with the targets that have it, of its own vendor first."""
    for family in (target.family, *families().values()):
        if texts and family.kind not in texts:
            continue
        having = [each.name for each in family.machines.values() if _supports(each, needs, blocks)]
        if having:
            required, counterpart = hints
            instead = "leave it out" if family is target.family else counterpart or PORTABLE
            return NoLowering(
                f"{feature}: {target.arch} cannot do that; it needs one of {', '.join(having)}",
                hint=f"compile with target={({'kind': family.kind, 'arch': having[0]})}, or {instead}"
                + (f"; {required}" if required else ""),
            )
    return NoLowering(
        f"{feature}: there is no lowering for {target.arch}, nor for another target of this version",
        hint="write T.gemm: the compiler chooses the matrix instruction",
    )


def _check_grids(func: PrimFunc, machine: Machine) -> None:
    """Refuses grids of constant extents that no GPU can launch; symbolic ones are checked at the launch."""
    for launch in walk(func.body):
        if not isinstance(launch, Launch):
            continue
        for axis, extent, most, threads in zip("xyz", launch.grid, machine.max_grid, launch.threads, strict=False):
            count = int_const(extent)
            if count is not None and 0 < machine.max_grid_threads < count * threads:
                with launch.loc:
                    raise ResourceError(
                        f"T.Kernel: a grid of {count} blocks of {threads} threads along {axis}, but at most "
                        f"{machine.max_grid_threads} threads along an axis can be started",
                        hint="divide the blocks among the axes of T.Kernel(...), or give each block more to do",
                    )
            if count is not None and count > most:
                with launch.loc:
                    raise ResourceError(
                        f"T.Kernel: a grid of {count} blocks along {axis}, but at most {most} can be started",
                        hint="put the longest extent first in T.Kernel(...), or give each block more to do",
                    )
        if launch.hints.cluster != (1, 1, 1):
            with launch.loc:
                _check_cluster(launch, machine.max_cluster)


def _check_cluster(launch: Launch, most: int) -> None:
    """Refuses clusters that no GPU can launch; those of symbolic grids are checked again at the launch."""
    cluster = launch.hints.cluster
    if math.prod(cluster) > most:
        raise ResourceError(
            f"T.Kernel: cluster_dims={cluster} makes clusters of {math.prod(cluster)} blocks, but at most "
            f"{most} can run together",
            hint="write cluster_dims=2 or another number up to 8, which every GPU with clusters can start",
        )
    for axis, extent, size in zip("xyz", (*map(int_const, launch.grid), 1, 1), cluster, strict=False):
        if extent is not None and extent > 0 and extent % size:
            raise ProgramError(
                f"T.Kernel: a grid of {extent} block{'s' if extent > 1 else ''} along {axis} cannot be cut into "
                f"clusters of {size}",
                hint="round the grid up to a multiple, and let the blocks beyond the end do nothing",
            )
    calls = (stmt for stmt in walk(launch.body) if isinstance(stmt, CallStmt))
    for stmt in calls:
        if isinstance(stmt.routine, Instruction) and Effect.SYNC_GRID in stmt.routine.effect:
            with stmt.loc:
                raise NoLowering(
                    "T.sync_grid: the blocks of a grid with clusters cannot synchronize",
                    hint="leave cluster_dims out, or end the kernel here and begin another one",
                )


def _with_blocks(domain: Domain, launches: Sequence[Launch]) -> Domain:
    """Adds that every grid has blocks: calls with an empty one are refused before anything runs."""
    for extent in (extent for launch in launches for extent in launch.grid):
        match extent:
            case Binary(op=BinaryOp.FLOORDIV, a=dividend, b=Const(value=divisor)) if divisor > 0:
                domain = domain.assume(dividend >= divisor)
            case _:
                domain = domain.assume(extent >= 1)
    return domain


def _check_launch(launch: Launch, domain: Domain, most: int) -> None:
    threads = math.prod(launch.threads)
    if min(launch.threads) < 1 or threads > most:
        shown = launch.threads[0] if launch.threads[1:] == (1, 1) else launch.threads
        raise ProgramError(
            f"T.Kernel: threads={shown} makes {threads} threads per block, needs 1 to {most}",
            hint="write threads=128 or 256: a thread works on several elements of a tile",
        )
    exact: dict[Var, Interval] = {}
    for var, extent in zip(launch.block_vars, launch.grid, strict=True):
        count = int_const(extent)
        if count is not None and count < 1:
            return  # an empty grid: the body never runs
        if count is not None:
            exact[var] = Interval(0, count - 1)
        domain = domain.with_loop(var, 0, extent)
    fixed_layouts(launch)  # raises for layouts that a view of the buffer cannot have
    found = accesses(launch.body)
    compare = Comparison(found, domain)
    for access in found.all:
        if access.buffer.scope not in _UNCHECKED and access.buffer.rank:
            _check_bounds(access, compare, exact)
    for loop, context in found.loops:
        with loop.loc:
            if isinstance(loop, ParallelLoop):
                check_parallel(loop, context.domain(domain))
            elif isinstance(loop, For) and loop.pipeline is not None:
                check_pipeline(loop, context.domain(domain))


# -- bounds of on-chip memory ----------------------------------------------------------------------------------


def _check_bounds(access: Access, compare: Comparison, blocks: Mapping[Var, Interval]) -> None:
    """Raises if an access is out of bounds in all its executions, or in an iteration that is certainly executed."""
    domain = access.context.domain(compare.domain)
    for d, (index, size) in enumerate(zip(access.start, access.buffer.shape, strict=True)):
        limit = int_const(size)
        length = 1 if access.extent is None else int_const(access.extent[d])
        if limit is None or not length:
            continue
        reach = bounds(index, domain)
        if reach.within(Interval(0, limit - length)):
            continue
        reached = _certain_values(access, index, compare, blocks)
        # values that may not occur: an error only if all of them are out of bounds
        lowest, highest = (reach.high, reach.low) if reached is None else reached
        wrong = _outside(lowest, highest, length, limit)
        if wrong is not None and not _never_happens(access.context, compare.domain):
            raise _bounds_error(access, d, limit, wrong)


def _outside(lowest: int | None, highest: int | None, length: int, limit: int) -> int | None:
    """An index outside of [0, limit) among `length` elements from `lowest` and from `highest` on, if there is one."""
    if lowest is not None and lowest < 0:
        return lowest
    if highest is not None and highest + length > limit:
        return highest + length - 1
    return None


def _certain_values(
    access: Access, index: Expr, compare: Comparison, blocks: Mapping[Var, Interval]
) -> Interval | None:
    """The smallest and largest value of a subscript that certainly occur; None if unknown."""
    if access.context.uncertain or access.context.conditions():
        return None
    ranges = dict(blocks)
    for loop in access.context.loops():
        match loop:
            case For(var=var, start=start, stop=stop, step=step):
                values = range(int_const(start) or 0, int_const(stop) or 0, step)
                ranges[var] = Interval(min(values[0], values[-1]), max(values[0], values[-1]))
            case ParallelLoop(vars=variables, extents=extents):
                for var, extent in zip(variables, extents, strict=True):
                    ranges[var] = Interval(0, (int_const(extent) or 1) - 1)
    linear = compare.sum(index)
    total = Interval(linear.constant, linear.constant)
    for term, factor in linear.terms.items():
        atom = term[0].expr
        if len(term) != 1 or not isinstance(atom, Var) or atom not in ranges:
            return None
        total = add(total, scale(ranges[atom], factor))  # variables are independent of each other
    return total


def _never_happens(context: Context, domain: Domain) -> bool:
    """Whether an access is in unreachable code."""
    step: Context | None = context
    while step is not None and step.outer is not None:
        around = step.outer.domain(domain)
        if step.condition is not None and proves(negation(step.condition), around):
            return True
        if isinstance(step.loop, For):
            first, last = bounds(step.loop.start, around), bounds(step.loop.stop, around)
            ends = (first.low, last.high) if step.loop.step > 0 else (last.low, first.high)
            if ends[0] is not None and ends[1] is not None and ends[0] >= ends[1]:
                return True
        if isinstance(step.loop, ParallelLoop):
            counts = [bounds(extent, around).high for extent in step.loop.extents]
            if any(count is not None and count < 1 for count in counts):
                return True
        step = step.outer
    return False


def _bounds_error(access: Access, d: int, limit: int, wrong: int) -> ProgramError:
    buffer = access.buffer
    if access.extent is None:
        text = to_text(Load(buffer, access.start, buffer.dtype))
    else:
        text = to_text(Region(buffer, access.start, access.extent))
    return ProgramError(
        f"'{text}': index {wrong} is out of range for dimension {d}, whose extent is {limit}",
        loc=access.loc,
        notes=_notes(buffer.loc, f"'{buffer.name}' is allocated here"),
        hint="only global memory is guarded; make the buffer larger, or guard the access with `if`",
    )


# -- manually ordered pipelines ----------------------------------------------------------------------------------


def check_pipeline(loop: For, domain: Domain) -> None:
    """Checks `order` and `stage` of a pipelined loop.

    Args:
        loop: The loop.
        domain: What holds around it.

    Raises:
        ProgramError: They do not fit the body, or violate a dependence between statements.
    """
    spec = loop.pipeline
    assert spec is not None
    if spec.order is None and spec.stage is None:
        return
    body = effectful(loop.body)
    for key, places in (("order", spec.order), ("stage", spec.stage)):
        if places is not None and len(places) != len(body):
            raise ProgramError(
                f"T.Pipelined: {key} has {len(places)} entries, but the loop has {len(body)} effectful statements",
                hint=f"give `{key}` one entry per statement, in the order they are written; allocations and "
                "names for values do not count",
            )
    order = spec.order if spec.order is not None else tuple(range(len(body)))
    accesses_by_statement = [place for place in order if place >= 0]
    if len(set(accesses_by_statement)) != len(accesses_by_statement):
        raise ProgramError(
            f"T.Pipelined: order={list(order)} gives one position to two statements",
            hint="number the statements 0, 1, 2, ... in the order in which they shall run",
        )
    stage = spec.stage if spec.stage is not None else (0,) * len(body)
    found = accesses(loop.body)
    compare = Comparison(found, domain.with_loop(loop.var, loop.start, loop.stop, loop.step))
    slots = {id(inner): n for n, stmt in enumerate(body) for inner in walk(stmt)}
    dependences: list[tuple[Dependence, Access, Access]] = []
    for storage_accesses in found.by_storage().values():
        dependences += _dependences([(slots[id(a.stmt)], a) for a in storage_accesses if id(a.stmt) in slots], compare)
    placement = Placement(stage, order)
    placed = [each for each in dependences if min(places[n] for n in each[0][:2] for places in (order, stage)) >= 0]
    for dependence, writes, uses in placed:
        if not keeps(placement, dependence):
            raise _order_error(writes, uses, dependence, nearest_legal(placement, [each for each, _, _ in placed]))


def _dependences(
    accesses_by_statement: list[tuple[int, Access]], compare: Comparison
) -> Iterator[tuple[Dependence, Access, Access]]:
    """The dependences on writes of one storage, with the write and the access that depends on it."""
    for n, first in accesses_by_statement:
        for m, second in accesses_by_statement:
            if m < n or not first.write and not second.write:
                continue
            if first.write and n < m:  # within one iteration
                if not compare.never_alias(first, second, ()):
                    yield (n, m, 0), first, second
            # from one to the next
            elif second.write and not first.write and not _written_before(first, accesses_by_statement):
                yield (m, n, 1), second, first


def _written_before(read: Access, accesses_by_statement: list[tuple[int, Access]]) -> bool:
    return any(a.write and a.position < read.position for _, a in accesses_by_statement)


def _order_error(writes: Access, uses: Access, dependence: Dependence, nearest: Placement) -> ProgramError:
    verb = "writes" if uses.write else "reads"
    when = "in the iteration before" if dependence[2] else "in the same iteration"
    return ProgramError(
        f"T.Pipelined: `order` and `stage` let a statement that {verb} '{uses.buffer.name}' run before the one that "
        f"writes it {when}",
        loc=uses.loc if uses.loc is not NOWHERE else None,
        notes=_notes(writes.loc, f"'{writes.buffer.name}' is written here"),
        hint=f"give the writer a lower stage, or the same stage and a lower position; the nearest is {nearest}",
    )


def _notes(loc: Loc, text: str) -> tuple[Note, ...]:
    return (Note(text, loc),) if loc.file else ()


PASS = Pass(
    "check_program", check_program, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN, Property.NO_OPTIONAL_CALLS, Property.FRAGMENTS_COVER_LOOPS),
    establishes=(Property.RULES_CHECKED,),
)
