"""nvcc: compiles CUDA C++ to machine code in a subprocess, where the user selects it instead of NVRTC.

Takes text, an architecture and flags; gives a `Compilation`, as `nvrtc` does.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilelang.environment import temporary_folder
from tilelang.errors import ToolchainError
from tilelang.runtime.compile_flags import with_standard
from tilelang.targets.gpu.runtime.compile_log import Compilation


def find_tool(name: str) -> str | None:
    """The path of a program of the CUDA toolkit: on the PATH, below CUDA_HOME, or in the usual place."""
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")):
        path = Path(root or "", "bin", name)
        if root and os.access(path, os.X_OK):
            return str(path)
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def compile_text(
    text: str, arch: str, flags: Sequence[str] = (), *, ptx: bool = False, fatbin: bool = False
) -> Compilation:
    """Machine code for an architecture such as "sm_90a", or its PTX, or a fatbin with the machine code.

    Raises:
        ToolchainError: There is no nvcc, or it cannot be started.
    """
    kind = "ptx" if ptx else "fatbin" if fatbin else "cubin"
    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary_folder()) as folder:
        source, output = Path(folder, "kernel.cu"), Path(folder, f"kernel.{kind}")
        source.write_text(text, encoding="utf-8", errors="backslashreplace")
        number = arch.removeprefix("sm_")
        code = f"compute_{number}" if ptx else arch
        chosen = f"--generate-code=arch=compute_{number},code={code}"
        line = [_nvcc(), f"--{kind}", chosen, *with_standard(flags), str(source), "-o", str(output)]
        try:
            result = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise ToolchainError(f"{line[0]}: cannot be started: {error}") from None
        binary = output.read_bytes() if result.returncode == 0 and output.exists() else None
        log = (result.stdout + result.stderr).strip().replace(str(source), "kernel.cu")
        return Compilation(binary, log, shlex.join(line))


@functools.lru_cache(maxsize=1)
def identity() -> str:
    """Names the nvcc at hand, for cache keys.

    Raises:
        ToolchainError: There is none.
    """
    real = os.path.realpath(_nvcc())
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"


def _nvcc() -> str:
    path = find_tool("nvcc")
    if path is None:
        raise ToolchainError(
            "no nvcc found: it is not on the PATH and not below CUDA_HOME",
            hint="install the CUDA toolkit, or leave execution_backend out to compile with NVRTC",
        )
    return path
