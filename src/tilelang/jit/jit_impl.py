"""`JITImpl`: the base class of functions marked `@tilelang.jit`, in both styles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any, ClassVar

from tilelang.api import public
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import JitOptions
from tilelang.jit.signature import JITFunc, ParsedArguments
from tilelang.jit.subscripts import WithoutSubscript
from tilelang.runtime.parameters import OutIdx
from tilelang.targets.target import TargetLike


@public
class JITImpl(WithoutSubscript):
    """The class of functions marked `@tilelang.jit`; `JITImpl[...]` can stand in annotations.

    Attributes:
        mode: "lazy" where the function returns a prim_func, "eager" where it takes tensors.
        func: The user's function, as `JITFunc`.
        options: What the decorator was given.
        signature: The signature of the user's function.
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    mode: ClassVar[str]
    func: JITFunc
    options: JitOptions
    signature: inspect.Signature

    def __init__(
        self,
        func: Callable[..., Any],
        options: JitOptions,
        parse: Callable[[tuple[Any, ...], Mapping[str, Any]], ParsedArguments],
    ) -> None:
        self.func = JITFunc.of(func, parse)
        self.options = options
        self.signature = inspect.signature(func)

    @property
    def out_idx(self) -> OutIdx:
        """The parameters that kernels allocate and return, as the decorator was given them."""
        return self.options.out_idx

    @property
    def target(self) -> TargetLike:
        """The target of its kernels, as the decorator was given it."""
        return self.options.target

    @property
    def pass_configs(self) -> Mapping[str, object] | None:
        """Switches by `PassConfigKey` or its text, as the decorator was given them."""
        return self.options.pass_configs

    def compile(self, *args: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments, not run."""
        raise NotImplementedError

    def get_kernel_source(self, *args: Any, **keywords: Any) -> str:
        """The generated source; arguments as for `compile`."""
        return self.compile(*args, **keywords).get_kernel_source()


class BaseKernelAdapter:
    """Accepted as published, for programs that patch its methods; unused."""

    def _legalize_result_idx(self, result_idx: int | Sequence[int] | None) -> list[int]:
        """The outputs as a list."""
        if result_idx is None:
            return []
        return [result_idx] if isinstance(result_idx, int) else list(result_idx)
