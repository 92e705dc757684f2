"""Compilation of kernels, and the decorator `@tilelang.jit`: the package itself is callable.

`tilelang.jit` is both the published name of the decorator and the name of this package. Python binds the name to the
package when one of its modules is imported, so the package is the decorator.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilelang.api import public
from tilelang.jit.compile import compile, lower, par_compile
from tilelang.jit.kernel import JITKernel

if TYPE_CHECKING:
    from tilelang.jit.decorator import jit
    from tilelang.jit.jit_impl import JITImpl

__all__ = ["JITImpl", "JITKernel", "compile", "jit", "lower", "par_compile"]


class _Decorator(ModuleType):
    """A module that is callable like `jit`; loads it at first use."""

    @property
    def jit(self) -> Any:
        """The decorator."""
        return import_module("tilelang.jit.decorator").jit

    __wrapped__ = jit  # what inspect.signature and help look at

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.jit(*args, **keywords)


sys.modules[__name__].__class__ = _Decorator
