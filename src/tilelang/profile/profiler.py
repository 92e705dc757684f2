"""`Profiler`: makes inputs for a kernel, measures it and compares it with a reference.

Takes a callable kernel with its signature; gives milliseconds, or raises where results differ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.profile.compare import assert_close
from tilelang.profile.inputs import TensorSupplyType, supply
from tilelang.profile.timer import do_bench
from tilelang.runtime.parameters import Signature


class Profiler:
    """What `kernel.get_profiler()` gives.

    Attributes:
        func: The kernel.
        signature: What a call of it must bring.
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
    ) -> float | list[float]:
        """The time of one call in milliseconds.

        Args:
            func: What to measure instead of the kernel, on the same inputs.
            warmup: How long to run before measuring, in milliseconds.
            rep: How long to measure, in milliseconds.
            n_warmup: Calls before measuring, instead of `warmup`.
            n_repeat: Calls to measure, instead of `rep`.
            input_tensors: The arguments; made up without them.
            backend: How a GPU's time is taken.
            quantiles: Give these quantiles instead.
            return_mode: "mean", "median", "min" or "max".
            dynamic_symbolic_constraints: Values of symbolic dims for made-up inputs.
        """
        target = func or self.func
        sizes = dynamic_symbolic_constraints or {}
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
            device=self.device,
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

        Arguments that either of the two writes in place are compared as well.

        Raises:
            AssertionError: More elements differ than allowed.
        """
        inputs = self.make_inputs() if input_tensors is None else list(input_tensors)
        copies = [_duplicate(value) for value in inputs]
        expected = _as_list(reference_program(*copies))
        actual = _as_list(self.func(*inputs))
        if len(expected) != len(actual):
            raise AssertionError(f"the kernel returns {len(actual)} results, the reference {len(expected)}")
        pairs = [(a, e, f"result {n}") for n, (a, e) in enumerate(zip(actual, expected, strict=True))]
        for index, a, e in zip(self.signature.inputs, inputs, copies, strict=True):
            if index in self.signature.written:
                pairs.append((a, e, f"'{self.signature.params[index].name}'"))
        for a, e, what in pairs:
            try:
                assert_close(a, e, rtol, atol, max_mismatched_ratio, actual_name="kernel", expected_name="reference")
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from None

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[Any], list[Any]], None] | None = None,
    ) -> None:
        """Hands the results of the kernel and of a reference, as lists, to a check of the caller's own."""
        inputs = self.make_inputs() if input_tensors is None else list(input_tensors)
        expected = _as_list(reference_program(*[_duplicate(value) for value in inputs]))
        actual = _as_list(self.func(*inputs))
        if manual_check_prog is not None:
            manual_check_prog(actual, expected)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Checks that the kernel gives the same results every time.

        Raises:
            AssertionError: Two calls on the same inputs differ.
        """
        inputs = self.make_inputs()
        first = _as_list(self.func(*[_duplicate(value) for value in inputs]))
        for _ in range(repeat):
            again = _as_list(self.func(*[_duplicate(value) for value in inputs]))
            for a, b in zip(first, again, strict=True):
                assert_close(b, a, 0, 0, actual_name="later", expected_name="first")


def _as_list(results: Any) -> list[Any]:
    if results is None:
        return []
    return list(results) if isinstance(results, list | tuple) else [results]


def _duplicate(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else copy.copy(value)
