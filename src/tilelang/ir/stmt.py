"""Statements: what a block does, in order. Frozen nodes, each with the place in the user's program it came from.

Tile-level programs use everything here plus the operators in `ops`; the pass `lower_tile_ops` leaves only `Seq`,
`Bind`, `Alloc`, `Store`, `For`, `While`, `If`, `Break`, `Continue`, `Atomic`, `Assert`, `Print`, `Launch` and
`CallStmt`.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from tilelang.errors import NOWHERE, Loc
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.callee import Routine
from tilelang.ir.expr import Expr, Var, conjunction
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.plan import Plan
from tilelang.ir.request import Request
from tilelang.ir.scalar import BinaryOp, Value
from tilelang.layout.thread_values import Fragment
from tilelang.records import record

if TYPE_CHECKING:
    import numpy as np


@record(eq=False, kw_only=True)
class Stmt:
    """The root of all statements."""

    loc: Loc = field(default=NOWHERE, repr=False)


@record(eq=False)
class Seq(Stmt):
    """Statements one after another; also the scope of the allocations and bindings among them."""

    body: tuple[Stmt, ...]


@record(eq=False)
class Bind(Stmt):
    """Gives a value a name, visible to the statements after it in the same `Seq`."""

    var: Var
    value: Expr


@record(eq=False)
class Alloc(Stmt):
    """Brings a buffer into being, with undefined contents, for the statements after it in the same `Seq`.

    Inside a loop the buffer is a new one in every iteration. A view allocates nothing and names older bytes.
    `init` is the first value of a mutable scalar.
    """

    buffer: Buffer
    init: Expr | None = None


@record(eq=False)
class Store(Stmt):
    """Writes one element; a global one out of bounds is dropped. An asynchronous one may be late until a wait."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    asynchronous: bool = False


class ForKind(enum.Enum):
    """How a loop is meant; none of them changes its result."""

    SERIAL = "serial"
    UNROLLED = "unroll"
    VECTORIZED = "vectorized"
    PIPELINED = "Pipelined"


@record(slots=True)
class PipelineSpec:
    """What the user said of a pipelined loop.

    Attributes:
        num_stages: Buffer versions in flight; 0 leaves the loop serial.
        order: Position of each effectful statement, by hand; None leaves it to the compiler.
        stage: Stage of each effectful statement, by hand; lower means an earlier iteration.
    """

    num_stages: int = 0
    order: tuple[int, ...] | None = None
    stage: tuple[int, ...] | None = None


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
    """An elementwise nest: `for v0, v1, ... in T.Parallel(e0, e1, ...)`.

    Iterations run as if in row-major order; apart from associative updates they do not depend on each other.

    Attributes:
        vars: One per dimension.
        extents: How many iterations each dimension has.
        body: One iteration.
        coalesced_width: Elements per access that the user asks for.
        layout: Which thread runs which iterations: the user's wish, or what a pass decided.
    """

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Stmt
    coalesced_width: int | None = None
    layout: Fragment | None = None


@record(eq=False)
class While(Stmt):
    """Runs the body as long as the condition holds, asked before each iteration."""

    condition: Expr
    body: Stmt


@record(slots=True)
class Group:
    """Neighboring threads of a block that do something together, at the same time as the others do something else.

    More than one thread begin at a whole warp, and are whole warps or part of one. A group inside of another one
    consists of some of its threads. Two groups of the same numbers are the same threads.

    A group of one may be any of several threads, as long as it is the same one each time: its condition may ask for the
    thread that a warp elects. Nothing inside may depend on which thread it is; there, its index in the group is 0.

    Attributes:
        first: The first thread's index in the block.
        count: How many threads there are.
        collective: Made by the compiler: what stands inside is a part of the block's own program that these threads do,
            as if the block had no others: a scalar has one value, an effect happens once. Otherwise the user asked for
            the group, and what is no tile operator or parallel loop is done by each thread, as in CUDA.
        among: For a group of one, of how many threads it may be any, from `first` on.
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
        """Whether both are the same threads, whoever made them."""
        return (self.first, self.count) == (other.first, other.count)

    def meets(self, other: Group) -> bool:
        """Whether some thread may be in both."""
        mine, others = (g.first + max(g.count, g.among) for g in (self, other))
        return self.first < others and other.first < mine

    def condition(self, thread: Expr) -> Expr:
        """Whether the thread of an index belongs to it."""
        return conjunction([thread >= self.first, thread < self.end])


@record(eq=False)
class If(Stmt):
    """A branch taken when the kernel runs.

    Attributes:
        condition: When the first body runs.
        then_body: The first body.
        else_body: The other one, if there is one; groups have none.
        group: The threads for which the condition holds, if they do together what stands inside. At thread level the
            body begins by binding the thread's index in the group.
    """

    condition: Expr
    then_body: Stmt
    else_body: Stmt | None = None
    group: Group | None = None


@record(eq=False)
class Break(Stmt):
    """Leaves the innermost loop."""


@record(eq=False)
class Continue(Stmt):
    """Goes on with the next iteration of the innermost loop."""


class AtomicOp(enum.Enum):
    """What an atomic statement does to the element."""

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
        """What combines the element with the operand; None for those that only move values."""
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
    """The threads among which an atomic statement is indivisible: of the block, of the GPU, or of all processors."""

    BLOCK = "block"
    GPU = "gpu"
    SYSTEM = "system"


class MemoryOrder(enum.Enum):
    """What else an atomic statement orders, as in C++: accesses before a release are seen by who acquires after it."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"

    @property
    def releases(self) -> bool:
        """Whether a value stored so lets those who acquire it see what was done before."""
        return self in (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST)

    @property
    def acquires(self) -> bool:
        """Whether what follows sees what was done before a value loaded so was released."""
        return self in (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST)


