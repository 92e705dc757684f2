"""Launches in machine code (launch.cpp): streams, contexts, outputs, tensor maps, failures, lifetimes."""

import ctypes
import dataclasses
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from fake_cuda import EncodedMap, launch, map_text, scalar, signature, tensor
from native_kernels import (
    NAMES,
    NEEDS_CHECKER,
    A,
    B,
    C,
    Kernel,
    M,
    N,
    three,
    torch,
)

from tilelang.errors import ArgumentError
from tilelang.runtime.arguments import bind
from tilelang.runtime.fast_path import MISSED
from tilelang.runtime.native_call import NotNative

pytestmark = NEEDS_CHECKER


@pytest.fixture
def add() -> Kernel:
    made = Kernel(signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4)), launch(A, B, C))
    made.add_plan(*three())
    return made


def test_addresses_reach_the_kernel_on_the_current_stream(add: Kernel) -> None:
    for stream in (5, 6):
        add.machine.stream = stream
        given = three()
        assert add.call(*given) is None
        assert [t.data_ptr() for t in given] == add.last
        assert (1, stream, (4, 2, 1, 128, 1, 1, 1024)) == add.machine.done[-1][:3]
    assert [] == add.long


def test_what_was_never_seen_takes_the_slow_path() -> None:
    kernel = Kernel(signature(tensor("A", M, 4), symbols=(M,)), launch(A, ("symbol", 0, "int"), grid=("M",)))
    kernel.add_plan(torch.zeros(8, 4))
    assert "the long way" == kernel.call(torch.zeros(7, 4))
    assert kernel.call(torch.zeros(8, 4)) is None
    assert 8 == kernel.last[1]
    kernel.add_plan(torch.zeros(7, 4))
    kernel.call(torch.zeros(7, 4))
    assert (7, (7, 1, 1)) == (kernel.last[1], kernel.machine.done[-1][2][:3])
    assert 1 == len(kernel.long)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: torch.zeros(8, 5),
        lambda t: torch.zeros(8),
        lambda t: torch.zeros(8, 4, 1),
        lambda t: torch.zeros(8, 4, dtype=torch.float16),
        lambda t: torch.zeros(8, 4, dtype=torch.int32),
        lambda t: torch.zeros(4, 8).t(),
        lambda t: torch.zeros(33)[1:].view(8, 4),
        lambda t: t.numpy(),
        lambda t: t.to_sparse(),
        lambda t: torch.zeros(8, 4, device="meta"),
        lambda t: None,
        lambda t: 3,
        lambda t: torch.Tensor._make_subclass(type("Own", (torch.Tensor,), {}), t),
    ],
)
def test_what_does_not_fit_takes_the_slow_path_and_launches_nothing(add: Kernel, change: Any) -> None:
    a, b, c = three()
    given = (a, change(b), c)
    assert "the long way" == add.call(*given)
    assert all(x is y for x, y in zip(given, add.long[0]))
    assert MISSED is add.native.attempt(*given)
    assert ([], 1) == (add.machine.done, len(add.long))


def test_an_attempt_launches_as_a_call_does(add: Kernel) -> None:
    given = three()
    assert add.native.attempt(*given) is None
    assert [t.data_ptr() for t in given] == add.last


def test_the_number_of_arguments_is_checked(add: Kernel) -> None:
    assert "the long way" == add.call(*three()[:2])
    assert "the long way" == add.call(*three(), 1)
    assert "the long way" == add.call()


def test_parameters_of_modules_are_tensors(add: Kernel) -> None:
    a, b, c = three()
    weight = torch.nn.Parameter(b)
    assert add.call(a, weight, c) is None
    assert b.data_ptr() == add.last[1]


