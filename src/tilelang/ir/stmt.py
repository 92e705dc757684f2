"""Statements of the IR: frozen nodes, each with its location in the user's program.

Tile-level programs use all of them and the operators in `ops`. The pass `lower_tile_ops` leaves only `Seq`, `Bind`,
`Alloc`, `Store`, `For`, `While`, `If`, `Break`, `Continue`, `Atomic`, `Assert`, `Print`, `Launch` and `CallStmt`.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from tilelang.errors import NOWHERE, Loc
from tilelang.ir.abstract import Abstract
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Expr, Var, conjunction
from tilelang.ir.launch import LaunchPlan, TensorLayout
from tilelang.ir.plan import Plan
from tilelang.ir.request import Request
from tilelang.ir.scalar import BinaryOp, Value
from tilelang.layout.thread_values import Fragment
from tilelang.records import record

if TYPE_CHECKING:
    import numpy as np


@record(eq=False, kw_only=True)
class Stmt:
    """Base class of statements."""

    loc: Loc = field(default=NOWHERE, repr=False)


@record(eq=False)
class Seq(Stmt):
    """A sequence of statements; the scope of its allocations and bindings."""

    body: tuple[Stmt, ...]


@record(eq=False)
class Bind(Stmt):
    """Binds a value to a name, visible in the rest of the enclosing `Seq`."""

    var: Var
    value: Expr


@record(eq=False)
class Alloc(Stmt):
    """Allocates a buffer with undefined contents, visible in the rest of the enclosing `Seq`.

    Inside a loop every iteration has a new buffer. A view allocates no memory. `init`: the first value of a scalar.
    """

    buffer: Buffer
    init: Expr | None = None


@record(eq=False)
class Store(Stmt):
    """Stores one element; out of bounds of a global buffer it is dropped. An asynchronous store completes at a wait."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    asynchronous: bool = False


class ForKind(enum.Enum):
    """The execution strategy of a loop; it does not change the result."""

    SERIAL = "serial"
    UNROLLED = "unroll"
    VECTORIZED = "vectorized"
    PIPELINED = "Pipelined"


@record(slots=True)
class PipelineSpec:
    """The arguments of `T.Pipelined`.

    Attributes:
        num_stages: Number of buffer versions; 0 for a serial loop. In a plan: up to how many save barriers.
        order: Position of each statement with effects; None leaves it to the compiler.
        stage: Pipeline stage of each statement with effects; lower ones run iterations ahead.
    """

    num_stages: int = 0
    order: tuple[int, ...] | None = None
    stage: tuple[int, ...] | None = None

    @property
    def places_statements(self) -> bool:
        """Whether the user says when statements run; negative entries, an older notation, leave it to the compiler."""
        return min((*(self.order or ()), *(self.stage or ())), default=-1) >= 0


