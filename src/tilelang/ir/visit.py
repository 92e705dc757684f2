"""Traversal and rewriting of the IR: the only code that enumerates the children of nodes.

Invariant: a `Rewriter` enters `stmt.loc` while it visits a statement, so that errors of passes have the user's line; a
rewritten statement keeps its `loc`.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeVar

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import (
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
    binary,
    cast,
    select,
    unary,
)
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    Continue,
    For,
    Launch,
    ParallelLoop,
    Print,
    Reduction,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)

T = TypeVar("T")


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression, in evaluation order."""
    operands = _OPERANDS.get(type(expr))
    return operands(expr) if operands is not None else ()


_OPERANDS: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    Binary: operator.attrgetter("a", "b"),
    Unary: lambda expr: (expr.a,),
    Cast: lambda expr: (expr.a,),
    Reinterpret: lambda expr: (expr.a,),
    Select: operator.attrgetter("condition", "a", "b"),
    Load: operator.attrgetter("indices"),
    Call: operator.attrgetter("args"),
}


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        operands = _OPERANDS.get(type(node))
        if operands is not None:
            stack.extend(operands(node)[::-1])


def variables_of(expr: Expr) -> frozenset[Var]:
    """The variables of an expression, cached on the node."""
    if isinstance(expr, Var):
        return frozenset((expr,))
    cached: frozenset[Var] | None = expr.__dict__.get("_variables")
    if cached is None:
        cached = frozenset()
        for child in children(expr):
            below = variables_of(child)
            if not below <= cached:
                cached = cached | below if cached else below  # shared with the operand that has them all
        expr.__dict__["_variables"] = cached
    return cached


def loads_of(expr: Expr) -> tuple[Load, ...]:
    """The loads in an expression in the order of `walk_expr`, kept on the node."""
    cached: tuple[Load, ...] | None = expr.__dict__.get("_loads")  # but for a load itself, which it would refer to
    if cached is None:
        cached = expr.__dict__["_loads"] = tuple([load for child in children(expr) for load in loads_of(child)])
    return (expr, *cached) if isinstance(expr, Load) else cached


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """The statement and all statements below it, in program order."""
    return itertools.chain((stmt,), _below(stmt))


def _below(stmt: Stmt) -> tuple[Stmt, ...]:
    """All statements below a statement, in program order, kept on the node."""
    cached: tuple[Stmt, ...] | None = stmt.__dict__.get("_below")
    if cached is None:
        found: list[Stmt] = []
        for child in sub_statements(stmt):
            found.append(child)
            found += _below(child)
        cached = stmt.__dict__["_below"] = tuple(found)
    return cached


def sub_statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The direct sub-statements, in program order, kept on the node."""
    if isinstance(stmt, Seq):
        return stmt.body
    cached: tuple[Stmt, ...] | None = stmt.__dict__.get("_sub_statements")
    if cached is None:
        values = [getattr(stmt, field) for field in _fields(type(stmt))]
        cached = stmt.__dict__["_sub_statements"] = tuple([value for value in values if isinstance(value, Stmt)])
    return cached


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself: operands, indices, bounds; not of sub-statements. Cached on the node."""
    cached: tuple[Expr, ...] | None = stmt.__dict__.get("_expressions")
    if cached is None:
        found: list[Expr] = []
        for field in _fields(type(stmt)):
            _add_expressions(getattr(stmt, field), found)
        declared = stmt.buffer.expressions if isinstance(stmt, Alloc) else ()
        cached = stmt.__dict__["_expressions"] = (*found, *declared)
    return cached


def _add_expressions(value: object, found: list[Expr]) -> None:
    if isinstance(value, Expr):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _add_expressions(item, found)
    elif isinstance(value, Region):
        found += value.start
        found += value.extent
    elif isinstance(value, Reduction):
        found += value.indices


def needed_bindings(statements: Iterable[Stmt], bindings: Mapping[Var, Bind]) -> list[Bind]:
    """The bindings that statements use, directly or through others, definitions before uses.

    Args:
        statements: The statements.
        bindings: The candidates, by variable.
    """
    needed: dict[Bind, None] = {}
    for inner in (inner for stmt in statements for inner in walk(stmt)):
        for root in expressions(inner):
            _add_needed(root, bindings, needed)
    return list(needed)


