"""Kernels that stop on a real GPU: message and line reach the caller, who is told what to do next.

Such a kernel takes the context with it, so each runs in a process of its own.
"""

import subprocess
import sys

import pytest

from tilelang.testing import requires_cuda

PROGRAM = """\
import torch
import tilelang
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(2, threads=32) as bx:
        for i in T.serial(32):
            T.device_assert(A[bx * 32 + i] < 40, "below forty")
        A[bx] = 1.0


kernel = tilelang.compile(main, target="cuda")
good, bad = torch.zeros(64, device="cuda"), torch.arange(64, device="cuda", dtype=torch.float32)
try:
    kernel(good)
    kernel.synchronize()
    print(good[:3].tolist())
    kernel(bad)
    {afterwards}
except tilelang.errors.TileLangError as error:
    print(type(error).__name__)
    print(error)
"""

MESSAGE = """\
[1.0, 1.0, 0.0]
DeviceAssertError
below forty
  --> {file}:10:13
10 |             T.device_assert(A[bx * 32 + i] < 40, "below forty")
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: the kernel was stopped, and with it the CUDA context: no call on this device can work any more; restart the process
"""

LATER = {
    "a caller that waits": "kernel.synchronize()",
    "the next calls": "for _ in range(1_000_000): kernel(good)",
}


@requires_cuda
@pytest.mark.parametrize("who", LATER)
def test_an_assertion_reaches(who, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(PROGRAM.format(afterwards=LATER[who]))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False)
    assert MESSAGE.format(file=file) == done.stdout, done.stderr
