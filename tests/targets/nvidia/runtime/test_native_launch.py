import ctypes
import dataclasses
import gc
import struct
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fake_cuda import EncodedMap, FakeCuda, device_code, encode_map, launch, map_text, scalar, signature, tensor

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.expr import Var
from tilelang.ir.func import ScalarParam
from tilelang.runtime.argument_table import ArgumentTable
from tilelang.runtime.arguments import bind
from tilelang.runtime.arrays import Allocation, torch_dtype
from tilelang.runtime.checker import Checker, Exchange, exchange_of
from tilelang.runtime.fast_path import MISSED
from tilelang.runtime.native_call import NativeCall, NativePlan, NotNative
from tilelang.runtime.parameters import Signature
from tilelang.targets.cpu.runtime.checker_builder import build
from tilelang.targets.nvidia.runtime.cuda_driver import Driver
from tilelang.targets.nvidia.runtime.device_program import DeviceProgram
from tilelang.targets.nvidia.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.launch_block import Placed
from tilelang.targets.nvidia.runtime.native_launch import LAUNCH_TEXT, failed_launch, launch_state, start_of
from tilelang.targets.nvidia.runtime.tensor_map import TensorMaps

torch = pytest.importorskip("torch")
CHECKER = build(LAUNCH_TEXT)
EXCHANGE = exchange_of(torch.Tensor)
pytestmark = pytest.mark.skipif(CHECKER is None or EXCHANGE is None, reason="needs a C++ compiler and torch >= 2.10")

HOST = 1  # DLPack's number for host memory, on which the tensors of these tests are
NAMES = [f"n{n}" for n in range(193)]
M, N, S = (Var(name, INT32, index=True) for name in "MNS")
A, B, C = (("tensor", n, "void*") for n in range(3))


@dataclass
class Plan:
    """What the long way found out."""

    kernel: "Kernel"
    placed: tuple[Placed, ...]
    symbols: tuple[int, ...]
    outputs: list[Allocation]
    workspaces: list[Allocation]
    flag: int
    context: int

    def native(self, checker: Checker) -> NativePlan:
        """As `device_call` does."""
        kept: list[Any] = []
        driver, program = Driver(self.kernel.machine), self.kernel.program
        state = launch_state(driver, self.placed, program, self.context, self.flag, kept)
        failed = self.kernel.failed
        return NativePlan(start_of(checker), state, failed, self.symbols, self.outputs, self.workspaces, kept)


class Machine(FakeCuda):
    """An imaginary driver whose functions have addresses."""

    context = 100  # of every thread

    def __init__(self) -> None:
        super().__init__()
        self.status, self.stream, self.during = 0, 77, lambda: None
        self.done: list[tuple[int, int, tuple[int, ...], list[bytes]]] = []
        self.letters: list[Sequence[str]] = []
        self.encoded = 0
        numbers = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_uint64)] * 2]
        numbers += [*[ctypes.POINTER(ctypes.c_uint32)] * 2, *[ctypes.c_int] * 4]
        self.cuTensorMapEncodeTiled = ctypes.CFUNCTYPE(ctypes.c_int, *numbers)(self._encode)
        self.cuLaunchKernelEx = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._launch)
        self.cuCtxGetCurrent = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))(self._context)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
        self.stream_of = kind(self._stream)

    def _launch(self, config: int, function: int, parameters: int, extra: None) -> int:
        self.during()
        *sizes, stream, attributes, count = struct.unpack("<7I4xQQI", ctypes.string_at(config, 52))
        self.attributes = [struct.unpack("<I4x3I", ctypes.string_at(attributes + 72 * n, 20)) for n in range(count)]
        letters = self.letters[function - 1]
        pointers = struct.unpack(f"<{len(letters)}Q", ctypes.string_at(parameters, 8 * len(letters)))
        values = [struct.unpack(f"<{c}", ctypes.string_at(p, struct.calcsize(c)))[0] for c, p in zip(letters, pointers)]
        self.done.append((function, stream, tuple(sizes), values))
        return self.status

    def _encode(self, place: int, dtype: int, rank: int, address: int, *rest: Any) -> int:
        self.encoded += 1
        return encode_map(place, dtype, rank, address, *rest)

    def _context(self, found: Any) -> int:
        found[0] = self.context
        return 0

    def _stream(self, kind: int, device: int, found: Any) -> int:
        found[0] = self.stream + device
        return 0


