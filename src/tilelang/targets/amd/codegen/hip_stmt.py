"""Prints the statements of one thread's program as HIP, where they differ from those of other GPUs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence, Set
from typing import Any

from tilelang.analysis.strides import distance
from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.index_types import ProvenIndexTypes
from tilelang.codegen.pointer_increments import AddressKey, address_key
from tilelang.dtypes import INT32
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Const, Expr, Var, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, If, Launch, Print, Stmt, Store
from tilelang.ir.visit import (
    accessed_buffers,
    expressions,
    loads_of,
    substitute,
    variables_of,
    walk,
    walk_expr,
    written_buffers,
)
from tilelang.isa.instruction import Effect
from tilelang.isa.intrinsic import Helper, Template
from tilelang.targets.amd.codegen.hip_expr import HipExprPrinter, SplitAddress, sum_of
from tilelang.targets.amd.codegen.hip_print import print_lines
from tilelang.targets.amd.codegen.lds_offsets import LdsOffsets
from tilelang.targets.amd.codegen.selected_loads import selected_loads
from tilelang.targets.amd.codegen.thread_offsets import ThreadOffset, least_offset, thread_offsets
from tilelang.targets.amd.isa.atomic_text import atomic_text
from tilelang.targets.amd.isa.buffer_load import BUFFER_LOAD
from tilelang.targets.amd.isa.direct_to_lds import OFFSET_IF, SeveralLoads, directly_loaded, from_buffer, several_loads
from tilelang.targets.amd.isa.save_registers import FORGET, ITERATIONS, RECOMPUTE, REMATERIALIZE
from tilelang.targets.amd.isa.scheduling import KEEP_ORDER
from tilelang.targets.amd.isa.wait_counters import WAIT_FOR_TRACKED_LOADS
from tilelang.targets.amd.machines import CDNA_WAVE, MAX_THREADS
from tilelang.targets.gpu.codegen.program import instructions_of
from tilelang.targets.gpu.codegen.statements import FAILED, ThreadStmtPrinter

_MODULO = (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD)
_MAX_VERSIONS = 4  # of tiles, for which iterations are written out; more are too long a loop for the instruction cache


class HipStmtPrinter(ThreadStmtPrinter):
    """Appends the HIP text of statements to an emitter."""

    few_trips = 1

    def __init__(
        self,
        out: Emitter,
        exprs: HipExprPrinter,
        launch: Launch,
        written: Set[Buffer],
        asserts: list[tuple[str, Loc, str]],
    ) -> None:
        super().__init__(out, exprs, launch, written, asserts)
        self._launch_body = launch.body
        arrays = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.LOCAL]
        self._array_registers = sum(-(-(b.bytes or 0) // 4) for b in arrays if b.view_of is None)
        self._selects = exprs.selects
        self._split_addresses = exprs.split_addresses
        self._lds_offsets = exprs.lds_offsets
        self._moving_resources: dict[For, list[str]] = {}  # per loop, declarations of resources in each iteration
        self._depth = 0  # of loops that stay loops
        self._wave: Var | None = None
        self._of_thread = {} if launch.thread is None else _definitions_by(launch.thread, launch.body)
        if launch.thread is not None and _has_direct_loads(launch.body):
            self._wave = self._bound_wave(launch.thread)
        self._syncs_grid = any(Effect.SYNC_GRID in instruction.effect for instruction in instructions_of(launch))

    def _bound_wave(self, thread: Var) -> Var:
        """The number of the wave: the compiler keeps it, and what is computed from it, in scalar registers."""
        wave = Var("wave", INT32, index=True)
        self._types.bind(wave, thread // CDNA_WAVE)
        text = f"__builtin_amdgcn_readfirstlane({self._names[thread]}) / {CDNA_WAVE}"
        self._out.line(f"const int {self._names.declare(wave)} = {text};")
        return wave

    def _call(self, node: CallStmt) -> None:
        node = self._to_first_lane(node)
        source = directly_loaded(node)
        split = None if source is None else self._split_addresses.get(address_key(source))
        if split is None:
            super()._call(node)
        else:
            self._load_directly(node, split)

    def _for(self, node: For, also: Sequence[str] = ()) -> None:
        loads = several_loads(node)
        source = None if loads is None else directly_loaded(loads.first)
        split = None if source is None else self._split_addresses.get(address_key(source))
        if loads is None or split is None or not self._load_together(node.var, loads, split):
            super()._for(node, also)

    def _if(self, node: If) -> None:
        loads = selected_loads(node, self._selects)
        if loads is None:
            super()._if(node)
        else:
            self.stmt(loads)
            super()._call(CallStmt(KEEP_ORDER, (), loc=node.loc))  # else loads would sink to their uses

    def _to_first_lane(self, node: CallStmt) -> CallStmt:
        """A load to LDS by the address of the first lane, which counts; other calls unchanged."""
        thread, wave, target = self._launch_thread, self._wave, node.args[0] if node.args else None
        if thread is None or wave is None or directly_loaded(node) is None or not isinstance(target, Region):
            return node
        first, domain = {thread: wave * CDNA_WAVE}, Domain().with_range(wave, 0, MAX_THREADS // CDNA_WAVE)
        start = tuple(simplify(substitute(self._by_thread(index), first), domain) for index in target.start)
        return dataclasses.replace(node, args=(dataclasses.replace(target, start=start), *node.args[1:]))

    def _load_directly(self, node: CallStmt, split: SplitAddress) -> None:
        """One load to LDS by a buffer resource."""
        resource, offset, moved = split.operands(self._names)
        self._buffer_to_lds(node, resource, [(self._kept(node.args[2], offset), moved)])

    def _load_together(self, var: Var, loads: SeveralLoads, split: SplitAddress) -> bool:
        """Loads to LDS whose instructions add to both addresses, from one in LDS on; whether offsets allow it."""
        step, outer = split.moves.get(var, 0), {v: move for v, move in split.moves.items() if v is not var}
        resource, _, moved = dataclasses.replace(split, each=None, moves=outer).operands(self._names)
        places = []
        for number in range(loads.count):
            keep, added = _in_iteration(loads.keep, var, number), number * loads.piece
            if split.each is var and split.least[number] >= added:
                offset, further = self._kept(keep, f"{split.offset}[{number}]") + (f" - {added}u" if added else ""), 0
            elif split.each is None and step >= loads.piece:
                offset, further = self._kept(keep, split.offset), number * step - added
            else:
                return False
            places.append((offset, sum_of([moved, f"{further}u" if further else "0"])))
        self._comment(loads.first.loc)
        self._buffer_to_lds(self._to_first_lane(loads.first), resource, places)
        return True

    def _kept(self, keep: Region | Expr, offset: str) -> str:
        """The offset of lanes that load something, and one beyond the resource of others."""
        if isinstance(keep, Const):
            return offset
        self._exprs.need(OFFSET_IF)
        return f"{OFFSET_IF.name}({self._argument(keep)}, {offset})"

    def _buffer_to_lds(self, node: CallStmt, resource: str, places: Sequence[tuple[str, str]]) -> None:
        helper = from_buffer(node.routine, len(places))
        self._exprs.need(helper)
        operands = [self._argument(node.args[0]), resource, *itertools.chain.from_iterable(places)]
        self._out.line(f"{helper.name}({', '.join(operands)});")

    def _has_address(self, buffer: Buffer, place: tuple[ExprKey, ...]) -> bool:
        return (buffer, place) in self._split_addresses

    def _by_thread(self, index: Expr) -> Expr:
        """An index with the definitions of the variables that differ between threads put in."""
        while not self._of_thread.keys().isdisjoint(variables_of(index)):
            index = substitute(index, self._of_thread)
        return index

    def _rolled(self, node: For) -> None:
        if _has_direct_loads(node.body) and _loads_before(node, self._launch_body):
            self._exprs.need(WAIT_FOR_TRACKED_LOADS)
            self._out.line(f"{WAIT_FOR_TRACKED_LOADS.name}();")
        for buffer in _loaded_before(node, self._launch_body):
            self._exprs.need(AWAIT_REGISTERS)
            self._out.line(f"{AWAIT_REGISTERS.name}({self._names[buffer]});")
        of_loop: tuple[dict[AddressKey, Any], ...] = (self._split_addresses, self._lds_offsets)
        outside = [dict(addresses) for addresses in of_loop]
        self._depth += 1
        super()._rolled(node)
        self._depth -= 1
        if self._launch_thread is not None and not self._depth:
            self._exprs.need(FORGET)
            self._out.line(f"{FORGET.name}({self._names[self._launch_thread]});")
        for addresses, before in zip(of_loop, outside, strict=True):
            addresses.clear()
            addresses.update(before)

    def _pragma(self, node: For) -> str:
        versions = _versions(node) if self._is_rolled(node) else 1
        if versions == 1:
            return super()._pragma(node)
        self._exprs.need(ITERATIONS)
        return f"#pragma unroll {ITERATIONS.name}({versions})"

    def _more_pointers(self, loop: For) -> list[str]:
        """Splits addresses: of global loads into buffer resources and offsets of each thread, and those of LDS."""
        thread, types = self._launch_thread, self._types
        if thread is None or not isinstance(types, ProvenIndexTypes):
            return []
        self._declare_lds_offsets(loop, LdsOffsets(thread, self._by_thread, types.domain))
        also = []
        for (buffer, place), address in thread_offsets(loop, thread, types.domain).items():
            varies = any(self._of_thread.keys() & variables_of(index) for index in address.pointer.start)
            if types.offset_bits(buffer) == 32 and not varies:
                also.append(self._declare_address(loop, buffer, place, address))
        return also

    def _declare_lds_offsets(self, loop: For, offsets: LdsOffsets) -> None:
        """Declares the thread's parts of offsets in LDS, but for those of an enclosing loop."""
        declared = {expr_key(offset.own): name for name, offset in self._lds_offsets.values()}
        for (buffer, place), offset in offsets.of(loop).items():
            key = expr_key(offset.own)
            if key not in declared:
                declared[key] = self._names.fresh(f"{buffer.name}_at")
                self._out.line(f"int {declared[key]} = {self._exprs.index(offset.own)};")
            self._lds_offsets[buffer, place] = declared[key], offset

    def _declare_address(self, loop: For, buffer: Buffer, place: tuple[ExprKey, ...], address: ThreadOffset) -> str:
        """Declares resource and offset of an address; gives the increment of one of them."""
        exprs, names, size = self._exprs, self._names, buffer.dtype.storage_bytes
        exprs.need(BUFFER_LOAD)
        resource, offset = names.fresh(f"{buffer.name}_from"), names.fresh(f"{buffer.name}_offset")
        first, pointer = exprs.address(Region(buffer, address.pointer.start, ())), address.pointer
        step = distance(buffer, pointer.steps)
        if address.holds_increments:
            self._out.line(f"const tl_resource {resource} = tl_kept_resource_of({first});")
            increment = f"{offset} += {(step or 0) * size}u"
        else:
            at = names.fresh(f"{buffer.name}_at")
            self._out.line(f"const {exprs.storage(buffer.dtype)}* {at} = {first};")
            self._moving_resources.setdefault(loop, []).append(f"const tl_resource {resource} = tl_resource_of({at});")
            increment = f"{at} += {exprs.distance(buffer, pointer.steps)}"
        moves = {var: (distance(buffer, steps) or 0) * size for var, steps in pointer.unrolled_steps.items()}
        split = SplitAddress(resource, offset, moves)
        if address.each is None:
            self._out.line(f"unsigned {offset} = ({exprs.offset(buffer, address.indices)}) * {size}u;")
        else:
            split = self._declare_offsets(buffer, address, address.each, split)
            if split.moved:
                increment = f"{split.moved} += {(step or 0) * size}u"
        self._split_addresses[buffer, place] = split
        return increment

    def _declare_offsets(self, buffer: Buffer, address: ThreadOffset, each: For, split: SplitAddress) -> SplitAddress:
        """Declares an offset of each iteration of a loop, and what enclosing loops increment for all of them."""
        assert isinstance(self._types, ProvenIndexTypes)
        out, count, domain, moved = self._out, int_const(each.stop) or 0, self._types.domain, ""
        out.line(f"unsigned {split.offset}[{count}];")
        out.directive("#pragma unroll")
        with self._names.scope(), self._types.scope():
            kind, var = self._exprs.index_type(self._types.loop(each)), self._names.declare(each.var)
            with out.block(f"for ({kind} {var} = 0; {var} < {count}; ++{var})"):
                offset = self._exprs.offset(buffer, address.indices)
                out.line(f"{split.offset}[{var}] = ({offset}) * {buffer.dtype.storage_bytes}u;")
        if address.holds_increments:
            moved = self._names.fresh(f"{buffer.name}_moved")
            out.line(f"unsigned {moved} = 0;")
        least = tuple(least_offset(buffer, address, number, domain) for number in range(count))
        return dataclasses.replace(split, each=each.var, least=least, moved=moved)

    def _iteration(self, node: For) -> None:
        for line in self._moving_resources.get(node, ()):
            self._out.line(line)
        if self._is_rolled(node) and self._launch_thread is not None:
            self._exprs.need(REMATERIALIZE)
            self._out.line(f"{REMATERIALIZE.name}({self._names[self._launch_thread]});")
            for name in dict.fromkeys(name for name, _ in self._lds_offsets.values()):
                self._exprs.need(RECOMPUTE)
                self._out.line(f"{RECOMPUTE.name}<{self._array_registers}>({name});")
        super()._iteration(node)

    def _atomic_call(self, node: Atomic) -> Template:
        return atomic_text(node)

    def _print(self, node: Print) -> list[str]:
        return print_lines(node, self._exprs)

    def _fail(self, number: int) -> list[str]:
        """Ends the wave, unless other blocks would wait for it at a barrier of the grid."""
        self._exprs.need(RECORD_FAILURE)
        ends = [] if self._syncs_grid else ["__builtin_amdgcn_endpgm();"]
        return [f"tl_record_failure({FAILED}, {number});", *ends]


