"""What is said of reducers that are used wrongly."""

import textwrap
from pathlib import Path

import pytest

from tilelang.errors import ProgramValueError

HEADER = """\
import tilelang.language as T
@T.prim_func
def main(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        acc = T.alloc_reducer((1,), "float32")
        out = T.alloc_fragment((1,), "float32")
"""
UPDATE = "for i in T.Parallel(8): T.reducer_update(acc[0], A[i])\n"
OPEN = "T.reducer_init(acc)\n"
CLOSE = "T.finalize_reducer(acc, out)\n"

MISTAKES = {
    "T.reducer_update: reducer 'acc' is used before T.reducer_init opens an epoch": UPDATE + CLOSE,
    "T.finalize_reducer: reducer 'acc' is used before T.reducer_init opens an epoch": CLOSE,
    "T.reducer_init: double T.reducer_init on reducer 'acc', which is still open": OPEN + OPEN + UPDATE + CLOSE,
    "T.reducer_init: double T.reducer_init on reducer 'acc'": OPEN + UPDATE + CLOSE + OPEN + UPDATE + CLOSE,
    "T.finalize_reducer: double T.finalize_reducer on reducer 'acc'": OPEN + CLOSE + CLOSE,
    "T.reducer_update: T.reducer_update after T.finalize_reducer on reducer 'acc'": OPEN + CLOSE + UPDATE,
    "T.reducer_init: reducer 'acc' is never finalized": OPEN + UPDATE,
    "T.reducer_update: reducer 'acc' is updated outside any T.Parallel loop": (
        OPEN + "T.reducer_update(acc[0], A[0])\n" + CLOSE
    ),
    "T.reducer_init: reducer 'acc' is opened inside of a T.Parallel loop": (
        "for i in T.Parallel(8):\n    T.reducer_init(acc)\n" + CLOSE
    ),
    "T.finalize_reducer: on reducer 'acc' it is not in the scope of its T.reducer_init": (
        OPEN + "for k in T.serial(4):\n    T.finalize_reducer(acc, out)\n"
    ),
    "T.reducer_update: on reducer 'acc' it is not in the scope of its T.reducer_init": (
        "if A[0] > 0:\n    T.reducer_init(acc)\n" + UPDATE + CLOSE
    ),
    "expression: illegal read of reducer 'acc', whose parts are not combined yet": (
        OPEN + "if acc[0] > 0:\n    T.clear(out)\n" + CLOSE
    ),
    "T.copy: illegal read of reducer 'acc', whose parts are not combined yet": OPEN + "T.copy(acc, B)\n" + CLOSE,
    "assignment: illegal read of reducer 'acc', whose parts are not combined yet": OPEN + "B[0] = acc[0]\n" + CLOSE,
    "T.reducer_update: illegal read of reducer 'acc' in the value, whose parts are not combined yet": (
        OPEN + "for i in T.Parallel(8): T.reducer_update(acc[0], acc[0])\n" + CLOSE
    ),
    "assignment: illegal store to reducer 'acc'": OPEN + UPDATE + "acc[0] = 1.0\n" + CLOSE,
    "T.fill: illegal store to reducer 'acc'": "T.clear(acc)\n" + UPDATE + CLOSE,
    "T.copy: illegal store to reducer 'acc'": OPEN + "T.copy(A[0:1], acc)\n" + CLOSE,
}


def staged_error(folder: Path, body: str) -> ProgramValueError:
    """The error of a kernel with this body, in the file kernel.py."""
    text = HEADER + textwrap.indent(body, " " * 8)
    (folder / "kernel.py").write_text(text)
    with pytest.raises(ProgramValueError) as caught:
        exec(compile(text, str(folder / "kernel.py"), "exec"), {"__name__": "kernel"})
    return caught.value


@pytest.mark.parametrize("message", MISTAKES)
def test_a_misused_reducer(message: str, tmp_path: Path) -> None:
    assert message == staged_error(tmp_path, MISTAKES[message]).message


def test_the_whole_message(tmp_path: Path) -> None:
    body = "for k in T.serial(4):\n    T.reducer_init(acc)\n" + CLOSE
    error = str(staged_error(tmp_path, body)).replace(f"{tmp_path}/", "")
    assert error == (
        "T.finalize_reducer: on reducer 'acc' it is not in the scope of its T.reducer_init\n"
        " --> kernel.py:9:9\n"
        "9 |         T.finalize_reducer(acc, out)\n"
        "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "note: the epoch begins here\n"
        " --> kernel.py:8:13\n"
        "8 |             T.reducer_init(acc)\n"
        "  |             ^^^^^^^^^^^^^^^^^^^\n"
        "hint: an epoch ends in the iteration and branch in which it began, or in a branch below"
    )
