"""Roles say what a target can do with single operators, and why not."""

import dataclasses

from roles import TABLE, context, launch_of, product

from tilelang.dtypes import SCALARS
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.passes.roles.abilities import roles_of
from tilelang.targets.nvidia.passes.roles.rings import flat


def roles_and_launch(func, table=TABLE):
    return roles_of(func, table, context()), flat(launch_of(func))


def test_tiles_of_parameters_are_brought_and_results_stored():
    roles, launch = roles_and_launch(product(256, 256, 256))
    (ring,) = roles.rings(launch).found
    assert ["A_s", "B_s"] == [tile.name for tile in ring.tiles]
    (made,) = roles.exits(launch, 256)
    assert "C_l" == made.copy.src.buffer.name
    assert roles.read_by_warpgroups(ring, 256)
    assert not roles.read_by_warpgroups(ring, 96)


def test_what_the_host_cannot_describe_is_not_brought():
    roles, launch = roles_and_launch(product(256, 256, 256))
    unknown = dataclasses.replace(roles, tensors=frozenset())
    assert () == unknown.rings(launch).found
    assert "'A' is no parameter" == unknown.rings(launch).refused[0][1]
    assert () == unknown.exits(launch, 256)


def test_a_table_without_a_lowering_refuses():
    func = product(256, 256, 256)
    roles, launch = roles_and_launch(func, {})
    (gemm,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    assert "the target has no gemm.wgmma" == roles.refuses(gemm, 128)


def test_blocks_bring_parts_of_tiles_that_have_them():
    roles, launch = roles_and_launch(product(256, 256, 256))
    copy, _ = roles.rings(launch).found[0].copies
    assert "" == roles.parts_refusal(copy, 2)
    assert "3 blocks cannot bring equal parts of 128 rows and 64 columns" == roles.parts_refusal(copy, 3)


def test_wide_operands_are_rounded_before_they_are_multiplied():
    roles, launch = roles_and_launch(product(256, 256, 256))
    (gemm,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    assert roles.reads_in_place(gemm, gemm.a.buffer, 128)
    wide = dataclasses.replace(gemm.a.buffer, dtype=SCALARS["float32"])
    made = dataclasses.replace(gemm, a=dataclasses.replace(gemm.a, buffer=wide))
    assert not roles.reads_in_place(made, wide, 128)