def _in_iteration(expr: Expr, var: Var, number: int) -> Expr:
    return simplify(substitute(expr, {var: const(number, var.dtype)}), Domain())


def _definitions_by(thread: Var, body: Stmt) -> dict[Var, Expr]:
    """The definitions that depend on the thread, directly or through others."""
    found: dict[Var, Expr] = {}
    for stmt in walk(body):
        if isinstance(stmt, Bind) and not variables_of(stmt.value).isdisjoint({thread, *found}):
            found[stmt.var] = stmt.value
    return found


def _versions(loop: For) -> int:
    """Of the tiles that a loop takes in turn, so that as many iterations as one have them at constant places.

    Iterations are not written out behind a loop for the rest, since barriers of all threads are in them.
    """
    counts = {
        int_const(expr.b) or 0
        for stmt in walk(loop.body)
        for root in expressions(stmt)
        for expr in walk_expr(root)
        if isinstance(expr, Binary) and expr.op in _MODULO and variables_of(expr.a) == {loop.var}
    }
    start, stop = int_const(loop.start), int_const(loop.stop)
    if len(counts) != 1 or start is None or stop is None:
        return 1
    (count,) = counts
    trips = len(range(start, stop, loop.step))
    return count if 1 < count <= _MAX_VERSIONS and trips % count == 0 else 1