def _add_needed(expr: Expr, bindings: Mapping[Var, Bind], needed: dict[Bind, None]) -> None:
    for node in walk_expr(expr):
        bind = bindings.get(node) if isinstance(node, Var) else None
        if bind is not None and bind not in needed:
            _add_needed(bind.value, bindings, needed)
            needed[bind] = None


def written_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that a statement itself may write, not those of its sub-statements; kept on the node."""
    cached: tuple[Buffer, ...] | None = stmt.__dict__.get("_written_buffers")
    if cached is None:
        cached = stmt.__dict__["_written_buffers"] = _written_buffers(stmt)
    return cached


def _written_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    match stmt:
        case Store(buffer=buffer):
            return (buffer,)
        case Atomic(buffer=buffer, op=op):
            return () if op is AtomicOp.LOAD else (buffer,)
        case TileOp():
            return tuple(region.buffer for region in stmt.writes())
        case CallStmt(writes=writes):
            return tuple(region.buffer for region in writes)
    return ()


def defined_variables(stmt: Stmt) -> tuple[Var, ...]:
    """The variables that a statement itself defines, not those that its sub-statements define."""
    match stmt:
        case Bind(var=var) | For(var=var):
            return (var,)
        case ParallelLoop(vars=variables) | Launch(block_vars=variables):
            return variables
        case CallStmt(result=result) | Atomic(result=result) if result is not None:
            return (result,)
    return ()


def accessed_buffers(stmt: Stmt) -> Iterator[Buffer]:
    """The buffers whose elements a statement itself may read or write, not those of its sub-statements."""
    yield from written_buffers(stmt)
    match stmt:
        case TileOp():
            yield from (region.buffer for region in stmt.reads())
        case CallStmt(args=args, reads=reads):
            yield from (part.buffer for part in (*args, *reads) if isinstance(part, Region))
        case Atomic(buffer=buffer):
            yield buffer
        case Print(operand=Region(buffer=buffer)):
            yield buffer
        case For(reductions=reductions):
            yield from (reduction.buffer for reduction in reductions)
    for root in expressions(stmt):
        yield from (load.buffer for load in loads_of(root))


def jumps(stmt: Stmt, *kinds: type[Stmt]) -> bool:
    """Whether a statement contains a `break` or `continue`, or one of given kinds, of the enclosing loop."""
    return any(True for _ in own_jumps(stmt, *kinds))


def own_jumps(stmt: Stmt, *kinds: type[Stmt]) -> Iterator[Stmt]:
    """The `break` and `continue` in a statement, or those of given kinds, of the enclosing loop."""
    if isinstance(stmt, kinds or (Break, Continue)):
        yield stmt
    elif not isinstance(stmt, For | ParallelLoop | While):
        for child in sub_statements(stmt):
            yield from own_jumps(child, *kinds)


_FIELDS: dict[type, tuple[str, ...]] = {}
# variables defined by a statement are not uses; hints and plans are not parts of the program
_SKIPPED = frozenset({"loc", "hints", "plan", "layout", "var", "vars", "block_vars", "thread", "result", "request"})


def _fields(cls: type) -> tuple[str, ...]:
    names = _FIELDS.get(cls)
    if names is None:
        names = _FIELDS[cls] = tuple(f.name for f in dataclasses.fields(cls) if f.name not in _SKIPPED)
    return names


class Rewriter:
    """Rebuilds a tree bottom-up; override `expr`, `stmt`, `buffer` or `var` for the nodes of interest.

    Unchanged nodes are returned as they are. `stmt` may return a sequence by returning `Seq`; returning None deletes
    the statement. A tensor at an address that is declared in what is rewritten gets a rewritten address and shape.
    """

    _declared: dict[Buffer, Buffer] | None = None  # tensors at addresses, and views of them, whose declaration changed
    _only_statements = True  # nothing that rewrites expressions or buffers is overridden

    def __init_subclass__(cls) -> None:
        cls._only_statements = all(getattr(cls, name) is getattr(Rewriter, name) for name in _REWRITE_EXPRESSIONS)

    def expr(self, node: Expr) -> Expr:
        """The replacement of an expression; the default rebuilds it from rewritten operands."""
        return self.rebuild_expr(node)

    def stmt(self, node: Stmt) -> Stmt | None:
        """The replacement of a statement; the default rebuilds it from rewritten parts."""
        return self.rebuild_stmt(node)

    def buffer(self, node: Buffer) -> Buffer:
        """The replacement of a buffer wherever it is named."""
        return node

    def _named(self, node: Buffer) -> Buffer:
        new = self.buffer(node)
        return self._declared.get(new, new) if self._declared else new

    def _declare(self, node: Buffer) -> None:
        """Rewrites the declaration of a tensor at an address, or of a view of one."""
        old = self.buffer(node)
        changes: dict[str, object] = {}
        if old.address is not None:
            changes = {
                "address": self.expr(old.address),
                "shape": self.exprs(old.shape),
                "strides": old.strides and self.exprs(old.strides),
            }
        elif old.view_of is not None:
            changes = {"view_of": self._named(old.view_of)}
        if any(new is not getattr(old, name) for name, new in changes.items()):
            self._declared = self._declared or {}
            self._declared[old] = dataclasses.replace(old, **changes)  # type: ignore[arg-type]

    def visit(self, node: Stmt) -> Stmt | None:
        """Rewrites a statement with its location set for errors."""
        try:  # `with node.loc` would be two calls more for each statement of each pass
            return self.stmt(node)
        except Exception as error:
            node.loc.mark(error)
            raise

    def rebuild_expr(self, node: Expr) -> Expr:
        """The same expression over rewritten operands; folding may simplify it."""
        match node:
            case Const() | Var():
                return node
            case Binary(op=op, a=a, b=b):
                x, y = self.expr(a), self.expr(b)
                return node if x is a and y is b else _typed_as(node, binary(op, x, y))
            case Load(buffer=buffer, indices=indices, dtype=dtype):
                new, changed = self._named(buffer), self.exprs(indices)
                return node if new is buffer and changed is indices else Load(new, changed, dtype)
            case Cast(a=a, dtype=dtype):
                x = self.expr(a)
                return node if x is a else cast(x, dtype)
            case Call(callee=callee, args=args, dtype=dtype):
                changed = self.exprs(args)
                return node if changed is args else Call(callee, changed, dtype)
            case Select(condition=c, a=a, b=b):
                z, x, y = self.expr(c), self.expr(a), self.expr(b)
                return node if z is c and x is a and y is b else _typed_as(node, select(z, x, y))
            case Unary(op=op, a=a):
                x = self.expr(a)
                return node if x is a else _typed_as(node, unary(op, x))
            case Reinterpret(a=a, dtype=dtype):
                x = self.expr(a)
                return node if x is a else Reinterpret(x, dtype)
        return node

    def exprs(self, nodes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Rewrites a tuple of expressions; the same tuple if nothing changed."""
        new = tuple([self.expr(n) for n in nodes])
        return nodes if all(map(operator.is_, new, nodes)) else new

    def region(self, node: Region) -> Region:
        """Rewrites the parts of a region."""
        new, start, extent = self._named(node.buffer), self.exprs(node.start), self.exprs(node.extent)
        if new is node.buffer and start is node.start and extent is node.extent:
            return node
        return Region(new, start, extent)

    def rebuild_stmt(self, node: Stmt) -> Stmt | None:
        """The same statement over rewritten parts."""
        if isinstance(node, Seq):
            return with_statements(node, [made for old in node.body if (made := self.visit(old)) is not None])
        if self._only_statements:
            return self._with_sub_statements(node) if sub_statements(node) else node
        if isinstance(node, Alloc) and (node.buffer.address is not None or self._declared and node.buffer.view_of):
            self._declare(node.buffer)
        changes: dict[str, object] = {}
        for field in _fields(type(node)):
            old = getattr(node, field)
            rewrite = _REWRITES[type(old)]
            new = old if rewrite is None else rewrite(self, old)
            if new is old:
                continue
            if isinstance(new, Expr) and isinstance(node, Store | Atomic) and new.dtype != old.dtype:
                new = cast(new, old.dtype)  # index arithmetic that became a wide literal wraps where it is stored
            changes[field] = new
        return dataclasses.replace(node, **changes) if changes else node  # type: ignore[arg-type]

    def _with_sub_statements(self, node: Stmt) -> Stmt:
        changes: dict[str, Stmt] = {}
        for field in _fields(type(node)):
            old = getattr(node, field)
            if isinstance(old, Stmt) and (new := self._sub_statement(old)) is not old:
                changes[field] = new
        return dataclasses.replace(node, **changes) if changes else node  # type: ignore[arg-type]

    def _sub_statement(self, node: Stmt) -> Stmt:
        return self.visit(node) or Seq((), loc=node.loc)

    def _reduction(self, value: Reduction) -> Reduction:
        new, indices = self._named(value.buffer), self.exprs(value.indices)
        same = new is value.buffer and indices is value.indices
        return value if same else Reduction(new, indices, value.op)

    def _tuple(self, values: tuple[object, ...]) -> tuple[object, ...]:
        parts = tuple([v if (rewrite := _REWRITES[type(v)]) is None else rewrite(self, v) for v in values])
        return values if all(map(operator.is_, parts, values)) else parts


