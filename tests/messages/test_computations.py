"""The whole text of every message that level 1 promises for bad input, with the user's line."""

import linecache
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilelang
from tilelang import errors

_IMPORTS = "import tilelang\nimport tilelang.language as T\nimport tilelang.numpy as tnp\n\n"


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


MISTAKES = {  # a computation, what it is called with, and what is said of it
    "shapes that do not broadcast": (
        "def f(x, y):\n    return x * 2 + y\n",
        (zeros(3, 4), zeros(3, 5)),
        errors.ProgramValueError,
        """\
        tnp.add: shapes (3, 4) and (3, 5) do not broadcast: axis -1 has the extents 4 and 5
         --> program.py:7:12
        7 |     return x * 2 + y
          |            ^^^^^^^^^
        hint: counted from the last, extents are equal or 1; x[:, None] adds one of 1
        """,
    ),
    "an unknown function": (
        "def f(x):\n    return tnp.softmx(x)\n",
        (zeros(3),),
        errors.UnknownAttribute,
        """\
        tilelang.numpy has no function 'softmx'
         --> program.py:7:12
        7 |     return tnp.softmx(x)
          |            ^^^^^^^^^^
        hint: did you mean tnp.softmax?
        """,
    ),
    "an unknown attribute": (
        "def f(x):\n    return x.softmx()\n",
        (zeros(3),),
        errors.UnknownAttribute,
        """\
        an array of a computation has no attribute 'softmx'
         --> program.py:7:12
        7 |     return x.softmx()
          |            ^^^^^^^^
        hint: did you mean tnp.softmax(x)?
        """,
    ),
    "dtypes that lose precision": (
        "def f(x, y):\n    return x + y\n",
        (zeros(3, dtype="int32"), zeros(3)),
        errors.ProgramTypeError,
        """\
        tnp.add: int32 with float32 would lose precision silently; float32 has integers exactly only up to 2**24, int32 has greater ones
         --> program.py:7:12
        7 |     return x + y
          |            ^^^^^
        hint: convert one of them: x.astype("float32")
        """,
    ),
    "a branch on values": (
        "def f(x):\n    if tnp.sum(x) > 0:\n        return x\n    return -x\n",
        (zeros(3),),
        errors.StagingError,
        """\
        an array is used as a truth value, but its values are known only when the computation runs
         --> program.py:7:8
        7 |     if tnp.sum(x) > 0:
          |        ^^^^^^^^^^^^^^
        hint: write tnp.where(condition, x, y) in place of `if`, `x & y` in place of `and`, `x | y` in place of `or`, and `~x` in place of `not`
        """,
    ),
    "an axis out of range": (
        "def f(x):\n    return tnp.sum(x, axis=2)\n",
        (zeros(3, 4),),
        errors.ProgramIndexError,
        """\
        tnp.sum: axis 2 is out of range of an array of shape (3, 4)
         --> program.py:7:12
        7 |     return tnp.sum(x, axis=2)
          |            ^^^^^^^^^^^^^^^^^^
        hint: axes go from -2 to 1
        """,
    ),
    "a symbolic size that must be static": (
        'def f(x: T.Tensor((T.dynamic("n"), 4), "float32")):\n    return tnp.unstack(x)[0]\n',
        (zeros(3, 4),),
        errors.StagingError,
        """\
        a symbolic size is used as a Python integer, but its value is known only when the computation runs
         --> program.py:7:12
        7 |     return tnp.unstack(x)[0]
          |            ^^^^^^^^^^^^^^
        hint: make the size static: leave it out of the annotation, or give the annotation a number
        """,
    ),
    "a negative extent": (
        "def f(x):\n    return tnp.zeros((x.shape[0] - 4, 2))\n",
        (zeros(3),),
        errors.ProgramValueError,
        """\
        tnp.zeros: the extent -1 is negative
         --> program.py:7:12
        7 |     return tnp.zeros((x.shape[0] - 4, 2))
          |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        """,
    ),
    "an annotation that an argument does not have": (
        'def f(x: T.Tensor((4, T.dynamic("n")), "float32")):\n    return x * 2\n',
        (zeros(5, 3),),
        errors.ArgumentError,
        """\
        f: 'x' has shape (5, 3), expected (4, n), which is (4, 3) here
         --> program.py:6:1
        6 | def f(x: T.Tensor((4, T.dynamic("n")), "float32")):
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        """,
    ),
    "a reduction of nothing along a symbolic size": (
        'def f(x: T.Tensor((T.dynamic("n"), 4), "float32")):\n    return tnp.max(x, axis=0)\n',
        (zeros(0, 4),),
        errors.ProgramValueError,
        """\
        tnp.max: the axis has no elements, and there is no max of nothing
         --> program.py:7:12
        7 |     return tnp.max(x, axis=0)
          |            ^^^^^^^^^^^^^^^^^^
        hint: only sum, prod, any, all and logsumexp have a value for no elements
        """,
    ),
    "a reduction of nothing": (
        "def f(x):\n    return tnp.max(x, axis=0)\n",
        (zeros(0, 4),),
        errors.ProgramValueError,
        """\
        tnp.max: the axis has no elements, and there is no max of nothing
         --> program.py:7:12
        7 |     return tnp.max(x, axis=0)
          |            ^^^^^^^^^^^^^^^^^^
        hint: only sum, prod, any, all and logsumexp have a value for no elements
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message(mistake: str, calling_line: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, arguments, kind, message = MISTAKES[mistake]
    whole = f"{_IMPORTS}@tilelang.compute\n{text}"
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(whole)
    linecache.clearcache()  # of the file of another mistake
    names: dict[str, object] = {"__name__": "program"}
    exec(compile(whole, "program.py", "exec"), names)
    with pytest.raises(tilelang.TileLangError) as caught:
        names["f"](*arguments)  # type: ignore[operator]
    assert textwrap.dedent(message).rstrip("\n") == str(caught.value)
    assert type(caught.value) is kind
