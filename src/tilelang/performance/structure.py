"""Properties of a whole body: what its control flow depends on, which loops unroll, which tiles are typical."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Const, Var, int_const
from tilelang.ir.launch import TensorMap
from tilelang.ir.scalar import BinaryOp, Value
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Bind, Break, CallStmt, For, ForKind, If, Stmt, Store, While
from tilelang.ir.visit import variables_of, walk
from tilelang.isa.instruction import Effect, Instruction
from tilelang.performance.values import Values
from tilelang.targets.gpu.isa.warp import ANY


def depends_on(body: Stmt, variables: Collection[Var], *kinds: type[Stmt]) -> bool:
    """Whether the trip count of a loop or the condition of a branch, of these kinds, depends on some variables."""
    depending = set(variables)
    for stmt in walk(body):
        if isinstance(stmt, Bind) and not depending.isdisjoint(variables_of(stmt.value)):
            depending.add(stmt.var)
        used: frozenset[Var] = frozenset()
        if isinstance(stmt, For):
            used = variables_of(stmt.start) | variables_of(stmt.stop)
        elif isinstance(stmt, If):
            used = variables_of(stmt.condition)
        if isinstance(stmt, kinds) and not depending.isdisjoint(used):
            return True
    return False


def dynamic_tile(loop: For) -> Var | None:
    """The variable of the tile that an iteration takes from a counter which all blocks share; None for other loops.

    Such a loop has as many iterations as there are tiles, and its body `if tile >= count: break`. Every tile is taken
    once, so that a block runs only its share of the iterations.
    """
    for stmt in flat_statements(loop.body):
        match stmt:
            case If(condition=Binary(op=BinaryOp.GE, a=Var() as tile, b=count), then_body=Break()):
                return tile if tile is not loop.var and int_const(count) == int_const(loop.stop) else None
    return None


def typical_tiles(body: Stmt, number: Var, count: int, known: Mapping[Var, Value], samples: int) -> list[int]:
    """A few of the tiles that blocks take from a counter, which stand for all of them. One of the middle comes first.

    Args:
        body: What is done for a tile.
        number: The number of a tile.
        count: How many there are.
        known: The values of other variables.
        samples: How many tiles are wanted.
    """
    order = by_work(body, count, {**known, number: np.arange(count)})
    tiles = [int(order[int(count * (sample + 0.5) / samples)]) for sample in range(samples)]
    return tiles[samples // 2 :] + tiles[: samples // 2]


def by_work(body: Stmt, count: int, known: Mapping[Var, Value]) -> np.ndarray:
    """The numbers of tiles or blocks in the order of their work, which is how many iterations their loops have.

    Those at equal distances in it stand for all, which those at equal distances by number do not: tiles of the same
    work may repeat at such distances.

    Args:
        body: What is done for each.
        count: How many there are.
        known: The values of variables, of which an array has the value of each.
    """
    values = Values(dict(known))
    work: Value = np.zeros(count)
    for stmt in walk(body):
        if isinstance(stmt, Bind) and stmt.var not in known:
            values.bind(stmt.var, values.of(stmt.value))
        elif isinstance(stmt, For) and stmt.kind is ForKind.SERIAL:
            start, stop = values.of(stmt.start), values.of(stmt.stop)
            if start is not None and stop is not None:
                work = work + np.maximum((stop - np.asarray(start)) / stmt.step, 0)
    return np.argsort(work, kind="stable")


def is_unrollable(body: Stmt) -> bool:
    """Whether a compiler may unroll a loop: nothing in its body waits for others, and it has no loop that stays one."""
    for stmt in walk(body):
        if isinstance(stmt, While) or (isinstance(stmt, For) and stmt.kind is ForKind.SERIAL):
            return False
        if isinstance(stmt, CallStmt):
            routine = stmt.routine
            if (
                not isinstance(routine, Instruction)
                or routine.async_unit is not None
                or routine.effect is not Effect.NONE
            ):
                return False
    return True


def votes(body: Stmt) -> frozenset[Var | Buffer]:
    """The results of votes, whether any lane of a warp has something to do, and scalars that hold them or a literal."""
    results = {
        stmt.result for stmt in walk(body)
        if isinstance(stmt, CallStmt) and stmt.routine is ANY and stmt.result is not None
    }  # fmt: skip
    stores = [stmt for stmt in walk(body) if isinstance(stmt, Store) and stmt.buffer.scope is Scope.VAR]
    holding = {stmt.buffer for stmt in stores if stmt.value in results}
    others = {stmt.buffer for stmt in stores if stmt.value not in results and not isinstance(stmt.value, Const)}
    return frozenset((*results, *(holding - others)))


def box_bytes(tensor_map: TensorMap) -> int:
    """Bytes of the box of a tensor map."""
    return math.prod(tensor_map.box) * tensor_map.tensor.dtype.storage_bytes
