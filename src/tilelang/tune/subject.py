"""The subject of tuning: a function that makes kernels, with the arguments of one call.

Invariant: the kernel of a configuration is what a call with that configuration returns, under the pass_configs of both.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tilelang.dtypes import DType
from tilelang.errors import TuningSubjectError
from tilelang.ir.func import PrimFunc
from tilelang.jit.decorator import JitFunction
from tilelang.jit.eager import EagerFunction
from tilelang.jit.kernel import JITKernel
from tilelang.jit.signature import bind_call, is_array, key_of_value
from tilelang.runtime.arrays import borrow

PASS_CONFIGS = "pass_configs"  # the key of a configuration that is no tunable but switches of the compiler

Jitted = JitFunction | EagerFunction


class Subject:
    """A function that makes kernels, with the arguments of one call.

    Args:
        jitted: The function.
        args: The arguments of the call, without tunables or with some.
        keywords: The same by name.

    Attributes:
        jitted: As given.
        name: What the function is called.
        signature: Its signature.
        given: The arguments of the call by name.
        target: What kernels are compiled for.
        execution_backend: How they run.

    Raises:
        ArgumentError: The arguments do not fit the signature.
        OptionError: Target or execution backend are unknown.
    """

    def __init__(self, jitted: Jitted, args: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None) -> None:
        self.jitted = jitted
        self.name: str = jitted.func.__name__
        self.signature = inspect.signature(jitted.func)
        self._args = tuple(args)
        known: dict[str, Any] = {}
        self._dims: dict[str, Any] = {}
        for name, value in (keywords or {}).items():
            (known if self._takes(name) else self._dims)[name] = value
        if not self.is_eager:
            known |= self._dims  # an error of the call, as they name no parameter
        self.given = bind_call(self.name, self.signature, self._args, known, partial=True)
        self._keywords = known
        self.target, self.execution_backend = jitted.options.chosen()
        self._by_pass_configs: dict[Any, Jitted] = {}

    @property
    def is_eager(self) -> bool:
        """Whether the function takes tensors and runs."""
        return isinstance(self.jitted, EagerFunction)

    @property
    def pinned(self) -> dict[str, Any]:
        """The arguments of the call that are not None."""
        return {name: value for name, value in self.given.items() if value is not None}

    @property
    def known(self) -> dict[str, Any]:
        """All arguments that have a value, including defaults."""
        parameters = self.signature.parameters.items()
        defaults = {n: p.default for n, p in parameters if p.default is not p.empty and p.default is not None}
        return {**defaults, **self.pinned, **self._dims}

    @property
    def tunables(self) -> tuple[str, ...]:
        """The parameters without a value."""
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names = [name for name, parameter in self.signature.parameters.items() if parameter.kind not in variable]
        return tuple(name for name in names if name not in self.known)

    def _takes(self, name: str) -> bool:
        parameters = self.signature.parameters
        return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    # -- kernels --------------------------------------------------------------------------------------------
    def arguments(self, config: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with a configuration.

        Positional arguments of the call stay positional; None is replaced by the tunable.
        """
        tunables = {name: value for name, value in config.items() if name != PASS_CONFIGS}
        positional = [name for name, p in self.signature.parameters.items() if p.kind is not p.KEYWORD_ONLY]
        args = list(self._args)
        for index, name in enumerate(positional[: len(args)]):
            if name in tunables:
                args[index] = tunables.pop(name)
        return tuple(args), {**self._keywords, **self._dims, **tunables}

    def check_call(self, config: Mapping[str, Any]) -> None:
        """Raises if arguments are missing even with a configuration.

        Raises:
            ArgumentError: An argument is missing.
        """
        if not self.is_eager:
            args, keywords = self.arguments(config)
            bind_call(self.name, self.signature, args, keywords)

    def with_pass_configs_of(self, config: Mapping[str, Any]) -> Jitted:
        """The function under the pass_configs of a configuration."""
        extra = config.get(PASS_CONFIGS)
        if not extra:
            return self.jitted
        key = key_of_value(dict(extra))
        if key not in self._by_pass_configs:
            options = self.jitted.options
            merged = {**(options.pass_configs or {}), **extra}
            kind = type(self.jitted)
            self._by_pass_configs[key] = kind(self.jitted.func, dataclasses.replace(options, pass_configs=merged))
        return self._by_pass_configs[key]

    def kernel(self, config: Mapping[str, Any]) -> JITKernel:
        """The kernel for a configuration, compiled once."""
        args, keywords = self.arguments(config)
        kernel: JITKernel = self.with_pass_configs_of(config).compile(*args, **keywords)
        return kernel

    def program(self, config: Mapping[str, Any]) -> PrimFunc:
        """The program for a configuration, not compiled."""
        args, keywords = self.arguments(config)
        return self.with_pass_configs_of(config).get_tir(*args, **keywords)

    # -- the call -------------------------------------------------------------------------------------------
    def inputs(self, kernel: JITKernel) -> list[Any] | None:
        """The arguments of the call that a kernel takes; None if some are missing."""
        names = [kernel.signature.params[i].name for i in kernel.signature.inputs]
        own = self.given if self.is_eager else {}
        return [own[name] for name in names] if all(name in own for name in names) else None

    @functools.cached_property
    def key(self) -> Any:
        """The key of calls with the same program: tensors by shape and dtype."""
        return self.key_without(())

    def key_without(self, names: Collection[str]) -> Any:
        """The key of calls that may differ in these arguments."""
        parameters = self.signature.parameters
        without = {name for name, p in parameters.items() if self.is_eager and isinstance(p.annotation, DType)}
        without.update(names)
        parts = {name: _described(value) for name, value in self.given.items() if name not in without}
        return key_of_value((parts, self._dims)), self.target, self.execution_backend


def _described(value: Any) -> Any:
    """A tensor by its shape and dtype; anything else as it is."""
    if not is_array(value):
        return value
    view = borrow(value)
    return ("array", type(value).__name__) if view is None else ("array", tuple(view.shape), view.dtype_text)


def jitted_function(function: Any, what: str) -> Jitted:
    """The function that makes kernels.

    Raises:
        TuningSubjectError: It is none.
    """
    if isinstance(function, JitFunction | EagerFunction):
        return function
    kind = "a kernel" if isinstance(function, PrimFunc | JITKernel) else type(function).__name__
    raise TuningSubjectError(
        f"{what} needs a function marked @tilelang.jit, got {kind}",
        hint="write @tilelang.autotune(...) above @tilelang.jit",
    )
