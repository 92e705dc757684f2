"""A compiled program on the devices of this machine: loaded once per context, checked against what the device has.

Takes `DeviceCode` and the signature of the function it was made from; gives functions that can be launched and the
grids to launch them with. Invariant: a launch that cannot work is refused here, before it happens.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tilelang.codegen.source import DeviceLaunch, KernelArgument
from tilelang.errors import DriverError, ResourceError
from tilelang.records import record
from tilelang.runtime.arguments import Bound
from tilelang.runtime.host_expressions import compile_expression, evaluate_expression
from tilelang.runtime.parameters import Signature
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.gpu.runtime.failures import FailureBoard, Flag
from tilelang.targets.gpu.runtime.launch_block import MAP, EncodedMaps, LaunchFormat, format_of, letter
from tilelang.targets.gpu.runtime.print_buffer import PrintBuffer


def too_much_shared(name: str, size: int, available: int, place: str) -> ResourceError:
    """The error for a block that needs more shared memory than there is."""
    return ResourceError(
        f"{name}: shared memory: {size} bytes asked, {available} available on {place}",
        hint="reduce num_stages or the tiles",
    )


@record
class Limits:
    """The limits of a launch, on every device of a vendor.

    Attributes:
        threads: Of a block.
        grid: Blocks along x, y and z.
        cluster: Blocks of a cluster; 1 without clusters.
    """

    threads: int
    grid: tuple[int, int, int]
    cluster: int = 1


class DeviceProgram(ABC):
    """One compiled program.

    Args:
        signature: Of the function that was compiled.
        code: What came of it.
        board: Where its assertions report.

    Attributes:
        signature: As given.
        code: As given.
        launches: Its kernels in order.
        formats: How the arguments of each are laid out.
        used_names: The names of symbols and scalar parameters that decide a grid, the size of a workspace or a
            tensor map.
        limits: See `Limits`.
    """

    limits: ClassVar[Limits]

    def __init__(self, signature: Signature, code: DeviceCode, board: FailureBoard) -> None:
        self.signature = signature
        self.code = code
        self.launches = code.source.launches
        self.formats = tuple(self._format(launch) for launch in self.launches)
        self._board = board
        self._grids = [[compile_expression(text) for text in launch.grid] for launch in self.launches]
        self._workspaces = [compile_expression(text) for text in code.source.workspaces]
        self._shared = [compile_expression(launch.shared_text or str(launch.shared_bytes)) for launch in self.launches]
        texts = [text for grid in self._grids for text in grid] + self._workspaces + self._shared
        self.used_names = frozenset(name for text in texts for name in text.co_names)
        self._loaded: dict[int, tuple[int, ...]] = {}
        self._flag: Flag | None = None
        self._prints: PrintBuffer | None = None
        self._lock = threading.Lock()

    def _format(self, launch: DeviceLaunch) -> LaunchFormat:
        return format_of([self._letter(argument) for argument in launch.arguments])

    def _letter(self, argument: KernelArgument) -> str:
        if argument.kind == "tensor_map":
            return MAP
        size = self.signature.params[argument.index].dtype.storage_bytes if argument.kind == "scalar" else None
        return letter(argument.ctype, size)

    @property
    def asserts(self) -> bool:
        """Whether its kernels may report that an assertion failed."""
        return bool(self.code.source.asserts)

    # -- loading --------------------------------------------------------------------------------------------
    def functions(self, driver: Driver, device: int) -> tuple[int, ...]:
        """The kernels, loaded into the calling thread's context, which is one of the device.

        Raises:
            DriverError: The device cannot run this code, or the driver cannot read it.
            ResourceError: A kernel needs more resources than the device has.
        """
        context = driver.current_context()
        with self._lock:
            if context not in self._loaded:
                self._check_device(driver, device)
                self._loaded[context] = self._load(driver, device)
            return self._loaded[context]

    def flag(self, driver: Driver) -> Flag:
        """Where the program reports; a context must be current."""
        with self._lock:
            if self._flag is None:
                self._flag = self._board.flag(driver, self.code.source)
            return self._flag

    @abstractmethod
    def mismatch(self, driver: Driver, device: int) -> DriverError | None:
        """Why a device cannot run the code; None if it can."""

    def print_buffer(self, driver: Driver) -> PrintBuffer | None:
        """Where its kernels record what they print, if they do; a context must be current."""
        if not any(argument.kind == "prints" for launch in self.launches for argument in launch.arguments):
            return None
        with self._lock:
            self._prints = self._prints or PrintBuffer(driver)
            return self._prints

    def _check_device(self, driver: Driver, device: int) -> None:
        wrong = self.mismatch(driver, device)
        if wrong is not None:
            raise wrong
        name, limits = self.signature.name, self.limits
        available = driver.max_shared_bytes(device)
        for launch in self.launches:
            threads, cluster = math.prod(launch.threads), math.prod(launch.cluster)
            if threads > limits.threads:
                raise ResourceError(
                    f"{name}: {threads} threads per block asked, {limits.threads} available",
                    hint="pass fewer `threads=` to T.Kernel",
                )
            if cluster > limits.cluster:
                raise ResourceError(
                    f"{name}: clusters of {cluster} blocks asked, at most {limits.cluster} can run together",
                    hint="pass a smaller `cluster_dims=` to T.Kernel",
                )
            if cluster > 1 and launch.cooperative:
                raise ResourceError(
                    f"{name}: the blocks of a grid with clusters cannot synchronize",
                    hint="leave `cluster_dims=` out, or T.sync_grid",
                )
            declared = self._declared_bytes(launch)
            if declared + launch.shared_bytes > available:
                device_name = f"{driver.device_type}:{device}"
                raise too_much_shared(name, declared + launch.shared_bytes, available, device_name)

    def _declared_bytes(self, launch: DeviceLaunch) -> int:
        """Shared memory that a kernel declares, to which its launch adds."""
        used = self.code.resources.get(launch.name)
        return used.shared_bytes - launch.shared_bytes if used is not None else 0

    def _load(self, driver: Driver, device: int) -> tuple[int, ...]:
        with driver.unrecorded():
            module = driver.load(self.code.binary)
            functions = []
            for launch in self.launches:
                function = driver.function(module, launch.name)
                most = driver.max_shared_bytes(device) if launch.shared_text else launch.shared_bytes
                driver.prepare(function, launch, most)
                functions.append(function)
        return tuple(functions)

    # -- sizes ----------------------------------------------------------------------------------------------
    def grids(self, names: Mapping[str, int | float]) -> list[tuple[int, int, int]]:
        """The grid of each launch for these values of symbols and scalar parameters.

        Raises:
            ResourceError: A grid is larger than any device can start, or cannot be cut into its clusters.
        """
        result = []
        for texts, launch in zip(self._grids, self.launches, strict=True):
            extents = [int(evaluate_expression(text, names)) for text in texts]
            for axis, (extent, limit) in enumerate(zip(extents, self.limits.grid, strict=False)):
                if extent > limit:
                    raise ResourceError(
                        f"{self.signature.name}: a grid of {extent} blocks along {'xyz'[axis]} asked, at most {limit} "
                        "can be started",
                        hint="put the longest extent first in T.Kernel(...), or give each block more to do",
                    )
            for axis, (extent, size) in enumerate(zip((*extents, 1, 1), launch.cluster, strict=False)):
                if extent > 0 and extent % size:
                    raise ResourceError(
                        f"{self.signature.name}: a grid of {extent} block{'s' if extent > 1 else ''} along "
                        f"{'xyz'[axis]} cannot be cut into clusters of {size}",
                        hint="round the grid up to a multiple, and let the blocks beyond the end do nothing",
                    )
            x, y, z = (*(max(extent, 0) for extent in extents), 1, 1)[:3]
            result.append((x, y, z))
        return result

    def shared_bytes(self, names: Mapping[str, int | float], driver: Driver, device: int) -> list[int]:
        """Dynamic shared memory of a block of each launch for these values of symbols and scalar parameters.

        Raises:
            ResourceError: The device has less.
        """
        sizes = [int(evaluate_expression(text, names)) for text in self._shared]
        for size, launch in zip(sizes, self.launches, strict=True):
            declared = self._declared_bytes(launch)
            available = driver.max_shared_bytes(device) if launch.shared_text else declared + size
            if declared + size > available:
                device_name = f"{driver.device_type}:{device}"
                raise too_much_shared(self.signature.name, declared + size, available, device_name)
        return sizes

    def workspaces(self, names: Mapping[str, int | float]) -> list[int]:
        """Bytes of each workspace for these values of symbols and scalar parameters."""
        return [int(evaluate_expression(text, names)) for text in self._workspaces]

    def encoded_maps(self, driver: Driver, names: Mapping[str, int | float]) -> list[tuple[EncodedMaps, ...]]:
        """The tensor maps of each launch for these values of symbols and scalar parameters; none if a GPU has none."""
        return [() for _ in self.launches]

    def refused_maps(self, bound: Bound, names: Mapping[str, int | float]) -> dict[str, str]:
        """The tensors of a call for which there can be no tensor map, and why."""
        return {}
