"""Calls of a kernel on GPUs: from the user's arguments to launches on the framework's stream.

Takes a `Signature` and a function that compiles variants; gives something to call. Invariant: a call that raises
`ArgumentError` or `ResourceError` has launched nothing; no call synchronizes, but those of kernels whose prints the
host writes; threads may call at once.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tilelang.codegen.source import KernelArgument
from tilelang.errors import ArgumentError, DriverError, NoLowering, Note, ProgramError, TileLangError
from tilelang.ir.func import ScalarParam
from tilelang.ir.specialization import Specialization
from tilelang.records import record
from tilelang.runtime.argument_table import ArgumentTable, Match
from tilelang.runtime.arguments import Bound, Devices, bind
from tilelang.runtime.arrays import Allocation, ArrayView, is_torch_tensor, torch_device_allocation, torch_dtype
from tilelang.runtime.checker import Checker
from tilelang.runtime.fast_path import MISSED, FastPath
from tilelang.runtime.native_call import NativePlan
from tilelang.runtime.parameters import Signature
from tilelang.runtime.variants import INT32_ELEMENTS, Variants
from tilelang.targets.gpu.runtime.device_program import DeviceProgram
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.gpu.runtime.launch_block import Block, Placed, make_block, packed_scalar
from tilelang.targets.gpu.runtime.native_launch import BUILDER, failed_launch, launch_state, start_of
from tilelang.targets.gpu.runtime.print_buffer import PrintBuffer
from tilelang.targets.gpu.runtime.streams import current_stream, workspaces

_MAX_VARIANTS = 8  # per kernel; calls beyond them take the program that relies on nothing
_MAX_PLANS = 1024  # sizes remembered per kernel


@record(frozen=False, eq=False)
class Plan:
    """The launches of calls with the same sizes on the same device.

    Attributes:
        program: What is launched.
        placed: Its launches, those of an empty grid left out.
        symbols: The values of the program's symbols.
        workspaces: Bytes of each.
        flag: The address to which failed assertions report; 0 without assertions.
        prints: Where kernels record what they print, if they do.
        blocks: Memory for launches that no call is using.
    """

    program: DeviceProgram
    placed: tuple[Placed | None, ...]
    symbols: tuple[int, ...]
    workspaces: tuple[int, ...]
    flag: int
    prints: PrintBuffer | None
    blocks: list[Block] = field(default_factory=list)

    def take(self) -> Block:
        """A block for one call, to be appended to `blocks` afterwards."""
        try:
            return self.blocks.pop()
        except IndexError:
            return make_block([placed for placed in self.placed if placed is not None])


class DeviceCaller:
    """Calls a kernel on GPUs.

    Args:
        signature: The parameters that the arguments must match.
        arch: What the kernel is compiled for.
        compile_variant: Compiles the kernel for calls that satisfy a specialization.
        opener: Gives the driver.
        board: Where failed assertions report.
        changed: Gets `call` and `attempt` whenever they change.

    Attributes:
        signature: As given.
        arch: As given.
        variants: What matters about calls.
        call: What to do with the arguments of the next call.
        attempt: The same, but with the result `MISSED` where `call` would go the long way; None while all calls go it.
    """

    def __init__(
        self,
        signature: Signature,
        arch: str,
        compile_variant: Callable[[Specialization], DeviceProgram],
        opener: Callable[[], Driver],
        board: FailureBoard,
        changed: Callable[[Callable[..., Any], Callable[..., Any] | None], None] = lambda call, attempt: None,
    ) -> None:
        self.signature = signature
        self.arch = arch
        self.variants = Variants(signature)
        self._compile = compile_variant
        self._opener = opener
        self._board = board
        self._changed = changed
        self._programs: dict[Specialization, DeviceProgram] = {}
        self._plans: dict[Any, Plan] = {}
        self._fast_path: FastPath | None = None
        self._launch_scalars: frozenset[str] = frozenset()  # the scalars that decide how programs are launched
        self._lock = threading.Lock()
        self.call: Callable[..., Any] = lambda *args: self.slow_path(args)
        self.attempt: Callable[..., Any] | None = None

    def program(self, specialization: Specialization) -> DeviceProgram:
        """The program for calls that fit a specialization, compiled when it is first needed."""
        with self._lock:
            if specialization not in self._programs:
                self._programs[specialization] = self._compile(specialization)
            return self._programs[specialization]

    def synchronize(self) -> None:
        """Waits until everything that was launched in the current context is done.

        Raises:
            DeviceAssertError: An assertion of a kernel has failed.
            DriverError: Something else went wrong on the device.
        """
        try:
            self._opener().synchronize()
        except DriverError:
            self._board.check()
            raise
        self._board.check()

    # -- a call ---------------------------------------------------------------------------------------------
    def driver(self) -> Driver:
        """The driver.

        Raises:
            DeviceAssertError: An assertion of a kernel has failed.
        """
        self._board.check()
        return self._opener()

    def slow_path(self, args: Sequence[Any]) -> Any:
        """A call with all checks and error messages."""
        driver = self.driver()
        current = driver.current_device
        devices = Devices(self.arch, driver.device_of, lambda: current() or 0, driver.device_type, driver.title)
        bound = bind(self.signature, args, devices)
        assert bound.device is not None
        specialization, program, names = self._chosen(bound)
        aligned = not self.variants.misaligned(bound.values)
        with driver.inside(bound.device) as context:
            key = (bound.device, context, specialization, tuple(bound.symbols), tuple(sorted(names.items())))
            plan = self._plans.get(key)
            if plan is None:
                if len(self._plans) >= _MAX_PLANS:
                    self._plans.clear()
                plan = self._plans[key] = self._make_plan(driver, program, bound.device, names)
            self.launch(driver, plan, bound)
        if aligned and None not in plan.placed and is_torch_tensor(bound.like):
            self._add_plan(plan, bound, context)
        return bound.result()

    def launch(self, driver: Driver, plan: Plan, bound: Bound) -> None:
        """Launches a plan's kernels, and writes what they print; the calling thread's context is one of the device."""
        if plan.prints is None:
            self._launch(driver, plan, bound)
            return
        with plan.prints.lock:
            self._launch(driver, plan, bound)
            try:
                self.synchronize()
            finally:
                sys.stdout.write("".join(plan.prints.take()))

    def _launch(self, driver: Driver, plan: Plan, bound: Bound) -> None:
        stream = current_stream(bound, driver)
        block = plan.take()
        launches = [placed for placed in plan.placed if placed is not None]
        with workspaces(plan.workspaces, bound, stream, driver) as spaces:
            for placed, slot in zip(launches, block.slots, strict=True):
                values = [
                    self._value(argument, code, placed, plan, bound, spaces)
                    for argument, code in zip(placed.launch.arguments, placed.format.letters, strict=True)
                ]
                placed.format.write(block, slot, stream, values)
            for placed, slot in zip(launches, block.slots, strict=True):
                status = driver.launch(slot.config, slot.function, slot.parameters, None)
                if status:
                    self.fail(status, placed.launch.name)
        plan.blocks.append(block)

    def _value(
        self, argument: KernelArgument, code: str, placed: Placed, plan: Plan, bound: Bound, spaces: Sequence[int]
    ) -> int | float | bytes:
        match argument.kind:
            case "symbol":
                return plan.symbols[argument.index]
            case "workspace":
                return spaces[argument.index]
            case "failure":
                return plan.flag
            case "prints":
                return plan.prints.address if plan.prints is not None else 0
            case "tensor_map":
                maps, count = placed.maps[argument.index], len(self.signature.params)
                return maps[bound.address(maps.tensor) if maps.tensor < count else spaces[maps.tensor - count]]
            case "tensor":
                return bound.address(argument.index)
        value = bound.values[argument.index]
        assert not isinstance(value, ArrayView)
        return packed_scalar(value, self.signature.params[argument.index].dtype, code)

    def fail(self, status: int, kernel: str) -> None:
        """Raises for a launch that the driver refused.

        Raises:
            DeviceAssertError: Because an assertion failed before.
            DriverError: For another reason.
        """
        self._board.check()
        raise self._opener().error(status, f"{self.signature.name}: launch of {kernel}")

    # -- the program of a call -----------------------------------------------------------------------------
    def _chosen(self, bound: Bound) -> tuple[Specialization, DeviceProgram, dict[str, int | float]]:
        """The program for a call, and the values by which its grids and workspaces are computed."""
        specialization = self.variants.of(bound.values, bound.symbols)
        if specialization not in self._programs and len(self._programs) >= _MAX_VARIANTS:
            specialization = self.variants.general(specialization)
        program = self._program_for(specialization, self.variants.misaligned(bound.values))
        names = self._names(bound, program, specialization)
        if not specialization.wide and any(size >= INT32_ELEMENTS for size in program.workspaces(names)):
            specialization = dataclasses.replace(specialization, wide=True)
            program = self.program(specialization)
            names = self._names(bound, program, specialization)
        while refused := program.refused_maps(bound, names):
            if set(refused) <= set(specialization.misaligned):
                raise self._unreachable(refused)
            specialization = self.variants.without_maps(specialization, refused)
            program = self._program_for(specialization, refused)
            names = self._names(bound, program, specialization)
        return specialization, program, names

    def _program_for(self, specialization: Specialization, refused: Mapping[str, str]) -> DeviceProgram:
        """The program for calls with tensors for which there can be no tensor map.

        Raises:
            ArgumentError: The kernel requests the maps explicitly.
        """
        try:
            return self.program(specialization)
        except (NoLowering, ProgramError) as error:
            if not refused:
                raise
            raise self._unreachable(refused, error) from error

    def _unreachable(self, refused: Mapping[str, str], error: TileLangError | None = None) -> ArgumentError:
        notes = () if error is None else (Note(f"and the kernel relies on it: {error.message}", error.loc),)
        return ArgumentError(f"{self.signature.name}: {next(iter(refused.values()))}", notes=notes)

    def _names(self, bound: Bound, program: DeviceProgram, specialization: Specialization) -> dict[str, int | float]:
        found: dict[str, int | float] = {
            param.name: value
            for param, value in zip(self.signature.params, bound.values, strict=True)
            if isinstance(param, ScalarParam) and not isinstance(value, ArrayView) and param.name in program.used_names
        }
        factors = dict(specialization.multiples)
        pairs = zip(self.signature.symbols, program.signature.symbols, bound.symbols, strict=True)
        for general, special, value in pairs:  # a program may take the symbol itself although more is known of it
            found[special.name] = value if special.name == general.name else value // factors[general.name]
        return found

    def _make_plan(
        self, driver: Driver, program: DeviceProgram, device: int, names: Mapping[str, int | float]
    ) -> Plan:
        grids = program.grids(names)
        functions = program.functions(driver, device)
        maps = program.encoded_maps(driver, names)
        shared = program.shared_bytes(names, driver, device)
        launches = [
            dataclasses.replace(each, early=each.early and driver.overlaps_launches) for each in program.launches
        ]
        parts = zip(launches, grids, functions, program.formats, maps, shared, strict=True)
        placed = tuple(Placed(*part) if 0 not in part[1] else None for part in parts)
        flag = program.flag(driver).address if program.asserts else 0
        symbols = tuple(int(names[symbol.name]) for symbol in program.signature.symbols)
        workspaces = tuple(program.workspaces(names))
        return Plan(program, placed, symbols, workspaces, flag, program.print_buffer(driver))

    # -- the fast path --------------------------------------------------------------------------------------
    def _add_plan(self, plan: Plan, bound: Bound, context: int) -> None:
        """Adds calls with the same sizes to the fast path."""
        assert bound.device is not None
        scalars = {param.name for param in self.signature.params if isinstance(param, ScalarParam)}
        launch_scalars = self._launch_scalars | (scalars & plan.program.used_names)
        if self._fast_path is None or launch_scalars != self._launch_scalars:
            table = ArgumentTable(self.signature, device=True, launch_scalars=launch_scalars)
            self._launch_scalars = launch_scalars
            self._fast_path = FastPath(table, lambda args: self.slow_path(args), BUILDER, self._use)
        made = () if bound.outputs_given else self.signature.outputs
        outputs = [(bound.values[i], self.signature.params[i].dtype) for i in made]
        allocations = tuple(
            torch_device_allocation(view.shape, torch_dtype(dtype), bound.device)
            for view, dtype in outputs if isinstance(view, ArrayView)
        )  # fmt: skip
        self._fast_path.add_plan(bound, _KnownCall(self, plan, bound.device, context, allocations))

    def _use(self, call: Callable[..., Any], attempt: Callable[..., Any] | None) -> None:
        if self.call is not call:
            self.call, self.attempt = call, attempt
            self._changed(call, attempt)


@record
class _KnownCall:
    """Calls with the same sizes on the same device, of torch tensors.

    Attributes:
        caller: Whose kernel it is.
        plan: What is launched.
        device: Where.
        context: In which the kernels are loaded.
        outputs: How they are made, in the order of return; none if a call passes them.
    """

    caller: DeviceCaller
    plan: Plan
    device: int
    context: int
    outputs: tuple[Allocation, ...]

    def start(self, match: Match) -> Any:
        """See `fast_path.Plan`."""
        driver, signature = self.caller.driver(), self.caller.signature
        with driver.inside(self.device) as context:
            if context != self.context:
                return MISSED
            tensors = [output.make() for output in self.outputs]
            for index, tensor in zip(signature.outputs, tensors, strict=False):
                match.values[index] = tensor.data_ptr()
            bound = Bound(list(match.values), outputs=tensors, like=match.like, device=self.device)
            self.caller.launch(driver, self.plan, bound)
        return bound.result()

    def native(self, checker: Checker) -> NativePlan:
        """See `fast_path.Plan`."""
        torch, plan, kept = sys.modules["torch"], self.plan, list[Any]()
        placed = [part for part in plan.placed if part is not None]
        state = launch_state(self.caller.driver(), placed, plan.program, self.context, plan.flag, kept)
        spaces = [torch_device_allocation((size,), torch.uint8, self.device) for size in plan.workspaces]
        return NativePlan(start_of(checker), state, self._failed, plan.symbols, self.outputs, spaces, kept)

    def _failed(self, answer: int) -> None:
        status, launch = failed_launch(answer)
        names = [placed.launch.name for placed in self.plan.placed if placed is not None]
        self.caller.fail(status, names[launch])