def test_other_contexts_and_failed_assertions_take_the_slow_path() -> None:
    kernel = Kernel(
        signature(tensor("A", 8)), launch(A, ("failure", 0, "int32_t*")), asserts=True
    )
    kernel.add_plan(torch.zeros(8))
    assert kernel.call(torch.zeros(8)) is None
    assert ctypes.addressof(kernel.flag) == kernel.last[1]
    kernel.flag.value = 1
    assert "the long way" == kernel.call(torch.zeros(8))
    kernel.flag.value = 0
    kernel.machine.context = 0
    assert "the long way" == kernel.call(torch.zeros(8))
    kernel.machine.context = 200
    assert "the long way" == kernel.call(torch.zeros(8))
    kernel.add_plan(torch.zeros(8), context=200)
    assert kernel.call(torch.zeros(8)) is None


def test_outputs_and_workspaces_are_allocated() -> None:
    s = signature(tensor("A", M), tensor("B", M), tensor("C", 3, dtype="int32"), symbols=(M,), out_idx=[1, 2])
    kernel = Kernel(s, launch(C, ("workspace", 0, "void*"), B, A), workspaces=("M * 4",))
    kernel.add_plan(torch.zeros(8))
    a = torch.zeros(8)
    b, c = kernel.call(a)
    assert ((8,), torch.float32, (3,), torch.int32) == (tuple(b.shape), b.dtype, tuple(c.shape), c.dtype)
    assert [c.data_ptr(), b.data_ptr(), a.data_ptr()] == [kernel.last[0], *kernel.last[2:]]
    assert kernel.last[1] not in (0, *kernel.last[2:])
    one = Kernel(signature(tensor("A", 8), tensor("B", 8), out_idx=-1), launch(A, B))
    one.add_plan(torch.zeros(8))
    result = one.call(a)
    assert result.data_ptr() == one.last[1]


def test_an_allocation_that_fails_launches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **keywords: Any) -> Any:
        raise MemoryError("no more")

    kernel = Kernel(signature(tensor("A", 8), tensor("B", 8), out_idx=-1), launch(A, B))
    monkeypatch.setattr("tilelang.runtime.arrays.Allocation.make", lambda self: np.zeros(8, np.float32))
    monkeypatch.setattr(torch, "empty", full)
    kernel.add_plan(torch.zeros(8))
    with pytest.raises(MemoryError, match="no more"):
        kernel.call(torch.zeros(8))
    assert [] == kernel.machine.done


def test_all_kernels_of_a_program_are_launched_in_order() -> None:
    kernel = Kernel(signature(tensor("A", 8), tensor("B", 8)), launch(A, name="first"), launch(B, A, name="second"))
    kernel.add_plan(torch.zeros(8), torch.zeros(8))
    kernel.call(torch.zeros(8), torch.zeros(8))
    assert [1, 2] == [one[0] for one in kernel.machine.done]


def test_clusters_and_cooperation_are_asked_for() -> None:
    kernel = Kernel(signature(tensor("A", 8)), launch(A, cluster=(2, 1, 1), cooperative=True))
    kernel.add_plan(torch.zeros(8))
    kernel.call(torch.zeros(8))
    assert [(4, 2, 1, 1), (2, 1, 0, 0)] == kernel.machine.attributes


def test_tensor_maps_follow_their_tensors() -> None:
    text = map_text(1, ("K", "M"), ("K * 2",), (64, 8), 128)
    s = signature(tensor("A", 8), tensor("B", M, N, dtype="float16"), symbols=(M, N))
    maps = (text, map_text(0, ("8",), (), (8,), 0, "float32"))
    named = [dataclasses.replace(one, dims=tuple(d.replace("K", "N") for d in one.dims),
                                 strides=tuple(d.replace("K", "N") for d in one.strides)) for one in maps]  # fmt: skip
    arguments = (A, ("tensor_map", 0, "tl_tensor_map"), ("symbol", 0, "int"), ("tensor_map", 1, "tl_tensor_map"))
    kernel = Kernel(s, launch(*arguments, maps=tuple(named)))
    a, b = torch.zeros(8), torch.zeros(16, 64, dtype=torch.float16)
    kernel.add_plan(a, b)
    before = kernel.machine.encoded
    for first, second, encoded in ((a, b, 0), (a, torch.zeros_like(b), 1), (torch.zeros(8), b, 1), (a, b, 0)):
        start = kernel.machine.encoded
        assert kernel.call(first, second) is None
        pointer, one, rows, two = kernel.last
        assert (first.data_ptr(), 16, encoded) == (pointer, rows, kernel.machine.encoded - start)
        assert EncodedMap(second.data_ptr(), (64, 16), (128,), (64, 8), (1, 1), 6, 0, 3, 2, 0) == EncodedMap.of(one)
        assert EncodedMap(first.data_ptr(), (8,), (), (8,), (1,), 7, 0, 0, 2, 0) == EncodedMap.of(two)
    assert 2 == before
    assert [] == kernel.long


