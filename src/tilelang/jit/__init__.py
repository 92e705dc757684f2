"""From a `PrimFunc` to something callable; the module itself can be called, as `@tilelang.jit`.

`tilelang.jit` is the published name of the decorator and the natural name of this package. Python gives a package's
name to the package once any module of it has been loaded, so the package has to be the decorator.
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
    """A module that is called as `jit` is, which is loaded when it is asked for."""

    @property
    def jit(self) -> Any:
        """The decorator."""
        return import_module("tilelang.jit.decorator").jit

    __wrapped__ = jit  # what inspect.signature and help look at

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.jit(*args, **keywords)


sys.modules[__name__].__class__ = _Decorator
