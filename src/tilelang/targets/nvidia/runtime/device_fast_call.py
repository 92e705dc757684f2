"""The short way from torch tensors to launches: a function written for one signature and one compiled program.

Takes a `Signature`, a `DeviceProgram` and the long way; gives a function of the call's arguments. Invariant: the short
way launches only what the long way has launched before with arguments of the same sizes on the same device; whatever it
does not recognize at a glance goes the long way, which also words every error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from tilelang.codegen.source import KernelArgument
from tilelang.ir.expr import int_const
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.ir.visit import variables_of, walk_expr
from tilelang.records import record
from tilelang.runtime.arguments import Bound
from tilelang.runtime.arrays import ArrayView, torch_dtype
from tilelang.runtime.call_text import NoShortWay, address_test, attempt_of, declared_strides, scalar_test
from tilelang.runtime.parameters import Signature
from tilelang.targets.nvidia.runtime.cuda_driver import INVALID_CONTEXT, INVALID_HANDLE, Driver
from tilelang.targets.nvidia.runtime.device_program import DeviceProgram
from tilelang.targets.nvidia.runtime.launch_block import Block, Placed


class Plan(Protocol):
    """What the short way needs of what the long way found out."""

    program: DeviceProgram
    symbols: tuple[int, ...]
    workspaces: tuple[int, ...]
    placed: tuple[Placed | None, ...]
    blocks: list[Block]

    def take(self) -> Block:
        """A block that no call is using."""


class Caller(Protocol):
    """The long way."""

    def long_way(self, args: Any) -> Any:
        """Does everything."""

    def fail(self, status: int, kernel: str) -> None:
        """Raises."""


@record
class FastCall:
    """A short way.

    Attributes:
        call: Takes the arguments of a call.
        attempt: The same, but with the result `MISSED` where `call` would go the long way.
        plans: What is known of calls, by their keys: the short way to take, and what it needs. All short ways of a
            kernel share them.
        signature: Of the kernel.
        keyed_tensors: Parameters whose shape or strides take part in the key.
        keyed_scalars: Parameters whose value takes part in the key.
    """

    call: Callable[..., Any]
    attempt: Callable[..., Any]
    plans: dict[Any, Any]
    signature: Signature
    keyed_tensors: tuple[int, ...]
    keyed_scalars: tuple[int, ...]

    def learn(self, plan: Plan, bound: Bound) -> None:
        """Lets calls of torch tensors with the sizes of this one take the short way."""
        torch = sys.modules["torch"]
        parts: list[Any] = [bound.device]
        for i in self.keyed_tensors:
            view = bound.values[i]
            assert isinstance(view, ArrayView)
            parts += [view.shape, view.strides] if declared_strides(self.signature, i) else [view.shape]
        parts += [bound.values[i] for i in self.keyed_scalars]
        key = tuple(parts) if len(parts) > 1 else parts[0]
        shapes = [view.shape for i in self.signature.outputs if isinstance(view := bound.values[i], ArrayView)]
        place = torch.device(f"cuda:{bound.device}")
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
        maps = [one for placed in plan.placed if placed is not None for one in placed.maps]
        self.plans[key] = (self.call, plan, plan.blocks, place, *plan.symbols, *plan.workspaces, *shapes, *maps)


_MAX_PLANS = 1024  # sizes remembered per kernel
_FLOAT_LIMIT = 3.4028235677973366e38  # from here on a number rounds to infinity in float32


def device_call_text(signature: Signature, program: DeviceProgram, *, several: bool = False) -> str:
    """The text of the function that `make_device_call` makes; empty if everything goes the long way.

    Args:
        signature: Of the kernel.
        program: What is launched.
        several: Whether there are devices to mix up.
    """
    try:
        return _Writer(signature, program, several=several).text()
    except NoShortWay:
        return ""


def make_device_call(
    signature: Signature, program: DeviceProgram, driver: Driver, caller: Caller, plans: dict[Any, Any]
) -> FastCall | None:
    """The short way for a program, for a caller who has torch tensors; None if there is none.

    Args:
        signature: Of the kernel.
        program: What is launched.
        driver: Launches.
        caller: The long way.
        plans: What is known of calls, shared by all short ways of a kernel.
    """
    torch = sys.modules["torch"]
    text = device_call_text(signature, program, several=driver.device_count() > 1)
    if not text:
        return None

    names: dict[str, Any] = {
        "plans": plans,
        "launch": driver.launch,
        "long_way": caller.long_way,
        "failed": refused_launch(caller),
        "Tensor": torch.Tensor,
        "empty": torch.empty,
        "uint8": torch.uint8,
        "stream_of": torch._C._cuda_getCurrentRawStream,
        "current_device": torch._C._cuda_getDevice,
    }
    if program.asserts:
        names["flag"], names["check"] = program.flag(driver).number, program.flag(driver).check
    for n, layout in enumerate(program.formats):
        names[f"pack{n}"] = layout.pack.pack_into
    for index, param in enumerate(signature.params):
        names[f"E{index}"] = torch_dtype(param.dtype)
    exec(compile(text, f"<call of {signature.name}>", "exec"), names)
    call = names["call"]
    return FastCall(call, attempt_of(call), plans, signature, *keyed_inputs(signature, program))


def refused_launch(caller: Caller) -> Callable[[int, bool, str, Any], Any]:
    """What is done where the driver refused a launch.

    It takes the driver's status, whether nothing had been launched yet, the kernel's name and the call's arguments.
    """

    def failed(status: int, first: bool, kernel: str, args: Any) -> Any:
        if first and status in (INVALID_CONTEXT, INVALID_HANDLE):
            return caller.long_way(args)  # a thread without a context, or with another one
        return caller.fail(status, kernel)

    return failed


def keyed_inputs(signature: Signature, program: DeviceProgram) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The input tensors and scalars that decide a plan."""
    tensors = []
    scalars = []
    for i in signature.inputs:
        param = signature.params[i]
        if isinstance(param, TensorParam):
            exprs = (*param.shape, *declared_strides(signature, i))
            if any(int_const(e) is None for e in exprs):
                tensors.append(i)
        elif param.name in program.used_names or _decides_a_shape(signature, param):
            scalars.append(i)  # by their names, which all programs of a kernel use alike
    return tuple(tensors), tuple(scalars)


