"""Syntax trees are rewritten without being changed."""

import ast

from tilelang.language.tree_rewriter import TreeRewriter


class Renamed(TreeRewriter):
    def visit_Name(self, node):
        return ast.Name(node.id.upper(), node.ctx)

    def visit_Pass(self, node):
        return [node, ast.Expr(ast.Constant(1))]


def test_changed_nodes_are_copies():
    tree = ast.parse("x = y + 1")
    before = ast.dump(tree)
    assert "X = Y + 1" == ast.unparse(Renamed().visit(tree))
    assert before == ast.dump(tree)


def test_what_does_not_change_is_the_same_object():
    tree = ast.parse("1 + 2\nx")
    rewritten = Renamed().visit(tree)
    assert rewritten is not tree
    assert rewritten.body[0] is tree.body[0]
    assert TreeRewriter().visit(tree) is tree


def test_a_list_takes_the_place_of_a_statement():
    assert "if A:\n    pass\n    1" == ast.unparse(Renamed().visit(ast.parse("if a:\n    pass")))
