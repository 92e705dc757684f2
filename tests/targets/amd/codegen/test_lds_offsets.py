"""Offsets in LDS are what a thread keeps for a whole loop, changed by what is the same for all threads."""

import re

import pytest
from amd_programs import gemm
from hip_text import printed

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.ir.stmt import Bind, For, ForKind, Seq, Store
from tilelang.ir.visit import substitute
from tilelang.targets.amd.codegen.lds_offsets import LdsOffsets

K, I, ROW, THREAD = (Var(name, INT32, index=True) for name in ("k", "i", "row", "thread"))
FLOAT16, INT4 = SCALARS["float16"], SCALARS["int4"]
TILE = Buffer("A", (as_expr(8192),), FLOAT16, Scope.SHARED)
REGISTERS = Buffer("r", (as_expr(64),), FLOAT16, Scope.LOCAL)
BASE = ROW * 64 + (THREAD // 16 ^ ROW % 8) * 8
ROW_OF_THREAD = THREAD % 16
LOADED = Load(Buffer("table", (as_expr(64),), INT32, Scope.GLOBAL), (THREAD % 64,), INT32)


def found(*indices, buffer=TILE):
    """The offsets of loads and of a store, in a loop with an unrolled one, in which a row is bound."""
    loads = [Store(REGISTERS, (I,), Load(buffer, (index,), buffer.dtype)) for index in indices[:-1]]
    store = Store(buffer, (indices[-1],), Load(REGISTERS, (I,), FLOAT16))
    unrolled = For(I, as_expr(0), as_expr(4), 1, ForKind.UNROLLED, Seq((*loads, store)))
    loop = For(K, as_expr(0), as_expr(8), 1, ForKind.SERIAL, Seq((Bind(ROW, ROW_OF_THREAD), unrolled)))
    offsets = LdsOffsets(THREAD, lambda e: substitute(e, {ROW: ROW_OF_THREAD}), Domain().with_range(THREAD, 0, 127))
    return list(offsets.of(loop).values())


def test_accesses_of_a_tile_have_one_part_of_the_thread_in_bytes() -> None:
    indices = ((BASE ^ I * 16) + K % 2 * 4096, BASE + I * 1024, (BASE ^ (I % 2 * 8 ^ I // 2 * 8)) + 3, ROW * 64 ^ THREAD)
    made = found(*indices)
    assert 4 == len(made)
    assert 2 == len({str(offset.own) for offset in made})
    for index, offset in zip(indices, made, strict=True):
        for thread, k, i in ((0, 0, 0), (77, 3, 2), (127, 6, 3)):
            env = {THREAD: thread, K: k, I: i, ROW: thread % 16}
            flips, steps = (int(evaluate(each, env)) for each in (offset.flips, offset.steps))
            assert 2 * int(evaluate(index, env)) == (int(evaluate(offset.own, {THREAD: thread})) ^ flips) + steps


@pytest.mark.parametrize(
    ("index", "buffer"),
    [
        ((BASE + K * 64) ^ I * 16, TILE),  # what iterations change is flipped
        (K * 64 ^ I * 16, TILE),  # the same for all threads
        ((LOADED + THREAD) ^ I * 16, TILE),  # from memory
        (BASE ^ I * 16, Buffer("A", (as_expr(8192),), INT4, Scope.SHARED)),  # no whole bytes
    ],
)
def test_others_are_not_split(index, buffer) -> None:
    assert [] == found(index, buffer=buffer)


def test_a_loop_declares_them_once_and_an_iteration_computes_from_them() -> None:
    text = printed(gemm(160, rows=256), "gfx1100").text
    before, inside = text[text.index("main_kernel") :].split("for (int step", 1)
    names = {line.split()[1] for line in before.splitlines() if line.strip().startswith("int ") and "_at" in line}
    assert names
    assert all(re.search(rf"tl_recompute<\d+>\({name}\);", inside) for name in names)
    assert "&A_s[" not in inside[: inside.rindex("tl_wmma")]
