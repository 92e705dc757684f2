"""The whole text of every message about a kernel that breaks a rule: shapes, dtypes, scopes, bounds, dependences."""

import textwrap
from collections.abc import Callable

import pytest

from tilelang import errors

HEADER = """\
@T.prim_func
def main(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1) as bx:
"""

BODIES = {  # what stands in the block of a kernel of A: T.Tensor((8, 8), "float32"), and what is said of it
    "an unknown dtype of an allocation": (
        errors.OptionError,
        """\
S = T.alloc_shared((8,), "flaot16")
""",
        """\
T.alloc_shared: dtype: unknown name 'flaot16'
 --> kernel.py:7:9
7 |         S = T.alloc_shared((8,), "flaot16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: did you mean 'float16'?
""",
    ),
    "an operand of a wrong kind": (
        errors.ProgramError,
        """\
T.copy(A, "B")
""",
        """\
T.copy: an operand is 'B', not a place in memory
 --> kernel.py:7:9
7 |         T.copy(A, "B")
  |         ^^^^^^^^^^^^^^
hint: pass a buffer, a region A[a:b, c:d] or a position A[i, j]
""",
    ),
    "an expression nested too deeply": (
        errors.ProgramError,
        """\
A[0, 0] = sum((A[i % 8, 0] for i in range(3000)), A[0, 0])
""",
        """\
an expression of this statement is nested too deeply
 --> kernel.py:7:9
7 |         A[0, 0] = sum((A[i % 8, 0] for i in range(3000)), A[0, 0])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: give names to its parts, as in `part = a + b`, or write a sum of many terms as a loop
""",
    ),
    "a copy of unequal extents": (
        errors.ProgramValueError,
        """\
S = T.alloc_shared((8, 4), "float32")
F = T.alloc_fragment((4, 4), "float32")
T.copy(S, F)
""",
        """\
T.copy: 'S' is (8, 4) but 'F' is (4, 4)
 --> kernel.py:9:9
9 |         T.copy(S, F)
  |         ^^^^^^^^^^^^
hint: slice the larger side, as in S[0:4, 0:4], or pass equal extents
""",
    ),
    "a copy of unequal extents of a tensor": (
        errors.ProgramValueError,
        """\
S = T.alloc_shared((4, 4), "float32")
T.copy(A, S)
""",
        """\
T.copy: 'A' is (8, 8) but 'S' is (4, 4)
 --> kernel.py:8:9
8 |         T.copy(A, S)
  |         ^^^^^^^^^^^^
hint: name where the tile begins, as in A[0, 0]: its extents then come from the other side
""",
    ),
    "a gemm of unequal depths": (
        errors.ProgramAssertionError,
        """\
X = T.alloc_shared((8, 4), "float16")
Y = T.alloc_shared((8, 8), "float16")
Z = T.alloc_fragment((8, 8), "float32")
T.gemm(X, Y, Z)
""",
        """\
T.gemm: A is (8, 4) and B is (8, 8), so K is 4 on one side and 8 on the other
  --> kernel.py:10:9
10 |         T.gemm(X, Y, Z)
   |         ^^^^^^^^^^^^^^^
hint: write transpose_A=True, and give C the shape (4, 8)
""",
    ),
    "a gemm into another shape": (
        errors.ProgramAssertionError,
        """\
X = T.alloc_shared((8, 4), "float16")
Y = T.alloc_shared((4, 8), "float16")
Z = T.alloc_fragment((8, 4), "float32")
T.gemm(X, Y, Z)
""",
        """\
T.gemm: A is (8, 4) and B is (4, 8), but C is (8, 4): N is 8 on one side and 4 on the other
  --> kernel.py:10:9
10 |         T.gemm(X, Y, Z)
   |         ^^^^^^^^^^^^^^^
hint: give C the shape (8, 8)
""",
    ),
    "a reduction into another shape": (
        errors.ProgramValueError,
        """\
S = T.alloc_shared((8, 4), "float32")
m = T.alloc_fragment((4,), "float32")
T.reduce_max(S, m, dim=1)
""",
        """\
T.reduce_max: 'S' is (8, 4) and is reduced along dimension 1, but 'm' is (4,)
 --> kernel.py:9:9
9 |         T.reduce_max(S, m, dim=1)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: give 'm' the shape (8,)
""",
    ),
    "a reduction along a dimension that is not there": (
        errors.ProgramValueError,
        """\
S = T.alloc_shared((8, 4), "float32")
m = T.alloc_fragment((8,), "float32")
T.reduce_sum(S, m, dim=2)
""",
        """\
T.reduce_sum: 'S' is (8, 4) and has no dimension 2
 --> kernel.py:9:9
9 |         T.reduce_sum(S, m, dim=2)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: dim is one of -2, -1, 0, 1
""",
    ),
    "a scan into another shape": (
        errors.ProgramValueError,
        """\
S = T.alloc_shared((8, 4), "float32")
F = T.alloc_fragment((4, 8), "float32")
T.cumsum(S, F)
""",
        """\
T.cumsum: 'S' is (8, 4) but 'F' is (4, 8)
 --> kernel.py:9:9
9 |         T.cumsum(S, F)
  |         ^^^^^^^^^^^^^^
hint: slice the larger side, or allocate both with equal extents
""",
    ),
    "shared memory at a constant index out of range": (
        errors.ProgramError,
        """\
S = T.alloc_shared((8,), "float32")
S[8] = 1.0
""",
        """\
index 8 is out of range for dimension 0 of 'S', which has extent 8
 --> kernel.py:8:9
8 |         S[8] = 1.0
  |         ^^^^^^^^^^
hint: valid indices are -8 to 7
""",
    ),
    "shared memory in a loop that goes too far": (
        errors.ProgramError,
        """\
S = T.alloc_shared((8,), "float32")
for i in T.Parallel(9):
    S[i] = 1.0
""",
        """\
'S[i]': index 8 is out of range for dimension 0, whose extent is 8
 --> kernel.py:9:13
9 |             S[i] = 1.0
  |             ^^^^^^^^^^
note: 'S' is allocated here
 --> kernel.py:7:9
7 |         S = T.alloc_shared((8,), "float32")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: only global memory is guarded; make the buffer larger, or guard the access with `if`
""",
    ),
    "a region beyond shared memory": (
        errors.ProgramError,
        """\
S = T.alloc_shared((8,), "float32")
T.clear(S[4:12])
""",
        """\
dimension 0 of 'S': the slice 4:12 leaves the extent 8
 --> kernel.py:8:9
8 |         T.clear(S[4:12])
  |         ^^^^^^^^^^^^^^^^
hint: only regions of global tensors may hang over the edge
""",
    ),
    "an allocation of negative size": (
        errors.ProgramError,
        """\
S = T.alloc_shared((-4,), "float32")
""",
        """\
T.alloc_shared: extent -4 is negative
 --> kernel.py:7:9
7 |         S = T.alloc_shared((-4,), "float32")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    "too many indices": (
        errors.ProgramError,
        """\
A[0, 0, 0] = 1.0
""",
        """\
'A' has 2 dimensions (8, 8) but is given 3 indices
 --> kernel.py:7:9
7 |         A[0, 0, 0] = 1.0
  |         ^^^^^^^^^^^^^^^^
hint: write one index or slice for each, as in A[i, j]
""",
    ),
    "a float as an index": (
        errors.ProgramError,
        """\
A[0.5, 0] = 1.0
""",
        """\
index 0 of 'A' is a float32, not an integer
 --> kernel.py:7:9
7 |         A[0.5, 0] = 1.0
  |         ^^^^^^^^^^^^^^^
hint: divide with //, or convert with T.int32(x)
""",
    ),
    "arithmetic on a whole tile": (
        errors.StagingTypeError,
        """\
A[0, 0] = A + 1
""",
        """\
'A' is a tile (8, 8) and cannot be used as an operand of arithmetic
 --> kernel.py:7:9
7 |         A[0, 0] = A + 1
  |         ^^^^^^^^^^^^^^^
hint: index it, as in `A[i, j]`, inside `for i, j in T.Parallel(...)`
""",
    ),
    "a dependence in a parallel loop": (
        errors.ProgramError,
        """\
for i in T.Parallel(7):
    A[i + 1, 0] = A[i, 0]
""",
        """\
T.Parallel: iteration i = 1 reads 'A[i, 0]', which iteration i = 0 writes
 --> kernel.py:8:13
8 |             A[i + 1, 0] = A[i, 0]
  |             ^^^^^^^^^^^^^^^^^^^^^
note: it is written as 'A[i + 1, 0]' here
 --> kernel.py:8:13
8 |             A[i + 1, 0] = A[i, 0]
  |             ^^^^^^^^^^^^^^^^^^^^^
note: the loop is here
 --> kernel.py:7:9
7 |         for i in T.Parallel(7):
  |         ^^^^^^^^^^^^^^^^^^^^^^
hint: if iterations must run in order, write `for i in T.serial(7):`
""",
    ),
    "a thread primitive": (
        errors.NoLowering,
        """\
tx = T.get_thread_binding()
A[tx, 0] = 1.0
""",
        """\
the thread index: is for single GPU threads, and target cpu has none
 --> kernel.py:8:9
8 |         A[tx, 0] = 1.0
  |         ^^^^^^^^^^^^^^
hint: share the work with T.Parallel and tile operators, or compile for a GPU
""",
    ),
    "a kernel inside a kernel": (
        errors.ProgramError,
        """\
with T.Kernel(2) as by:
    A[0, 0] = 1.0
""",
        """\
T.Kernel: a kernel cannot stand inside another kernel
 --> kernel.py:7:9
7 |         with T.Kernel(2) as by:
  |         ^^^^^^^^^^^^^^^^
hint: end the first one before
""",
    ),
    "an atomic on a mutable scalar": (
        errors.ProgramError,
        """\
v = T.alloc_var("int32", init=0)
T.atomic_add(v, 1)
""",
        """\
T.atomic_add: 'v' is a mutable scalar, which no other block shares
 --> kernel.py:8:9
8 |         T.atomic_add(v, 1)
  |         ^^^^^^^^^^^^^^^^^^
hint: assign it, as in `v += x`, or name an element of a buffer
""",
    ),
}

# what stands in a file, and what is said of it
FILES = {
    "an unknown dtype in a signature": (
        errors.OptionError,
        """\
@T.prim_func
def main(A: T.Tensor((8,), "flaot32")):
    pass
""",
        """\
T.Tensor: dtype: unknown name 'flaot32'
hint: did you mean 'float32'?
""",
    ),
    "an allocation of symbolic size": (
        errors.ProgramError,
        """\
n = T.dynamic("n")

@T.prim_func
def main(A: T.Tensor((n,), "float32")):
    with T.Kernel(1) as bx:
        S = T.alloc_fragment((n, 4), "float32")
""",
        """\
T.alloc_fragment: extent n of dimension 0 is only known when the kernel runs
 --> kernel.py:9:9
9 |         S = T.alloc_fragment((n, 4), "float32")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: on-chip memory has constant extents: write a tile size such as 128, and loop over the tiles
""",
    ),
}


@pytest.mark.parametrize("mistake", BODIES)
def test_a_mistake_in_a_block(mistake: str, staged_error: Callable[[str], errors.TileLangError]) -> None:
    kind, body, message = BODIES[mistake]
    error = staged_error(HEADER + textwrap.indent(body, " " * 8))
    assert message.rstrip() == str(error)
    assert kind is type(error)


@pytest.mark.parametrize("mistake", FILES)
def test_a_mistake_in_a_file(mistake: str, staged_error: Callable[[str], errors.TileLangError]) -> None:
    kind, text, message = FILES[mistake]
    error = staged_error(text)
    assert message.rstrip() == str(error)
    assert kind is type(error)
