"""Runs a thread-level program of a block with all threads in step: no barriers needed, no races possible.

Checks what any order would: no out-of-bounds access on chip, no read of what was never written, no two threads that
store different values in one element by one statement.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from tilelang.dtypes import lane_dtype
from tilelang.ir.buffer import Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Cast, Const, Load, Select, Var
from tilelang.ir.func import ScalarParam
from tilelang.ir.scalar import convert, data_binary
from tilelang.ir.stmt import (
    Alloc,
    AtomicOp,
    Launch,
    Seq,
)
from tilelang.lowering.by_loop import LOOPS
from tilelang.ops.combine import CombineReduce
from tilelang.ops.scan import Scan
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.thread import predicate_bounds, simplify_body
from tilelang.passes.thread.vectorize_accesses import vectorize_accesses
from tilelang.passes.tile import demote_fragments, expand_library, flatten_parallel, inline_bindings
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.expand_to_loops import expand_to_loops
from tilelang.passes.tile.infer_layouts import infer_layouts
from tilelang.passes.tile.lower_to_threads import lower_to_threads
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.gpu.isa.lanes import REDUCE_OPERATORS
from tilelang.targets.gpu.lowerings.combine_reduce import SimtCombineReduce
from tilelang.targets.gpu.lowerings.scan import SimtScan
from tilelang.targets.nvidia.isa.cp_async import ASYNC_COPIES
from tilelang.targets.nvidia.lowerings.matrix_stores import by_matrix_stores
from tilelang.targets.target import Target

LANES = 32


class InStep:
    """One run; `guarded` insists that global accesses stay in range."""

    def __init__(self, *, guarded=False, printer=print):
        self.guarded, self.printer = guarded, printer
        self.env, self.memory, self.written, self.loops = {}, {}, {}, []
        self.counts = {"vector": 0, "scalar": 0}

    def run(self, func, arguments):
        for param, argument in zip(func.params, arguments, strict=True):
            if isinstance(param, ScalarParam):
                self.env[param.var] = argument
                continue
            self.memory[param.buffer] = argument
            for extent, size in zip(param.shape, argument.shape, strict=True):
                if isinstance(extent, Var):
                    self.env[extent] = size
        self.top(func.body)

    def top(self, stmt):
        if isinstance(stmt, Seq):
            for child in stmt.body:
                self.top(child)
        elif isinstance(stmt, Alloc):
            shape = tuple(int(self.scalar(e)) for e in stmt.buffer.shape)
            self.memory[stmt.buffer] = np.zeros(shape, stmt.buffer.dtype.numpy)
        else:
            assert isinstance(stmt, Launch)
            grid = [int(self.scalar(e)) for e in stmt.grid]
            self.safe = {b: self.scalar(v) for b, v in stmt.hints.safe_values}
            for point in itertools.product(*map(range, grid)):
                self.threads = stmt.num_threads
                self.env.update(zip(stmt.block_vars, point, strict=True))
                self.env[stmt.thread] = np.arange(self.threads)
                self.run_stmt(stmt.body, np.ones(self.threads, bool))

    def scalar(self, expr):
        return evaluate(expr, self.env, exact=expr.dtype.is_int)

    # -- statements: give the threads that go on -------------------------------------------------------------------
    def run_stmt(self, stmt, mask):
        if not mask.any():
            return mask
        with stmt.loc:
            return getattr(self, f"do_{type(stmt).__name__.lower()}")(stmt, mask)

    def do_seq(self, stmt, mask):
        for child in stmt.body:
            mask = self.run_stmt(child, mask)
        return mask

    def do_bind(self, stmt, mask):
        self.set(stmt.var, self.value(stmt.value, mask, exact=stmt.var.index), mask)
        return mask

    def set(self, var, value, mask):
        old = self.env.get(var)
        if old is None or not isinstance(old, np.ndarray) or old.shape != (self.threads,):
            self.env[var] = self.spread(value)
        else:
            self.env[var] = np.where(mask, self.spread(value), old)

    def spread(self, value):
        return np.broadcast_to(np.asarray(value), (self.threads,)).copy()

    def do_alloc(self, stmt, mask):
        buffer = stmt.buffer
        if buffer.view_of is not None:
            return mask
        shape = buffer.static_shape
        own = buffer.scope in (Scope.LOCAL, Scope.VAR)
        full = (self.threads, *shape) if own else shape
        self.memory[buffer] = np.zeros(full, buffer.dtype.numpy)
        self.written[buffer] = np.zeros(full, bool)
        if stmt.init is not None:
            self.write(buffer, (), self.value(stmt.init, mask), mask)
        return mask

    def do_store(self, stmt, mask):
        lanes = stmt.value.dtype.lanes // stmt.buffer.dtype.lanes
        self.counts["vector" if lanes > 1 else "scalar"] += 1
        if lanes > 1:
            assert lanes * stmt.buffer.dtype.storage_bytes in (2, 4, 8, 16)
        at = [self.value(i, mask, exact=True) for i in stmt.indices]
        if lanes > 1:
            self.aligned(stmt.buffer, at, lanes, mask)
        values = [self.value(lane_of(stmt.value, lane) if lanes > 1 else stmt.value, mask) for lane in range(lanes)]
        for lane, value in enumerate(values):
            self.write(stmt.buffer, at if lanes == 1 else (*at[:-1], at[-1] + lane), value, mask)
        return mask

    def aligned(self, buffer, at, lanes, mask):
        shape = self.shape(buffer)
        offset = sum(np.asarray(a) * math.prod(shape[d + 1 :]) for d, a in enumerate(at))
        assert (self.spread(offset)[mask] % lanes == 0).all(), f"misaligned vector access of {buffer.name}"

    def do_for(self, stmt, mask):
        at = self.spread(self.value(stmt.start, mask, exact=True))
        stop = self.spread(self.value(stmt.stop, mask, exact=True))
        loop = {"left": np.zeros(self.threads, bool)}
        self.loops.append(loop)
        while True:
            active = mask & ~loop["left"] & ((at < stop) if stmt.step > 0 else (at > stop))
            if not active.any():
                break
            self.env[stmt.var] = at.copy()
            self.run_stmt(stmt.body, active)
            at = at + stmt.step
        self.loops.pop()
        return mask

    def do_while(self, stmt, mask):
        loop = {"left": np.zeros(self.threads, bool)}
        self.loops.append(loop)
        active = mask
        while True:
            active = active & ~loop["left"]
            active = active & self.spread(self.value(stmt.condition, active)).astype(bool)
            if not active.any():
                break
            self.run_stmt(stmt.body, active)
        self.loops.pop()
        return mask

    def do_break(self, stmt, mask):
        self.loops[-1]["left"] |= mask
        return np.zeros_like(mask)

    def do_continue(self, stmt, mask):
        return np.zeros_like(mask)

    def do_if(self, stmt, mask):
        condition = self.spread(self.value(stmt.condition, mask)).astype(bool)
        after = self.run_stmt(stmt.then_body, mask & condition)
        other = mask & ~condition
        return after | (other if stmt.else_body is None else self.run_stmt(stmt.else_body, other))

    def do_atomic(self, stmt, mask):
        dtype, buffer = stmt.buffer.dtype, stmt.buffer
        at = [self.spread(self.value(i, mask, exact=True)) for i in stmt.indices]
        operand = None if stmt.value is None else self.spread(self.value(stmt.value, mask))
        seen = np.zeros(self.threads, dtype.numpy)
        for thread in np.flatnonzero(mask):
            where = tuple(int(a[thread]) for a in at)
            if not all(0 <= i < n for i, n in zip(where, self.shape(buffer), strict=True)):
                continue
            array = self.array(buffer)
            seen[thread] = array[where]
            if stmt.op.operator is not None:
                array[where] = data_binary(stmt.op.operator, array[where], operand[thread], dtype)
            elif stmt.op is not AtomicOp.LOAD:
                array[where] = operand[thread]
        if stmt.result is not None:
            self.set(stmt.result, seen, mask)
        return mask

    def do_assert(self, stmt, mask):
        assert self.spread(self.value(stmt.condition, mask))[mask].all(), stmt.message
        return mask

    def do_print(self, stmt, mask):
        for thread in np.flatnonzero(mask):
            if isinstance(stmt.operand, Load | Const | Var) or hasattr(stmt.operand, "is_index"):
                self.printer(self.spread(self.value(stmt.operand, mask))[thread])
            else:
                self.printer(np.array(self.array(stmt.operand.buffer)))
        return mask

    def do_callstmt(self, stmt, mask):
        name, _, operation = stmt.routine.name.partition("_")
        operation = operation.split("_")[0]
        assert name in ("shuffle", "redux", "any"), name
        active, value, *offset = (self.spread(self.value(a, mask)) for a in stmt.args)
        thread = np.arange(self.threads)
        lane = thread % LANES
        named = (active.astype(np.uint64)[:, None] >> np.arange(LANES, dtype=np.uint64)) & np.uint64(1)
        for t in np.flatnonzero(mask):
            lanes = np.flatnonzero(named[t]) + t - lane[t]
            assert (lanes < self.threads).all(), "a mask names lanes that do not exist"
            assert mask[lanes].all(), "a lane named by the mask does not come"
        if name == "any":
            votes = [value[t - lane[t] + np.flatnonzero(named[t])].any() for t in thread]
            self.set(stmt.result, np.array(votes), mask)
            return mask
        if name == "redux":
            fold = functools.partial(data_binary, REDUCE_OPERATORS[operation], dtype=stmt.result.dtype)
            totals = [functools.reduce(fold, value[t - lane[t] + np.flatnonzero(named[t])]) for t in thread]
            self.set(stmt.result, np.array(totals), mask)
            return mask
        offset = offset[0]
        other = {"xor": lane ^ offset, "up": lane - offset, "down": lane + offset, "idx": offset}[operation]
        other = np.where((other < 0) | (other >= LANES) | (thread - lane + other >= self.threads), lane, other)
        self.set(stmt.result, value[thread - lane + other], mask)
        return mask

    # -- values ------------------------------------------------------------------------------------------------------
    def value(self, expr, mask, exact=False):
        self.mask = mask
        return evaluate(expr, self.env, exact=exact, load=self.load)

    def load(self, node, indices):
        return self.read(node.buffer, indices)

    def array(self, buffer):
        array = self.memory[buffer.storage]
        if buffer.view_of is None:
            return array
        shape = buffer.static_shape
        if buffer.scope in (Scope.LOCAL, Scope.VAR):
            shape = (self.threads, *shape)
        return array.reshape(-1).view(buffer.dtype.numpy).reshape(shape)

    def shape(self, buffer):
        if buffer in self.memory and buffer.scope is Scope.GLOBAL:
            return self.memory[buffer].shape
        return buffer.static_shape

    def place(self, buffer, indices):
        """The subscripts clipped into the buffer, and which threads are inside."""
        inside = np.ones(self.threads, bool)
        at = []
        for index, size in zip(indices, self.shape(buffer), strict=True):
            index = self.spread(index)
            inside &= (index >= 0) & (index < size)
            at.append(np.clip(index, 0, max(size - 1, 0)))
        if buffer.scope in (Scope.LOCAL, Scope.VAR):
            at.insert(0, np.arange(self.threads))
        return tuple(at), inside

    def read(self, buffer, indices):
        at, inside = self.place(buffer, indices)
        array = self.array(buffer)
        if array.size == 0:
            return np.zeros(self.threads, array.dtype)
        # both sides of a select are evaluated here: what lies outside is not looked at
        values = array[at]
        if buffer.scope is Scope.GLOBAL:
            return np.where(inside, values, convert(self.safe.get(buffer, 0), buffer.dtype))
        return values

    def write(self, buffer, indices, value, mask):
        at, inside = self.place(buffer, indices)
        value = self.spread(convert(value, buffer.dtype))
        if buffer.scope is Scope.GLOBAL and not self.guarded:
            mask = mask & inside
        assert inside[mask].all(), f"store outside of {buffer.name}"
        if not mask.any():
            return
        array = self.array(buffer)
        chosen = tuple(a[mask] for a in at)
        array[chosen] = value[mask]
        back = array[chosen]
        same = (back == value[mask]) | (back != back)
        assert same.all(), f"threads store different values in one element of {buffer.name}"
        if buffer.storage in self.written and buffer.view_of is None:
            self.written[buffer][chosen] = True


def lane_of(expr, lane):
    """One lane of a vector value, as a scalar expression."""
    dtype = lane_dtype(expr.dtype)
    match expr:
        case Load(buffer=buffer, indices=indices):
            return Load(buffer, (*indices[:-1], indices[-1] + lane), buffer.dtype)
        case Const(value=value):
            return Const(value, dtype)
        case Select(condition=condition, a=a, b=b):
            return Select(condition, lane_of(a, lane), lane_of(b, lane), dtype)
        case Cast(a=a):
            return Cast(lane_of(a, lane), dtype)
    raise AssertionError(f"no vector value: {expr}")


SM80 = PassContext(target=Target("cuda", "sm_80"))
LOWERINGS = {
    **{kind: (row,) for kind, row in LOOPS.items()},
    CombineReduce: (SimtCombineReduce(),),
    Scan: (SimtScan(),),
}
TO_THREADS = (
    expand_library.PASS,
    inline_bindings.PASS,
    choose_lowerings(LOWERINGS),
    expand_to_loops(LOWERINGS),
    flatten_parallel.PASS,
    demote_fragments.PASS,
    infer_layouts(LOWERINGS),
    lower_to_threads(LOWERINGS, by_matrix_stores),
)
TO_ACCESSES = (
    *TO_THREADS,
    vectorize_accesses(ASYNC_COPIES),
    predicate_bounds.predicate_bounds(splitting=False),
    simplify_body.PASS,
)


def assert_threads_agree(func, *arguments, passes=TO_ACCESSES, **options):
    """The reference and the program of all threads in step agree; gives the machine, for its counts."""
    expected = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    run_reference(func, expected)
    options.setdefault("guarded", passes is TO_ACCESSES)
    actual, machine = run_in_step(run_passes(func, passes, SM80), arguments, **options)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(want, got)
    return machine


def ints(*shape, dtype=np.float32, seed=0, low=-8, high=8):
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def run_in_step(func, arguments, **options):
    """The arguments after the program ran on copies of them."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    machine = InStep(**options)
    with np.errstate(all="ignore"):
        machine.run(func, copies)
    return copies, machine
