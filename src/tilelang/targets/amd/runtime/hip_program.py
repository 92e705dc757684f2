"""A compiled program on AMD's devices: checks of architecture and grid.

Takes `HipCode` and the signature of the function it was made from; see `targets.gpu.runtime.device_program`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.errors import DriverError, ResourceError
from tilelang.targets.amd.machines import MAX_GRID, MAX_GRID_THREADS, MAX_THREADS, arch_of
from tilelang.targets.gpu.runtime.device_program import DeviceProgram, Limits
from tilelang.targets.gpu.runtime.driver import Driver


class HipProgram(DeviceProgram):
    """One compiled program; see `DeviceProgram`."""

    limits = Limits(MAX_THREADS, MAX_GRID)

    def mismatch(self, driver: Driver, device: int) -> DriverError | None:
        """Why a device cannot run the code; None if it can."""
        found = driver.arch(device)
        if found == self.code.arch:
            return None
        best = arch_of(found)
        return DriverError(
            f"{self.signature.name}: compiled for {self.code.arch}, which device {driver.device_type}:{device}, a "
            f"{found or 'device of unknown architecture'}, cannot run",
            hint=f"compile with target={{'kind': 'hip', 'arch': {best!r}}}" if best else "",
        )

    def grids(self, names: Mapping[str, int | float]) -> list[tuple[int, int, int]]:
        """The grid of each launch; see `DeviceProgram`."""
        grids = super().grids(names)
        for grid, launch in zip(grids, self.launches, strict=True):
            for axis, blocks, threads in zip("xyz", grid, launch.threads, strict=True):
                if blocks * threads > MAX_GRID_THREADS:
                    raise ResourceError(
                        f"{self.signature.name}: a grid of {blocks} blocks of {threads} threads along {axis} asked, at "
                        f"most {MAX_GRID_THREADS} threads along an axis can be started",
                        hint="divide the blocks among the axes of T.Kernel(...), or give each block more to do",
                    )
        return grids
