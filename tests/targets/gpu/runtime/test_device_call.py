import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_calls import Calls
from fake_cuda import (  # noqa: F401
    FakeCuda,
    FakeTensor,
    FakeTorch,
    cuda,
    device_code,
    driver,
    launch,
    scalar,
    signature,
    tensor,
    torch,
)

from tilelang.dtypes import INT32
from tilelang.errors import ArgumentError, DeviceAssertError, DriverError, Loc, ResourceError
from tilelang.ir.expr import Var
from tilelang.ir.specialization import Specialization
from tilelang.runtime.fast_path import MISSED

M, K = (Var(name, INT32, index=True) for name in "MK")
THREE = (("tensor", 0, "void*"), ("tensor", 1, "void*"), ("tensor", 2, "void*"))


@pytest.fixture
def add(cuda: FakeCuda) -> Calls:
    s = signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4))
    return Calls(cuda, s, lambda specialization: device_code(launch(*THREE)))


def three(torch: FakeTorch, device: int = 0) -> list[FakeTensor]:
    return [FakeTensor((8, 4), torch.float32, device) for _ in range(3)]


def test_a_call_launches_on_the_stream_of_the_framework(add: Calls, torch: FakeTorch) -> None:
    tensors = three(torch)
    assert add(*tensors) is None
    (done,) = add.cuda.launches
    assert ("kernel_kernel", (4, 2, 1), (128, 1, 1), 1024, 77) == (
        done.kernel, done.grid, done.threads, done.shared_bytes, done.stream,
    )  # fmt: skip
    assert [t.pointer for t in tensors] == done.values("QQQ")


def test_later_calls_take_the_short_way_to_the_same_launch(add: Calls, torch: FakeTorch) -> None:
    add(*three(torch))
    for stream in (77, 78):
        torch.stream = stream
        tensors = three(torch)
        add(*tensors)
        done = add.cuda.launches[-1]
        assert ([t.pointer for t in tensors], stream) == (done.values("QQQ"), done.stream)
    assert 1 == add.long
    assert "cuCtxSynchronize" not in add.cuda.calls


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, torch: FakeTensor((8, 5), torch.float32), "'B' has shape (8, 5), expected (8, 4)"),
        (lambda t, torch: FakeTensor((8, 4), torch.float16), "'B' has dtype torch.float16, expected float32"),
        (lambda t, torch: FakeTensor((8, 4), torch.float32, strides=(1, 8)), "'B' is not contiguous"),
        (lambda t, torch: FakeTensor((8, 4), torch.float32, 1), "'B' is on device cuda:1, but 'A' is on cuda:0"),
        (lambda t, torch: np.zeros((8, 4), np.float32), "'B' is in host memory, expected memory of a CUDA device"),
        (lambda t, torch: t.shifted(2), "'B' starts at an address that is not a multiple of the size of float32"),
    ],
)
def test_what_does_not_fit_is_refused_on_both_ways(
    add: Calls, torch: FakeTorch, change: Callable[..., Any], message: str
) -> None:
    for _ in range(2):
        a, b, c = three(torch)
        with pytest.raises(ArgumentError) as caught:
            add(a, change(b, torch), c)
        assert message in str(caught.value)
        add(a, b, c)
    assert 2 == len(add.cuda.launches)


def test_the_hint_for_host_memory_names_the_target(add: Calls, torch: FakeTorch) -> None:
    with pytest.raises(ArgumentError) as caught:
        add(np.zeros((8, 4), np.float32), *three(torch)[1:])
    assert "pass torch.from_numpy(A).cuda(); the kernel was compiled for sm_90a" == caught.value.hint


def test_a_tensor_that_begins_between_16_bytes_gets_a_variant(add: Calls, torch: FakeTorch) -> None:
    a, b, c = three(torch)
    add(a, b, c)
    add(a, b.shifted(4), c)
    add(a, b.shifted(8), c)
    assert [Specialization(), Specialization(misaligned=("B",))] == add.variants
    assert b.pointer + 8 == add.cuda.launches[-1].values("QQQ")[1]


def test_outputs_are_allocated_on_the_device_of_the_inputs(torch: FakeTorch) -> None:
    cuda = FakeCuda(devices=2)
    s = signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4), out_idx=-1)
    calls = Calls(cuda, s, lambda specialization: device_code(launch(*THREE)))
    torch.current = 1
    for _ in range(3):
        a, b, _ = three(torch, 1)
        c = calls(a, b)
        assert ((8, 4), torch.float32, 1) == (c.shape, c.dtype, c.number)
        done = cuda.launches[-1]
        assert ([a.pointer, b.pointer, c.pointer], 78, 101) == (done.values("QQQ"), done.stream, done.context)
        cuda.context = 101  # as torch leaves it for its current device
    assert 1 == calls.long