@record(slots=True)
class Reduction:
    """A variable that a vectorized loop updates by one associative operator; found by a pass."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    op: str  # "+", "*", "min", "max", "&", "|", "^", as OpenMP names them; "fmin", "fmax"


@record(eq=False)
class For(Stmt):
    """`for var in range(start, stop, step)`; the trip count is fixed on entry."""

    var: Var
    start: Expr
    stop: Expr
    step: int
    kind: ForKind
    body: Stmt
    pipeline: PipelineSpec | None = None
    unroll_factor: int | None = None
    reductions: tuple[Reduction, ...] = ()


@record(eq=False)
class ParallelLoop(Stmt):
    """An elementwise loop nest: `for v0, v1, ... in T.Parallel(e0, e1, ...)`.

    Iterations run as if in row-major order; apart from associative updates they are independent.

    Attributes:
        vars: One per dimension.
        extents: Iterations of each dimension.
        body: One iteration.
        coalesced_width: Elements per access, if the user sets it.
        layout: Which thread runs which iterations, as set by the user or decided by a pass.
        seldom_updates: Whether the updates of a reduction leave most of its elements as they are.
    """

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Stmt
    coalesced_width: int | None = None
    layout: Fragment | None = None
    seldom_updates: bool = False


@record(eq=False)
class While(Stmt):
    """Runs the body while the condition holds."""

    condition: Expr
    body: Stmt


@record(slots=True)
class Group:
    """Consecutive threads of a block that execute a statement together, concurrently with other groups.

    A group of more than one thread starts at a warp boundary and is whole warps, or part of one warp. A nested group is
    a subset of the enclosing one. Groups of the same numbers are the same threads.

    A group of one thread may be any of `among` threads, as long as it is the same one each time: its condition may be
    the election of a lane. The body must not depend on which thread it is; its index in the group is 0.

    Attributes:
        first: The first thread's index in the block.
        count: Number of threads.
        collective: Whether the body is executed as by a block of these threads: a scalar has one value, an effect
            happens once. Set for groups of the compiler. In groups of the user, statements other than tile operators
            and parallel loops are executed by each thread, as in CUDA.
        among: For a group of one thread: the number of threads, from `first` on, that it may be.
    """

    first: int
    count: int
    collective: bool = False
    among: int = 1

    @property
    def end(self) -> int:
        """The index after that of the last thread."""
        return self.first + self.count

    def same_threads(self, other: Group) -> bool:
        """Whether both are the same threads."""
        return (self.first, self.count) == (other.first, other.count)

    def overlaps(self, other: Group) -> bool:
        """Whether the groups may have a thread in common."""
        mine, others = (g.first + max(g.count, g.among) for g in (self, other))
        return self.first < others and other.first < mine

    def condition(self, thread: Expr) -> Expr:
        """Whether a thread index is in the group."""
        return conjunction([thread >= self.first, thread < self.end])


@record(eq=False)
class If(Stmt):
    """A branch at run time.

    Attributes:
        condition: When the first body runs.
        then_body: The first body.
        else_body: The second body, if any; None for groups.
        group: The threads for which the condition holds, if they execute the body together. At thread level the body
            starts with the binding of the thread index in the group.
    """

    condition: Expr
    then_body: Stmt
    else_body: Stmt | None = None
    group: Group | None = None


@record(eq=False)
class Break(Stmt):
    """Exits the innermost loop."""


@record(eq=False)
class Continue(Stmt):
    """Continues with the next iteration of the innermost loop."""


class AtomicOp(enum.Enum):
    """The operation of an atomic statement."""

    ADD = "add"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
    EXCHANGE = "exchange"
    CAS = "cas"
    LOAD = "load"
    STORE = "store"

    @property
    def operator(self) -> BinaryOp | None:
        """The operator that combines the element with the operand; None if the operation only moves values."""
        return _ATOMIC_OPERATORS.get(self)


_ATOMIC_OPERATORS = {
    AtomicOp.ADD: BinaryOp.ADD,
    AtomicOp.MAX: BinaryOp.MAX,
    AtomicOp.MIN: BinaryOp.MIN,
    AtomicOp.AND: BinaryOp.BITAND,
    AtomicOp.OR: BinaryOp.BITOR,
    AtomicOp.XOR: BinaryOp.BITXOR,
}


class MemoryScope(enum.Enum):
    """The threads for which an atomic is atomic: of the block, of the GPU, or of the system."""

    BLOCK = "block"
    GPU = "gpu"
    SYSTEM = "system"


class MemoryOrder(enum.Enum):
    """The memory order of an atomic, as in C++."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"

    @property
    def releases(self) -> bool:
        """Whether a store of this order is a release."""
        return self in (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST)

    @property
    def acquires(self) -> bool:
        """Whether a load of this order is an acquire."""
        return self in (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST)


@record(eq=False)
class Atomic(Stmt):
    """An atomic read-modify-write of one element; `result` receives the previous value.

    Out of bounds of a global buffer it has no effect and returns 0.

    Attributes:
        op: The operation.
        buffer: The buffer.
        indices: The indices of the element.
        value: The operand, or a vector that is added to consecutive elements, atomic per element; None for loads.
        result: Receives the previous value.
        order: The memory order.
        compare: The expected value of `CAS`, compared bitwise.
        scope: The memory scope.
    """

    op: AtomicOp
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr | None
    result: Var | None = None
    order: MemoryOrder = MemoryOrder.RELAXED
    compare: Expr | None = None
    scope: MemoryScope = MemoryScope.GPU

    @property
    def releases(self) -> bool:
        """Whether it is a release operation."""
        return self.order.releases and self.op is not AtomicOp.LOAD

    @property
    def acquires(self) -> bool:
        """Whether it is an acquire operation."""
        return self.order.acquires and self.op is not AtomicOp.STORE


@record(eq=False)
class Assert(Stmt):
    """Aborts the launch with `DeviceAssertError` if the condition is false; `hint` says what to write instead."""

    condition: Expr
    message: str
    hint: str = ""


@record(eq=False)
class Print(Stmt):
    """Prints the message, or else `source`, the user's text of the operand; then a scalar, or a region row by row."""

    operand: Expr | Region | None
    message: str
    source: str = ""


@record(eq=False)
class CallStmt(Stmt):
    """A call of a routine with side effects: a matrix micro-kernel, an instruction on memory, a barrier, a shuffle.

    A region argument is passed as the address of its first element; strides and extents are separate arguments. `reads`
    and `writes` are the regions that the call accesses; `result` receives its value, visible in the rest of the
    enclosing `Seq`. `written` is what the user called, such as "T.alloc_barrier"; empty if the compiler adds the call.
    """

    routine: Routine
    args: tuple[Expr | Region, ...]
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    result: Var | None = None
    written: str = ""

    @property
    def name(self) -> str:
        """The name that errors give it: what the user called, or the routine that the compiler adds."""
        return self.written or self.routine.name


