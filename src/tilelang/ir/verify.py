"""Checks that a function is well formed: legal nodes for its level, names defined before use, equal dtypes.

Index arithmetic has no width, so nodes and bindings of it may differ in dtype: a block index of 32 bits is computed
from sizes of 64 bits. Printers declare the width that the range of a variable needs.

A name used outside of the loop or branch that defines it is an error of the user (`ProgramError`); all others are
errors of the compiler (`CompilerBug`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tilelang.dtypes import lane_dtype
from tilelang.errors import CompilerBug, Note, ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import (
    WARP_SIZE,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Unary,
    Var,
)
from tilelang.ir.func import Level, PrimFunc, ScalarParam
from tilelang.ir.pipeline import InitPipelines, PipelineStmt
from tilelang.ir.printer import to_text
from tilelang.ir.scalar import BITWISE, COMPARISONS, LOGICAL, BinaryOp, UnaryOp
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    ForKind,
    Group,
    If,
    Launch,
    ParallelLoop,
    Print,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)
from tilelang.ir.verify_pipelines import verify_pipelines
from tilelang.ir.visit import children, defined_variables, expressions, variables_of, walk

_ANYWHERE = (Seq, Bind, Alloc, Store, For, While, If, Break, Continue, Atomic, Assert, Print, Launch)

RULES: Mapping[Level, tuple[type[Stmt], ...]] = MappingProxyType(
    {
        Level.TILE: (*_ANYWHERE, CallStmt, ParallelLoop, TileOp, PipelineStmt),
        Level.THREAD: (*_ANYWHERE, CallStmt),
    }
)
_FOR_KINDS: Mapping[Level, frozenset[ForKind]] = MappingProxyType(
    {Level.TILE: frozenset(ForKind), Level.THREAD: frozenset(ForKind) - {ForKind.PIPELINED}}
)


def verify(func: PrimFunc, *, staged: bool = False, warp_size: int = 1) -> None:
    """Raises if a function is not well formed.

    Args:
        func: The function.
        staged: Whether it comes directly from the front end.
        warp_size: Threads of a warp of the target machine; 1 if unknown.

    Raises:
        ProgramError: A variable or buffer is used outside of the scope that defines it, or stands where the language
            does not allow it (an on-chip buffer of symbolic shape, `break` outside of a loop, nested kernels); in a
            function as it was staged, a symbolic size that no parameter has.
        CompilerBug: A node is malformed or not allowed at the function's level.
    """
    with func.loc:
        _Verifier(func, staged, warp_size).function()


class _Verifier:
    """One traversal of a function with the set of visible names."""

    def __init__(self, func: PrimFunc, staged: bool, warp_size: int) -> None:
        self._func = func
        self._staged, self._warp_size = staged, warp_size
        self._visible: set[Var | Buffer] = set()
        self._loops = 0  # around the current statement, within the kernel
        self._launched = False
        self._threads = 0  # of the block
        self._group: Group | None = None  # the threads that execute the current statement together

    # -- structure ------------------------------------------------------------------------------------------
    def function(self) -> None:
        """Checks the whole function."""
        self._visible.update(self._func.symbols)
        if self._func.level is Level.TILE:
            self._visible.add(WARP_SIZE)
        buffers = []
        for param in self._func.params:
            self._visible.add(param.var if isinstance(param, ScalarParam) else param.buffer)
            if not isinstance(param, ScalarParam):
                buffers.append(param.buffer)
        for buffer in buffers:
            self._layout(buffer)
        for condition in self._func.assumptions:
            self._condition(condition)
        self._stmt(self._func.body)

    def _stmt(self, node: Stmt) -> None:
        with node.loc:
            if not isinstance(node, RULES[self._func.level]):
                self._bug(f"{type(node).__name__} is not allowed at {self._func.level.value} level")
            match node:
                case Seq(body=body):
                    before = set(self._visible)
                    for child in body:
                        self._stmt(child)
                    self._visible = before
                case Bind(var=var, value=value):
                    self._expr(value)
                    if not (var.index and value.is_index):
                        self._same("Bind", var.dtype, value)
                    self._visible.add(var)
                case Alloc():
                    self._alloc(node)
                case For() | ParallelLoop() | While():
                    self._loop(node)
                case Launch():
                    self._launch(node)
                case If(condition=condition, then_body=then_body, else_body=else_body):
                    self._condition(condition)
                    around = self._group
                    if node.group is not None:
                        self._enter(node.group, else_body)
                    self._scoped(then_body)
                    self._group = around
                    if else_body is not None:
                        self._scoped(else_body)
                case Break() | Continue():
                    if not self._loops:
                        word = type(node).__name__.lower()
                        raise ProgramError(f"{word}: stands outside of a loop")
                case _:
                    self._leaf(node)

    def _enter(self, group: Group, else_body: Stmt | None) -> None:
        """Makes a group the executing threads."""
        around = self._group
        if not group.collective and around is not None and (group.first < around.first or group.end > around.end):
            raise ProgramError(
                "T.ws: only some of its threads execute this statement",
                hint="move it out of the enclosing T.ws, or list only warp groups of the enclosing one",
            )
        if around is None or group.first < around.first or group.end > around.end or group.count < 1:
            self._bug(f"If: there are no threads {group.first} to {group.end - 1} here")
        warp = self._warp_size
        if not group.collective and (group.first % warp or group.end % warp):
            raise ProgramError(
                f"T.ws: the block has {self._threads} threads", hint=f"write a multiple of {warp} in T.Kernel"
            )
        whole = group.first % warp == 0 and (group.count < warp or group.count % warp == 0)
        if group.count > 1 and not whole:
            self._bug(f"If: threads {group.first} to {group.end - 1} are no warps, nor the beginning of one")
        if else_body is not None:
            self._bug("If: a group of threads has another branch")
        self._group = group

    def _atomic(self, node: Atomic) -> None:
        op, buffer, value, result = node.op, node.buffer, node.value, node.result
        self._element(buffer, node.indices, "Atomic")
        if (value is None) is not (op is AtomicOp.LOAD):
            self._bug(f"Atomic {op.value}: has {'no' if value is None else 'a'} value")
        if value is not None:
            self._expr(value)
            if value.dtype.lanes == buffer.dtype.lanes or op is not AtomicOp.ADD or result is not None:
                self._same("Atomic", buffer.dtype, value)
            elif lane_dtype(value.dtype) != lane_dtype(buffer.dtype):  # neighbors, each by itself
                self._bug(f"Atomic: {value.dtype!s} to '{buffer.name}' of {buffer.dtype!s}")
        if (node.compare is None) is (op is AtomicOp.CAS):
            self._bug(f"Atomic {op.value}: has {'nothing' if node.compare is None else 'something'} to compare")
        if node.compare is not None:
            self._expr(node.compare)
            self._same("Atomic", buffer.dtype, node.compare)
        if result is not None:
            self._visible.add(result)

    def _leaf(self, node: Stmt) -> None:
        match node:
            case Store(buffer=buffer, indices=indices, value=value):
                self._element(buffer, indices, "Store")
                self._expr(value)
                if value.dtype.lanes == buffer.dtype.lanes:
                    self._same("Store", buffer.dtype, value)
                elif lane_dtype(value.dtype) != lane_dtype(buffer.dtype):  # a vector access writes neighbors
                    self._bug(f"Store: {value.dtype!s} into '{buffer.name}' of {buffer.dtype!s}")
            case Atomic():
                self._atomic(node)
            case Assert(condition=condition):
                self._condition(condition)
            case Print(operand=operand) if operand is not None:
                self._operand(operand)
            case TileOp():
                for field in node.reads() + node.writes():
                    self._region(field)
                before = set(self._visible)
                self._visible.update(getattr(node, "vars", ()))  # parameters of a function that it is given
                for expr in expressions(node):
                    self._expr(expr)
                self._visible = before
            case CallStmt(args=args, reads=reads, writes=writes, result=result):
                for operand in (*args, *reads, *writes):
                    self._operand(operand)
                if result is not None:
                    self._visible.add(result)
            case PipelineStmt():
                if isinstance(node, InitPipelines):
                    for buffer in node.barriers:
                        self._defined(buffer, buffer.name)
                for expr in expressions(node):
                    self._index(expr)

    def _scoped(self, body: Stmt, *variables: Var) -> None:
        """Visits a body in a new scope with additional variables."""
        before = set(self._visible)
        self._visible.update(variables)
        self._stmt(body)
        self._visible = before

    def _loop(self, node: For | ParallelLoop | While) -> None:
        variables: tuple[Var, ...] = ()
        match node:
            case For():
                self._index(node.start)
                self._index(node.stop)
                if node.step == 0:
                    self._bug("For: the step is 0")
                if node.kind not in _FOR_KINDS[self._func.level]:
                    self._bug(f"For: kind {node.kind.value} is not allowed at {self._func.level.value} level")
                for reduction in node.reductions:
                    self._element(reduction.buffer, reduction.indices, "Reduction")
                variables = (node.var,)
            case ParallelLoop():
                if len(node.vars) != len(node.extents):
                    self._bug(f"ParallelLoop: {len(node.vars)} variables but {len(node.extents)} extents")
                for extent in node.extents:
                    self._index(extent)
                variables = node.vars
            case While():
                self._condition(node.condition)
        self._loops += 1
        self._scoped(node.body, *variables)
        self._loops -= 1

    def _launch(self, node: Launch) -> None:
        if self._launched:
            raise ProgramError("T.Kernel: stands inside another T.Kernel", hint="put kernels one after the other")
        if not 1 <= len(node.grid) <= 3 or len(node.grid) != len(node.block_vars):
            self._bug(f"Launch: {len(node.block_vars)} block variables for a grid of rank {len(node.grid)}")
        for extent in node.grid:
            self._index(extent)
        for _, value in node.hints.safe_values:
            self._expr(value)
        outer, self._loops, self._launched = self._loops, 0, True
        self._threads = node.num_threads
        self._group = Group(0, self._threads)
        maps = tuple(tensor_map.var for tensor_map in node.plan.tensor_maps)
        self._scoped(node.body, *node.block_vars, *(() if node.thread is None else (node.thread,)), *maps)
        verify_pipelines(node.body)
        self._loops, self._launched, self._group = outer, False, None

    def _alloc(self, node: Alloc) -> None:
        buffer = node.buffer
        if buffer.scope.on_chip and not self._launched:
            raise ProgramError(
                f"'{buffer.name}': {buffer.scope.value} memory belongs to a block, but there is none here",
                hint="allocate it inside `with T.Kernel(...)`",
            )
        sized_at_launch = buffer.scope is Scope.SHARED and all(map(self._is_known_before, buffer.shape))
        if buffer.scope.on_chip and buffer.static_shape is None and not sized_at_launch:
            shape = ", ".join(to_text(e) for e in buffer.shape)
            raise ProgramError(
                f"'{buffer.name}': {buffer.scope.value} memory needs a constant shape, got ({shape})",
                hint="allocate the largest tile as a constant and use part of it",
            )
        if buffer.scope is Scope.VAR and buffer.rank != 0:
            self._bug(f"Alloc: mutable scalar '{buffer.name}' has rank {buffer.rank}")
        if buffer.view_of is not None:
            self._defined(buffer.view_of, buffer.view_of.name)
            size, other = buffer.bytes, buffer.view_of.bytes
            fits = size is None or other is None or size == other or not buffer.scope.on_chip and size < other
            if not fits:
                self._bug(f"Alloc: view '{buffer.name}' has {size} bytes, '{buffer.view_of.name}' has {other}")
        if buffer.address is not None:
            self._index(buffer.address)
        self._layout(buffer)
        if node.init is not None:
            self._expr(node.init)
            self._same("Alloc", buffer.dtype, node.init)
        self._visible.add(buffer)

    def _is_known_before(self, extent: Expr) -> bool:
        """Whether an extent can be evaluated before the launch."""
        given = {param.var for param in self._func.params if isinstance(param, ScalarParam)}
        return variables_of(extent) <= given.union(self._func.symbols)

    def _layout(self, buffer: Buffer) -> None:
        for extent in (*buffer.shape, *(buffer.strides or ())):
            self._index(extent)

    # -- operands -------------------------------------------------------------------------------------------
    def _operand(self, operand: Expr | Region) -> None:
        if isinstance(operand, Region):
            self._region(operand)
        else:
            self._expr(operand)

    def _region(self, region: Region) -> None:
        self._element(region.buffer, region.start, "Region")
        self._element(region.buffer, region.extent, "Region")

    def _element(self, buffer: Buffer, indices: Sequence[Expr], what: str) -> None:
        self._defined(buffer, buffer.name)
        if len(indices) != buffer.rank:
            self._bug(f"{what}: {len(indices)} indices into '{buffer.name}' of rank {buffer.rank}")
        for index in indices:
            self._index(index)

    def _index(self, expr: Expr) -> None:
        self._expr(expr)
        if not expr.dtype.is_int:
            self._bug(f"index {to_text(expr)} has dtype {expr.dtype!s}")

    def _condition(self, expr: Expr) -> None:
        self._expr(expr)
        if not expr.dtype.is_bool:
            self._bug(f"condition {to_text(expr)} has dtype {expr.dtype!s}")

    def _same(self, what: str, dtype: object, value: Expr) -> None:
        if value.dtype != dtype:
            self._bug(f"{what}: value {to_text(value)} has dtype {value.dtype!s}, needs {dtype!s}")

    # -- expressions ----------------------------------------------------------------------------------------
    def _expr(self, expr: Expr) -> None:
        match expr:
            case Const():
                return
            case Var():
                self._defined(expr, expr.name)
                return
            case Load(buffer=buffer, indices=indices, dtype=dtype):
                self._element(buffer, indices, "Load")
                if lane_dtype(dtype) != lane_dtype(buffer.dtype):
                    self._bug(f"Load: {dtype!s} from '{buffer.name}' of {buffer.dtype!s}")
                return
            case Binary():
                self._binary(expr)
            case Select(condition=condition, a=a, b=b, dtype=dtype):
                self._condition(condition)
                for side in (a, b):
                    if side.dtype != dtype and not expr.is_index:
                        self._bug(f"Select: {side.dtype!s} side in a {dtype!s} result")
            case Unary(op=op, a=a, dtype=dtype):
                if a.dtype != dtype or (op is UnaryOp.NOT and not dtype.is_bool):
                    self._bug(f"Unary {op.value}: {dtype!s} from {a.dtype!s}")
            case Reinterpret(a=a, dtype=dtype):
                if a.dtype.bits * a.dtype.lanes != dtype.bits * dtype.lanes:
                    self._bug(f"Reinterpret: {a.dtype!s} and {dtype!s} differ in width")
            case Call(callee=callee, args=args):
                if len(args) != callee.arity:
                    self._bug(f"Call: T.{callee.name} takes {callee.arity} operands, got {len(args)}")
            case Cast():
                pass
            case _:
                self._bug(f"{type(expr).__name__} is not an expression node")
        for child in children(expr):
            self._expr(child)

    def _binary(self, expr: Binary) -> None:
        a, b, op = expr.a.dtype, expr.b.dtype, expr.op
        index = expr.a.is_index and expr.b.is_index
        if a != b and not index and op not in (BinaryOp.SHL, BinaryOp.SHR):
            self._bug(f"Binary {op.value}: operands of {a!s} and {b!s} in {to_text(expr)}")
        if op in COMPARISONS | LOGICAL:
            if not expr.dtype.is_bool:
                self._bug(f"Binary {op.value}: gives {expr.dtype!s}")
        elif expr.dtype != a and not index:
            self._bug(f"Binary {op.value}: {expr.dtype!s} from {a!s}")
        if op in LOGICAL and not a.is_bool or op in BITWISE and a.is_float:
            self._bug(f"Binary {op.value}: operands of {a!s}")

    # -- names ----------------------------------------------------------------------------------------------
    def _defined(self, thing: Var | Buffer, name: str) -> None:
        if thing in self._visible:
            return
        definition = self._definition(thing)
        if isinstance(definition, For | ParallelLoop):
            raise ProgramError(
                f"'{name}' is the variable of a loop, and is used where that has ended",
                notes=(Note("the loop", definition.loc),),
                hint="keep what a loop computes in memory: `xs = T.alloc_local((n,), dtype)` in front of it, "
                f"`xs[{name}] = ...` in it; a list of Python, as by list.append, keeps expressions of the loop, "
                "not their values",
            )
        if definition is not None:
            kind = "variable" if isinstance(thing, Var) else "buffer"
            raise ProgramError(
                f"'{name}': {kind} used before, or outside of the loop or branch of, its definition",
                hint=f"define '{name}' before the loop or branch: `{name} = T.alloc_var(dtype)` and assign it inside"
                if isinstance(thing, Var) or thing.scope is Scope.VAR
                else f"move the allocation of '{name}' before the loop or branch",
            )
        if self._staged and isinstance(thing, Var):
            raise ProgramError(
                f"'{name}' is a symbolic size that no parameter has",
                hint=f"give a tensor that dimension, as in `A: T.Tensor(({name},), dtype)`, or pass it as a scalar "
                f"parameter `{name}: T.int32`",
            )
        self._bug(f"'{name}' is never defined")

    def _definition(self, thing: Var | Buffer) -> Stmt | None:
        """The statement that defines a name."""
        for stmt in walk(self._func.body):
            own = stmt.buffer if isinstance(stmt, Alloc) else stmt.thread if isinstance(stmt, Launch) else None
            if own is thing or any(var is thing for var in defined_variables(stmt)):
                return stmt
        return None

    def _bug(self, message: str) -> None:
        raise CompilerBug(f"verify: {message}")
