"""A compiled program on the devices of this machine: loaded once per context, checked against what the device has.

Takes `DeviceCode` and the signature of the function it was made from; gives functions that can be launched and the
grids to launch them with. Invariant: a launch that cannot work is refused here, before it happens.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

from tilelang.codegen.source import DeviceLaunch, KernelArgument
from tilelang.errors import DriverError, ResourceError
from tilelang.runtime.host_numbers import compiled, evaluated
from tilelang.runtime.parameters import Signature
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.nvidia.machines import MAX_CLUSTER, MAX_GRID, MAX_THREADS, PORTABLE_CLUSTER, arch_of
from tilelang.targets.nvidia.runtime.cuda_driver import MAX_SHARED_BYTES, Driver
from tilelang.targets.nvidia.runtime.failures import FailureBoard, Flag
from tilelang.targets.nvidia.runtime.launch_block import MAP, LaunchFormat, format_of, letter
from tilelang.targets.nvidia.runtime.tensor_map import TensorMapFormula, TensorMapShape


def too_much_shared(name: str, size: int, available: int, place: str) -> ResourceError:
    """The error for a block that needs more shared memory than there is."""
    return ResourceError(
        f"{name}: shared memory: {size} bytes asked, {available} available on {place}",
        hint="reduce num_stages or the tiles",
    )


class DeviceProgram:
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
    """

    def __init__(self, signature: Signature, code: DeviceCode, board: FailureBoard) -> None:
        self.signature = signature
        self.code = code
        self.launches = code.source.launches
        self.formats = tuple(self._format(launch) for launch in self.launches)
        self._board = board
        self._grids = [[compiled(text) for text in launch.grid] for launch in self.launches]
        self._workspaces = [compiled(text) for text in code.source.workspaces]
        self._maps = [
            [TensorMapFormula(text, signature.params[text.tensor].name) for text in launch.tensor_maps]
            for launch in self.launches
        ]
        self._shared = [compiled(launch.shared_text or str(launch.shared_bytes)) for launch in self.launches]
        texts = [text for grid in self._grids for text in grid] + self._workspaces + self._shared
        self.used_names = frozenset(name for text in texts for name in text.co_names).union(
            *(formula.used_names for formulas in self._maps for formula in formulas)
        )
        self._loaded: dict[int, tuple[int, ...]] = {}
        self._flag: Flag | None = None
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

    def _check_device(self, driver: Driver, device: int) -> None:
        name, arch = self.signature.name, self.code.arch
        major, minor = driver.capability(device)
        number = int(arch.removeprefix("sm_").rstrip("af"))
        exact = not arch[-1].isdigit()
        fits = number == major * 10 + minor if exact else number // 10 == major and number % 10 <= minor
        if not fits:
            best = arch_of(major, minor)
            raise DriverError(
                f"{name}: compiled for {arch}, which device cuda:{device} of compute capability {major}.{minor} cannot "
                "run",
                hint=f"compile with target={{'kind': 'cuda', 'arch': {best!r}}}" if best else "",
            )
        available = driver.attribute(device, MAX_SHARED_BYTES)
        for launch in self.launches:
            threads, cluster = math.prod(launch.threads), math.prod(launch.cluster)
            if threads > MAX_THREADS:
                raise ResourceError(
                    f"{name}: {threads} threads per block asked, {MAX_THREADS} available",
                    hint="pass fewer `threads=` to T.Kernel",
                )
            if cluster > MAX_CLUSTER:
                raise ResourceError(
                    f"{name}: clusters of {cluster} blocks asked, at most {MAX_CLUSTER} can run together",
                    hint="pass a smaller `cluster_dims=` to T.Kernel",
                )
            if cluster > 1 and launch.cooperative:
                raise ResourceError(
                    f"{name}: the blocks of a grid with clusters cannot synchronize",
                    hint="leave `cluster_dims=` out, or T.sync_grid",
                )
            if launch.shared_bytes > available:
                raise too_much_shared(name, launch.shared_bytes, available, f"cuda:{device}")

    def _load(self, driver: Driver, device: int) -> tuple[int, ...]:
        with driver.unrecorded():
            module = driver.load(self.code.binary)
            functions = []
            for launch in self.launches:
                function = driver.function(module, launch.name)
                most = driver.attribute(device, MAX_SHARED_BYTES) if launch.shared_text else launch.shared_bytes
                driver.allow_shared(function, most)
                if math.prod(launch.cluster) > PORTABLE_CLUSTER:
                    driver.allow_large_clusters(function)
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
            extents = [int(evaluated(text, names)) for text in texts]
            for axis, (extent, limit) in enumerate(zip(extents, MAX_GRID, strict=False)):
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
        sizes = [int(evaluated(text, names)) for text in self._shared]
        for size, launch in zip(sizes, self.launches, strict=True):
            available = driver.attribute(device, MAX_SHARED_BYTES) if launch.shared_text else size
            if size > available:
                raise too_much_shared(self.signature.name, size, available, f"cuda:{device}")
        return sizes

    def workspaces(self, names: Mapping[str, int | float]) -> list[int]:
        """Bytes of each workspace for these values of symbols and scalar parameters."""
        return [int(evaluated(text, names)) for text in self._workspaces]

    def tensor_maps(self, names: Mapping[str, int | float]) -> list[list[TensorMapShape]]:
        """The tensor maps of each launch for these values of symbols and scalar parameters."""
        return [[formula.shape(names) for formula in formulas] for formulas in self._maps]

