"""`T.CUDASourceCodeKernel`: a kernel that is the user's own CUDA text, launched with the tensors of the function.

Takes text or a file, emits a launch. Invariant: only a GPU can run it; elsewhere compiling it is an error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tilelang.errors import ProgramFileError, ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import ExprLike, Var, as_expr
from tilelang.ir.func import TensorParam
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk_expr
from tilelang.language.api import api
from tilelang.language.kernel import Kernel
from tilelang.language.stage import current
from tilelang.targets.nvidia.isa.source_kernel import source_kernel

__all__ = [
    "CUDASourceCodeKernel",
]

_SUFFIXES = (".cu", ".cuh", ".cuda", ".cpp", ".cc", ".c")
_MARKS = ("\n", "__global__", 'extern "C"', "#include")


@api
def CUDASourceCodeKernel(
    *blocks: ExprLike,
    threads: int | Sequence[int] | None = None,
    source_code_or_path: str | os.PathLike[str],
    entry_name: str = "main_kernel",
    cluster_dims: int | Sequence[int] | None = None,
    prelude: str | None = None,
) -> None:
    """A kernel that is CUDA text: a statement that launches one of its `__global__` functions.

    The kernel is given a pointer for each tensor of the function, in the order of its parameters, and then the dynamic
    dims and scalar parameters that the grid and then the shapes of the tensors name, in order of first use, each in
    the C type of its dtype.

    Args:
        blocks: The grid, as for `T.Kernel`.
        threads: As for `T.Kernel`.
        source_code_or_path: The text, or the file that holds it.
        entry_name: The name of the kernel in the text.
        cluster_dims: As for `T.Kernel`.
        prelude: Text to put before.

    Raises:
        ProgramValueError: The text or the name is empty, the text has no kernel of that name, or it takes more
            parameters than there are.
        ProgramFileError: A path names no file.
        NoLowering: When the function is compiled for anything but a GPU.

    Example:
        `T.CUDASourceCodeKernel(T.ceildiv(N, 128), threads=128, source_code_or_path="copy.cu", entry_name="copy")`
    """
    what = "T.CUDASourceCodeKernel"
    stager = current(what)
    text = _text(what, source_code_or_path)
    if not entry_name:
        raise ProgramValueError(f"{what}: entry_name is empty", hint="name the __global__ function of the source")
    tensors = [param.buffer for param in stager.params.values() if isinstance(param, TensorParam)]
    kernel = Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)
    kernel.__enter__()
    assert stager.hints is not None
    sizes = dict.fromkeys(var for extent in stager.hints.grid for var in _in_order(extent))
    sizes.update(dict.fromkeys(var for tensor in tensors for extent in tensor.shape for var in _in_order(extent)))
    wholes = tuple(_whole(tensor) for tensor in tensors)
    routine = source_kernel(text, entry_name, len(tensors) + len(sizes))
    stager.emit(CallStmt(routine, (*wholes, *sizes), wholes, wholes, written=what))
    kernel.__exit__(None, None, None)


def _text(what: str, given: str | os.PathLike[str]) -> str:
    if not isinstance(given, str | os.PathLike):
        raise ProgramTypeError(f"{what}: expected text or a path, got {type(given).__name__}")
    name = os.fspath(given)
    if not name.strip():
        raise ProgramValueError(f"{what}: the source is empty")
    is_text = any(mark in name for mark in _MARKS)
    if not ("\n" in name or len(name) > 4096) and os.path.isfile(name):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        if not text.strip():
            raise ProgramValueError(f"{what}: the file '{name}' is empty")
        return text
    if not is_text and (os.sep in name or name.endswith(_SUFFIXES) or not isinstance(given, str)):
        raise ProgramFileError(f"{what}: there is no file '{name}'", hint="pass its path, or the text itself")
    return name


def _in_order(extent: ExprLike) -> list[Var]:
    return [node for node in walk_expr(as_expr(extent)) if isinstance(node, Var)]


def _whole(tensor: Buffer) -> Region:
    return Region(tensor, tuple(as_expr(0) for _ in tensor.shape), tensor.shape)