class Kernel:
    """A kernel on imaginary devices in host memory: what does not go through the launcher is remembered."""

    def __init__(self, s: Signature, *launches: Any, symbols: bool = True, asserts: bool = False, **source: Any) -> None:
        self.signature, self.machine = s, Machine()
        self.long: list[tuple[Any, ...]] = []
        self.failures: list[tuple[int, str]] = []
        self.program = DeviceProgram(s, device_code(*launches, **source), FailureBoard())
        self.machine.letters = [f.letters for f in self.program.formats]
        self.flag = ctypes.c_int32(0)
        self.asserts = asserts
        exchange = Exchange(EXCHANGE.tensor_of, ctypes.cast(self.machine.stream_of, ctypes.c_void_p).value)
        self.table = ArgumentTable(s, device=True, sizing=self.program.used_names)
        self.native = NativeCall(self.table, CHECKER, (self.slow_path, lambda args: MISSED), exchange, HOST)
        self.call = self.native.call

    def learn(self, *args: Any, context: int = 100) -> bool:
        bound = bind(self.signature, args)
        names = {symbol.name: value for symbol, value in zip(self.signature.symbols, bound.symbols)}
        for param, value in zip(self.signature.params, bound.values):
            if not hasattr(value, "pointer"):
                names[param.name] = value
        program, driver = self.program, Driver(self.machine)
        maps = [
            tuple(TensorMaps(shape, driver.map_encoder("cuTensorMapEncodeTiled"), driver.error) for shape in shapes)
            for shapes in program.tensor_maps(names)
        ]
        for one in (one for several in maps for one in several):
            one[bound.address(one.shape.text.tensor)]
        parts = zip(program.launches, program.grids(names), range(1, 99), program.formats, maps)
        outputs = [
            Allocation(torch.empty, (bound.values[i].shape,), {"dtype": torch_dtype(self.signature.params[i].dtype)})
            for i in self.signature.outputs
        ]
        spaces = [Allocation(torch.empty, ((size,),), {"dtype": torch.uint8}) for size in program.workspaces(names)]
        flag = ctypes.addressof(self.flag) if self.asserts else 0
        plan = Plan(self, tuple(Placed(*part) for part in parts), tuple(bound.symbols), outputs, spaces, flag, context)
        return self.native.learn(self.table.key(bound), plan)

    def slow_path(self, args: Any) -> str:
        self.long.append(args)
        return "the long way"

    def failed(self, answer: int) -> None:
        status, launch = failed_launch(answer)
        kernel = self.program.launches[launch].name
        self.failures.append((status, kernel))
        raise RuntimeError(f"{kernel} {status}")

    @property
    def last(self) -> list[Any]:
        return self.machine.done[-1][3]


@pytest.fixture
def add() -> Kernel:
    made = Kernel(signature(tensor("A", 8, 4), tensor("B", 8, 4), tensor("C", 8, 4)), launch(A, B, C))
    made.learn(*three())
    return made


def three() -> list[Any]:
    return [torch.zeros(8, 4) for _ in range(3)]


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
    kernel.learn(torch.zeros(8, 4))
    assert "the long way" == kernel.call(torch.zeros(7, 4))
    assert kernel.call(torch.zeros(8, 4)) is None
    assert 8 == kernel.last[1]
    kernel.learn(torch.zeros(7, 4))
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
    kernel.learn(torch.zeros(8))
    assert kernel.call(torch.zeros(8)) is None
    assert ctypes.addressof(kernel.flag) == kernel.last[1]
    kernel.flag.value = 1
    assert "the long way" == kernel.call(torch.zeros(8))
    kernel.flag.value = 0
    kernel.machine.context = 0
    assert "the long way" == kernel.call(torch.zeros(8))
    kernel.machine.context = 200
    assert "the long way" == kernel.call(torch.zeros(8))
    kernel.learn(torch.zeros(8), context=200)
    assert kernel.call(torch.zeros(8)) is None


def test_equal_extents_are_compared() -> None:
    kernel = Kernel(signature(tensor("A", M, 4), tensor("B", 4, M), symbols=(M,)), launch(A, B, ("symbol", 0, "int64_t")))
    kernel.learn(torch.zeros(8, 4), torch.zeros(4, 8))
    assert kernel.call(torch.zeros(8, 4), torch.zeros(4, 8)) is None
    assert "the long way" == kernel.call(torch.zeros(8, 4), torch.zeros(4, 9))


