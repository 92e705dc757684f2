"""A rewriter of Python syntax trees that leaves the tree as it is: functions are parsed once and rewritten often."""

from __future__ import annotations

import ast
import copy
import operator


class TreeRewriter(ast.NodeVisitor):
    """Like `ast.NodeTransformer`, but a node with changed parts is a copy; each `visit_...` keeps to that."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """The node with its parts rewritten: the same object if none of them changes."""
        changed = {}
        for field, old in ast.iter_fields(node):
            new = self._part(old)
            if new is not old:
                changed[field] = new
        if not changed:
            return node
        rewritten = copy.copy(node)
        for field, new in changed.items():
            setattr(rewritten, field, new)
        return rewritten

    def _part(self, old: object) -> object:
        """A rewritten field: the same object if nothing in it changes. A list takes the place of an item."""
        if isinstance(old, ast.AST):
            return self.visit(old)
        if not isinstance(old, list):
            return old
        parts: list[object] = []
        for item in old:
            new = self._part(item)
            parts += new if isinstance(new, list) else [new]
        return old if len(parts) == len(old) and all(map(operator.is_, parts, old)) else parts
