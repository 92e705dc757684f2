"""Checks the results of configurations before they are timed.

Invariant: outputs that a kernel allocates are filled with NaN bytes first, so that elements that it does not write are
not correct by chance.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.errors import TuningError
from tilelang.jit.kernel import JITKernel
from tilelang.profile.compare import as_float64, assert_close
from tilelang.records import record
from tilelang.runtime.arrays import borrow, is_torch_tensor
from tilelang.tune.result import Rejection
from tilelang.tune.space import Config, text_of

Named = list[tuple[str, Any]]  # results with their names


@record
class Tolerances:
    """Tolerances of results: `|a - b| <= atol + rtol * |b|` for all but a fraction of the elements."""

    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01


@record
class Outcome:
    """The result of one call of a kernel.

    Attributes:
        results: Its return values.
        written: The arguments that it wrote in place.
        seconds: Host time of the call, until the device was idle.
    """

    results: Named
    written: Named
    seconds: float


# -- running -------------------------------------------------------------------------------------------------
def run(kernel: JITKernel, inputs: Sequence[Any]) -> Outcome:
    """Calls a kernel on copies of its inputs.

    Raises:
        TileLangError: It cannot be called so.
    """
    signature = kernel.signature
    fresh = _copy_written_arguments(kernel, inputs)
    results = as_list(kernel(*fresh))
    kernel.synchronize()
    if results and all(_fill_with_nan(result) for result in results):
        fresh = _copy_written_arguments(kernel, inputs)
        places = dict(zip(signature.inputs, fresh, strict=True))
        places.update(zip(signature.outputs, results, strict=True))
        arguments = [places[index] for index in range(len(signature.params))]
    else:
        fresh = arguments = _copy_written_arguments(kernel, inputs)
    again, seconds = timed(kernel, arguments)
    results = results if len(arguments) > len(fresh) else as_list(again)
    names = [signature.params[index].name for index in signature.outputs]
    written = [
        (signature.params[index].name, value)
        for index, value in zip(signature.inputs, fresh, strict=True)
        if index in signature.written
    ]
    return Outcome([*zip(names, results, strict=True)], written, seconds)


def timed(kernel: JITKernel, arguments: Sequence[Any]) -> tuple[Any, float]:
    """What a call of a kernel returns, and the host time until the device was idle, in seconds."""
    start = time.perf_counter()
    results = kernel(*arguments)
    kernel.synchronize()
    return results, time.perf_counter() - start


def expected(ref_prog: Callable[..., Any], kernel: JITKernel, inputs: Sequence[Any]) -> Named:
    """The results of a reference on the inputs of a kernel, with the names of the kernel's results.

    Its return values that are not None, and the arguments that it modified in place; what a kernel writes to other
    arguments is not compared.

    Raises:
        TuningError: The reference failed, or gives another number of results.
    """
    signature = kernel.signature
    copies = [duplicate(value) for value in inputs]
    try:
        results = as_list(ref_prog(*copies))
    except Exception as error:
        name = getattr(ref_prog, "__name__", type(ref_prog).__name__)
        given = ", ".join(signature.params[index].name for index in signature.inputs)
        raise TuningError(
            f"autotune: the reference '{name}' failed: {type(error).__name__}: {error}",
            hint=f"it is called with the inputs of the kernel, {given}, and returns what the kernel returns",
        ) from error
    names = [signature.params[index].name for index in signature.outputs]
    if len(names) != len(results):
        raise TuningError(
            f"autotune: the reference returns {_results(len(results))}, the kernel {_results(len(names))}",
            hint="let it return what the kernel returns, in the same order",
        )
    written = [
        (signature.params[index].name, copied)
        for index, value, copied in zip(signature.inputs, inputs, copies, strict=True)
        if index in signature.written and not _is_unchanged(value, copied)
    ]
    returned = [(name, result) for name, result in zip(names, results, strict=True) if result is not None]
    return [*returned, *written]


def _is_unchanged(value: Any, copied: Any) -> bool:
    """Whether a copy of an array still has the elements of the original; NaN equals NaN."""
    return not difference([("", copied)], [("", value)], Tolerances(0, 0, 0))


def _results(count: int) -> str:
    return f"{count} result{'' if count == 1 else 's'}"


def as_list(results: Any) -> list[Any]:
    """Return the results of a call as a list."""
    if results is None:
        return []
    return list(results) if isinstance(results, list | tuple) else [results]


def duplicate(value: Any) -> Any:
    """A copy of an array; other values as they are."""
    return value.clone() if hasattr(value, "clone") else copy.copy(value)


def _copy_written_arguments(kernel: JITKernel, inputs: Sequence[Any]) -> list[Any]:
    """The inputs; arguments that the kernel writes in place are copied."""
    signature = kernel.signature
    return [
        duplicate(value) if index in signature.written else value
        for index, value in zip(signature.inputs, inputs, strict=True)
    ]


def _fill_with_nan(array: Any) -> bool:
    """Fills an array with bytes 0xFF, which are NaN for floats; returns whether it is supported."""
    view = borrow(array)
    if view is None or view.dtype is None or view.dtype.is_bool:
        return False
    if is_torch_tensor(array):
        if array.numel():
            array.reshape(-1).view(sys.modules["torch"].uint8).fill_(255)
        return True
    if isinstance(array, np.ndarray) or type(array).__module__.partition(".")[0] == "cupy":
        array.reshape(-1).view(np.uint8)[...] = 255
        return True
    return False


# -- comparing -----------------------------------------------------------------------------------------------
def difference(actual: Named, wanted: Named, tolerances: Tolerances) -> str:
    """The difference of a kernel's results from the expected ones, as text; empty if there is none.

    NaN differs from any number.
    """
    for (name, found), (_, right) in zip(actual, wanted, strict=True):
        if not _torch_agrees(found, right, tolerances):
            text = _numpy_difference(found, right, tolerances)
            if text:
                return f"'{name}': {text}"
    return ""


def _torch_agrees(found: Any, right: Any, tolerances: Tolerances) -> bool:
    """Whether two tensors agree, computed on their device; False if that is not supported."""
    if not (is_torch_tensor(found) and is_torch_tensor(right)):
        return False
    if found.shape != right.shape or found.device != right.device or found.is_complex():
        return False
    torch = sys.modules["torch"]
    wide = torch.float64 if found.dtype in (torch.float64, torch.int64, torch.int32) else torch.float32
    a, b = found.to(wide), right.to(wide)
    if bool((torch.isnan(a) & ~torch.isnan(b)).any()):
        return False
    close = torch.isclose(a, b, rtol=tolerances.rtol, atol=tolerances.atol, equal_nan=True)
    wrong = close.numel() - int(close.count_nonzero())
    return bool(wrong <= tolerances.max_mismatched_ratio * close.numel())


def _numpy_difference(found: Any, right: Any, tolerances: Tolerances) -> str:
    try:
        left, wanted = as_float64(found), as_float64(right)
        missing = np.isnan(left) & ~np.isnan(wanted) if left.shape == wanted.shape else np.zeros(0, bool)
        if missing.any():
            where = tuple(int(i) for i in np.argwhere(missing)[0])
            return f"{int(missing.sum())} of {missing.size} elements are NaN or not written, the first at {where}"
        limits = tolerances.rtol, tolerances.atol, tolerances.max_mismatched_ratio
        assert_close(left, wanted, *limits, actual_name="found", expected_name="expected")
    except AssertionError as error:
        return str(error)
    return ""


class MajorityVote:
    """A majority vote on the results of configurations, where there is no reference.

    The results that most configurations agree on are considered correct.

    Args:
        tolerances: The tolerances.
    """

    def __init__(self, tolerances: Tolerances) -> None:
        self._tolerances = tolerances
        self._groups: list[tuple[Named, list[Config], str]] = []

    def add(self, config: Config, results: Named) -> None:
        """Adds the results of a configuration."""
        reason = ""
        for wanted, members, _ in self._groups:
            text = difference(results, wanted, self._tolerances)
            if not text:
                members.append(config)
                return
            reason = reason or text
        self._groups.append((results, [config], reason))

    def rejections(self, name: str) -> list[Rejection]:
        """The configurations that differ from the majority.

        Raises:
            TuningError: There is no such majority.
        """
        if len(self._groups) < 2:
            return []
        ranked = sorted(self._groups, key=lambda group: -len(group[1]))
        (_, right, _), (_, second, _) = ranked[:2]
        total = sum(len(members) for _, members, _ in ranked)
        if len(right) == len(second):
            raise TuningError(
                f"autotune: the configurations of '{name}' disagree about the result, and there is no reference: "
                f"{text_of(right[0])} and {text_of(second[0])}: {next(g[2] for g in self._groups if g[2])}",
                hint="pass ref_prog=, larger tolerances rtol= and atol=, or skip_check=True",
            )
        found = []
        for results, members, _ in ranked[1:]:
            text = difference(results, ranked[0][0], self._tolerances)
            message = f"not what {len(right)} of {total} configurations compute: {text}"
            found += [Rejection(config, "check", message) for config in members]
        return found
