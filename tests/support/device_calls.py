"""Kernels of fake devices, to be called."""

from collections.abc import Callable
from typing import Any

from fake_cuda import FakeCuda

from tilelang.ir.func import PrimFunc
from tilelang.ir.specialization import Specialization
from tilelang.ir.stmt import Seq
from tilelang.runtime.parameters import Signature
from tilelang.targets.gpu.runtime.device_call import DeviceCaller
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram
from tilelang.transforms.specialize_symbols import specialize


class Calls:
    """A kernel of imaginary devices, with the variants that were compiled of it."""

    def __init__(self, cuda: FakeCuda, s: Signature, make: Callable[[Specialization], Any]) -> None:
        self.cuda, self.variants, self.long = cuda, [], 0
        self.board = FailureBoard()

        def compile_variant(specialization: Specialization) -> CudaProgram:
            self.variants.append(specialization)
            func = specialize(PrimFunc(s.name, s.params, Seq(()), symbols=s.symbols), specialization)
            code = make(specialization)
            cuda.arities = {part.name: len(part.arguments) for part in code.source.launches}
            special = Signature(s.name, s.loc, func.params, s.outputs, s.inputs, s.written, func.symbols)
            return CudaProgram(special, code, self.board)

        self.driver = CudaDriver(cuda)
        self.caller = DeviceCaller(s, "sm_90a", compile_variant, lambda: self.driver, self.board)
        plain = self.caller.slow_path

        def counted(args: Any) -> Any:
            self.long += 1
            return plain(args)

        self.caller.slow_path = counted  # type: ignore[method-assign]

    def __call__(self, *args: Any) -> Any:
        return self.caller.call(*args)
