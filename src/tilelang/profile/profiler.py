"""`Profiler`: generates inputs for a kernel, measures it and compares it with a reference."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.api import public
from tilelang.profile.compare import assert_close
from tilelang.profile.inputs import TensorSupplyType, supply
from tilelang.profile.timer import do_bench, on_device
from tilelang.runtime.kernel_param import KernelParam
from tilelang.runtime.parameters import Signature

_SAME = 1e-5, 1e-8  # relative and absolute: atomic additions to floats take any order


@public
class Profiler:
    """The result of `kernel.get_profiler()`.

    Attributes:
        func: The kernel.
        signature: What a call of it takes.
        supply_type: What the elements of made-up inputs are.
        device: "cpu" or "cuda": where the kernel takes its arguments, and whose clock measures it.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        signature: Signature,
        supply_type: TensorSupplyType = TensorSupplyType.Auto,
        device: str = "cpu",
    ) -> None:
        self.func = func
        self.signature = signature
        self.supply_type = supply_type
        self.device = device

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Calls the kernel."""
        return self.func(*args, **keywords)

    @property
    def params(self) -> list[KernelParam]:
        """The parameters of the kernel in order, outputs included."""
        return [KernelParam.of(param) for param in self.signature.params]

    def make_inputs(self, **sizes: int) -> list[Any]:
        """Made-up arguments for a call; symbolic dims take their values by name."""
        return [supply(self.signature.params[i], self.supply_type, sizes, self.device) for i in self.signature.inputs]

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: dict[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> float | list[float]:
        """The time of one call in milliseconds.

        Args:
            func: What to measure instead of the kernel, on the same inputs.
            warmup: How long to run before measuring, in milliseconds.
            rep: How long to measure, in milliseconds.
            n_warmup: Calls before measuring, instead of `warmup`.
            n_repeat: Calls to measure, instead of `rep`.
            input_tensors: The arguments; made up without them.
            backend: How a GPU's time is taken, as for `tilelang.profiler.do_bench`.
            quantiles: Give these quantiles instead.
            return_mode: "mean", "median", "min" or "max".
            dynamic_symbolic_constraints: Values of symbolic dims by name for made-up inputs.
            device: The GPU to measure on, as an index or a torch device; the current one without it.
            early_stop_baseline: Milliseconds; where a first estimate is above them, the estimate is the answer.

        Raises:
            ArgumentError: A symbolic dim has no value.
            OptionError: An unknown `return_mode` or `backend`, or a quantile out of range.
        """
        target = func or self.func
        sizes = dynamic_symbolic_constraints or {}
        with on_device(device):
            inputs = self.make_inputs(**sizes) if input_tensors is None else list(input_tensors)
            return do_bench(
                lambda: target(*inputs),
                warmup=warmup,
                rep=rep,
                _n_warmup=n_warmup,
                _n_repeat=n_repeat,
                quantiles=quantiles,
                backend=backend,
                return_mode=return_mode,
                device=self.device if device is None else device,
                early_stop_baseline=early_stop_baseline,
            )

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Calls the kernel, or `func`, once on made-up inputs."""
        return (func or self.func)(*self.make_inputs())

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compares the kernel's results with those of a reference called on the same inputs.

        Only what the two return is compared, in order, and not what they write to their arguments. Where the reference
        gives None for a result, nothing is compared.

        Args:
            reference_program: Returns what is right, one tensor or several.
            input_tensors: The arguments of both; made up without them.
            atol: How far an element may be off, absolute.
            rtol: The same, relative to what is right.
            max_mismatched_ratio: The share of elements of a result that may be off further.

        Raises:
            AssertionError: More elements differ than allowed, or the number of results does.
            ArgumentError: A symbolic dim has no value.
        """
        expected, actual = self._both(reference_program, input_tensors)
        if len(expected) != len(actual):
            raise AssertionError(f"the kernel returns {_results(len(actual))}, the reference {len(expected)}")
        for number, (found, right) in enumerate(zip(actual, expected, strict=True)):
            if found is None or right is None:
                continue
            try:
                assert_close(
                    found, right, rtol, atol, max_mismatched_ratio, actual_name="kernel", expected_name="reference"
                )
            except AssertionError as error:
                raise AssertionError(f"result {number}: {error}") from None

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[Any], list[Any]], None] | None = None,
    ) -> None:
        """Hands the results of the kernel and of a reference, as lists, to a check of the caller's own.

        Raises:
            AssertionError: The numbers of results differ, or the check says so.
        """
        expected, actual = self._both(reference_program, input_tensors)
        if len(expected) != len(actual):
            raise AssertionError(f"the kernel returns {_results(len(actual))}, the reference {len(expected)}")
        if manual_check_prog is not None:
            manual_check_prog(actual, expected)

    def _both(
        self, reference_program: Callable[..., Any], input_tensors: Sequence[Any] | None
    ) -> tuple[list[Any], list[Any]]:
        """The results of the reference and of the kernel for the same inputs."""
        inputs = self.make_inputs() if input_tensors is None else list(input_tensors)
        expected = _as_list(reference_program(*inputs))
        return expected, _as_list(self.func(*inputs))

    def assert_consistent(self, repeat: int = 10) -> None:
        """Checks that the kernel gives the same results every time, up to what another order of additions changes.

        Raises:
            AssertionError: Two calls on the same inputs differ.
        """
        inputs = self.make_inputs()
        first = _as_list(self.func(*[_duplicate(value) for value in inputs]))
        for _ in range(repeat):
            again = _as_list(self.func(*[_duplicate(value) for value in inputs]))
            for a, b in zip(first, again, strict=True):
                assert_close(b, a, *_SAME, actual_name="later", expected_name="first")


def _as_list(results: Any) -> list[Any]:
    if results is None:
        return []
    return list(results) if isinstance(results, list | tuple) else [results]


def _results(count: int) -> str:
    return f"{count} result{'' if count == 1 else 's'}"


def _duplicate(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else copy.copy(value)
