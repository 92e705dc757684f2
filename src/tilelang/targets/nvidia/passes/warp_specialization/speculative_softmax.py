"""Steps of an online softmax that look for no largest score, in loops that consumers software-pipeline.

Takes a loop with a step as `expand_online_softmax` gives it, and gives one that assumes that no score exceeds the
reference of its row by much. Sums of the exponentials tell where that is wrong, and a vote of the warpgroup: then the
gemm is computed again from operands that are still in shared memory, since registers for a copy of the scores are not
free, and the whole step is taken.

    S = Q K                                             S = Q K
    r = max(limit of m, largest of S)                   S = exp2(S * c - m * c), NaN where m is -inf or far
    where r > limit of m: m = r, ...            =>      t = sums of S in each thread;  P = S
    S = exp2(S * c - m * c);  l += sums of S            if any t of the warpgroup is not <= `max_sum`:
    P = S                                                   S = Q K;  the whole step
                                                        else: l += t

Sums are kept by thread in the loop, and added up across threads behind it. The first iteration, which has no reference
yet, takes the whole step at once, and so does the rest of a tile after a wrong step (`split_masked_loops.py`).
Invariant: `output / row_sum` and `row_max * scale + log(row_sum)` are the same.

On an H200 attention of 128 dimensions was 3 to 12 % faster so with three consumer warpgroups, and that of 64
dimensions 3 to 7 %.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from tilelang.analysis.accesses import storages
from tilelang.analysis.whole_stores import overwritten
from tilelang.dtypes import BOOL
from tilelang.errors import Loc, Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr, const, int_const, select
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, If, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.library.online_softmax import OnlineSoftmaxStep, Tile, expand_online_softmax
from tilelang.lowering.loops import parallel, serial
from tilelang.lowering.regions import ZERO, is_whole
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.reduce import Reduce
from tilelang.records import record
from tilelang.schedule.software_pipeline import Speculation
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import divides_columns

# Which lanes hold a row of an accumulator: lane l of 4 has columns 2 l and 2 l + 1 of each 8.
# Source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", accumulator D
_LANES, _PAIR = 4, 2
_GEMM_AND_WAIT = 2  # statements that compute scores without masks

# From so many consumer warpgroups on, softmaxes speculate. Two were up to 7 % faster so on an H200 in attention of 128
# dimensions, and up to 6 % slower in that of 64; but loops with both steps take the CUDA compiler 0.4 s longer.
MIN_SPECULATING_WARPGROUPS = 3


@record(slots=True, eq=False)
class RepeatableStep:
    """A step of a softmax in a loop, whose scores can be computed again.

    Attributes:
        op: The operator that it was.
        first: Where its statements begin among those of the loop's body.
        end: Where they end.
        product: What computes the scores again.
        loc: Where it stands in the user's program.
    """

    op: OnlineSoftmax
    first: int
    end: int
    product: list[Stmt]
    loc: Loc

    @property
    def gemm(self) -> Gemm:
        """What computes the scores without masks."""
        return next(stmt for stmt in self.product if isinstance(stmt, Gemm))

    @property
    def has_masks(self) -> bool:
        """Whether more than a gemm computes the scores, such as masks."""
        return len(self.product) > _GEMM_AND_WAIT


@record(slots=True, eq=False)
class SpeculativeLoop:
    """A loop with a speculative step.

    Attributes:
        loop: The loop.
        tiles: What it uses and what is to be allocated outside.
        before: Statements in front of it.
        after: Statements behind it.
        step: The statements of the speculative step.
        product: How many statements of its branch compute the scores again, before the whole step.
        early: How many statements of that come next that need nothing but the scores.
    """

    loop: For
    tiles: tuple[Buffer, ...]
    before: tuple[Stmt, ...]
    after: tuple[Stmt, ...]
    step: tuple[Stmt, ...]
    product: int
    early: int

    @property
    def vote(self) -> AnyExceeds:
        """The statement that tells where the assumption is wrong."""
        return next(stmt for stmt in self.step if isinstance(stmt, AnyExceeds))

    @property
    def retry(self) -> If:
        """The branch that takes the whole step where the assumption is wrong."""
        last = self.step[-1]
        assert isinstance(last, If)
        return last

    @property
    def note(self) -> Note:
        """What `kernel.explain()` says of it."""
        gemm = next(stmt for stmt in walk(self.retry) if isinstance(stmt, Gemm))
        where = f"the gemm in line {gemm.loc.line}" if gemm.loc.line else "its gemm"
        return Note(
            "the softmax looks for the largest scores only in the first iteration, in those with masks, and where "
            f"exponentials that a thread adds up exceed {self.vote.limit:g}, for which {where} is computed again",
            self.vote.loc,
        )

    def numbered(self, statements: Sequence[Stmt]) -> Speculation:
        """Where the step is among the statements of the loop's body."""
        first, vote, last = (statements.index(stmt) for stmt in (self.step[0], self.vote, self.retry))
        return Speculation(first, vote, last, self.product, self.early)


