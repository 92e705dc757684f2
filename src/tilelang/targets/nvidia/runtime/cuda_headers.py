"""Where the headers of CUDA are, for texts that include some of them.

Takes a generated source; gives the flags by which NVRTC finds what it includes. Invariant: nothing is looked for unless
a text includes something; nvcc finds its headers itself.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tilelang.codegen.source import Source
from tilelang.errors import ToolchainError
from tilelang.targets.nvidia.runtime.nvrtc import find_nvrtc

_HINT = (
    "pip install nvidia-cuda-runtime (`nvidia-cuda-runtime-cu12` for drivers of CUDA 12), or set CUDA_HOME to a CUDA "
    "toolkit"
)

_SIGN = "cuda_fp16.h"  # of a folder that has the headers
_WHEELS = ("nvidia/cu13/include", "nvidia/cuda_runtime/include")
_TOOLKIT = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
_ROOTS = ("/usr/local/cuda",)
_OF_CUDA = r"^\s*#\s*include\s*[<\"]((?:cuda|nv_|cooperative_groups|mma|vector_|cu[A-Z])\w*(?:\.h|/[\w./]*)?)[>\"]"
_INCLUDE = r"^\s*#\s*include\b"


def include_flags(source: Source, *, given: bool = False) -> tuple[str, ...]:
    """The flags of NVRTC for what a user's text in the source includes.

    Args:
        source: The text.
        given: Whether the user gave flags of their own, which may include files that include headers of CUDA.

    Raises:
        ToolchainError: It includes headers of CUDA, and these are nowhere.
    """
    includes = source.has_user_code and re.search(_INCLUDE, source.text, re.MULTILINE)
    if not includes and not given:
        return ()
    folder = find_headers()
    if folder is not None:
        return tuple(f"-I{path}" for path in (folder, os.path.join(folder, "cccl")) if os.path.isdir(path))
    named = re.search(_OF_CUDA, source.text, re.MULTILINE) if includes else None
    if named is None:
        return ()
    raise ToolchainError(
        f"kernel '{source.entry}' uses {named[1]}, and the headers of CUDA are nowhere: neither in a package of this "
        "Python, nor below CUDA_HOME, nor in /usr/local/cuda",
        hint=_HINT,
    )


@functools.lru_cache(maxsize=1)
def find_headers() -> str | None:
    """The folder with the headers of CUDA: beside the NVRTC in use, of a wheel, of a toolkit; None if there is none."""
    return next((str(folder) for folder in _places() if (folder / _SIGN).is_file()), None)


def _places() -> Iterator[Path]:
    library = find_nvrtc()
    if os.path.isabs(library):
        yield Path(library).parent.parent / "include"
    for folder in sys.path:
        yield from (Path(folder, wheel) for wheel in _WHEELS)
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), sys.prefix, *_ROOTS):
        if root:
            yield from (Path(root, below) for below in _TOOLKIT)
