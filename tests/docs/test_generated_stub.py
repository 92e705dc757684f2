"""The stub from which editors and type checkers know the names of `T`."""

import ast
from pathlib import Path

import generate_stub

import tilelang.language as T
from tilelang.dtypes import DType

ROOT = Path(__file__).resolve().parent.parent.parent


def _definitions() -> dict[str, ast.stmt]:
    """What the stub says of each name: where it is imported from, or a definition."""
    found = {}
    for node in ast.parse((ROOT / "src/tilelang/language/__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found.update({alias.asname: node for alias in node.names if alias.asname})
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
    return found


def test_the_stub_is_what_the_tables_of_the_language_say() -> None:
    assert generate_stub.PATH.read_text() == generate_stub.stub()


def test_every_name_is_there_with_its_documentation() -> None:
    found = _definitions()
    assert [] == [name for name in T.__all__ if name not in found]
    written = [node for node in found.values() if not isinstance(node, ast.ImportFrom) and node.name != "_Dtype"]
    assert [] == [node.name for node in written if not ast.get_docstring(node)]


def test_functions_of_tables_have_their_signature_and_dtypes_are_classes() -> None:
    found = _definitions()
    assert "x: ExprLike, *, span: object=None, dtype: object=None" == ast.unparse(found["exp"].args)
    assert "x: ExprLike, y: ExprLike, *, span: object=None, dtype: object=None" == ast.unparse(found["__pow"].args)
    dtypes = [name for name in T.__all__ if isinstance(getattr(T, name), DType)]
    assert [] == [name for name in dtypes if not isinstance(found[name], ast.ClassDef)]