def test_outputs_that_are_allocated_have_maps() -> None:
    s = signature(tensor("A", 8), tensor("B", 8, dtype="float16"), out_idx=-1)
    kernel = Kernel(s, launch(("tensor_map", 0, "tl_tensor_map"), maps=(map_text(1, ("8",), (), (8,)),)))
    kernel.add_plan(torch.zeros(8))
    assert kernel.call(torch.zeros(8)).data_ptr() == EncodedMap.of(kernel.last[0]).address


@pytest.mark.parametrize(("status", "long"), [(201, True), (400, True), (719, False)])
def test_a_refused_launch_raises_or_takes_the_slow_path(add: Kernel, status: int, long: bool) -> None:
    add.machine.status = status
    if long:
        assert "the long way" == add.call(*three())
        return
    with pytest.raises(RuntimeError, match="kernel_kernel 719"):
        add.call(*three())
    assert [(719, "kernel_kernel")] == add.failures


def test_other_threads_run_while_the_driver_waits(add: Kernel) -> None:
    arrived, passed = threading.Barrier(2, timeout=5), []
    add.machine.during = lambda: passed.append(arrived.wait())
    given = [three() for _ in range(2)]
    threads = [threading.Thread(target=add.call, args=one) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2 == len(passed)
    found = sorted(one[3] for one in add.machine.done)
    assert sorted([t.data_ptr() for t in one] for one in given) == found


def test_sizes_are_remembered_up_to_a_limit() -> None:
    kernel = Kernel(signature(tensor("A", M, 2), symbols=(M,)), launch(A, ("symbol", 0, "int")))
    for size in range(1024):
        assert kernel.add_plan(torch.zeros(size, 2))
    assert not kernel.add_plan(torch.zeros(1024, 2))
    for size in range(1024):
        assert kernel.call(torch.zeros(size, 2)) is None
        assert size == kernel.last[1]
    assert [] == kernel.long


def test_references_are_neither_kept_nor_lost(add: Kernel) -> None:
    a, b, c = three()
    gone = weakref.ref(a)
    for _ in range(3):
        add.call(a, b, c)
        add.call(a, b, torch.zeros(3))
    add.long.clear()
    del a
    assert gone() is None


def test_a_kernel_that_nobody_has_is_collected() -> None:
    kernel = Kernel(signature(tensor("A", 8), tensor("B", 8), out_idx=-1), launch(A, B))
    kernel.add_plan(torch.zeros(8))
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: (signature(tensor("A", 8), scalar("x", "float16")), launch(A, ("scalar", 1, "half_t"))),
        lambda: (signature(tensor("A", 8), *map(scalar, NAMES)), launch(*(("scalar", 1, "int") for _ in NAMES))),
    ],
)
def test_launches_that_need_more_are_not_made_in_machine_code(make: Any) -> None:
    kernel = Kernel(*make())
    with pytest.raises(NotNative):
        kernel.add_plan(torch.zeros(8), *[1] * (len(kernel.signature.params) - 1))


def test_the_slow_path_words_the_errors_of_what_was_refused(add: Kernel) -> None:
    add.call(*three()[:2], torch.zeros(9, 4))
    with pytest.raises(ArgumentError, match="'C' has shape"):
        bind(add.signature, add.long[0])