def test_outputs_that_a_call_passes_are_known_as_inputs_are(cuda: FakeCuda, torch: FakeTorch) -> None:
    s = signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4), out_idx=-1)
    calls = Calls(cuda, s, lambda specialization: device_code(launch(*THREE)))
    for _ in range(3):
        a, b, c = three(torch)
        assert calls(a, b, c) is c
        assert [a.pointer, b.pointer, c.pointer] == cuda.launches[-1].values("QQQ")
    assert 1 == calls.long
    assert calls(a, b) is not c
    assert 2 == calls.long


def test_a_device_that_is_not_the_current_one_is_entered_for_the_launch(torch: FakeTorch) -> None:
    cuda = FakeCuda(devices=2)
    s = signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4))
    calls = Calls(cuda, s, lambda specialization: device_code(launch(*THREE)))
    cuda.context = 100
    for _ in range(2):
        calls(*three(torch, 1))
        assert (101, 100) == (cuda.launches[-1].context, cuda.context)


def dynamic(cuda: FakeCuda) -> Calls:
    s = signature(tensor("A", 4, M), tensor("C", 4, M), symbols=(M,))
    arguments = (("tensor", 0, "void*"), ("tensor", 1, "void*"), ("symbol", 0, "int32_t"))

    def make(specialization: Specialization) -> Any:
        name = f"M_div{dict(specialization.multiples)['M']}" if specialization.multiples else "M"
        return device_code(launch(*arguments, grid=(name,)))

    return Calls(cuda, s, make)


