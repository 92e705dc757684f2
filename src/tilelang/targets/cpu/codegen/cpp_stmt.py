"""Prints the statements of a block program, or of the host code around launches, as C++."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_stmt import StmtPrinter
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.storage import StoragePlan
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Alloc, Atomic, For, ForKind, Launch, Print, Reduction
from tilelang.isa.intrinsic import Helper
from tilelang.targets.cpu.codegen.cpp_atomic import atomic_lines
from tilelang.targets.cpu.codegen.cpp_print import print_lines

ARENA = "tl_arena_base"
FAILED = "tl_failed"


class CppStmtPrinter(StmtPrinter):
    """Appends the C++ text of statements to an emitter.

    Args:
        out: Receives the lines.
        exprs: Prints the expressions.
        plan: Storage of on-chip buffers; None outside of block programs.
        launch: Prints a launch; None inside of block programs.
        asserts: Receives message, location and hint of each assertion.
    """

    def __init__(
        self,
        out: Emitter,
        exprs: ExprPrinter,
        *,
        plan: StoragePlan | None,
        launch: Callable[[Launch], None] | None,
        asserts: list[tuple[str, Loc, str]],
    ) -> None:
        super().__init__(out, exprs, asserts)
        self._plan, self._on_launch = plan, launch

    def _launch(self, node: Launch) -> None:
        if self._on_launch is None:
            raise CompilerBug("codegen: a launch within a launch")
        self._on_launch(node)

    def _alloc(self, node: Alloc) -> None:
        buffer, out, exprs = node.buffer, self._out, self._exprs
        base = self._names[buffer.view_of] if buffer.view_of is not None else ""
        name = self._names.declare(buffer)
        kind = exprs.storage(buffer.dtype)
        if buffer.view_of is not None:
            out.line(f"{kind}* const {name} = ({kind}*){base};")
        elif buffer.address is not None:
            out.line(f"{kind}* const {name} = ({kind}*)(intptr_t)({exprs.index(buffer.address)});")
        elif buffer.scope is Scope.GLOBAL:
            memory = self._workspace(buffer, name, kind)
            out.line(f"if ({memory}.data == nullptr) return -1;")
            out.line(f"{kind}* const {name} = ({kind}*){memory}.data;")
        elif self._plan is not None and buffer in self._plan.offsets:
            out.line(f"{kind}* __restrict const {name} = ({kind}*)({ARENA} + {self._plan.offsets[buffer]});")
        else:
            elements = max(1, (buffer.bytes or 0) // buffer.dtype.storage_bytes)
            if buffer.static_shape is None:
                self._sized_at_launch(buffer, name, kind)
                return
            out.line(f"alignas(64) {kind} {name}[{elements}];")

    def _workspace(self, buffer: Buffer, name: str, kind: str) -> str:
        """Declares memory for a buffer; returns its name."""
        exprs = self._exprs
        exprs.need(WORKSPACE)
        count = " * ".join(f"({exprs.index(extent)})" for extent in buffer.shape) or "1"
        memory = self._names.fresh(f"{name}_memory")
        self._out.line(f"const tl_workspace {memory}(({count}) * int64_t(sizeof({kind})));")
        return memory

    def _sized_at_launch(self, buffer: Buffer, name: str, kind: str) -> None:
        """Declares a tile of the block whose size is only known at the launch."""
        memory, out = self._workspace(buffer, name, kind), self._out
        with out.block(f"if ({memory}.data == nullptr)"):
            self._exprs.need(FAIL)
            out.line(f"tl_fail({FAILED}, -1);")
            out.line("return;")
        out.line(f"{kind}* __restrict const {name} = ({kind}*){memory}.data;")

    def _atomic(self, node: Atomic) -> list[str]:
        return atomic_lines(node, self._exprs)

    def _print(self, node: Print) -> list[str]:
        return print_lines(node, self._exprs)

    def _fail(self, number: int) -> list[str]:
        self._exprs.need(FAIL)
        return [f"tl_fail({FAILED}, {number});", "return;"]

    def _pragma(self, node: For) -> str:
        if node.kind is ForKind.VECTORIZED:
            return "#pragma omp simd" + "".join(f" {self._clause(r)}" for r in node.reductions)
        if node.kind is ForKind.UNROLLED:
            return f"#pragma GCC unroll {node.unroll_factor or _trips(node)}"
        return ""

    def _clause(self, reduction: Reduction) -> str:
        return f"reduction({reduction.op}: {self._names[reduction.buffer]})"


def _trips(node: For) -> int:
    start, stop = int_const(node.start), int_const(node.stop)
    if start is None or stop is None:
        return 4
    return min(max(1, len(range(start, stop, node.step))), 64)


FAIL = Helper(
    "tl_fail",
    """\
// Records what went wrong: the number of an assertion, or -1. The first failure of a call counts.
static inline void tl_fail(int32_t* failed, int32_t number) {
    int32_t none = 0;
    __atomic_compare_exchange_n(failed, &none, number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
""",
)
WORKSPACE = Helper(
    "tl_workspace",
    """\
// Memory of one call, shared by its launches.
struct tl_workspace {
    void* const data;
    explicit tl_workspace(int64_t bytes) : data(std::malloc(bytes > 0 ? size_t(bytes) : 1)) {}
    ~tl_workspace() { std::free(data); }
    tl_workspace(const tl_workspace&) = delete;
};
""",
    headers=("<cstdlib>",),
)
