"""Facts that hold at an expression: ranges of variables, values of bindings, conditions.

Takes facts, gives a `Domain` that `bounds`, `simplify` and `proves` use. Invariant: a domain is immutable; each
`with_...` gives a new one with more facts. Callers are responsible for the truth of the facts they add.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from tilelang.arith.exact import exactly
from tilelang.arith.ranges import of_dtype
from tilelang.dtypes import INT32
from tilelang.ir.assumption import Assume, loaded_buffers
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, ExprLike, Var, as_expr, int_const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.sequences import with_statements
from tilelang.ir.specialization import MULTIPLES
from tilelang.ir.stmt import Bind, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import loads_of, variables_of, walk_expr
from tilelang.records import record


@record
class Range:
    """`low <= var <= high`; bounds are integers, index expressions, or None if unknown."""

    var: Var
    low: int | Expr | None
    high: int | Expr | None


@record
class Stepped:
    """`var % modulus == residue`."""

    var: Var
    modulus: int
    residue: int


Fact = Range | Stepped | Expr  # an expression is a condition that holds


class Extension:
    """What adds facts to a parent: a domain, and what is derived from one.

    Attributes:
        parent: What this one extends, of the same class.
        sole_variable: The variable, if this one only adds facts about a single one.
    """

    __slots__ = ()
    parent: Extension | None
    sole_variable: Var | None

    def relevant(self: E, expr: Expr) -> E:
        """The outermost one with the same facts about an expression; facts about other variables are skipped."""
        found, mine = self, None
        while found.sole_variable is not None and found.parent is not None:
            mine = variables_of(expr) if mine is None else mine
            if found.sole_variable in mine:
                break
            found = found.parent  # type: ignore[assignment]
        return found


E = TypeVar("E", bound=Extension)


class Domain(Extension):
    """An immutable set of facts. `Domain()` is empty.

    Attributes:
        parent: The domain this one extends.
        fact: The fact that it adds to its parent.
        values: Bindings whose value may replace the variable anywhere.
        memo: A cache of what other modules derive from it; nothing in it refers to the domain.
        constrained: The variables that occur in facts.
        sole_variable: The variable, if this domain only adds facts about a single one.
        loads: The memory that facts depend on, by storage.
    """

    __slots__ = ("constrained", "fact", "loads", "memo", "parent", "sole_variable", "values")

    def __init__(
        self, parent: Domain | None = None, fact: Fact | None = None, values: Mapping[Var, Expr] | None = None
    ) -> None:
        if values is None:
            values = _NO_VALUES if parent is None else parent.values
        self.parent: Domain | None = parent
        self.fact = fact
        self.values: Mapping[Var, Expr] = values
        self.memo: dict[str, object] = {}
        about, subject = self._constrained_here()
        self.loads: frozenset[Buffer] = _NO_LOADS if parent is None else parent.loads
        if isinstance(fact, Expr):
            self.loads |= loaded_buffers(fact)
        before = _NO_VARIABLES if parent is None else parent.constrained
        self.constrained: frozenset[Var] = before | about
        fresh = parent is not None and (subject not in before or subject is parent.sole_variable)
        self.sole_variable: Var | None = subject if fresh else None

    def _constrained_here(self) -> tuple[frozenset[Var], Var | None]:
        """The variables that this domain's own fact constrains, and the one that it relates to no other."""
        match self.fact:
            case None:
                known = self.parent.values if self.parent is not None else _NO_VALUES
                new = [var for var in self.values if var not in known]
                about = _NO_VARIABLES.union(new, *[variables_of(self.values[var]) for var in new])
                return about, new[0] if len(new) == 1 else None
            case Range(var=var, low=low, high=high):
                ends = [variables_of(end) for end in (low, high) if isinstance(end, Expr)]
                return frozenset((var,)).union(*ends), None if ends else var
            case Stepped(var=var):
                return frozenset((var,)), var
        return variables_of(self.fact), None

    def with_range(self, var: Var, low: ExprLike | None = None, high: ExprLike | None = None) -> Domain:
        """Adds `low <= var <= high`, both inclusive; a bound may be an index expression, or None if unknown."""
        return Domain(self, Range(var, _end(low), _end(high)))

    def with_loop(self, var: Var, start: ExprLike, stop: ExprLike, step: int = 1) -> Domain:
        """Adds the range of `var` in the body of `for var in range(start, stop, step)`."""
        first, last = int_const(start), int_const(stop)
        if step < 0:
            domain = self.with_range(var, stop + 1 if last is None else last + 1, start)
        else:
            domain = self.with_range(var, start, stop - 1 if last is None else last - 1)
        if first is None or step in (0, 1, -1):
            return domain
        domain = Domain(domain, Stepped(var, abs(step), first % abs(step)))
        trips = range(first, last, step) if last is not None else range(0)
        return domain.with_range(var, min(trips[0], trips[-1]), max(trips[0], trips[-1])) if trips else domain

    def with_extents(self, variables: Iterable[Var], extents: Iterable[ExprLike]) -> Domain:
        """Adds that each variable is in [0, extent), as block indices and variables of nests are."""
        domain = self
        for var, extent in zip(variables, extents, strict=True):
            domain = domain.with_loop(var, 0, extent)
        return domain

    def assume(self, condition: Expr, *, momentary: bool = False) -> Domain:
        """Adds a condition.

        A condition that loads from memory is ignored, since the memory may change while the domain is in use; with
        `momentary` it is added, for use within one expression, or until `forget`.
        """
        if isinstance(condition, Const) or (not momentary and loads_of(condition)):
            return self
        return Domain(self, condition)

    def forget(self, changed: Callable[[Buffer], bool]) -> Domain:
        """Removes conditions on memory that may have changed."""
        if not any(map(changed, self.loads)):
            return self
        kept: list[Domain] = []
        domain: Domain | None = self
        while domain is not None and any(map(changed, domain.loads)):
            if not (isinstance(domain.fact, Expr) and any(map(changed, loaded_buffers(domain.fact)))):
                kept.append(domain)
            domain = domain.parent
        result = domain or Domain()
        for each in reversed(kept):
            result = Domain(result, each.fact, each.values)
        return result

    def with_value(self, var: Var, value: Expr) -> Domain:
        """Adds that `var` was bound to `value`. A value that loads from memory is ignored, as in `assume`."""
        if loads_of(value) or not value.dtype.is_int or not var.dtype.is_int:
            return self
        if value.is_index and var.index:
            return Domain(self, None, {**self.values, var: value})
        return self