def test_sizes_that_divide_evenly_get_a_variant_of_their_own(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = dynamic(cuda)
    for rows in (32, 5, 24, 64, 32, 7, 0):
        if rows:
            calls(*[FakeTensor((4, rows), torch.float32) for _ in range(2)])
    assert [Specialization((("M", 16),)), Specialization(), Specialization((("M", 8),))] == calls.variants
    assert [(2, 2), (5, 5), (3, 3), (4, 4), (2, 2), (7, 7)] == [
        (done.grid[0], done.values("QQi")[2]) for done in cuda.launches
    ]


def test_an_outermost_size_makes_no_variants(cuda: FakeCuda, torch: FakeTorch) -> None:
    s = signature(tensor("A", M, 4), symbols=(M,))
    calls = Calls(cuda, s, lambda specialization: device_code(launch(("tensor", 0, "void*"), grid=("M",))))
    for rows in (32, 5, 24):
        calls(FakeTensor((rows, 4), torch.float32))
    assert [Specialization()] == calls.variants


def test_sizes_seen_before_take_the_short_way_in_any_order(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = dynamic(cuda)
    for _ in range(3):
        for rows in (32, 48, 5, 7):
            calls(*[FakeTensor((4, rows), torch.float32) for _ in range(2)])
            assert rows == cuda.launches[-1].values("QQi")[2] * (16 if rows % 16 == 0 else 1)
    assert 4 == calls.long


def test_shared_memory_is_as_large_as_a_call_needs(cuda: FakeCuda, torch: FakeTorch) -> None:
    kernel = launch(("tensor", 0, "void*"), grid=("1",), shared_text="(512 + (n * 4))")
    calls = Calls(cuda, signature(tensor("A", 8), scalar("n")), lambda specialization: device_code(kernel))
    for n in (4, 8, 4, 8):
        calls(FakeTensor((8,), torch.float32), n)
        assert 512 + n * 4 == cuda.launches[-1].shared_bytes
    with pytest.raises(RuntimeError, match="shared memory: 262656 bytes asked"):
        calls(FakeTensor((8,), torch.float32), 65536)


def test_an_empty_grid_launches_nothing(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = dynamic(cuda)
    for _ in range(2):
        calls(*[FakeTensor((4, 0), torch.float32) for _ in range(2)])
    assert [] == cuda.launches


def test_tensors_beyond_32_bits_get_a_wide_program(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = dynamic(cuda)
    tensors = [FakeTensor((4, 4), torch.float32) for _ in range(2)]
    for t in tensors:
        t.shape, t.strides = (4, 2**30 + 1), (2**30 + 1, 1)
    calls(*tensors)
    assert [Specialization(wide=True)] == calls.variants


def test_variants_have_an_end(cuda: FakeCuda, torch: FakeTorch) -> None:
    names = [Var(f"M{n}", INT32, index=True) for n in range(4)]
    s = signature(*(tensor(f"A{n}", names[n]) for n in range(4)), symbols=tuple(names))
    calls = Calls(cuda, s, lambda specialization: device_code(launch(("tensor", 0, "void*"), grid=("1",))))
    for n in range(16):
        calls(*[FakeTensor((16 if n >> k & 1 else 3,), torch.float32) for k in range(4)])
    assert 16 == len(cuda.launches)
    assert 8 == len(calls.variants)


def test_scalars_and_workspaces_reach_their_places(cuda: FakeCuda, torch: FakeTorch) -> None:
    s = signature(tensor("A", 8), scalar("n"), scalar("factor", "float32"), scalar("flag", "bool"))
    first = launch(
        ("tensor", 0, "void*"), ("workspace", 0, "void*"), ("scalar", 2, "float"), ("scalar", 3, "bool"), grid=("n",)
    )
    second = launch(("scalar", 1, "int32_t"), ("workspace", 0, "void*"), name="second", grid=("3",))
    calls = Calls(cuda, s, lambda specialization: device_code(first, second, workspaces=("n * 4",)))
    for n in (5, 6, 5, 6):
        a = FakeTensor((8,), torch.float32)
        calls(a, n, 1.5, True)
        one, two = cuda.launches[-2:]
        size, _, _ = torch.allocated[-1]
        assert (n * 4,) == size
        pointer, space, factor, flag = one.values("QQf?")
        assert (a.pointer, 1.5, True, (n, 1, 1)) == (pointer, factor, flag, one.grid)
        assert [n, space] == two.values("iQ")
    assert 2 == calls.long


def test_a_scalar_out_of_range_is_refused_on_both_ways(cuda: FakeCuda, torch: FakeTorch) -> None:
    s = signature(tensor("A", 8), scalar("n"))
    calls = Calls(cuda, s, lambda specialization: device_code(launch(("tensor", 0, "void*"), ("scalar", 1, "int32_t"))))
    calls(FakeTensor((8,), torch.float32), 3)
    with pytest.raises(ArgumentError, match="'n' is 4294967296, which int32 cannot hold"):
        calls(FakeTensor((8,), torch.float32), 2**32)


def test_strided_tensors_are_told_apart_by_their_strides(cuda: FakeCuda, torch: FakeTorch) -> None:
    step = Var("step", INT32, index=True)
    s = signature(tensor("A", M, 4, strides=(step, step)), symbols=(M, step))
    calls = Calls(
        cuda, s, lambda specialization: device_code(launch(("tensor", 0, "void*"), ("symbol", 1, "int64_t"), grid=("1",)))
    )
    for stride in (5, 6, 5):
        calls(FakeTensor((3, 4), torch.float32, strides=(stride, stride)))
        assert stride * (1 if stride % 8 else 0) == cuda.launches[-1].values("Qq")[1]
    assert 2 == calls.long


def test_a_thread_without_a_context_gets_one(add: Calls, torch: FakeTorch) -> None:
    add(*three(torch))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(50):
                add(*three(torch))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failures
    assert 201 == len(add.cuda.launches)
    assert {100} == {done.context for done in add.cuda.launches}


def test_calls_at_once_do_not_mix_their_arguments(add: Calls, torch: FakeTorch) -> None:
    add(*three(torch))
    plain = add.cuda.cuLaunchKernelEx
    started, again = threading.Event(), threading.Event()

    def slow(*args: Any) -> int:
        if threading.current_thread() is not threading.main_thread():
            started.set()
            again.wait(5)
        return plain(*args)

    add.driver.launch = slow
    add.caller.call = lambda *args: add.caller.slow_path(args)
    mine, other = three(torch), three(torch)
    thread = threading.Thread(target=add, args=other)
    thread.start()
    started.wait(5)
    add(*mine)
    again.set()
    thread.join()
    assert [[t.pointer for t in mine], [t.pointer for t in other]] == [
        done.values("QQQ") for done in add.cuda.launches[-2:]
    ]


def test_a_launch_that_the_driver_refuses_names_the_kernel(add: Calls, torch: FakeTorch) -> None:
    add(*three(torch))
    add.cuda.failing["cuLaunchKernelEx"] = 701
    with pytest.raises(DriverError) as caught:
        add(*three(torch))
    assert (
        "kernel: launch of kernel_kernel failed with CUDA_ERROR_701 (701): so it is\n"
        "hint: use fewer threads or registers: a smaller `threads=`, or smaller tiles"
    ) == str(caught.value)


def asserting(cuda: FakeCuda) -> Calls:
    arguments = (("tensor", 0, "void*"), ("failure", 0, "void*"))
    asserts = (("too large", Loc("user.py", 7), ""),)
    return Calls(cuda, signature(tensor("A", 8)), lambda specialization: device_code(launch(*arguments), asserts=asserts))


@pytest.mark.parametrize("before", [0, 1])
def test_a_failed_assertion_reaches_the_next_call(
    cuda: FakeCuda, torch: FakeTorch, before: int
) -> None:
    calls = asserting(cuda)
    a = FakeTensor((8,), torch.float32)
    for _ in range(before + 1):
        calls(a)
    flag = calls.board._flags[0]
    assert [a.pointer, flag.address] == cuda.launches[-1].values("QQ")
    flag.number.value = 1
    with pytest.raises(DeviceAssertError, match="too large"):
        calls(a)
    assert before + 1 == len(cuda.launches)


def test_a_failed_assertion_reaches_who_waits(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = asserting(cuda)
    calls(FakeTensor((8,), torch.float32))
    calls.caller.synchronize()
    cuda.failing["cuCtxSynchronize"] = 719
    with pytest.raises(DriverError, match="719"):
        calls.caller.synchronize()
    calls.board._flags[0].number.value = 1
    with pytest.raises(DeviceAssertError, match="too large"):
        calls.caller.synchronize()


def test_arrays_of_other_frameworks_take_the_slow_path(add: Calls) -> None:
    class Array:
        def __init__(self, stream: int | None = None) -> None:
            interface = {"typestr": "<f4", "shape": (8, 4), "data": (4096, False), "version": 3, "stream": stream}
            self.__cuda_array_interface__ = interface

    arrays = [Array(5), Array(), Array()]
    for _ in range(2):
        add(*arrays)
    assert [(5, [4096] * 3)] * 2 == [(done.stream, done.values("QQQ")) for done in add.cuda.launches]


def test_the_device_of_an_array_that_does_not_say_is_asked_of_the_driver(add: Calls) -> None:
    class Array:
        def __init__(self, pointer: int) -> None:
            self.__cuda_array_interface__ = {"typestr": "<f4", "shape": (8, 4), "data": (pointer, False), "version": 3}

    add.cuda.where[8192] = 1
    with pytest.raises(ArgumentError, match="'C' is on device cuda:1, but 'A' is on cuda:0"):
        add(Array(4096), Array(4096), Array(8192))


def test_resources_are_refused_before_anything_is_launched(cuda: FakeCuda, torch: FakeTorch) -> None:
    s = signature(tensor("A", 8))
    calls = Calls(cuda, s, lambda specialization: device_code(launch(("tensor", 0, "void*"), shared_bytes=10**6)))
    for _ in range(2):
        with pytest.raises(ResourceError, match="shared memory: 1000000 bytes asked"):
            calls(FakeTensor((8,), torch.float32))
    assert [] == cuda.launches


# -- the fast path -------------------------------------------------------------------------------------------
def test_an_attempt_takes_calls_that_are_known(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = dynamic(cuda)
    two = [[FakeTensor((4, size), torch.float32) for _ in range(2)] for size in (16, 8)]
    assert calls.caller.attempt is None
    calls(*two[0])
    attempt = calls.caller.attempt
    assert attempt is not None
    assert (None, MISSED) == (attempt(*two[0]), attempt(*two[1]))
    assert (1, 2) == (calls.long, len(cuda.launches))


def test_misaligned_tensors_teach_nothing(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = dynamic(cuda)
    tensors = [FakeTensor((4, 16), torch.float32).shifted(4) for _ in range(2)]
    for _ in range(2):
        calls(*tensors)
    assert (2, None) == (calls.long, calls.caller.attempt)


def test_another_context_of_the_device_takes_the_slow_path(add: Calls, torch: FakeTorch) -> None:
    add(*three(torch))
    for context in (200, 200, 100):
        add.cuda.context = context
        add(*three(torch))
        assert context == add.cuda.launches[-1].context
    assert 3 == add.long


def test_scalars_that_only_some_programs_use_for_their_grids_are_looked_at(cuda: FakeCuda, torch: FakeTorch) -> None:
    s = signature(tensor("A", 4, M), scalar("n"), symbols=(M,))

    def make(specialization: Specialization) -> Any:
        return device_code(launch(("tensor", 0, "void*"), grid=("1",) if specialization.multiples else ("n",)))

    calls = Calls(cuda, s, make)
    for size, n in ((16, 1), (16, 2), (5, 3), (5, 4), (5, 3)):
        calls(FakeTensor((4, size), torch.float32), n)
        assert (1 if size == 16 else n) == cuda.launches[-1].grid[0]
    assert 3 == calls.long


@pytest.mark.parametrize(("version", "attributes"), [(12020, []), (12030, [6])])
def test_launches_begin_early_where_a_graph_can_record_that(
    cuda: FakeCuda, torch: FakeTorch, version: int, attributes: list[int]
) -> None:
    cuda.version = version
    s = signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4))
    add = Calls(cuda, s, lambda specialization: device_code(launch(*THREE, early=True)))
    for _ in range(2):  # the long way and the short way
        add(*three(torch))
        assert attributes == [kind for kind, _ in cuda.launches[-1].attributes]
