"""The statements that list tiles, and those that visit them."""

import numpy as np
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.ir.print_expr import ExprPrinter
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.placement import Tiling, place_axes
from tilelang.level1.tile_list_text import list_workspaces, listing_lines, visiting_lines
from tilelang.level1.visited_tiles import with_visited_tiles


def texts(*batch: int) -> tuple[list[str], list[str], list[str]]:
    def f(q, k, d, e):  # type: ignore[no-untyped-def]
        s = q @ tnp.permute_dims(k, (*range(len(batch)), -1, -2))
        return tnp.sum(tnp.where(d[..., :, None] == e[None, :], s, 0), axis=-1)

    q, k = np.zeros((*batch, 90, 16), np.float32), np.zeros((*batch, 70000, 16), np.float32)
    (kernel,) = fused_kernels(trace(f, q, k, np.zeros((*batch, 90), np.int32), np.zeros(70000, np.int32)))
    row, column = kernel.reductions[-1].axes[-1], kernel.reductions[-1].reduced[0]
    tiling = Tiling({row: 16, column: 64}, 128, 2)
    placement, names = place_axes(kernel, tiling), ExprPrinter()
    kernel, visited = with_visited_tiles(kernel, tiling, placement)
    assert visited is not None
    workspaces = list_workspaces(visited, placement, names)
    return workspaces, listing_lines(visited, kernel, placement, names), visiting_lines(visited, placement, 2, names)


def test_a_block_lists_the_tiles_of_its_rows() -> None:
    workspaces, lines, _ = texts()
    rows, tiles = "T.ceildiv(90, block_i)", "T.ceildiv(70000, block_j)"
    assert [
        f'j_partial = T.alloc_global(({rows}, {tiles}), "int32")',
        f'j_whole = T.alloc_global(({rows}, {tiles}), "int32")',
        f'j_partial_count = T.alloc_global(({rows},), "int32")',
        f'j_whole_count = T.alloc_global(({rows},), "int32")',
    ] == workspaces
    statements = [line.strip() for line in lines if "alloc_fragment" not in line]
    assert f"with T.Kernel({rows}, threads=128) as bx:" == statements[0]
    assert [
        "for i in T.Parallel(block_i):",
        "x2_tile[i] = x2[T.min(bx * block_i + i, 89)]",
        "T.reduce_min(x2_tile, x2_low, dim=0)",
        "T.reduce_max(x2_tile, x2_high, dim=0)",
        "T.clear(partial_seen)",
        "T.clear(whole_seen)",
        f"for chunk in T.serial(T.ceildiv({tiles}, 32)):",
        "for tile, j in T.Parallel(32, block_j):",
        "x3_tile[tile, j] = x3[T.min((chunk * 32 + tile) * block_j + j, 69999)]",
        "T.reduce_min(x3_tile, x3_low, dim=1)",
        "T.reduce_max(x3_tile, x3_high, dim=1)",
    ] == statements[1:12]
    assert ["j_partial_count[bx] = partial_seen[0]", "j_whole_count[bx] = whole_seen[0]"] == statements[-2:]


def test_a_loop_visits_parts_before_whole_tiles() -> None:
    assert [
        "j_masked = j_partial_count[bx]",
        "for j_number in T.Pipelined(j_masked + j_whole_count[bx], num_stages=2):",
        "j_step = T.if_then_else(j_number < j_masked, j_partial[bx, j_number], j_whole[bx, j_number - j_masked])",
        "T.assume(j_step >= 0 and j_step < T.ceildiv(70000, block_j))",
    ] == texts()[2]


def test_lists_belong_to_what_the_mask_depends_on() -> None:
    workspaces, lines, _ = texts(3)
    assert "T.alloc_global((T.ceildiv(90, block_j), 3, T.ceildiv(70000, block_k))" in workspaces[0]
    assert "with T.Kernel(T.ceildiv(90, block_j), 3, threads=128) as (bx, i):" == lines[0]
