"""The rules of reducers: what may touch one, and where an epoch may begin and end.

Takes the body of a kernel as it was staged, and which of its statements are steps of epochs; gives nothing, or the
error. Invariant: in a program that is accepted no statement sees a total before all values have been combined into it,
so that targets may combine the parts of threads where the epoch ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.errors import Note, ProgramValueError
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Load
from tilelang.ir.stmt import Alloc, For, If, ParallelLoop, Print, Stmt, Store, TileOp, While
from tilelang.ir.visit import expressions, sub_statements, walk_expr, written_buffers
from tilelang.language.stage import Stager
from tilelang.records import record

INIT, UPDATE, FINALIZE = "T.reducer_init", "T.reducer_update", "T.finalize_reducer"

_Path = tuple[tuple[Stmt, int], ...]  # the loops and branches around a statement, with the side of each branch


def check_reducers(body: Stmt, stager: Stager) -> None:
    """Checks the steps of all reducers of a kernel that has any; reducers of the older syntax have none.

    Raises:
        ProgramValueError: A reducer is touched by another statement, or outside of an epoch; an epoch is opened or
            closed twice, closed elsewhere than where it was opened, or never.
    """
    used = {reducer for _, reducer in stager.reducer_steps.values()}
    if used:
        check = _Check(used, stager.reducer_steps)
        check.visit(body, ())
        check.end()


@record(frozen=False, slots=True)
class _Epoch:
    """An epoch: where it began, and whether it is over."""

    begin: Stmt
    path: _Path
    closed: bool = False


class _Check:
    def __init__(self, reducers: set[Buffer], steps: dict[Stmt, tuple[str, Buffer]]) -> None:
        self._reducers, self._steps = reducers, steps
        self._epochs: dict[Buffer, _Epoch] = {}

    def visit(self, stmt: Stmt, path: _Path) -> None:
        """Walks the program in order."""
        if isinstance(stmt, Alloc) and stmt.buffer in self._reducers:
            self._end(stmt.buffer)  # a new one in every iteration around
        step = self._steps.get(stmt)
        if step is not None:
            with stmt.loc:
                self._step(stmt, path, *step)
        else:
            with stmt.loc:
                self._other(stmt)
        nests = isinstance(stmt, For | While | ParallelLoop | If)
        for side, inner in enumerate(sub_statements(stmt)):
            self.visit(inner, (*path, (stmt, side)) if nests else path)

    def end(self) -> None:
        """The end of the kernel."""
        for reducer in tuple(self._epochs):
            self._end(reducer)

    def _end(self, reducer: Buffer) -> None:
        epoch = self._epochs.pop(reducer, None)
        if epoch is not None and not epoch.closed:
            raise ProgramValueError(
                f"{INIT}: reducer '{reducer.name}' is never finalized",
                loc=epoch.begin.loc,
                hint=f"write {FINALIZE}({reducer.name}, dst) behind the loops that update it",
            )

    # -- steps --------------------------------------------------------------------------------------------------
    def _step(self, stmt: Stmt, path: _Path, step: str, reducer: Buffer) -> None:
        self._reads(stmt, own=reducer)
        if step == INIT:
            self._init(stmt, path, reducer)
            return
        epoch = self._epochs.get(reducer)
        if epoch is None:
            raise ProgramValueError(
                f"{step}: reducer '{reducer.name}' is used before T.reducer_init opens an epoch",
                hint=f"write T.reducer_init({reducer.name}) in front of the loop",
            )
        in_parallel = any(isinstance(around, ParallelLoop) for around, _ in path)
        if epoch.closed:
            what = f"double {step}" if step == FINALIZE else f"{step} after {FINALIZE}"
            raise self._at_odds(f"{step}: {what} on reducer '{reducer.name}'", epoch)
        inside = path[: len(epoch.path)] == epoch.path
        beyond = path[len(epoch.path) :]
        if not inside or step == FINALIZE and not all(isinstance(around, If) for around, _ in beyond):
            raise self._at_odds(
                f"{step}: on reducer '{reducer.name}' it is not in the scope of its T.reducer_init",
                epoch,
                "an epoch ends in the iteration and branch in which it began, or in a branch below",
            )
        if step == UPDATE and not in_parallel:
            raise ProgramValueError(
                f"{step}: reducer '{reducer.name}' is updated outside any T.Parallel loop",
                hint="write `for i in T.Parallel(n):` around it; T.Parallel(1) combines the value once",
            )
        epoch.closed = step == FINALIZE

    def _init(self, stmt: Stmt, path: _Path, reducer: Buffer) -> None:
        if any(isinstance(around, ParallelLoop) for around, _ in path):
            raise ProgramValueError(
                f"{INIT}: reducer '{reducer.name}' is opened inside of a T.Parallel loop", hint="open it in front of it"
            )
        epoch = self._epochs.get(reducer)
        if epoch is not None:
            still = "" if epoch.closed else ", which is still open"
            raise self._at_odds(
                f"{INIT}: double T.reducer_init on reducer '{reducer.name}'{still}",
                epoch,
                "each T.alloc_reducer serves one epoch, in every iteration of the loops around: allocate another one",
            )
        self._epochs[reducer] = _Epoch(stmt, path)

    @staticmethod
    def _at_odds(message: str, epoch: _Epoch, hint: str = "") -> ProgramValueError:
        return ProgramValueError(message, notes=(Note("the epoch begins here", epoch.begin.loc),), hint=hint)

    # -- other statements -----------------------------------------------------------------------------------------
    def _other(self, stmt: Stmt) -> None:
        if not isinstance(stmt, Alloc):
            for buffer in written_buffers(stmt):
                if buffer.storage in self._reducers:
                    raise ProgramValueError(
                        f"{_named(stmt)}: illegal store to reducer '{buffer.storage.name}'",
                        hint=f"start it with {INIT}, and combine values into it with {UPDATE}",
                    )
        self._reads(stmt, own=None)

    def _reads(self, stmt: Stmt, own: Buffer | None) -> None:
        """Refuses reading; a step reads the reducer that it is about."""
        for buffer in _read_buffers(stmt):
            reducer = buffer.storage
            if reducer in self._reducers and reducer is not own:
                raise ProgramValueError(
                    f"{_named(stmt)}: illegal read of reducer '{reducer.name}', whose parts are not combined yet",
                    hint=f"read the fragment that {FINALIZE}({reducer.name}, dst) writes",
                )


def _read_buffers(stmt: Stmt) -> Iterable[Buffer]:
    for root in expressions(stmt):
        for node in walk_expr(root):
            if isinstance(node, Load):
                yield node.buffer
    if isinstance(stmt, TileOp):
        for region in stmt.reads():
            yield region.buffer
    if isinstance(stmt, Print) and isinstance(stmt.operand, Region):
        yield stmt.operand.buffer


def _named(stmt: Stmt) -> str:
    if isinstance(stmt, TileOp):
        return stmt.name
    return "assignment" if isinstance(stmt, Store) else "expression"
