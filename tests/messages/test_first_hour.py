"""The whole messages of first mistakes in a kernel's body, of users who know Python, NumPy, PyTorch or Triton."""

import textwrap
from pathlib import Path

import pytest
from first_hour import assert_message

from tilelang import errors

KERNEL = """\
@T.prim_func
def main(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1) as bx:
        s = T.alloc_shared((8, 8), "float32")
"""

BODIES = {  # the statements of a kernel of A and a shared tile, and the message
    "tiles multiplied by @": (
        errors.StagingTypeError,
        """\
c = s @ s
""",
        """\
's' is a tile (8, 8) and cannot be used as an operand of @
  --> kernel.py:10:9
10 |         c = s @ s
   |         ^^^^^^^^^
hint: write T.gemm(A, B, C), which adds the product to the tile C; T.clear(C) before the first
""",
    ),
    "a function of NumPy on a tile": (
        errors.StagingTypeError,
        """\
c = np.maximum(s, 0)
""",
        """\
a function of NumPy is given the tile 's' (8, 8)
  --> kernel.py:10:9
10 |         c = np.maximum(s, 0)
   |         ^^^^^^^^^^^^^^^^^^^^
hint: write T.exp(x), T.max(x, y) and the like on elements in a T.Parallel loop, and T.reduce_sum(tile, out, dim) and similar operators for reductions
""",
    ),
    "a sum of NumPy over a tile": (
        errors.StagingTypeError,
        """\
c = np.sum(s)
""",
        """\
a function of NumPy is given the tile 's' (8, 8)
  --> kernel.py:10:9
10 |         c = np.sum(s)
   |         ^^^^^^^^^^^^^
hint: write T.exp(x), T.max(x, y) and the like on elements in a T.Parallel loop, and T.reduce_sum(tile, out, dim) and similar operators for reductions
""",
    ),
    "the maximum of a tile": (
        errors.StagingTypeError,
        """\
c = T.max(s, axis=1)
""",
        """\
T.max: unexpected keyword argument 'axis'
  --> kernel.py:10:9
10 |         c = T.max(s, axis=1)
   |         ^^^^^^^^^^^^^^^^^^^^
hint: write T.max(a, b) of two elements, and T.reduce_max(src, dst, dim) of a tile; likewise for minima
""",
    ),
    "a function of torch": (
        errors.StagingTypeError,
        """\
A[0, 0] = __import__("torch").exp(A[0, 1])
""",
        """\
a function of torch is given a value known only when the kernel runs
  --> kernel.py:10:9
10 |         A[0, 0] = __import__("torch").exp(A[0, 1])
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.exp(x) in place of torch.exp(x), and likewise for others
""",
    ),
    "round of Python": (
        errors.StagingTypeError,
        """\
A[0, 0] = round(A[0, 1])
""",
        """\
Python's round is given a value known only when the kernel runs
  --> kernel.py:10:9
10 |         A[0, 0] = round(A[0, 1])
   |         ^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.round(x)
""",
    ),
    "divmod of Python": (
        errors.StagingTypeError,
        """\
q, r = divmod(A[0, 1], 2)
""",
        """\
Python's divmod is given a value known only when the kernel runs
  --> kernel.py:10:9
10 |         q, r = divmod(A[0, 1], 2)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write x // y and x % y
""",
    ),
    "a method of an element": (
        errors.UnknownAttribute,
        """\
A[0, 0] = A[0, 1].sqrt()
""",
        """\
a value known only when the kernel runs has no attribute 'sqrt'
  --> kernel.py:10:9
10 |         A[0, 0] = A[0, 1].sqrt()
   |         ^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.sqrt(x)
""",
    ),
    "another method of an element": (
        errors.UnknownAttribute,
        """\
A[0, 0] = A[0, 1].relu()
""",
        """\
a value known only when the kernel runs has no attribute 'relu'
  --> kernel.py:10:9
10 |         A[0, 0] = A[0, 1].relu()
   |         ^^^^^^^^^^^^^^^^^^^^^^^^
hint: it has dtype; functions of it are T.exp(x), T.sqrt(x), ...
""",
    ),
    "a dict indexed in a loop": (
        errors.StagingTypeError,
        """\
for i in T.serial(8):
    A[i, 0] = {0: 1.0}[i]
""",
        """\
a dict is indexed by a value known only when the kernel runs
  --> kernel.py:11:13
11 |             A[i, 0] = {0: 1.0}[i]
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: make the array a parameter of the kernel, `W: T.Tensor(shape, dtype)`, and pass it in the call; one number of it, known now, is float(W[3])
""",
    ),
    "a method of arrays on a tile": (
        errors.UnknownAttribute,
        """\
c = s.astype('float16')
""",
        """\
's' is a tile (8, 8) and has no attribute 'astype'
  --> kernel.py:10:9
10 |         c = s.astype('float16')
   |         ^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.copy(s, dst), with dst allocated in that dtype; of an element, T.cast(s[i, j], dtype)
""",
    ),
    "another method of arrays on a tile": (
        errors.UnknownAttribute,
        """\
c = s.sum()
""",
        """\
's' is a tile (8, 8) and has no attribute 'sum'
  --> kernel.py:10:9
10 |         c = s.sum()
   |         ^^^^^^^^^^^
hint: write T.reduce_sum(s, out, dim)
""",
    ),
    "a tile allocated in a loop and used behind it": (
        errors.ProgramError,
        """\
for i in T.serial(4):
    c = T.alloc_shared((8, 8), "float32")
T.copy(c, A)
""",
        """\
'c' has no value here: it is assigned only inside the loop above
  --> kernel.py:12:9
12 |         T.copy(c, A)
   |         ^^^^^^^^^^^^
hint: allocate 'c' before the loop, or use it inside
""",
    ),
    "a tile allocated in a loop and indexed behind it": (
        errors.ProgramError,
        """\
for i in T.serial(4):
    c = T.alloc_shared((8, 8), "float32")
A[0, 0] = c[0, 0]
""",
        """\
'c' has no value here: it is assigned only inside the loop above
  --> kernel.py:12:9
12 |         A[0, 0] = c[0, 0]
   |         ^^^^^^^^^^^^^^^^^
hint: allocate 'c' before the loop, or use it inside
""",
    ),
    "all indices under one name": (
        errors.ProgramError,
        """\
for i in T.Parallel(8, 8):
    A[i, 0] = 0.0
""",
        """\
index 0 of 'A' is (i0, i1), not an integer
  --> kernel.py:11:13
11 |             A[i, 0] = 0.0
   |             ^^^^^^^^^^^^^
hint: name the 2 values apart, as in `for i, j in ...` or `as (bx, by)`
""",
    ),
    "more names than indices": (
        errors.StagingError,
        """\
for i, j, k in T.Parallel(8, 8):
    A[i, j] = 0.0
""",
        """\
T.Parallel has 2 loop variables, but the `for` names 3
  --> kernel.py:10:9
10 |         for i, j, k in T.Parallel(8, 8):
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write `for i, j in ...`, or give T.Parallel 3 extents
""",
    ),
    "extents as a tuple": (
        errors.OperandError,
        """\
for i, j in T.Parallel((8, 8)):
    A[i, j] = 0.0
""",
        """\
T.Parallel: one of extents is tuple (8, 8), not a number or an expression
  --> kernel.py:10:9
10 |         for i, j in T.Parallel((8, 8)):
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write the parts as arguments of their own: T.Parallel(8, 8)
""",
    ),
    "stages that are no integer": (
        errors.ProgramError,
        """\
for k in T.Pipelined(4, num_stages=2.5):
    T.copy(A, s)
""",
        """\
T.Pipelined: num_stages must be an integer >= 0, got 2.5
  --> kernel.py:10:9
10 |         for k in T.Pipelined(4, num_stages=2.5):
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write num_stages=2
""",
    ),
    "a keyword by the name that NumPy has for it": (
        errors.StagingTypeError,
        """\
r = T.alloc_fragment((8,), "float32")
T.reduce_sum(s, r, axis=1)
""",
        """\
T.reduce_sum: got an unexpected keyword argument 'axis'
  --> kernel.py:11:9
11 |         T.reduce_sum(s, r, axis=1)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: did you mean 'dim'? the form is T.reduce_sum(buffer, out, dim=-1, clear=True, batch=1, annotations=None)
""",
    ),
    "a keyword that is nearer to another one": (
        errors.StagingTypeError,
        """\
for k in T.Pipelined(4, stages=2):
    T.copy(A, s)
""",
        """\
T.Pipelined: got an unexpected keyword argument 'stages'
  --> kernel.py:10:9
10 |         for k in T.Pipelined(4, stages=2):
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: did you mean 'num_stages'? the form is T.Pipelined(start, stop=None, num_stages=0, order=None, stage=None, sync=None, group=None, annotations=None)
""",
    ),
    "a tile from what a product returns": (
        errors.ProgramError,
        """\
c = T.gemm(s, s, s)
T.copy(c, A)
""",
        """\
T.copy: an operand is None, not a place in memory
  --> kernel.py:11:9
11 |         T.copy(c, A)
   |         ^^^^^^^^^^^^
hint: tile operators write into an argument and return nothing: T.gemm(A, B, C), and then C
""",
    ),
    "an array of NumPy as an operand": (
        errors.ProgramError,
        """\
T.copy(np.ones((8, 8), np.float32), s)
""",
        """\
T.copy: an operand is an array of shape (8, 8), not a place in memory
  --> kernel.py:10:9
10 |         T.copy(np.ones((8, 8), np.float32), s)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: make the array a parameter of the kernel, `W: T.Tensor(shape, dtype)`, and pass it in the call; one number of it, known now, is float(W[3])
""",
    ),
    "a slice that ends before it starts": (
        errors.ProgramError,
        """\
T.copy(A[8:0, :], s)
""",
        """\
dimension 0 of 'A': the slice 8:0 ends before it starts
  --> kernel.py:10:9
10 |         T.copy(A[8:0, :], s)
   |         ^^^^^^^^^^^^^^^^^^^^
hint: write 0:8, or start:start + length
""",
    ),
    "the dtype before the shape": (
        errors.ProgramTypeError,
        """\
c = T.alloc_shared("float16", (8, 8))
""",
        """\
T.alloc_shared: 'float16' is not an extent
  --> kernel.py:10:9
10 |         c = T.alloc_shared("float16", (8, 8))
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: the shape comes first: T.alloc_shared((M, N), 'float16')
""",
    ),
    "extents that are not in a tuple": (
        errors.ProgramValueError,
        """\
c = T.alloc_shared(8, 8, "float16")
""",
        """\
T.alloc_shared: unknown scope 'float16'
  --> kernel.py:10:9
10 |         c = T.alloc_shared(8, 8, "float16")
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write the shape as one argument: T.alloc_shared((M, N), 'float16')
""",
    ),
    "a tile for scalars of a choice": (
        errors.StagingError,
        """\
c = s if bx > 0 else A
""",
        """\
both sides of a staged `if ... else ...` must be scalars, got a tile
  --> kernel.py:10:9
10 |         c = s if bx > 0 else A
   |         ^^^^^^^^^^^^^^^^^^^^^^
hint: for tiles write an `if` statement around what is done with them
""",
    ),
    "bits of a float": (
        errors.ProgramError,
        """\
A[0, 0] = A[0, 1] & 1
""",
        """\
operator &: needs integers, got float32
  --> kernel.py:10:9
10 |         A[0, 0] = A[0, 1] & 1
   |         ^^^^^^^^^^^^^^^^^^^^^
hint: convert with T.int32(x), or take the bits with T.reinterpret(x, dtype); for conditions write and, or
""",
    ),
    "a name that is nearly right": (
        errors.StagingError,
        """\
T.copy(A, ss)
""",
        """\
the name 'ss' is not defined
  --> kernel.py:10:9
10 |         T.copy(A, ss)
   |         ^^^^^^^^^^^^^
hint: did you mean 's'?
""",
    ),
    "a call without an accumulator": (
        errors.StagingTypeError,
        """\
T.gemm(s, s)
""",
        """\
T.gemm: missing a required argument: 'C'
  --> kernel.py:10:9
10 |         T.gemm(s, s)
   |         ^^^^^^^^^^^^
hint: the form is T.gemm(A, B, C, transpose_A=False, transpose_B=False, policy=GemmWarpPolicy.Square, clear_accum=False, mbar=None, annotations=None, *, k_pack=1, wg_wait=0, transpose_a=False, transpose_b=False)
""",
    ),
}


@pytest.mark.parametrize("mistake", BODIES)
def test_a_mistake_raises_one_message_without_a_frame_of_the_package(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calling_line: None
) -> None:
    kind, text, message = BODIES[mistake]
    assert_message(tmp_path, monkeypatch, KERNEL + textwrap.indent(text, " " * 8), kind, message)
