"""Which names a piece of Python binds: what the rewriter must know before it rewrites."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence


def binding_counts(function: ast.FunctionDef) -> Counter[str]:
    """How often each name is bound in a function, parameters included."""
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


def _bindings(statements: Sequence[ast.stmt], *, targets: bool = True) -> Iterator[str]:
    for statement in statements:
        skipped: set[ast.AST] = set()
        for node in _own_nodes(statement):
            if not targets and isinstance(node, ast.For):
                skipped.update(ast.walk(node.target))
            elif not targets and isinstance(node, ast.withitem) and node.optional_vars is not None:
                skipped.update(ast.walk(node.optional_vars))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in skipped:
                yield node.id
            elif isinstance(node, ast.FunctionDef):
                yield node.name


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of this scope: not inside nested functions, lambdas or comprehensions."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _mentioned(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