def repeatable_step(
    loop: For, runs_asynchronously: Callable[[Gemm], bool], *, masks: bool
) -> RepeatableStep | None:
    """The step of a loop; None if it has none, or if its scores cannot be computed again.

    Args:
        loop: A loop, whose gemms have plans.
        runs_asynchronously: Whether a gemm of it runs by wgmma, and can be in flight.
        masks: Whether iterations that mask no element are to run without masks: only these speculate.
    """
    statements = flat_statements(loop.body)
    found = [place for place, stmt in enumerate(statements) if isinstance(stmt, Reduce) and stmt.step]
    step = _step_around(found[0], statements) if len(found) == 1 else None
    if step is None:
        return None
    op, first, end = step
    product = _product(op, statements, first, end, runs_asynchronously)
    if product is None or len(product) > _GEMM_AND_WAIT and not masks:
        return None
    return RepeatableStep(op, first, end, product, statements[first].loc)


def with_speculation(loop: For, step: RepeatableStep) -> SpeculativeLoop:
    """The loop whose step is speculative."""
    statements = flat_statements(loop.body)
    build = Builder(step.loc)
    made = _SpeculativeStep(step.op, build)
    before, after = made.around()
    made.emit_speculation(step.product)
    hoisted = _Allocations()
    body = [each for stmt in build.statements if (each := hoisted.visit(stmt)) is not None]
    changed = Seq((*statements[: step.first], *body, *statements[step.end :]), loc=loop.body.loc)
    loop, places = dataclasses.replace(loop, body=changed), (len(step.product), made.early)
    return SpeculativeLoop(loop, tuple(hoisted.found), before, after, tuple(body), *places)


def _step_around(search: int, statements: Sequence[Stmt]) -> tuple[OnlineSoftmax, int, int] | None:
    """The step of a search, and where its statements begin and end; None if these are not as expected.

    Nothing else may use the running sums, which are elsewhere in the loop.
    """
    operands = statements[search]
    assert isinstance(operands, Reduce)
    op = OnlineSoftmax(*operands.step, loc=operands.loc)  # type: ignore[arg-type]
    build = Builder()
    expand_online_softmax(op, build)
    expected = [stmt for stmt in build.statements if not isinstance(stmt, Alloc)]
    first = search - next(place for place, stmt in enumerate(expected) if isinstance(stmt, Reduce))
    end = first + len(expected)
    if first < 0 or end > len(statements):
        return None
    named = {region.buffer.storage for region in op.writes()}
    if any(storage.scope is not Scope.FRAGMENT for storage in named):
        return None  # threads would exchange values in a branch that each warpgroup takes by itself
    for stmt, like in zip(statements[first:end], expected, strict=True):
        if type(stmt) is not type(like) or storages(stmt).written & named != storages(like).written & named:
            return None
    others = (*statements[:first], *statements[end:])
    uses_sum = any(op.row_sum.buffer.storage in storages(stmt).all for stmt in others)
    return None if uses_sum else (op, first, end)


def _product(
    op: OnlineSoftmax, statements: Sequence[Stmt], first: int, end: int, runs_asynchronously: Callable[[Gemm], bool]
) -> list[Stmt] | None:
    """What computes the scores again; None if that is more than a gemm of warpgroups with rows of their own, and masks.

    Args:
        op: The step.
        statements: The statements of the loop.
        first: Where those of the step begin.
        end: Where they end.
        runs_asynchronously: As above.
    """
    scores = op.scores.buffer.storage
    makers = [place for place in range(first) if scores in storages(statements[place]).written]
    made = [statements[place] for place in makers]
    gemms = [stmt for stmt in made if isinstance(stmt, Gemm)]
    if len(gemms) != 1 or not runs_asynchronously(gemms[0]) or divides_columns(gemms[0]):
        return None
    (gemm,) = gemms
    shared = all(region.buffer.scope is Scope.SHARED for region in (gemm.a, gemm.b))
    if not shared or not is_whole(gemm.c) or not is_whole(op.scores) or gemm.transpose_c:
        return None
    if (int_const(gemm.sizes[1]) or 1) % (_LANES * _PAIR):
        return None
    clears = isinstance(gemm.clear_accum, Const) and bool(gemm.clear_accum.value)
    is_defined = made[0] is gemm and clears or scores in {tile.storage for tile in overwritten(made[0])}
    if not is_defined or any(storages(stmt).written != {scores} for stmt in made):
        return None
    read = {storage for stmt in made for storage in storages(stmt).all} - {scores}
    between = [statements[place] for place in range(makers[0], end) if place not in makers]
    if any(storages(stmt).written & read for stmt in between):
        return None
    again = dataclasses.replace(gemm, wait=-1)
    wait = GemmWait(0, (gemm.c,), loc=gemm.loc)
    return [part for stmt in made for part in ((again, wait) if stmt is gemm else (stmt,))]