_NO_VARIABLES: frozenset[Var] = frozenset()
_NO_LOADS: frozenset[Buffer] = frozenset()
_NO_VALUES: Mapping[Var, Expr] = MappingProxyType({})


def of_function(func: PrimFunc) -> Domain:
    """The facts that hold in a whole function: extents are non-negative, and facts about symbols."""
    domain = Domain()
    parts = dict(func.attributes).get(MULTIPLES, ())
    positive = {name for name, *_ in parts} if isinstance(parts, tuple) else set()
    for param in func.params:
        if isinstance(param, TensorParam):
            for extent in param.shape:
                if isinstance(extent, Var):
                    domain = domain.with_range(extent, 0, None)
                elif int_const(extent) is None:
                    domain = domain.assume(extent >= 0)
    for symbol in func.symbols:
        if symbol.name in positive:
            domain = domain.with_range(symbol, 1, None)
    for condition in func.assumptions:
        domain = domain.assume(condition)
    return domain


def of_calls(func: PrimFunc) -> Domain:
    """These facts and those that the host checks in arguments: sizes fit their dtype."""
    domain = of_function(func)
    scalars = [param.var for param in func.params if not isinstance(param, TensorParam)]
    for var in (*scalars, *func.symbols):
        if var.index and var.dtype.bits <= INT32.bits:
            domain = domain.with_range(var, *of_dtype(var.dtype))
    for param in func.params:
        for extent in param.shape if isinstance(param, TensorParam) else ():
            narrow = all(e.dtype.bits <= INT32.bits for e in walk_expr(extent) if isinstance(e, Var))
            if not isinstance(extent, Const | Var) and narrow:
                domain = domain.assume(extent <= as_expr(of_dtype(INT32).high or 0))
    return domain


def facts_after(stmt: Stmt, domain: Domain) -> Domain:
    """The facts after a statement: those of its binding or assumption."""
    match stmt:
        case Assume(value=condition):
            return domain.assume(exactly(condition))
        case Bind(var=var, value=value):
            return domain.with_value(var, value)
    return domain


def visit_in_order(node: Seq, domain: Domain, visit: Callable[[Stmt, Domain], Stmt]) -> Stmt:
    """Applies `visit` to the statements of a sequence, each with the facts of preceding bindings.

    Returns the same object if none of them changes.
    """
    body = []
    for child in node.body:
        body.append(visit(child, domain))
        domain = facts_after(child, domain)
    return with_statements(node, body)


def visit_inside(node: Stmt, domain: Domain, visit: Callable[[Stmt, Domain], Stmt]) -> Stmt:
    """Applies `visit` to the bodies of a loop, branch or launch, with the facts of its variables and conditions.

    Returns the same object if nothing changes; so for any other statement.
    """
    match node:
        case For():
            body = visit(node.body, domain.with_loop(node.var, node.start, node.stop, node.step))
        case Launch():
            body = visit(node.body, domain.with_extents(node.block_vars, node.grid))
        case While():
            body = visit(node.body, domain)
        case If():
            then = visit(node.then_body, domain.assume(node.condition))
            other = node.else_body and visit(node.else_body, domain)
            same = then is node.then_body and other is node.else_body
            return node if same else dataclasses.replace(node, then_body=then, else_body=other)
        case _:
            return node
    return node if body is node.body else dataclasses.replace(node, body=body)


def _end(value: ExprLike | None) -> int | Expr | None:
    if value is None:
        return None
    number = int_const(value)
    if number is not None:
        return number
    expr = as_expr(value)
    return None if loads_of(expr) else expr