_REWRITE_EXPRESSIONS = ("expr", "rebuild_expr", "exprs", "region", "buffer")
# how the parts of statements are rewritten; those of other kinds stay as they are
_REWRITES_OF_KINDS: dict[type, Callable[[Rewriter, Any], object]] = {
    Stmt: Rewriter._sub_statement,
    Expr: lambda rewriter, value: rewriter.expr(value),
    Region: lambda rewriter, value: rewriter.region(value),
    Buffer: Rewriter._named,
    Reduction: Rewriter._reduction,
    tuple: Rewriter._tuple,
}


class _Rewrites(dict[type, Callable[[Rewriter, Any], object] | None]):
    """The same for each class that was met."""

    def __missing__(self, cls: type) -> Callable[[Rewriter, Any], object] | None:
        kinds = (rewrite for kind, rewrite in _REWRITES_OF_KINDS.items() if issubclass(cls, kind))
        self[cls] = next(kinds, None)
        return self[cls]


_REWRITES = _Rewrites()


def _typed_as(old: Expr, new: Expr) -> Expr:
    """`new` converted to the dtype of `old`; index arithmetic stays as it is."""
    return new if new.dtype == old.dtype or (new.is_index and old.is_index) else cast(new, old.dtype)


class _Substitute(Rewriter):
    def __init__(self, values: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer]) -> None:
        self._values, self._buffers = values, buffers

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Var):
            return self._values.get(node, node)
        if not self._buffers and self._values.keys().isdisjoint(variables_of(node)):
            return node
        return self.rebuild_expr(node)

    def buffer(self, node: Buffer) -> Buffer:
        return self._buffers.get(node, node)