def test_extents_that_are_computed_are_part_of_what_is_known() -> None:
    kernel = Kernel(signature(tensor("A", M), tensor("B", M * 2), symbols=(M,)), launch(A, B))
    kernel.learn(torch.zeros(8), torch.zeros(16))
    assert kernel.call(torch.zeros(8), torch.zeros(16)) is None
    assert "the long way" == kernel.call(torch.zeros(8), torch.zeros(15))


def test_strides_are_checked_where_they_are_declared() -> None:
    kernel = Kernel(signature(tensor("A", M, 4, strides=(S, tensor("x", 1).buffer.shape[0])), symbols=(M, S)), launch(A))
    kernel.learn(torch.zeros(8, 6)[:, :4])
    assert kernel.call(torch.zeros(8, 6)[:, :4]) is None
    assert "the long way" == kernel.call(torch.zeros(8, 4))
    assert "the long way" == kernel.call(torch.zeros(6, 8).t()[:, :4])


def test_empty_tensors_and_extents_of_one_have_any_strides() -> None:
    kernel = Kernel(signature(tensor("A", M, N), symbols=(M, N)), launch(A))
    for shape in ((0, 4), (1, 4), (4, 1)):
        kernel.learn(torch.zeros(shape))
        assert kernel.call(torch.zeros(shape)) is None
    assert kernel.call(torch.zeros(1, 8)[:, :4]) is None
    assert kernel.call(torch.zeros(4, 9)[:0, :4].view(0, 4)) is None


def test_views_that_negate_take_the_slow_path() -> None:
    kernel = Kernel(signature(tensor("A", M), symbols=(M,)), launch(A))
    for size in (1, 2):
        kernel.learn(torch.zeros(size))
    negated = torch.zeros(1, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    assert "the long way" == kernel.call(negated)
    assert kernel.call(torch.zeros(1)) is None


SCALARS = [
    ("int8", "int8_t", [-128, 127, 5], [128, -129, 1.0, True, 2**80, np.int8(3)]),
    ("uint8", "uint8_t", [0, 255], [-1, 256]),
    ("int32", "int", [-(2**31), 2**31 - 1, -1], [2**31, -(2**31) - 1, "1"]),
    ("int64", "int64_t", [-(2**63), 2**63 - 1, -1], [2**63]),
    ("uint64", "uint64_t", [0, 2**64 - 1, 2**63], [-1, 2**64]),
    ("bool", "bool", [True, False], [1, 0, None]),
    ("float32", "float", [1.5, -1.0, 3, float("inf"), 1e300, -1], ["1.5", None, True, 10**400]),
    ("float64", "double", [0.1, -1.0, 3, -1], [1j, 10**400]),
]


@pytest.mark.parametrize(("dtype", "ctype", "good", "bad"), SCALARS)
def test_scalars_arrive_as_the_kernel_takes_them(dtype: str, ctype: str, good: Sequence[Any], bad: Sequence[Any]) -> None:
    kernel = Kernel(signature(tensor("A", 8), scalar("x", dtype)), launch(("scalar", 1, ctype), A))
    kernel.learn(torch.zeros(8), good[0])
    for value in good:
        assert kernel.call(torch.zeros(8), value) is None
        with np.errstate(over="ignore"):
            assert (np.float32(value) if dtype == "float32" else value) == kernel.last[0]
    for value in bad:
        assert "the long way" == kernel.call(torch.zeros(8), value)
    assert len(good) == len(kernel.machine.done)


def test_a_pointer_is_an_address_or_a_tensor() -> None:
    s = signature(tensor("A", 8), ScalarParam(Var("p", as_dtype("int64"), index=True), pointer=True))
    kernel = Kernel(s, launch(("scalar", 1, "int64_t"), A))
    kernel.learn(torch.zeros(8), 4096)
    other = torch.zeros(3, 5)
    for given, expected in ((4112, 4112), (other, other.data_ptr())):
        assert kernel.call(torch.zeros(8), given) is None
        assert expected == kernel.last[0]
    for given in (0, 8, -16, 2**63, 1.0, None, other[0, 1:], torch.tensor(4096)):  # others need another program, or are errors
        assert "the long way" == kernel.call(torch.zeros(8), given)


def test_a_scalar_that_decides_the_grid_is_part_of_what_is_known() -> None:
    kernel = Kernel(signature(tensor("A", 8), scalar("n")), launch(A, ("scalar", 1, "int"), grid=("n",)))
    kernel.learn(torch.zeros(8), 3)
    kernel.learn(torch.zeros(8), -4 + 9)
    for n in (3, 5):
        kernel.call(torch.zeros(8), n)
        assert (n, 1, 1) == kernel.machine.done[-1][2][:3]
    assert "the long way" == kernel.call(torch.zeros(8), 4)


def test_outputs_and_workspaces_are_allocated() -> None:
    s = signature(tensor("A", M), tensor("B", M), tensor("C", 3, dtype="int32"), symbols=(M,), out_idx=[1, 2])
    kernel = Kernel(s, launch(C, ("workspace", 0, "void*"), B, A), workspaces=("M * 4",))
    kernel.learn(torch.zeros(8))
    a = torch.zeros(8)
    b, c = kernel.call(a)
    assert ((8,), torch.float32, (3,), torch.int32) == (tuple(b.shape), b.dtype, tuple(c.shape), c.dtype)
    assert [c.data_ptr(), b.data_ptr(), a.data_ptr()] == [kernel.last[0], *kernel.last[2:]]
    assert kernel.last[1] not in (0, *kernel.last[2:])
    one = Kernel(signature(tensor("A", 8), tensor("B", 8), out_idx=-1), launch(A, B))
    one.learn(torch.zeros(8))
    result = one.call(a)
    assert result.data_ptr() == one.last[1]


def test_an_allocation_that_fails_launches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **keywords: Any) -> Any:
        raise MemoryError("no more")

    kernel = Kernel(signature(tensor("A", 8), tensor("B", 8), out_idx=-1), launch(A, B))
    monkeypatch.setattr("tilelang.runtime.arrays.Allocation.make", lambda self: np.zeros(8, np.float32))
    monkeypatch.setattr(torch, "empty", full)
    kernel.learn(torch.zeros(8))
    with pytest.raises(MemoryError, match="no more"):
        kernel.call(torch.zeros(8))
    assert [] == kernel.machine.done


