"""Which threads execute a statement together, and which use a buffer."""

import tilelang.language as T
from tilelang.analysis.thread_groups import ThreadGroups, contains
from tilelang.ir.stmt import Alloc, Group, Launch, Store
from tilelang.ir.visit import walk


@T.prim_func
def roles(A: T.Tensor((64,), T.int32)):
    with T.Kernel(1, threads=256):
        for_all = T.alloc_shared((64,), "int32")
        for_one = T.alloc_shared((64,), "int32")
        unused = T.alloc_shared((64,), "int32")
        with T.ws(0, 1):
            for_all[0] = 0
        with T.ws(1):
            for_one[0] = for_all[1]
            A[0] = for_one[0]


def looked_at():
    (launch,) = [s for s in walk(roles.body) if isinstance(s, Launch)]
    return launch, ThreadGroups(launch)


def test_statements_belong_to_the_innermost_group():
    launch, groups = looked_at()
    stores = [s for s in walk(launch.body) if isinstance(s, Store)]
    assert [Group(0, 256), Group(128, 128), Group(128, 128)] == [groups.around(s) for s in stores]
    assert Group(0, 256) == groups.block == groups.around(launch.body)


def test_buffers_belong_to_who_touches_them():
    launch, groups = looked_at()
    tiles = {s.buffer.name: s.buffer for s in walk(launch.body) if isinstance(s, Alloc)}
    assert (Group(0, 256), Group(128, 128)) == groups.users(tiles["for_all"])
    assert None is groups.only_user(tiles["for_all"])
    assert Group(128, 128) == groups.only_user(tiles["for_one"])
    assert None is groups.only_user(tiles["unused"])


def test_a_group_contains_those_of_some_of_its_threads():
    upper = Group(128, 128)
    inside = [Group(128, 128), Group(128, 1), Group(192, 64), Group(96, 64), Group(192, 128), Group(0, 256)]
    assert [True, True, True, False, False, False] == [contains(upper, group) for group in inside]
