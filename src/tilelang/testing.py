"""Help for tests of kernels: running one test file, seeds, comparison, and marks for tests that need a device.

pytest and torch are used where the caller has them; neither is imported before it is needed.
"""

from __future__ import annotations

import importlib
import inspect
import random
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tilelang.errors import OptionError
from tilelang.profile.compare import assert_close

__all__ = [
    "main",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_llvm",
    "requires_metal",
    "requires_rocm",
    "set_random_seed",
    "torch_assert_close",
]

F = TypeVar("F", bound=Callable[..., Any])


def main() -> None:
    """Runs the tests of the calling file with pytest, and ends the program with its exit status."""
    file = inspect.getsourcefile(sys._getframe(1))
    pytest = importlib.import_module("pytest")
    sys.exit(pytest.main([str(file), *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Seeds the random numbers of Python, NumPy and, where it is imported, torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> None:
    """Checks that two tensors agree within tolerances, but for a share of their elements.

    `verbose`, `check_device`, `check_layout` and `check_stride` are accepted as published; results of one device
    have nothing there to differ in.

    Raises:
        AssertionError: They do not; says how many elements differ and where the worst is.
    """
    del verbose, check_device, check_layout, check_stride
    if check_dtype and tensor_a.dtype != tensor_b.dtype:
        raise AssertionError(f"{base_name} has dtype {tensor_a.dtype}, {ref_name} has dtype {tensor_b.dtype}")
    if not equal_nan and (bool((tensor_a != tensor_a).any()) or bool((tensor_b != tensor_b).any())):
        raise AssertionError("NaN is not equal to NaN")
    assert_close(
        tensor_a, tensor_b, rtol, atol, max_mismatched_ratio, actual_name=base_name, expected_name=ref_name
    )


def _skip(reason: str) -> Callable[[F], F]:
    def mark(test: F) -> F:
        pytest = importlib.import_module("pytest")
        return pytest.mark.skip(reason=reason)(test)  # type: ignore[no-any-return]

    return mark


def _device_mark(name: str) -> Callable[..., Any]:
    """A mark to be written bare or with empty parentheses."""

    def mark(test: Callable[..., Any] | None = None) -> Any:
        skip: Callable[..., Any] = _skip(f"needs {name}, which this version has no target for")
        return skip if test is None else skip(test)

    return mark


requires_cuda = _device_mark("CUDA")
requires_rocm = _device_mark("ROCm")
requires_metal = _device_mark("Metal")


def requires_llvm(test: F) -> F:
    """Marks a test that needs the CPU target, which is always there."""
    return test


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0, mode: str = "ge"
) -> Callable[[F], F]:
    """Marks a test that needs a CUDA device of some compute capability.

    Args:
        major_version: Of the capability to compare with.
        minor_version: Of the capability to compare with.
        mode: "ge", "gt", "le", "lt" or "eq".

    Raises:
        OptionError: An unknown mode.
    """
    if mode not in ("ge", "gt", "le", "lt", "eq"):
        raise OptionError(f"requires_cuda_compute_version: unknown mode {mode!r}", hint="ge, gt, le, lt or eq")
    return _skip(f"needs CUDA with compute capability {mode} {major_version}.{minor_version}")


def requires_cuda_compute_version_ge(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs at least this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "ge")


def requires_cuda_compute_version_gt(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs more than this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "gt")


def requires_cuda_compute_version_eq(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs exactly this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "eq")


def requires_cuda_compute_version_le(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs at most this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "le")


def requires_cuda_compute_version_lt(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs less than this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "lt")
