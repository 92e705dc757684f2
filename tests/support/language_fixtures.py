"""What tests of the language share: a kernel being staged, and tensors to stage with."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tilelang.language as T
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Hints, Stager, staging
from tilelang.ops.describe import extent_text


@pytest.fixture
def stager() -> Iterator[Stager]:
    """The stager of a kernel whose block is being staged; statements appear in its `statements`."""
    stager = Stager()
    stager.hints = Hints()
    with staging(stager):
        yield stager


@pytest.fixture
def tensor() -> Callable[..., BufferProxy]:
    """Makes a global tensor as a parameter gives it to the kernel."""

    def make(name: str, shape: Any, dtype: Any = "float32") -> BufferProxy:
        kind = T.Tensor(shape, dtype)
        return BufferProxy(Buffer(name, kind.shape, kind.dtype, Scope.GLOBAL, kind.strides))

    return make


@pytest.fixture
def box() -> Callable[[Region], list[str]]:
    """A region as text: `start+extent` per dimension."""

    def render(region: Region) -> list[str]:
        return [f"{extent_text(s)}+{extent_text(e)}" for s, e in zip(region.start, region.extent, strict=True)]

    return render
