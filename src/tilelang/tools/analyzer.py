"""`Analyzer`: how much a program computes and moves, and how long a GPU would need at best.

Takes a tile-level function of constant sizes, gives counts. Invariant: what is counted is what the program says
before any compiling: products of `T.gemm`, and the bytes of global memory that operators and elements name.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang.api import public
from tilelang.arith.simplify import simplify
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, Load, int_const
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Atomic, For, Launch, ParallelLoop, Stmt, Store, TileOp
from tilelang.ir.visit import expressions, sub_statements, walk_expr
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.nvidia.machines import MACHINES, number_of


@record
class AnalysisResult:
    """The costs of a program.

    Attributes:
        total_flops: Multiplications and additions of all products.
        total_global_bytes: Bytes read from and written to global memory.
        estimated_time: Seconds, if nothing but the larger of both limits the device.
        expected_tflops: What that makes in a second, in units of 10**12.
        expected_bandwidth_GBps: Bytes in a second, in units of 10**9.
    """

    total_flops: int
    total_global_bytes: int
    estimated_time: float
    expected_tflops: float
    expected_bandwidth_GBps: float


@public
class Analyzer:
    """Counts of one function on one device.

    Args:
        fn: A function with constant sizes.
        device: What `tilelang.carver.arch` gives, or anything with `compute_capability` (such as "80") or `sm_version`,
            and, if the table's figure shall not count, `bandwidth` in GB/s, a number or a list that begins with it.

    Raises:
        ProgramTypeError: It is no function of `@T.prim_func`.
        ProgramValueError: A size is symbolic, or the device is unknown.
    """

    def __init__(self, fn: PrimFunc, device: Any) -> None:
        if not isinstance(fn, PrimFunc):
            raise ProgramTypeError(f"Analyzer: {fn!r:.40} is no @T.prim_func", hint="pass kernel.get_tir(...)")
        self._func = fn
        self._tflops, self._bandwidth = _peaks(device)
        self.total_flops = self.total_global_bytes = 0

    @classmethod
    def analysis(cls, fn: PrimFunc, device: Any) -> AnalysisResult:
        """Return the costs of a function on a device; arguments and errors of the class."""
        return cls(fn, device).ir_pass().calculate()

    def ir_pass(self) -> Analyzer:
        """Counts what the function says."""
        self.total_flops = self.total_global_bytes = 0
        self._count(self._func.body, 1)
        return self

    def calculate(self) -> AnalysisResult:
        """The counts, and the time that they take on the device."""
        compute = self.total_flops / (self._tflops * 1e12)
        moving = self.total_global_bytes / (self._bandwidth * 1e9)
        seconds = max(compute, moving)
        rates = (self.total_flops / seconds, self.total_global_bytes / seconds) if seconds else (0.0, 0.0)
        return AnalysisResult(self.total_flops, self.total_global_bytes, seconds, rates[0] / 1e12, rates[1] / 1e9)

    def _count(self, stmt: Stmt, times: int) -> None:
        with stmt.loc:
            match stmt:
                case Launch(grid=extents) | ParallelLoop(extents=extents):
                    times *= math.prod(map(_constant, extents))
                case For(start=start, stop=stop, step=step):
                    times *= len(range(0, _constant(stop - start), step))
                case Gemm():
                    m, n = (_constant(e) for e in stmt.c.extent[-2:])
                    depth = stmt.a.extent[-2:][0 if stmt.transpose_a else 1]
                    self.total_flops += 2 * m * n * _constant(depth) * times
            if isinstance(stmt, TileOp):
                for region in {id(r): r for r in (*stmt.reads(), *stmt.writes())}.values():
                    self.total_global_bytes += _bytes(region) * times
            if isinstance(stmt, Store | Atomic) and stmt.buffer.scope is Scope.GLOBAL:
                self.total_global_bytes += stmt.buffer.dtype.storage_bytes * times
            for root in expressions(stmt):
                for node in walk_expr(root):
                    if isinstance(node, Load) and node.buffer.scope is Scope.GLOBAL:
                        self.total_global_bytes += node.dtype.storage_bytes * times
            for child in sub_statements(stmt):
                self._count(child, times)


def _bytes(region: Region) -> int:
    if region.buffer.scope is not Scope.GLOBAL:
        return 0
    return math.prod(map(_constant, region.extent)) * region.dtype.storage_bytes


def _constant(extent: Expr) -> int:
    """A size as a number.

    Raises:
        ProgramValueError: It is only known when the kernel runs.
    """
    value = int_const(simplify(extent))
    if value is None:
        raise ProgramValueError(f"Analyzer: {extent!s} is only known when the kernel runs", hint="use constant sizes")
    return value


def _peaks(device: Any) -> tuple[float, float]:
    """TFLOPS and GB/s of a device."""
    capability = getattr(device, "sm_version", None) or getattr(device, "compute_capability", None)
    try:
        number = int(str(capability).replace(".", "").rstrip("abcdefghijklmnopqrstuvwxyz"))
    except ValueError:
        number = 0
    known = {number_of(name): machine for name, machine in MACHINES.items() if machine.memory_bandwidth}
    if not any(version <= number for version in known):
        raise ProgramValueError(
            f"Analyzer: unknown device {device!r:.60}", hint="write tilelang.carver.arch.CUDA('cuda')"
        )
    machine = known[max(version for version in known if version <= number)]
    tflops, memory = machine.matrix_flops / 1e12, machine.memory_bandwidth / 1e9
    given = getattr(device, "bandwidth", memory)
    return tflops, float(given[0] if isinstance(given, list | tuple) else given)
