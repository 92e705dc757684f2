from fake_cuda import (  # noqa: F401
    FakeCuda,
    FakeTensor,
    FakeTorch,
    cuda,
    device_code,
    driver,
    launch,
    runtime,
    signature,
    tensor,
    torch,
)

from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram


def test_programs_and_callers_are_those_of_the_family(
    cuda: FakeCuda, runtime: DeviceRuntime, torch: FakeTorch
) -> None:
    s = signature(tensor("A", 8))
    code = device_code(launch(("tensor", 0, "float*"), name="k"))
    program = runtime.program(s, code)
    assert isinstance(program, CudaProgram)
    cuda.arities = {"k": 1}
    changes: list[object] = []
    caller = runtime.caller(s, "sm_90a", lambda specialization: program, lambda call, attempt: changes.append(call))
    caller.call(FakeTensor((8,), torch.float32))
    assert ["k"] == [launched.kernel for launched in cuda.launches]
    assert [caller.call] == changes
