"""A compiled program on NVIDIA's devices: which of them run its code, and its tensor maps.

Takes `CudaCode` and the signature of the function it was made from; see `targets.gpu.runtime.device_program`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.errors import DriverError
from tilelang.runtime.arguments import Bound
from tilelang.runtime.parameters import Signature
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.gpu.runtime.device_program import DeviceProgram, Limits
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.gpu.runtime.launch_block import EncodedMaps
from tilelang.targets.nvidia.machines import MAX_CLUSTER, MAX_GRID, MAX_THREADS, arch_of
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.tensor_map import TensorMapFormula, TensorMaps, TensorMapShape, encoder


class CudaProgram(DeviceProgram):
    """One compiled program; see `DeviceProgram`."""

    limits = Limits(MAX_THREADS, MAX_GRID, MAX_CLUSTER)

    def __init__(self, signature: Signature, code: DeviceCode, board: FailureBoard) -> None:
        super().__init__(signature, code, board)
        self._maps = [
            [TensorMapFormula(text, _tensor_name(signature, text.tensor)) for text in launch.tensor_maps]
            for launch in self.launches
        ]
        self.used_names = self.used_names.union(
            *(formula.used_names for formulas in self._maps for formula in formulas)
        )

    def mismatch(self, driver: Driver, device: int) -> DriverError | None:
        """Why a device cannot run the code; None if it can."""
        assert isinstance(driver, CudaDriver)
        arch = self.code.arch
        major, minor = driver.capability(device)
        number = int(arch.removeprefix("sm_").rstrip("af"))
        exact = not arch[-1].isdigit()
        if number == major * 10 + minor if exact else number // 10 == major and number % 10 <= minor:
            return None
        best = arch_of(major, minor)
        return DriverError(
            f"{self.signature.name}: compiled for {arch}, which device cuda:{device} of compute capability "
            f"{major}.{minor} cannot run",
            hint=f"compile with target={{'kind': 'cuda', 'arch': {best!r}}}" if best else "",
        )

    def tensor_maps(self, names: Mapping[str, int | float]) -> list[list[TensorMapShape]]:
        """The tensor maps of each launch for these values of symbols and scalar parameters."""
        return [[formula.shape(names) for formula in formulas] for formulas in self._maps]

    def encoded_maps(self, driver: Driver, names: Mapping[str, int | float]) -> list[tuple[EncodedMaps, ...]]:
        """The same, to be encoded by the driver at the address of a tensor."""
        assert isinstance(driver, CudaDriver)
        return [
            tuple(TensorMaps(shape, driver.map_encoder(encoder(shape.text)), driver.error) for shape in shapes)
            for shapes in self.tensor_maps(names)
        ]

    def refused_maps(self, bound: Bound, names: Mapping[str, int | float]) -> dict[str, str]:
        """The tensors of a call for which there can be no tensor map, and why."""
        found: dict[str, str] = {}
        for grid, shapes in zip(self.grids(names), self.tensor_maps(names), strict=True):
            for shape in shapes if 0 not in grid else ():
                if shape.text.tensor >= len(self.signature.params):
                    continue  # the shape of a workspace is constant, and its memory is aligned
                why = shape.refusal(bound.address(shape.text.tensor))
                if why:
                    found[shape.name] = why
        return found


def _tensor_name(signature: Signature, index: int) -> str:
    """The name of a parameter, or of a workspace after them."""
    params = signature.params
    return params[index].name if index < len(params) else f"workspace {index - len(params)}"