class _Allocations(Rewriter):
    """Removes allocations.

    Attributes:
        found: What they allocate.
    """

    def __init__(self) -> None:
        self.found: list[Buffer] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Alloc):
            self.found.append(node.buffer)
            return None
        return self.rebuild_stmt(node)


class _SpeculativeStep(OnlineSoftmaxStep):
    """Emits the statements of a speculative step, and those of a whole one with sums by thread.

    Attributes:
        early: How many statements of the whole one need nothing but the scores.
    """

    def __init__(self, op: OnlineSoftmax, build: Builder) -> None:
        super().__init__(op, build)
        lanes = as_expr(_LANES)
        self._sums = self._tile("sums", self.rows, lanes)  # the running sums of each thread
        self._terms = self._tile("terms", self.rows, lanes)  # what a step adds to them
        self._exceeds = Buffer(f"{op.scores.buffer.name}_exceeds", (), BOOL, Scope.VAR)
        build.emit(Alloc(self._exceeds))

    def around(self) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
        """What takes the running sums before the loop, and what puts them back behind it."""
        with self._build.block() as before:
            self._by_lane(self._take_sum)
            self._build.emit(Store(self._exceeds, (), const(False, BOOL)))
        with self._build.block() as after:
            self._build.emit(Fill(self._op.row_sum, self._zero))
            self._by_lane(self._put_sum)
        return tuple(before), tuple(after)

    def emit_speculation(self, product: Sequence[Stmt]) -> None:
        """The speculative step.

        Its vote waits for the gemm of the iteration before, and for the probabilities: on an H200 attention of 64
        dimensions was 1.4 % slower where warps waited for each other first, and of 128 dimensions 0 to 2 %.

        Args:
            product: The statements that compute the scores again, with which its branch begins.
        """
        build = self._build
        self._by_row(self.assume_exponent)
        self._by_element(self.exponential)
        self._by_lane(self._set_terms)
        self.convert()
        complete = (self._op.output, self._op.probabilities)
        vote = AnyExceeds(self._terms.region, self._op.max_sum, Region(self._exceeds, (), ()))
        build.emit(dataclasses.replace(vote, complete=tuple(each for each in complete if each is not None)))
        with build.block() as then:
            for stmt in product:
                build.emit(stmt)
            self.emit()
        self.early = next(
            place for place, stmt in enumerate(then) if self._op.output.buffer.storage in storages(stmt).written
        ) - len(product)  # fmt: skip
        with build.block() as otherwise:
            self._by_lane(self._add_sum)
        build.emit(If(Load(self._exceeds, (), BOOL), as_body(then), as_body(otherwise)))

    def add_to_sums(self) -> None:
        """Rescales the running sums of threads, and adds the exponentials."""
        self._by_lane(self._rescale_and_add)

    def assume_exponent(self, i: Var) -> None:
        """Finds what is subtracted from scaled scores; NaN if a row has no reference, or a far one."""
        reference = self._reference.load(i)
        exponent = select(self._is_far(reference), const(math.nan, self._dtype), reference * self._scale)
        self._exponent.store(self._build, (i,), exponent)

    def _by_lane(self, element: Callable[[Var, Var], None]) -> None:
        parallel(self._build, (self.rows, as_expr(_LANES)), lambda at: element(*at))

    def _set_terms(self, i: Var, lane: Var) -> None:
        """Adds up the exponentials of a thread."""
        self._accumulate(self._terms, (i, lane), self._zero)

    def _rescale_and_add(self, i: Var, lane: Var) -> None:
        """Rescales the running sum of a thread, and adds its exponentials."""
        self._accumulate(self._sums, (i, lane), self._sums.load(i, lane) * self.growth_factor(i))

    def _accumulate(self, tile: Tile, at: tuple[Var, Var], start: Expr) -> None:
        """Sets an element to the sum of a value and of the exponentials of a thread in a row."""
        build, (i, lane) = self._build, at
        tile.store(build, at, start)

        def add(group: Var, place: Var) -> None:
            exponential = self._scores.load(i, group * (_LANES * _PAIR) + lane * _PAIR + place)
            tile.store(build, at, tile.load(*at) + exponential)

        def add_pair(group: Var) -> None:
            serial(build, "place", ZERO, as_expr(_PAIR), lambda place: add(group, place))

        groups = (int_const(self.columns) or 0) // (_LANES * _PAIR)
        serial(build, "group", ZERO, as_expr(groups), add_pair)

    def _take_sum(self, i: Var, lane: Var) -> None:
        first = lane == 0
        self._sums.store(self._build, (i, lane), select(first, self._row_sum.load(i), self._zero))

    def _put_sum(self, i: Var, lane: Var) -> None:
        self._row_sum.store(self._build, (i,), self._row_sum.load(i) + self._sums.load(i, lane))

    def _add_sum(self, i: Var, lane: Var) -> None:
        self._sums.store(self._build, (i, lane), self._sums.load(i, lane) + self._terms.load(i, lane))
