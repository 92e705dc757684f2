"""Help for examples and tests of kernels: arrays where kernels run, seeds, comparison, marks for tests with devices.

pytest, torch and CuPy are used where the caller has them; none is imported before it is needed.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tilelang.api import caller, public
from tilelang.errors import ArgumentError, DriverError, OptionError
from tilelang.profile.compare import assert_close
from tilelang.runtime.arrays import borrow, is_torch_tensor, torch_dtype
from tilelang.targets.registry import family_of
from tilelang.targets.target import TargetLike, parse_execution_backend, parse_target

__all__ = [
    "main",
    "process_func",
    "regression",
    "requires_cdna",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_cuda_or_cdna",
    "requires_gfx950",
    "requires_llvm",
    "requires_metal",
    "requires_package",
    "requires_rocm",
    "set_random_seed",
    "to_device",
    "to_host",
    "torch_assert_close",
]

F = TypeVar("F", bound=Callable[..., Any])


@public
def main() -> None:
    """Runs the tests of the calling file with pytest, and ends the program with its exit status."""
    file = inspect.getsourcefile(caller())
    pytest = importlib.import_module("pytest")
    sys.exit(pytest.main([str(file), *sys.argv[1:]]))


@public
def set_random_seed(seed: int = 42) -> None:
    """Seeds the random numbers of Python, NumPy and, where it is imported, torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


@public
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
) -> bool:
    """Checks that two tensors agree within tolerances, but for a share of their elements.

    `verbose`, `check_device`, `check_layout` and `check_stride` are accepted as published; results of one device
    have nothing there to differ in.

    Returns:
        True.

    Raises:
        AssertionError: They do not; says how many elements differ and where the worst is.
    """
    del verbose, check_device, check_layout, check_stride
    for name, given in ((base_name, tensor_a), (ref_name, tensor_b)):
        if not hasattr(given, "dtype"):
            raise ArgumentError(f"torch_assert_close: {name} is {given!r:.40}, not a tensor")
    if check_dtype and tensor_a.dtype != tensor_b.dtype:
        raise AssertionError(f"{base_name} has dtype {tensor_a.dtype}, {ref_name} has dtype {tensor_b.dtype}")
    if not equal_nan and (bool((tensor_a != tensor_a).any()) or bool((tensor_b != tensor_b).any())):
        raise AssertionError("NaN is not equal to NaN")
    assert_close(
        tensor_a, tensor_b, rtol, atol, max_mismatched_ratio, actual_name=base_name, expected_name=ref_name
    )
    return True


# -- arrays where kernels run --------------------------------------------------------------------------------
@public
def to_device(*arrays: np.ndarray, target: TargetLike = "auto") -> Any:
    """NumPy arrays as a kernel compiled for `target` takes them: copied to the GPU, or as they are.

    On a machine with a GPU that is a copy as torch tensors, or as CuPy arrays where there is no torch. Kernels for the
    CPU, for the simulator and for the reference interpreter take NumPy arrays, and get these very ones. Copies never
    happen inside a kernel's call.

    Args:
        arrays: The arrays to copy.
        target: What the kernel is compiled for; "auto" is what `tilelang.compile` takes by itself.

    Returns:
        The array, or a list of them if several are given.

    Raises:
        DriverError: Kernels run on a GPU here, and neither torch nor CuPy can hold arrays there.
        ArgumentError: They have no such dtype.
    """
    chosen = parse_target(target)
    if chosen.is_gpu and parse_execution_backend(None, chosen) not in ("simulator", "reference"):
        put = _way_to_device(str(chosen))
        moved = [put(array) for array in arrays]
    else:
        moved = list(arrays)
    return moved[0] if len(moved) == 1 else moved


@public
def to_host(*arrays: Any) -> Any:
    """Arrays of any framework and device as NumPy arrays, copied where they are not in host memory.

    Returns:
        The array, or a list of them if several are given.
    """
    moved = [_to_host(array) for array in arrays]
    return moved[0] if len(moved) == 1 else moved