@record(eq=False)
class Atomic(Stmt):
    """An indivisible read-modify-write of one element; `result` receives the previous value if wanted.

    A global element out of bounds is left alone and reads as 0.

    Attributes:
        op: What happens to the element.
        buffer: Where it is.
        indices: Which one it is.
        value: The operand, or a vector that is added to neighbors, each by itself; None of a load.
        result: What receives the value before.
        order: What else is in order before and after.
        compare: What the element has to be, bit for bit, for `CAS` to store the value.
        scope: Among whom it is indivisible and in order.
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
        """Whether it stores a value and releases what was done before."""
        return self.order.releases and self.op is not AtomicOp.LOAD

    @property
    def acquires(self) -> bool:
        """Whether it loads a value and acquires what was released by it."""
        return self.order.acquires and self.op is not AtomicOp.STORE


@record(eq=False)
class Assert(Stmt):
    """Stops the launch with `DeviceAssertError` if the condition does not hold."""

    condition: Expr
    message: str


@record(eq=False)
class Print(Stmt):
    """Prints a scalar or a region, in logical order, or the message alone, once per execution.

    `source` is the text the user wrote for the operand, for messages without `message`.
    """

    operand: Expr | Region | None
    message: str
    source: str = ""


@record(eq=False)
class CallStmt(Stmt):
    """A call of a routine with an effect: a matrix micro-kernel, an instruction on memory, a barrier, a shuffle.

    A region among the arguments stands for the address of its first element; strides and extents that the routine
    needs are arguments of their own. `reads` and `writes` say what the call touches; `result` receives its value if it
    has one, and is visible to the statements after it in the same `Seq`.
    """

    routine: Routine
    args: tuple[Expr | Region, ...]
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    result: Var | None = None


@record(slots=True)
class TensorLayout:
    """Where the elements of a global tensor lie, for one kernel.

    Attributes:
        variables: One index variable per dimension of the tensor.
        places: The coordinate in the box at which the element lies that the variables name.
        box: The extents in which places are counted row-major; as many elements as the tensor has.
    """

    variables: tuple[Var, ...]
    places: tuple[Expr, ...]
    box: tuple[Expr, ...]


@record(slots=True)
class LaunchHints:
    """What a kernel says about itself beyond its meaning; targets use what they understand.

    Attributes:
        layouts: `T.annotate_layout`, per on-chip buffer.
        tensor_layouts: `T.annotate_layout`, per global buffer; part of what the kernel means.
        safe_values: What a guarded load of a global buffer gives out of bounds; 0 where absent.
        swizzle: (panel size, order) of `T.use_swizzle`.
        l2_hit_ratios: `T.annotate_l2_hit_ratio`, per global buffer.
        cluster: Extents of a cluster of blocks.
        min_blocks_per_sm: Occupancy asked for.
        sources: The user's own C++, to stand before the kernel.
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
    """`with T.Kernel(...)`: the body once for every point of the grid, blocks in no order.

    Attributes:
        block_vars: One index variable per grid dimension (1 to 3).
        grid: Extents; expressions of dimensions and scalar parameters.
        threads: Threads per block as (x, y, z).
        body: The program of one block.
        hints: What the kernel says about itself.
        thread: The index of a thread in its block, x running fastest; None where no statement names it. At thread
            level on a GPU the body is the program of this thread.
        plan: What passes have decided so far.
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
    """What a tile operator's reference meaning may do with memory; the interpreter implements it."""

    def read(self, region: Region) -> np.ndarray:
        """A copy of the region; elements out of bounds of a global buffer read as its safe value."""

    def write(self, region: Region, values: np.ndarray) -> None:
        """Stores one value everywhere, or as many as the region has elements, in its dtype and in row-major order.

        What is out of bounds of a global buffer is dropped.
        """

    def move(self, src: Region, dst: Region, *, order: Sequence[int] = ()) -> None:
        """Converts and stores `src`, its dimensions in an order, in `dst` row-major; what is undefined stays so."""

    def update(
        self, region: Region, change: Callable[[np.ndarray], np.ndarray], order: MemoryOrder = MemoryOrder.RELAXED
    ) -> None:
        """Replaces the region by `change` of its values, indivisibly as seen from other blocks."""

    def value(self, expr: Expr) -> Value:
        """A scalar operand's value, as a NumPy scalar of its dtype."""


@record(eq=False)
class TileOp(Stmt, abc.ABC):
    """A tile operator: what it does, never how. Subclasses live in `ops`.

    Attributes:
        choice: The name of the lowering that does it; written by `choose_lowerings`.
        plan: What that lowering decided.
        request: The way to do it that the user asks for by name; None if any will do.
    """

    choice: str = field(default="", kw_only=True)
    plan: Plan | None = field(default=None, kw_only=True)
    request: Request | None = field(default=None, kw_only=True)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The user's name for it, as in `T.copy`."""

    @property
    def demanded(self) -> str:
        """The only lowering that may do it, if the user asks for that by name; "" if any may."""
        return "" if self.request is None else self.request.lowering

    @abc.abstractmethod
    def reads(self) -> tuple[Region, ...]:
        """Regions whose contents matter."""

    @abc.abstractmethod
    def writes(self) -> tuple[Region, ...]:
        """Regions that may change."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raises `ProgramError` if shapes, dtypes or scopes do not fit."""

    @abc.abstractmethod
    def reference(self, memory: TileMemory) -> None:
        """Does it, in a few lines of NumPy."""


def seq(statements: Sequence[Stmt], loc: Loc = NOWHERE) -> Stmt:
    """The statements as one, without needless nesting."""
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, Seq) and not any(isinstance(s, Bind | Alloc) for s in statement.body):
            flat.extend(statement.body)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat), loc=loc)