@record(slots=True)
class LaunchHints:
    """Annotations of a kernel; targets use those that they support.

    Attributes:
        layouts: `T.annotate_layout`, per on-chip buffer.
        tensor_layouts: `T.annotate_layout`, per global buffer; part of the kernel's semantics.
        safe_values: The value of loads out of bounds of a global buffer; 0 where absent.
        swizzle: (panel size, order) of `T.use_swizzle`.
        l2_hit_ratios: `T.annotate_l2_hit_ratio`, per global buffer.
        cluster: Extents of a cluster of blocks.
        min_blocks_per_sm: Requested occupancy.
        sources: C++ of the user, printed before the kernel.
        move_registers: Whether the compiler may move registers between the warps of a block.
    """

    layouts: tuple[tuple[Buffer, object], ...] = ()
    tensor_layouts: tuple[tuple[Buffer, TensorLayout], ...] = ()
    safe_values: tuple[tuple[Buffer, Expr], ...] = ()
    swizzle: tuple[int, str] | None = None
    l2_hit_ratios: tuple[tuple[Buffer, float], ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    min_blocks_per_sm: int | None = None
    sources: tuple[str, ...] = ()
    move_registers: bool = True


@record(eq=False)
class Launch(Stmt):
    """`with T.Kernel(...)`: runs the body for every block of the grid, in no defined order.

    Attributes:
        block_vars: One index variable per grid dimension (1 to 3).
        grid: Extents; expressions of dimensions and scalar parameters.
        threads: Threads per block as (x, y, z).
        body: The program of one block.
        hints: Annotations.
        thread: Variable of the thread index in the block, x fastest; None if no statement uses it. At thread level on a
            GPU the body is the program of this thread.
        plan: Decisions of passes so far.
    """

    block_vars: tuple[Var, ...]
    grid: tuple[Expr, ...]
    threads: tuple[int, int, int]
    body: Stmt
    hints: LaunchHints = LaunchHints()
    thread: Var | None = None
    plan: LaunchPlan = LaunchPlan()

    @property
    def num_threads(self) -> int:
        """Threads per block."""
        x, y, z = self.threads
        return x * y * z


class TileMemory(Protocol):
    """Memory accesses available to the reference of a tile operator; implemented by the interpreter."""

    def read(self, region: Region) -> np.ndarray:
        """A copy of the region; elements out of bounds of a global buffer read as its safe value."""

    def write(self, region: Region, values: np.ndarray) -> None:
        """Stores one value to all elements, or an array in row-major order, converted to the dtype.

        Elements out of bounds of a global buffer are dropped.
        """

    def move(self, src: Region, dst: Region, *, order: Sequence[int] = ()) -> None:
        """Copies and converts `src`, dimensions permuted by `order`, to `dst`; undefined elements stay undefined."""

    def update(
        self, region: Region, change: Callable[[np.ndarray], np.ndarray], order: MemoryOrder = MemoryOrder.RELAXED
    ) -> None:
        """Replaces the region by `change` of its values, atomically with respect to other blocks."""

    def value(self, expr: Expr) -> Value:
        """The value of a scalar operand, as a NumPy scalar of its dtype."""


@record(eq=False)
class TileOp(Stmt, Abstract):
    """Base class of tile operators: what is computed, independent of how. Subclasses are in `ops`.

    Attributes:
        choice: Name of the chosen lowering; set by `choose_lowerings`.
        plan: The plan of that lowering.
        request: The lowering that the user requires by name; None if any may be used.
    """

    choice: str = field(default="", kw_only=True)
    plan: Plan | None = field(default=None, kw_only=True)
    request: Request | None = field(default=None, kw_only=True)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name in messages, such as `T.copy`."""

    @property
    def required_lowering(self) -> str:
        """The lowering that the user requires by name; "" if any may be used."""
        return "" if self.request is None else self.request.lowering

    @abc.abstractmethod
    def reads(self) -> tuple[Region, ...]:
        """Regions that are read."""

    @abc.abstractmethod
    def writes(self) -> tuple[Region, ...]:
        """Regions that may be written."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raises `ProgramError` if shapes, dtypes or scopes are invalid."""

    @abc.abstractmethod
    def reference(self, memory: TileMemory) -> None:
        """Computes the operator in NumPy."""


def seq(statements: Sequence[Stmt], loc: Loc = NOWHERE) -> Stmt:
    """The statements as one, flattened."""
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, Seq) and not any(isinstance(s, Bind | Alloc) for s in statement.body):
            flat.extend(statement.body)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat), loc=loc)
