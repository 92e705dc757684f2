"""Shared memory holds as many versions of tiles as fit, for which results may leave in parts."""

import pytest
from roles import TABLE, context, launch_of, product

from tilelang.options import ScheduleWishes
from tilelang.targets.nvidia.passes.roles.abilities import roles_of
from tilelang.targets.nvidia.passes.roles.rings import flat
from tilelang.targets.nvidia.passes.roles.room import Room, room_of
from tilelang.targets.nvidia.passes.roles.widening import widened

BYTES = 227 * 1024


def room(func, *, shared_bytes=BYTES, at_once=1, persistent=True, **wishes):
    launch = flat(widened(launch_of(func), ()))
    roles = roles_of(func, TABLE, context())
    return room_of(
        launch,
        roles.rings(launch).found,
        roles.exits(launch, 256),
        shared_bytes,
        ScheduleWishes(**wishes),
        persistent=persistent,
        at_once=at_once,
    )


@pytest.mark.parametrize(
    "tile,expected",
    [
        ((128, 128, 64), Room(6, 1, 1)),  # in parts there would be no more
        ((128, 256, 64), Room(4, 1, 2)),
        ((128, 192, 64), Room(5, 1, 3)),  # halves would have rows of 192 bytes
        ((128, 224, 64), Room(4, 1, 2)),
        ((64, 128, 64), Room(8, 1, 1)),
        ((256, 192, 64), Room(3, 1, 3)),
    ],
)
def test_results_leave_in_parts_where_that_makes_room(tile, expected):
    assert expected == room(product(4096, 4096, 4096, *tile))


@pytest.mark.parametrize(
    "staged,expected",
    [
        (False, Room(4, 1, 0)),
        (0, Room(4, 1, 0)),
        (1, Room(3, 1, 1)),
        (True, Room(4, 1, 2)),
        (4, Room(4, 1, 4)),
        (3, Room(3, 1, 1)),  # 256 columns have no thirds: they leave at once
    ],
)
def test_wishes_are_kept(staged, expected):
    assert expected == room(product(4096, 4096, 4096, 128, 256, 64), staged=staged)


def test_two_tiles_at_once_take_twice_as_much():
    assert Room(6, 1, 2) == room(product(8192, 8192, 1024, 128, 128, 64), at_once=2)
    assert Room(4, 1, 3) == room(product(8192, 8192, 1024, 128, 192, 64), at_once=2)


def test_no_more_versions_than_a_block_uses():
    assert Room(2, 1, 1) == room(product(256, 256, 128), persistent=False)


def test_it_is_said_what_does_not_fit():
    assert "shared memory holds no version of 32768 bytes of tiles" == room(product(256, 256, 256), shared_bytes=32768)
    assert "shared memory holds one version of 32768 bytes of tiles" == room(product(256, 256, 256), shared_bytes=65536)
