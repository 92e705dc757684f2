"""Functions of the user that change generated source before it is compiled.

Takes a `Source`, gives the one that is compiled. Invariant: caches are keyed by the changed source, so a function
applies to kernels compiled after its registration only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilelang.api import public
from tilelang.codegen.source import Source
from tilelang.errors import ProgramRuntimeError, ProgramTypeError
from tilelang.targets.target import Target

Postprocess = Callable[[str, Target], str]

_REGISTERED: dict[str, Postprocess] = {}  # by kind of target


def postprocessed(source: Source, target: Target) -> Source:
    """The source after the function registered for this kind of target.

    Raises:
        ProgramTypeError: The function does not return text.
    """
    function = _REGISTERED.get(str(target.kind))
    if function is None:
        return source
    text = function(source.text, target)
    if not isinstance(text, str):
        raise ProgramTypeError(
            f"{_NAMES[str(target.kind)]}: the function has to return the source, got {type(text).__name__}",
            hint="return the text that it was given where nothing is to change",
        )
    if text == source.text:
        return source
    return replace(source, text=text, lines={}, has_user_code=True)  # line numbers may have changed


def is_postprocessed(target: Target) -> bool:
    """Whether a function is registered for this kind of target."""
    return str(target.kind) in _REGISTERED


def _register(kind: str, func: Postprocess | None, override: bool) -> None:
    if not callable(func):
        raise ProgramTypeError(f"{_NAMES[kind]}: expected a function of the source and the target, got {func!r:.40}")
    if not override and kind in _REGISTERED:
        raise PostprocessError(
            f"{_NAMES[kind]}: a function is registered already", hint="pass override=True to replace it"
        )
    _REGISTERED[kind] = func


class PostprocessError(ProgramRuntimeError, ValueError):
    """A second function that changes the source of one kind of target."""


@public
def register_cuda_postproc(func: Postprocess, override: bool = True) -> None:
    """Has a function change the CUDA C++ of all kernels that are compiled from now on in this process.

    Args:
        func: Takes the generated source and the target; returns the source to compile.
        override: Replace a function that is registered already.

    Raises:
        ValueError: One is registered, and `override` is False.
    """
    _register("cuda", func, override)


@public
def register_c_postproc(func: Postprocess, override: bool = True) -> None:
    """As `register_cuda_postproc`, for the C++ of the CPU target."""
    _register("cpu", func, override)


@public
def register_hip_postproc(func: Postprocess, override: bool = True) -> None:
    """As `register_cuda_postproc`, for the HIP text of kernels for AMD GPUs."""
    _register("hip", func, override)


def _decorator(register: Callable[[Postprocess, bool], None]) -> Callable[..., Any]:
    @public
    def mark(func: Postprocess | bool | None = None, override: bool = True) -> Any:
        """Registers the function below it; written bare or with parentheses."""
        if callable(func):
            register(func, override)
            return func
        chosen = override if func is None else bool(func)

        def decorate(function: Postprocess) -> Postprocess:
            register(function, chosen)
            return function

        return decorate

    return mark


register_cuda_postproc_callback = _decorator(register_cuda_postproc)
register_c_postproc_callback = _decorator(register_c_postproc)
register_hip_postproc_callback = _decorator(register_hip_postproc)

_NAMES = {"cuda": "register_cuda_postproc", "cpu": "register_c_postproc", "hip": "register_hip_postproc"}
