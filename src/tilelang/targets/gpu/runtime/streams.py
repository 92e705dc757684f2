"""The current stream of the caller's framework, and memory with the lifetime of one call.

Takes the arguments of a call, gives a stream's handle and workspaces. Invariant: nothing is allocated behind the back
of the framework whose stream is used, so memory is reused in the stream's order, and calls fit into its graphs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilelang.runtime.arguments import Bound
from tilelang.runtime.arrays import ArrayView, is_torch_tensor
from tilelang.targets.gpu.runtime.driver import Driver


def torch_stream() -> Callable[[int], int]:
    """The function of torch from a device to its current stream's handle, 50 times faster than the public one."""
    return sys.modules["torch"]._C._cuda_getCurrentRawStream  # type: ignore[no-any-return]


def framework(like: object) -> str:
    """The framework whose stream and allocator a call uses: "torch", "cupy", or "" for none.

    Args:
        like: The array that decides, or None if the call has none.
    """
    torch = sys.modules.get("torch")
    if is_torch_tensor(like) or (like is None and torch is not None and torch.cuda.is_initialized()):
        return "torch"
    if type(like).__module__.partition(".")[0] == "cupy" or (like is None and "cupy" in sys.modules):
        return "cupy"
    return ""


def stream_of(library: str, device: int, driver: Driver) -> int:
    """The current stream of a framework ("torch", "cupy"); the driver's default stream for ""."""
    if library == "torch":
        return torch_stream()(device)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return driver.default_stream


def current_stream(bound: Bound, driver: Driver) -> int:
    """The current stream of the framework of a call's arrays."""
    library = framework(bound.like)
    if library:
        return stream_of(library, bound.device or 0, driver)
    for value in bound.values:
        if isinstance(value, ArrayView) and value.stream is not None:
            return value.stream
    return driver.default_stream


@contextmanager
def workspaces(sizes: Sequence[int], bound: Bound, stream: int, driver: Driver) -> Iterator[list[int]]:
    """Addresses of device memory of these sizes, for work that is started on the stream inside."""
    library = framework(bound.like) if sizes else ""
    if library == "torch":
        torch = sys.modules["torch"]
        allocated: list[Any] = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{bound.device}") for size in sizes]
        yield [tensor.data_ptr() for tensor in allocated]
        return
    if library == "cupy":
        allocated = [sys.modules["cupy"].cuda.alloc(size) for size in sizes]
        yield [int(memory.ptr) for memory in allocated]
        return
    pointers = [driver.allocate(size, stream) for size in sizes]
    try:
        yield pointers
    finally:
        for pointer in pointers:
            driver.free(pointer, stream)
