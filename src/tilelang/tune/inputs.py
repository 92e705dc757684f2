"""The arguments with which configurations are checked and measured.

Supplied by the user, or generated. Invariant: configurations with equal parameters get the same arrays, so that results
and times are comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tilelang.api import public
from tilelang.errors import ArgumentError, TuningError
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.ir.printer import to_text
from tilelang.jit.kernel import JITKernel
from tilelang.profile.inputs import TensorSupplyType
from tilelang.runtime.kernel_param import KernelParam
from tilelang.runtime.parameters import Signature

_AUTOTUNE_INPUTS: ContextVar[tuple[Any, ...] | None] = ContextVar("autotune_inputs", default=None)


@public
@contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Tunes kernels with these arguments inside the `with`, instead of generated ones.

    Args:
        tensors: The arguments of the kernel in order, or one list of them.

    Example:
        `with set_autotune_inputs(a, b): kernel = matmul(M, N, K)`
    """
    single = len(tensors) == 1 and isinstance(tensors[0], list | tuple)
    token = _AUTOTUNE_INPUTS.set(tuple(tensors[0]) if single else tensors)
    try:
        yield
    finally:
        _AUTOTUNE_INPUTS.reset(token)


@public
def get_autotune_inputs() -> tuple[Any, ...] | None:
    """The arguments of the surrounding `set_autotune_inputs`, or None outside of one."""
    return _AUTOTUNE_INPUTS.get()


class Supplier:
    """Supplies kernels with inputs.

    Args:
        name: Name of the tuned function.
        kind: The distribution of generated elements.
        supply_prog: A function of the user that makes inputs from the list of a kernel's parameters.
        of_call: Returns the inputs of the call that is being tuned, or None.
    """

    def __init__(
        self,
        name: str,
        kind: TensorSupplyType,
        supply_prog: Callable[..., Any] | None,
        of_call: Callable[[JITKernel], Sequence[Any] | None],
    ) -> None:
        self._name, self._kind, self._supply_prog, self._of_call = name, kind, supply_prog, of_call
        self._inputs: dict[str, list[Any]] = {}

    def inputs(self, kernel: JITKernel) -> tuple[str, list[Any]]:
        """The inputs of a kernel, and a key that is equal for kernels with the same inputs.

        Raises:
            ArgumentError: The user supplies another number of them.
            TuningError: They cannot be made.
        """
        key = self._key(kernel)
        if key not in self._inputs:
            self._inputs[key] = self._make_inputs(kernel)
        return key, self._inputs[key]

    def _key(self, kernel: JITKernel) -> str:
        params = [kernel.signature.params[index] for index in kernel.signature.inputs]
        shapes = [tuple(to_text(e) for e in p.shape) if isinstance(p, TensorParam) else () for p in params]
        return repr([(str(p.dtype), shape) for p, shape in zip(params, shapes, strict=True)])

    def _make_inputs(self, kernel: JITKernel) -> list[Any]:
        wanted = len(kernel.signature.inputs)
        given: Sequence[Any] | None = get_autotune_inputs()
        source = "set_autotune_inputs"
        if given is None:
            given, source = self._of_call(kernel), "the call"
        if given is None and self._supply_prog is not None:
            given, source = self._call_supply_prog(kernel), "supply_prog"
        if given is None:
            return self._generate_inputs(kernel)
        if len(given) != wanted:
            names = kernel.signature.names(kernel.signature.inputs)
            raise ArgumentError(
                f"autotune: {source} passes {len(given)} argument{'' if len(given) == 1 else 's'} for '{self._name}', "
                f"which takes {wanted}: {names}"
            )
        return list(given)

    def _call_supply_prog(self, kernel: JITKernel) -> Sequence[Any]:
        assert self._supply_prog is not None
        params = [KernelParam.of(kernel.signature.params[index]) for index in kernel.signature.inputs]
        try:
            arguments = self._supply_prog(params)
        except Exception as error:
            name = getattr(self._supply_prog, "__name__", "supply_prog")
            raise TuningError(
                f"autotune: supply_prog '{name}' failed: {type(error).__name__}: {error}",
                hint="it is called with the list of the kernel's input parameters and returns one argument for each",
            ) from error
        return arguments if isinstance(arguments, list | tuple) else [arguments]

    def _generate_inputs(self, kernel: JITKernel) -> list[Any]:
        refuse_scalars(self._name, kernel.signature)
        try:
            return kernel.get_profiler(self._kind).make_inputs()
        except ArgumentError as error:
            why = error.message.removeprefix("profiler: ")
            raise TuningError(
                f"autotune: '{self._name}' cannot be given made-up arguments: {why}",
                hint=_HINT,
            ) from None


_HINT = "write `with tilelang.autotuner.set_autotune_inputs(...):` around the call, or pass supply_prog="


def refuse_scalars(name: str, signature: Signature) -> None:
    """Raises if a kernel has scalar parameters, whose values cannot be generated.

    Raises:
        ArgumentError: There is such a parameter.
    """
    for index in signature.inputs:
        param = signature.params[index]
        if isinstance(param, ScalarParam):
            raise ArgumentError(
                f"autotune: '{name}' cannot be given made-up arguments: '{param.name}' of {param.dtype!s} is a scalar, "
                "whose value cannot be generated",
                hint=_HINT,
            )
