"""Kernels to tune that take no time to compile: a prim_func for the signature, NumPy for the work."""

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import tilelang.language as T
from tilelang.ir.expr import int_const
from tilelang.ir.func import PrimFunc
from tilelang.jit.decorator import JitFunction
from tilelang.jit.options import JitOptions
from tilelang.runtime.parameters import Signature
from tilelang.targets.target import Target
from tilelang.tune.subject import Subject


def double(n: int, block: int = 8, in_place: bool = False) -> PrimFunc:
    """A kernel that doubles a vector, into another one or where it is."""
    if in_place:

        @T.prim_func
        def double_it(A: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    A[bx * block + i] = A[bx * block + i] * 2

        return double_it

    @T.prim_func
    def double(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2

    return double


def twice(a: np.ndarray) -> np.ndarray:
    return a * 2


class FakeKernel:
    """Looks like a `JITKernel` to those who check and time it.

    Args:
        work: What it computes: the output for an input; writes what it returns into the allocated array.
        seconds: What a call takes.
    """

    def __init__(
        self, work: Callable[..., Any] = twice, seconds: float = 0.0, n: int = 16, identity: str = "", **options: Any
    ) -> None:
        self.prim_func = double(n, **options)
        self.signature = Signature.of(self.prim_func, None if options.get("in_place") else 1)
        self.identity = identity or f"{id(self)}"
        self.calls: list[tuple[Any, ...]] = []
        self._work, self._seconds = work, seconds

    def __call__(self, *args: Any) -> Any:
        self.calls.append(args)
        time.sleep(self._seconds)
        if not self.signature.outputs:
            args[0][...] = self._work(args[0])
            return None
        out = args[1] if len(args) == 2 else np.empty_like(args[0])
        result = self._work(args[0])
        out[: len(result)] = result
        return out

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def get_profiler(self, kind: Any = None) -> Any:
        (param,) = (self.signature.params[i] for i in self.signature.inputs)
        made = np.random.randn(*(int_const(extent) for extent in param.shape)).astype(np.float32)
        return SimpleNamespace(device="cpu", make_inputs=lambda: [made])


class FakeSubject:
    """Looks like a `Subject`: its kernels are made by a function of the tunable `x`."""

    name = "fake"
    target = Target("cpu")

    def __init__(self, make: Callable[[Any], FakeKernel]) -> None:
        self._make = make
        self._made: dict[Any, FakeKernel] = {}

    def kernel(self, config: Mapping[str, Any]) -> FakeKernel:
        if config["x"] not in self._made:
            self._made[config["x"]] = self._make(config["x"])
        return self._made[config["x"]]

    def inputs(self, kernel: Any) -> None:
        return None


def configs(*values: Any) -> list[dict[str, Any]]:
    return [{"x": value} for value in values]


def subject_of(function: Callable[..., Any], *args: Any, options: JitOptions | None = None, **keywords: Any) -> Subject:
    """A call of a function that makes kernels."""
    return Subject(JitFunction(function, options or JitOptions(target="cpu")), args, keywords)
