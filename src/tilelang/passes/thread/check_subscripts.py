"""Inserts assertions that indices of on-chip memory are in bounds, where that is not proven.

Takes a thread-level function for a CPU. The assertion is inserted before the statement with the access, or before the
loop around it if it is loop-invariant; it reports an error instead of a crash. Invariant: the semantics are unchanged
where the assertions hold. The option `tl.disable_safe_memory_legalize` disables the pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.analysis.accesses import negation
from tilelang.analysis.bounds_checks import bounds_checks
from tilelang.analysis.clobbers import Clobbers
from tilelang.arith.domain import Domain, facts_after, of_function
from tilelang.arith.exact import exactly
from tilelang.arith.prove import decide
from tilelang.dtypes import INT32, INT64
from tilelang.errors import Loc
from tilelang.ir.assumption import Assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Cast, Const, Expr, Load, Select, binary, conjunction, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Atomic, For, If, Launch, Seq, Stmt, Store, While
from tilelang.ir.visit import children, expressions
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.transforms.hoist_checks import Check, check_ahead

_CHECKED = (Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL)
_HINT = (
    "compare the index with the extent before the access; pass_configs={'tl.disable_safe_memory_legalize': True} turns "
    "these tests off"
)


def check_subscripts(func: PrimFunc, context: PassContext) -> PrimFunc:
    """The function with assertions, unless the options disable them."""
    if not context.options.checks_subscripts:
        return func
    return with_body(func, _stmt(func.body, of_function(func), Clobbers(func.body)))


def _stmt(node: Stmt, domain: Domain, memory: Clobbers) -> Stmt:
    with node.loc:
        match node:
            case Seq():
                return _seq(node, domain, memory)
            case For(var=var, start=start, stop=stop, step=step, body=body):
                domain = memory.after(body, domain)
                inner = _stmt(body, domain.with_loop(var, start, stop, step), memory)
                loop = node if inner is body else dataclasses.replace(node, body=inner)
                ahead = check_ahead(loop, domain)
                return _checked(ahead, (start, stop), domain)
            case If(condition=condition, then_body=then, else_body=other):
                new_then = _stmt(then, domain.assume(condition), memory)
                new_other = other and _stmt(other, domain.assume(negation(condition)), memory)
                return _checked(_with(node, then_body=new_then, else_body=new_other), (condition,), domain)
            case While(condition=condition, body=body):  # the condition is evaluated again at the end of the body
                domain = memory.after(body, domain)
                tests = list(_tests((condition,), domain))
                inner = _stmt(body, domain.assume(condition), memory)
                if tests:
                    inner = Seq((inner, *_asserts(tests, node.loc)), loc=node.loc)
                return _checked(_with(node, body=inner), (condition,), domain)
            case Launch(block_vars=variables, grid=grid, body=body):
                return _with(node, body=_stmt(body, domain.with_extents(variables, grid), memory))
            case Assume():
                return node  # not evaluated at run time
        return _checked(node, tuple(expressions(node)), domain)


def _seq(node: Seq, domain: Domain, memory: Clobbers) -> Seq:
    body: list[Stmt] = []
    for child in node.body:
        new = _stmt(child, domain, memory)
        # inlined: names that a statement declares are visible to the statements after it
        body.extend(new.body if isinstance(new, Seq) and not isinstance(child, Seq) else (new,))
        if isinstance(child, Assume):
            domain = domain.assume(exactly(child.value), momentary=True)  # until memory that it reads is written
        else:
            domain = memory.after(child, facts_after(child, domain))
    return with_statements(node, body)


def _with(node: Stmt, **parts: Stmt | None) -> Stmt:
    same = all(getattr(node, name) is part for name, part in parts.items())
    return node if same else dataclasses.replace(node, **parts)  # type: ignore[arg-type]


def _checked(node: Stmt, exprs: tuple[Expr, ...], domain: Domain) -> Stmt:
    """A statement after assertions for its own accesses."""
    tests = list(_tests(exprs, domain))
    if isinstance(node, Store | Atomic):
        tests += _of_access(node.buffer, node.indices, domain)
    return Seq((*_asserts(tests, node.loc), node), loc=node.loc) if tests else node


def _asserts(tests: list[tuple[Expr, str]], loc: Loc) -> Iterator[Stmt]:
    seen = set()
    for condition, message in tests:
        if message not in seen:
            seen.add(message)
            yield Check(condition, message, _HINT, loc=loc)


def _tests(exprs: tuple[Expr, ...], domain: Domain) -> Iterator[tuple[Expr, str]]:
    """Bounds checks of the loads in expressions, inner loads first, each with the error message."""
    for expr in exprs:
        if isinstance(expr, Select):
            yield from _tests((expr.condition,), domain)
            yield from _under(expr.condition, expr.a, domain)
            yield from _under(negation(expr.condition), expr.b, domain)
        elif isinstance(expr, Binary) and expr.op in (BinaryOp.AND, BinaryOp.OR):
            yield from _tests((expr.a,), domain)
            yield from _under(expr.a if expr.op is BinaryOp.AND else negation(expr.a), expr.b, domain)
        else:
            yield from _tests(children(expr), domain)
            if isinstance(expr, Load):
                yield from _of_access(expr.buffer, expr.indices, domain)


def _under(condition: Expr, expr: Expr, domain: Domain) -> Iterator[tuple[Expr, str]]:
    for test, message in _tests((expr,), domain.assume(condition, momentary=True)):
        yield binary(BinaryOp.OR, negation(condition), test), message


def _of_access(buffer: Buffer, indices: tuple[Expr, ...], domain: Domain) -> list[tuple[Expr, str]]:
    if buffer.scope not in _CHECKED:
        return []
    found = []
    for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
        known = _one_dimension(buffer, axis)
        tests = bounds_checks(known, (index,), domain)
        if tests == []:
            continue
        size = int_const(extent)
        message = (
            f"'{to_text(Load(buffer, indices, buffer.dtype))}': index '{to_text(index)}' is out of range for dimension "
            f"{axis}, whose extent is {to_text(extent) if size is None else size}"
        )
        condition = conjunction([index >= 0, index < extent] if tests is None else map(_narrowed, tests))
        if decide(condition, domain) is not True:
            found.append((condition, message))
    return found


def _narrowed(test: Expr) -> Expr:
    """A comparison of a sign-extended int32 load in int32 instead of int64: twice as many fit a vector."""
    match test:
        case Binary(op=op, a=Cast(a=Load() as loaded, dtype=wide), b=Const(value=value)):
            low, high = INT32.limits
            if loaded.dtype == INT32 and wide == INT64 and low <= value <= high:
                return binary(op, loaded, const(value, INT32))
    return test


def _one_dimension(buffer: Buffer, axis: int) -> Buffer:
    return dataclasses.replace(buffer, shape=(buffer.shape[axis],), strides=None, view_of=None)


PASS = Pass(
    "check_subscripts", check_subscripts, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_UNPREDICATED,),
    establishes=(Property.SUBSCRIPTS_CHECKED,),
)