def _way_to_device(target: str) -> Callable[[np.ndarray], Any]:
    """Return the function that copies an array to the GPU, by the framework that is there."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        return _torch_on_device
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        found = "torch is installed without support for this GPU" if torch else "neither torch nor CuPy is installed"
        raise DriverError(
            f"to_device: kernels are compiled for {target}, and nothing can hold arrays on the GPU: {found}",
            hint="pip install torch, or set TILELANG_DEFAULT_TARGET=cpu to run on the CPU",
        ) from None
    return cupy.asarray  # type: ignore[no-any-return]


def _torch_on_device(array: np.ndarray) -> Any:
    torch = sys.modules["torch"]
    view = borrow(array)
    row = None if view is None or view.dtype is None else torch_dtype(view.dtype)
    if row is None:
        raise ArgumentError(f"to_device: torch has no dtype {array.dtype}")
    # as bytes, since torch does not know the dtypes that NumPy has from ml_dtypes
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return torch.tensor(flat, device="cuda").view(row).reshape(array.shape)


def _to_host(array: Any) -> Any:
    if is_torch_tensor(array):
        view = borrow(array)
        assert view is not None
        assert view.dtype is not None
        flat = array.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8)
        return flat.numpy().view(view.dtype.numpy).reshape(view.shape)
    return array.get() if hasattr(array, "__cuda_array_interface__") else np.asarray(array)


# -- marks ---------------------------------------------------------------------------------------------------
def _capability() -> tuple[int, int] | None:
    """The compute capability of the first GPU of CUDA, or None if there is none."""
    try:
        driver = family_of("cuda").device_runtime().open_driver()
        return driver.capability(0) if driver.device_count() else None
    except DriverError:
        return None


def _skip(reason: str) -> Callable[[F], F]:
    def mark(test: F) -> F:
        pytest = importlib.import_module("pytest")
        return pytest.mark.skip(reason=reason)(test)  # type: ignore[no-any-return]

    return mark


def _run(test: F) -> F:
    return test


def _device_mark(name: str, is_there: Callable[[], bool]) -> Callable[..., Any]:
    """A mark to be written bare or with parentheses."""

    @public
    def mark(test: Callable[..., Any] | None = None, *, support_required: str = "compile-and-run") -> Any:
        del support_required  # a machine that compiles for a device but has none cannot run the test
        chosen: Callable[..., Any] = _run if is_there() else _skip(f"needs {name}")
        return chosen if test is None else chosen(test)

    return mark


def _has_cuda() -> bool:
    return _capability() is not None


def _is_wave64(arch: str | None) -> bool:
    """Whether an architecture of ROCm is one of CDNA, whose waves have 64 lanes."""
    return arch is not None and family_of("hip").machines[arch].warp_size == 64


def _rocm_arch() -> str | None:
    """The architecture of the first device of ROCm that kernels are compiled for, or None if there is none."""
    return family_of("hip").present()


requires_cuda = _device_mark("a CUDA device", _has_cuda)
requires_cuda_or_cdna = _device_mark("a CUDA or CDNA device", lambda: _has_cuda() or _is_wave64(_rocm_arch()))
requires_rocm = _device_mark("a device of ROCm", lambda: _rocm_arch() is not None)
requires_cdna = _device_mark("a CDNA device", lambda: _is_wave64(_rocm_arch()))
requires_gfx950 = _device_mark("a gfx950 device", lambda: _rocm_arch() == "gfx950")
requires_metal = _device_mark("Metal, which this version has no target for", lambda: False)
requires_llvm = _device_mark("the CPU target", lambda: True)  # which takes LLVM's place


@public
def requires_package(*packages: str) -> Callable[[F], F]:
    """Marks a test that needs Python packages, by the names they are imported under."""
    absent = [name for name in packages if not _is_installed(name)]
    return _skip(f"needs {', '.join(absent)}") if absent else _run


def _is_installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


@public
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
    found = _capability()
    if found is not None and getattr(operator, mode)(found, (major_version, minor_version)):
        return _run
    return _skip(f"needs CUDA with compute capability {mode} {major_version}.{minor_version}")


@public
def requires_cuda_compute_version_ge(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs at least this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "ge")


@public
def requires_cuda_compute_version_gt(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs more than this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "gt")


@public
def requires_cuda_compute_version_eq(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs exactly this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "eq")


@public
def requires_cuda_compute_version_le(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs at most this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "le")


@public
def requires_cuda_compute_version_lt(major_version: int, minor_version: int = 0) -> Callable[[F], F]:
    """Marks a test that needs less than this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "lt")


# -- latencies of a file's kernels ---------------------------------------------------------------------------
_LATENCIES: dict[str, float] = {}  # what `process_func` recorded since the last table


@public
def process_func(func: Callable[..., float], name: str | None = None, /, **kwargs: Any) -> None:
    """Calls a function that returns a latency, and records it for the table of `regression`.

    Args:
        func: Gives a positive number, in any unit.
        name: What the table calls it; the function's name without it.
        kwargs: What the function is called with.

    Raises:
        ValueError: It gives no positive number.
    """
    _record(str(name or getattr(func, "__name__", "kernel")), func(**kwargs))


def _record(name: str, latency: object) -> None:
    if isinstance(latency, bool) or not isinstance(latency, int | float) or not latency > 0:
        raise OptionError(f"process_func: '{name}' gives {latency!r:.40}, not a latency above zero")
    _LATENCIES[name] = float(latency)


@public
def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> None:
    """Calls the functions of the calling file whose names begin in a certain way, and prints a table of latencies.

    A function gives a latency, or records several by `process_func`.

    Args:
        prefixes: How the names begin.
        verbose: Print the name of each function before it is called.

    Raises:
        ValueError: There is no such function.
    """
    names = caller().f_globals
    chosen = {n: f for n, f in names.items() if callable(f) and n.startswith(tuple(prefixes))}
    if not chosen:
        raise OptionError(f"regression: this file has no function whose name begins with {' or '.join(prefixes)}")
    _LATENCIES.clear()
    for name, function in chosen.items():
        if verbose:
            print(f"regression: {name}")  # noqa: T201  the user asked for it
        latency = function()
        if latency is not None:
            _record(name, latency)
    rows = [f"| {name} | {latency:.6g} |" for name, latency in _LATENCIES.items()]
    print("\n".join(["| kernel | latency |", "|---|---|", *rows]))  # noqa: T201  as above