def test_all_kernels_of_a_program_are_launched_in_order() -> None:
    kernel = Kernel(signature(tensor("A", 8), tensor("B", 8)), launch(A, name="first"), launch(B, A, name="second"))
    kernel.learn(torch.zeros(8), torch.zeros(8))
    kernel.call(torch.zeros(8), torch.zeros(8))
    assert [1, 2] == [one[0] for one in kernel.machine.done]


def test_clusters_and_cooperation_are_asked_for() -> None:
    kernel = Kernel(signature(tensor("A", 8)), launch(A, cluster=(2, 1, 1), cooperative=True))
    kernel.learn(torch.zeros(8))
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
    kernel.learn(a, b)
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
    kernel.learn(torch.zeros(8))
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
        assert kernel.learn(torch.zeros(size, 2))
    assert not kernel.learn(torch.zeros(1024, 2))
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
    kernel.learn(torch.zeros(8))
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
        kernel.learn(torch.zeros(8), *[1] * (len(kernel.signature.params) - 1))


def test_a_float_can_decide_the_grid() -> None:
    s = signature(tensor("A", 8), scalar("x", "float32"))
    kernel = Kernel(s, launch(A, ("scalar", 1, "float"), grid=("int(x)",)))
    kernel.learn(torch.zeros(8), 3.5)
    assert kernel.call(torch.zeros(8), 3.5) is None
    assert ((3, 1, 1), 3.5) == (kernel.machine.done[-1][2][:3], kernel.last[1])
    assert "the long way" == kernel.call(torch.zeros(8), 3.0)


def test_the_slow_path_words_the_errors_of_what_was_refused(add: Kernel) -> None:
    add.call(*three()[:2], torch.zeros(9, 4))
    with pytest.raises(ArgumentError, match="'C' has shape"):
        bind(add.signature, add.long[0])


DTYPES = [
    "float16", "bfloat16", "float32", "float64", "tfloat32", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype_are_told_apart(dtype: str) -> None:
    def zeros(name: str) -> Any:
        return torch.empty(8, dtype=getattr(torch, "float32" if name == "tfloat32" else name))

    kernel = Kernel(signature(tensor("A", 8, dtype=dtype)), launch(A))
    kernel.learn(zeros(dtype))
    for other in DTYPES:
        fits = zeros(other).dtype == zeros(dtype).dtype
        assert fits == (kernel.call(zeros(other)) is None)
