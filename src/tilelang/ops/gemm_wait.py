"""The wait for asynchronous gemms, which the compiler writes where it pipelines loops."""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.records import record


@record(eq=False)
class GemmWait(TileOp):
    """Waits until at most `pending` of the newest gemms with `wait=-1` are in flight.

    Attributes:
        pending: How many.
        results: The accumulators that are complete after it.
        computed: Fragments that are computed before it, which compilers must not delay until after the wait.
    """

    pending: int
    results: tuple[Region, ...]
    computed: tuple[Region, ...] = ()

    @property
    def name(self) -> str:
        """The name of the operator in messages."""
        return "wait for gemms"

    def reads(self) -> tuple[Region, ...]:
        """The accumulators, and what is computed."""
        return (*self.results, *self.computed)

    def writes(self) -> tuple[Region, ...]:
        """The accumulators."""
        return self.results

    def check(self) -> None:
        """Nothing: no user writes it."""

    def reference(self, memory: TileMemory) -> None:
        """Nothing: a gemm is complete when its reference is."""
