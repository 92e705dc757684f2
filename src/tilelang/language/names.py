"""Which names a piece of Python binds: what the rewriter must know before it rewrites."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

# functions that give what a `with` may open as a loop
LOOPS = frozenset("While serial Serial unroll Unroll vectorized Vectorized Parallel parallel Pipelined grid".split())


def binding_counts(function: ast.FunctionDef) -> Counter[str]:
    """Count how often each name is bound in a function, parameters included."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    counts = Counter(a.arg for a in named)
    counts.update(_bindings(function.body))
    return counts


def assigned_names(statements: Sequence[ast.stmt], *, loop_targets: bool = True) -> tuple[str, ...]:
    """The names that statements bind anywhere below them, in order of first appearance.

    Without `loop_targets`, names that only loops and `with` bind are left out.
    """
    names = tuple(dict.fromkeys(_bindings(statements)))
    if loop_targets:
        return names
    assigned = set(_bindings(statements, targets=False))
    return tuple(n for n in names if n in assigned)


def reborn_names(body: Sequence[ast.stmt]) -> set[str]:
    """Names that a loop body surely assigns before it reads them, in every iteration.

    Only plain assignments at the top of the body count; a name read earlier, or first met inside a nested
    statement, does not.
    """
    reborn: set[str] = set()
    seen: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.Assign):
            seen |= _loaded(statement.value)
            fresh = {t.id for t in statement.targets if isinstance(t, ast.Name)} - seen
            reborn |= fresh
            seen |= {n for target in statement.targets for n in _mentioned(target)}
        else:
            seen |= _mentioned(statement)
    return reborn


def flat_names(target: ast.expr) -> tuple[str, ...] | None:
    """The names of `x` or `x, y`; None for any other target."""
    if isinstance(target, ast.Name):
        return (target.id,)
    if isinstance(target, ast.Tuple | ast.List) and all(isinstance(t, ast.Name) for t in target.elts):
        return tuple(t.id for t in target.elts if isinstance(t, ast.Name))
    return None


def parts_of(node: ast.expr) -> list[ast.expr] | None:
    """The parts of `x, y` on either side of an assignment; None for anything else, and where one has a star."""
    if isinstance(node, ast.Tuple | ast.List) and not any(isinstance(part, ast.Starred) for part in node.elts):
        return node.elts
    return None


def is_range(node: ast.expr) -> bool:
    """Whether an expression is a call of `range`."""
    match node:
        case ast.Call(func=ast.Name(id="range"), keywords=[]):
            return True
    return False


def _bindings(statements: Sequence[ast.stmt], *, targets: bool = True) -> Iterator[str]:
    """The names in order, with repetitions; not those of nested functions, lambdas and comprehensions.

    Expressions are not looked into: `:=` is refused wherever it is met.
    """
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=assigned):
                for target in assigned:
                    yield from _stored(target)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield from _stored(target)
            case ast.For(target=target, body=body, orelse=orelse):
                if targets:
                    yield from _stored(target)
                yield from _bindings([*body, *orelse], targets=targets)
            case ast.While(body=body, orelse=orelse) | ast.If(body=body, orelse=orelse):
                yield from _bindings([*body, *orelse], targets=targets)
            case ast.With(items=items, body=body):
                if targets:
                    for item in items:
                        yield from _stored(item.optional_vars)
                yield from _bindings(body, targets=targets)


def _stored(target: ast.expr | None) -> Iterator[str]:
    """The names in the target of an assignment; elements and attributes are none."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _stored(part)
        case ast.Starred(value=value):
            yield from _stored(value)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _mentioned(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