def _decides_a_shape(signature: Signature, scalar: ScalarParam) -> bool:
    """Whether a tensor's extents or strides, or what a call must satisfy, depend on a scalar parameter."""
    if any(scalar.var in variables_of(condition) for condition in signature.assumptions):
        return True
    return any(
        node is scalar.var
        for i, param in enumerate(signature.params)
        if isinstance(param, TensorParam)
        for expr in (*param.shape, *declared_strides(signature, i))
        for node in walk_expr(expr)
    )


def may_be_negated(param: TensorParam) -> bool:
    """Whether a tensor that passes the other tests can hold the negative of its values.

    Such are imaginary parts of conjugated tensors, whose elements lie two apart: dense only if there is but one.
    """
    if not param.dtype.is_float or param.dtype.bits < 16 or str(param.dtype) == "bfloat16":
        return False
    shape = param.buffer.static_shape
    return param.buffer.strides is not None or shape is None or all(extent == 1 for extent in shape)


class _Writer:
    """Writes the text of the function."""

    def __init__(self, signature: Signature, program: DeviceProgram, *, several: bool) -> None:
        self.signature, self.program, self.several = signature, program, several
        self.tensors = [i for i in signature.inputs if isinstance(signature.params[i], TensorParam)]
        self.scalars = [i for i in signature.inputs if isinstance(signature.params[i], ScalarParam)]
        self.keyed = keyed_inputs(signature, program)
        if not self.tensors or any(param.dtype.lanes > 1 for param in signature.params):
            raise NoShortWay
        if any(param.dtype.bits < 8 for param in signature.params):
            raise NoShortWay

    def text(self) -> str:
        """The whole function."""
        inputs = self.signature.inputs
        names = "".join(f"a{i}, " for i in inputs)
        first, *others = self.tensors
        lines = [
            "def call(*args):",
            f"    if len(args) == {len(inputs)}:",
            f"        {names[:-2]}{',' if len(inputs) == 1 else ''} = args",
            "        if (",
            *(f"            {'and ' if n else ''}{test}" for n, test in enumerate(self._tests())),
            "        ):",
            f"            device = a{first}.get_device()",
            f"            plan = plans.get({self._key()})",
            "            if plan is not None"
            + "".join(f" and a{i}.get_device() == device" for i in others)
            + (" and current_device() == device" if self.several else "")
            + ":",
            "                if plan[0] is not call:",
            "                    return plan[0](*args)",
            *(f"                p{i} = a{i}.data_ptr()" for i in self.tensors),
            f"                if not ({' | '.join(f'p{i}' for i in self.tensors)}) & 15:",
            *(f"                    {line}" for line in self._launches()),
            "    return long_way(args)",
        ]
        return "\n".join(lines) + "\n"

    def _tests(self) -> list[str]:
        tests = [" and ".join(f"type(a{i}) is Tensor" for i in self.tensors)]
        for i in self.tensors:
            param = self.signature.params[i]
            assert isinstance(param, TensorParam)
            shape = param.buffer.static_shape
            test = f"a{i}.dtype is E{i}"
            if not declared_strides(self.signature, i):
                test += f" and a{i}.is_contiguous()"
            if shape is not None:
                test += f" and a{i}.shape == {shape}"
            strides = [int_const(e) for e in declared_strides(self.signature, i)]
            if strides and None not in strides and shape is not None:
                test += f" and a{i}.stride() == {tuple(strides)}"
            if may_be_negated(param):
                test += f" and not a{i}.is_neg()"
            tests.append(test)
        for i in self.scalars:
            param = self.signature.params[i]
            address = isinstance(param, ScalarParam) and param.pointer
            tests.append(address_test(f"a{i}") if address else scalar_test(f"a{i}", param.dtype, _FLOAT_LIMIT))
        return tests

    def _key(self) -> str:
        tensors, scalars = self.keyed
        parts = ["device"]
        for i in tensors:
            parts.append(f"a{i}.shape")
            if declared_strides(self.signature, i):
                parts.append(f"a{i}.stride()")
        parts += [f"a{i}" for i in scalars]
        return f"({', '.join(parts)})" if len(parts) > 1 else "device"

    def _launches(self) -> list[str]:
        signature, program = self.signature, self.program
        symbols = [f"y{n}" for n in range(len(program.signature.symbols))]
        sizes = [f"w{n}" for n in range(len(program.code.source.workspaces))]
        shapes = [f"s{i}" for i in signature.outputs]
        maps = [f"m{n}_{k}" for n, launch in enumerate(program.launches) for k in range(len(launch.tensor_maps))]
        lines = [", ".join(["way", "known", "blocks", "place", *symbols, *sizes, *shapes, *maps]) + " = plan"]
        for i in signature.outputs:
            lines += [f"a{i} = empty(s{i}, dtype=E{i}, device=place)", f"p{i} = a{i}.data_ptr()"]
        for n in range(len(sizes)):
            lines += [f"x{n} = empty(w{n}, dtype=uint8, device=place)", f"q{n} = x{n}.data_ptr()"]
        if program.asserts:
            lines += ["if flag.value:", "    check()"]
        lines += [
            "try:",
            "    block = blocks.pop()",
            "except IndexError:",
            "    block = known.take()",
            "memory, slots = block",
            "stream = stream_of(device)",
        ]
        for n, launch in enumerate(program.launches):
            values = "".join(f", {self._value(n, argument, program.formats[n].letters[k])}"
                             for k, argument in enumerate(launch.arguments))  # fmt: skip
            lines += [
                f"start, attributes, count, config, function, parameters = slots[{n}]",
                f"pack{n}(memory, start, stream, attributes, count{values})",
                "status = launch(config, function, parameters, None)",
                "if status:",
                f"    return failed(status, {n == 0}, {launch.name!r}, args)",
            ]
        outputs = ", ".join(f"a{i}" for i in signature.outputs)
        outputs = f"[{outputs}]" if len(signature.outputs) > 1 else outputs or "None"
        return [*lines, "blocks.append(block)", f"return {outputs}"]

    def _value(self, launch: int, argument: KernelArgument, code: str) -> str:
        match argument.kind:
            case "symbol":
                return f"y{argument.index}"
            case "workspace":
                return f"q{argument.index}"
            case "failure":
                return "known.flag"
            case "tensor_map":  # by the address of its tensor
                tensor = self.program.launches[launch].tensor_maps[argument.index].tensor
                return f"m{launch}_{argument.index}[p{tensor}]"
        param = self.signature.params[argument.index]
        if isinstance(param, TensorParam):
            return f"p{argument.index}"
        if param.dtype.is_float and not (code == "d" or (code == "f" and param.dtype.bits == 32)):
            raise NoShortWay  # the value has to be rounded first
        return f"a{argument.index}"

