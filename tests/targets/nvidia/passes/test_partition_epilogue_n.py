"""What is done with a tile is done with some of its columns, or refused where that is not the same."""

import pytest
from specialized import launch_of, warp_specialize

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Launch
from tilelang.passes.tile import inline_bindings
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.partition_epilogue_n import NotPartitioned, columns_of, partition_epilogue_n


def program(body):
    """Statements that use a tile `X` of 8 x 32 behind a mark that stands for where it is complete."""

    @T.prim_func
    def main(
        G: T.Tensor((64, 96), "float32"),
        b: T.Tensor((96,), "float32"),
        n: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(3, 8, threads=128) as (bx, by):
            X = T.alloc_fragment((8, 32), "float32")
            body(X, G, b, n, bx, by)

    return launch_of(warp_specialize(main, passes=(inline_bindings.PASS,)))


def narrowed(body):
    """The text of the statements for 16 of the columns."""
    launch: Launch = flatten_sequences(program(body))
    alloc, *after = launch.body.body
    assert isinstance(alloc, Alloc)
    columns = columns_of((alloc.buffer,), 2, Var("rank", INT32, index=True))
    _, made = partition_epilogue_n(columns, (), after)
    return "\n".join(to_text(stmt).strip() for stmt in made)


def test_a_result_is_stored_column_by_column():
    @T.macro
    def body(X, G, b, n, bx, by):
        T.copy(X, G[by * 8, bx * 32])

    assert narrowed(body) == "T.copy(X_own, G[by * 8:by * 8 + 8, bx * 32 + rank * 16:bx * 32 + rank * 16 + 16])"


def test_tiles_made_of_it_are_as_narrow():
    @T.macro
    def body(X, G, b, n, bx, by):
        S = T.alloc_shared((8, 32), "float32")
        T.copy(X, S)
        T.copy(S, G[by * 8, bx * 32])

    text = narrowed(body)
    assert 'S_own = T.alloc_shared((8, 16), "float32")' in text
    assert "T.copy(X_own, S_own)" in text
    assert "T.copy(S_own, G[" in text


def test_loops_go_over_the_columns_and_name_others_by_their_place_in_the_tile():
    @T.macro
    def body(X, G, b, n, bx, by):
        for i, j in T.Parallel(8, 32):
            X[i, j] = T.max(X[i, j] + b[bx * 32 + j] * n[by * 8 + i], 0)
        T.clear(X)

    text = narrowed(body)
    assert "for i, j in T.Parallel(8, 16):" in text
    assert "X_own[i, j] = T.max(X_own[i, j] + b[bx * 32 + (j + rank * 16)] * n[by * 8 + i], 0.0)" in text
    assert "T.fill(X_own, 0.0)" in text


def test_fragments_beside_it_are_as_narrow():
    @T.macro
    def body(X, G, b, n, bx, by):
        row = T.alloc_fragment((32,), "float32")
        T.copy(b[bx * 32], row)
        for i, j in T.Parallel(8, 32):
            X[i, j] += row[j]

    text = narrowed(body)
    assert "T.copy(b[bx * 32 + rank * 16:bx * 32 + rank * 16 + 16], row_own)" in text
    assert "X_own[i, j] = X_own[i, j] + row_own[j]" in text


def test_columns_may_be_the_outer_loop():
    @T.macro
    def body(X, G, b, n, bx, by):
        for j, i in T.Parallel(32, 8):
            G[by * 8 + i, bx * 32 + j] = X[i, j]

    text = narrowed(body)
    assert "for j, i in T.Parallel(16, 8):" in text
    assert "G[by * 8 + i, bx * 32 + (j + rank * 16)] = X_own[i, j]" in text


def test_what_does_not_touch_it_and_nobody_sees_is_done_by_all():
    @T.macro
    def body(X, G, b, n, bx, by):
        row = T.alloc_shared((32,), "float32")
        T.copy(b[bx * 32], row)
        if by > 0:
            for i, j in T.Parallel(8, 32):
                X[i, j] += row[j]

    text = narrowed(body)
    assert "T.copy(b[bx * 32:bx * 32 + 32], row)" in text
    assert "X_own[i, j] = X_own[i, j] + row[j + rank * 16]" in text


@T.macro
def all_of_a_row(X, G, b, n, bx, by):
    total = T.alloc_fragment((8,), "float32")
    T.reduce_sum(X, total, dim=1)


@T.macro
def collected(X, G, b, n, bx, by):
    total = T.alloc_fragment((8,), "float32")
    for i, j in T.Parallel(8, 32):
        total[i] += X[i, j]


@T.macro
def another_order(X, G, b, n, bx, by):
    for i, j in T.Parallel(8, 32):
        G[by * 8 + i, bx * 32 + j] = X[i, 31 - j]


@T.macro
def diagonal(X, G, b, n, bx, by):
    for i, j in T.Parallel(8, 32):
        G[by * 8 + i, bx * 32 + j] = X[j % 8, j]


@T.macro
def part_of_a_fragment(X, G, b, n, bx, by):
    row = T.alloc_fragment((64,), "float32")
    T.copy(b[0:64], row)
    for i, j in T.Parallel(8, 32):
        X[i, j] += row[j + 1]


@T.macro
def part_of_a_tile(X, G, b, n, bx, by):
    S = T.alloc_shared((8, 64), "float32")
    T.copy(X, S[:, 0:32])


@T.macro
def half_of_it(X, G, b, n, bx, by):
    for i, j in T.Parallel(8, 16):
        X[i, j] = 0.0


@T.macro
def written_by_all(X, G, b, n, bx, by):
    for i in T.Parallel(8):
        n[by * 8 + i] = 1.0


@T.macro
def counted(X, G, b, n, bx, by):
    T.atomic_add(n[0], 1.0)


@T.macro
def printed(X, G, b, n, bx, by):
    T.print(1.0)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (all_of_a_row, "all columns of 'X' are needed"),
        (collected, "'total' collects something of all columns"),
        (another_order, "a loop does not go over the columns one by one"),
        (diagonal, "a loop does not go over the columns one by one"),
        (part_of_a_fragment, "'row' is not read column by column"),
        (part_of_a_tile, "a part of 'S' is copied"),
        (half_of_it, "or is over some columns"),
        (written_by_all, "'n' is written otherwise than column by column"),
        (counted, "must be done once|written otherwise"),
        (printed, "something must be done once"),
    ],
)
def test_what_needs_all_columns_or_would_be_done_by_several_is_refused(body, expected):
    with pytest.raises(NotPartitioned, match=expected):
        narrowed(body)


def test_tiles_with_another_name_are_refused():
    @T.macro
    def body(X, G, b, n, bx, by):
        S = T.alloc_shared((8, 32), "float32")
        V = T.reshape(S, (256,))
        T.copy(X, S)
        T.copy(V[0:64], n)

    with pytest.raises(NotPartitioned, match="'S' has views"):
        narrowed(body)