def _has_direct_loads(body: Stmt) -> bool:
    return any(directly_loaded(stmt) is not None for stmt in walk(body))


def _loads_before(loop: For, body: Stmt) -> bool:
    """Whether statements before a loop load from global memory to registers."""
    return any(map(_loads_globally, itertools.takewhile(lambda stmt: stmt is not loop, walk(body))))


def _loaded_before(loop: For, body: Stmt) -> list[Buffer]:
    """The registers that a loop, which loads others from global memory, only reads, and that were loaded before it."""
    if not any(map(_loads_globally, walk(loop.body))):
        return []
    before = itertools.takewhile(lambda stmt: stmt is not loop, walk(body))
    loaded = [stmt.buffer for stmt in before if isinstance(stmt, Store) and _loads_globally(stmt)]
    inside = {buffer for stmt in walk(loop.body) for buffer in accessed_buffers(stmt)}
    written = {buffer.storage for stmt in walk(loop.body) for buffer in written_buffers(stmt)}
    local = (buffer for buffer in dict.fromkeys(loaded) if buffer.scope is Scope.LOCAL and buffer.view_of is None)
    return [buffer for buffer in local if buffer in inside and buffer not in written]


def _loads_globally(stmt: Stmt) -> bool:
    return any(load.buffer.scope is Scope.GLOBAL for expr in expressions(stmt) for load in loads_of(expr))


AWAIT_REGISTERS = Helper(
    "tl_await_registers",
    """\
// Before a loop that loads to other registers: else the compiler would wait for these in each iteration, as the first
// one must, and so for the loads of the iteration.
template <typename T, int N> __device__ __forceinline__ void tl_await_registers(T (&values)[N]) {
#pragma unroll
    for (int i = 0; i < (int)(sizeof(values) / 4); ++i) asm volatile("" : "+v"(((unsigned*)values)[i]));
}
""",
)
RECORD_FAILURE = Helper(
    "tl_record_failure",
    """\
// Records the number of a failed assertion, unless another has failed before. The wave may end then: barriers of the
// block do not wait for waves that have ended, and a trap would end the user's process.
__device__ __forceinline__ void tl_record_failure(int* failed, int number) {
    int none = 0;
    __hip_atomic_compare_exchange_strong(failed, &none, number, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_SYSTEM);
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
}
""",
)