def substitute(node: Expr, values: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer] | None = None) -> Expr:
    """The expression with variables, and buffers, replaced."""
    return _Substitute(values, buffers or {}).expr(node)


def substitute_stmt(
    node: Stmt, values: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer] | None = None
) -> Stmt:
    """The statement with uses of variables, and buffers, replaced."""
    result = _Substitute(values, buffers or {}).visit(node)
    assert result is not None
    return result


class _Without(Rewriter):
    def __init__(self, dropped: Set[Stmt]) -> None:
        self._dropped = dropped

    def stmt(self, node: Stmt) -> Stmt | None:
        return None if node in self._dropped else self.rebuild_stmt(node)


def without(body: Stmt, dropped: Set[Stmt]) -> Stmt:
    """A body without some of its statements."""
    return (_Without(dropped).visit(body) or Seq((), loc=body.loc)) if dropped else body


def without_unused_bindings(body: Stmt, candidates: Set[Var] | None = None) -> Stmt:
    """A body without bindings of variables that nothing in it uses; with `candidates`, only of these variables."""
    while True:
        statements = list(walk(body))
        used = {var for stmt in statements for root in expressions(stmt) for var in variables_of(root)}
        bindings = (stmt for stmt in statements if isinstance(stmt, Bind) and stmt.var not in used)
        unused = {bind for bind in bindings if candidates is None or bind.var in candidates}
        if not unused:
            return body
        body = without(body, unused)


def uses(stmt: Stmt, var: Var) -> bool:
    """Whether any expression in the statement has a variable."""
    return any(var in variables_of(root) for inner in walk(stmt) for root in expressions(inner))


def any_expr(stmt: Stmt, test: Callable[[Expr], bool]) -> bool:
    """Whether any expression in the statement satisfies a predicate."""
    return any(test(e) for s in walk(stmt) for root in expressions(s) for e in walk_expr(root))
