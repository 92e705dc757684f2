"""The whole text of messages for what people write in their first hour, who know Python, NumPy, PyTorch or Triton."""

import linecache
import textwrap
import traceback
from pathlib import Path

import pytest

import tilelang
from tilelang import errors

HEADER = """\
import numpy as np

import tilelang
import tilelang.language as T

"""
KERNEL = """\
@T.prim_func
def main(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1) as bx:
        s = T.alloc_shared((8, 8), "float32")
"""

BODIES = {  # what stands in a kernel of A and a shared tile, and what is said of it
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
hint: write T.exp(x), T.max(x, y) and the like on elements in a T.Parallel loop, and T.reduce_sum(tile, out, dim) and its kin for what NumPy sums up
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
hint: write T.exp(x), T.max(x, y) and the like on elements in a T.Parallel loop, and T.reduce_sum(tile, out, dim) and its kin for what NumPy sums up
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
hint: write `for i, j in ...`
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

FILES = {  # a whole file, and what is said of it
    "a kernel that is not opened": (
        errors.ProgramError,
        """\
@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    bx = T.Kernel(1)
    A[bx] = 1.0
""",
        """\
T.Kernel: the grid is not opened, so there is no block index
 --> kernel.py:9:5
9 |     A[bx] = 1.0
  |     ^^^^^^^^^^^
hint: write `with T.Kernel(...) as bx:`, and the body of the kernel below it
""",
    ),
    "a grid as a tuple": (
        errors.OperandError,
        """\
@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel((2, 2)) as (bx, by):
        A[bx] = 1.0
""",
        """\
T.Kernel: one of blocks is tuple (2, 2), not a number or an expression
 --> kernel.py:8:5
8 |     with T.Kernel((2, 2)) as (bx, by):
  |     ^^^^^^^^^^^^^^^^^^^^^
hint: write the parts as arguments of their own: T.Kernel(2, 2)
""",
    ),
    "a grid of four extents": (
        errors.ProgramValueError,
        """\
@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(2, 2, 2, 2) as (a, b, c, d):
        A[a] = 1.0
""",
        """\
T.Kernel: a grid has at most three extents, got 4
 --> kernel.py:8:5
8 |     with T.Kernel(2, 2, 2, 2) as (a, b, c, d):
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: multiply two of them, and take the index apart in the kernel: `bx // n` and `bx % n`
""",
    ),
    "a symbolic size that no parameter has": (
        errors.ProgramError,
        """\
m = T.dynamic("m")

@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(T.ceildiv(m, 32)) as bx:
        A[bx] = 1.0
""",
        """\
'm' is a symbolic size that no parameter has
  --> kernel.py:10:5
10 |     with T.Kernel(T.ceildiv(m, 32)) as bx:
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: give a tensor that dimension, as in `A: T.Tensor((m,), dtype)`, or pass it as a scalar parameter `m: T.int32`
""",
    ),
    "a size as a text": (
        errors.ProgramTypeError,
        """\
@T.prim_func
def main(A: T.Tensor(("n",), "float32")):
    pass
""",
        """\
T.Tensor: 'n' is not an extent
 --> kernel.py:7:13
7 | def main(A: T.Tensor(("n",), "float32")):
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write an int, or T.dyn['n'] for a size that is known at the call
""",
    ),
    "a size that is not named": (
        errors.StagingError,
        """\
@tilelang.jit
def main(A):
    A: T.Tensor((M,), "float32")
    with T.Kernel(1) as bx:
        A[0] = 1.0

main(np.ones(8, np.float32))
""",
        """\
the name 'M' is not defined
 --> kernel.py:8:5
8 |     A: T.Tensor((M,), "float32")
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: name the size before: `M = T.dynamic('M')`, in eager style `M = T.const('M')`
""",
    ),
    "a macro with too few arguments": (
        errors.StagingTypeError,
        """\
@T.macro
def first(x, n):
    x[n] = 1

@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        first(A)
""",
        """\
macro 'first': missing a required argument: 'n'
  --> kernel.py:13:9
13 |         first(A)
   |         ^^^^^^^^
hint: the form is first(x, n)
""",
    ),
    "a macro outside of a kernel": (
        errors.JITNoBuilderError,
        """\
@T.macro
def first(x):
    x[0] = 1

first(np.ones(8))
""",
        """\
macro 'first': may only be used inside a kernel
  --> kernel.py:10:1
10 | first(np.ones(8))
   | ^^^^^^^^^^^^^^^^^
hint: call it in the body of a function marked @T.prim_func, @T.macro or (eager style) @tilelang.jit
""",
    ),
    "a loop outside of a kernel": (
        errors.JITNoBuilderError,
        """\
for i in T.serial(4):
    print(i)
""",
        """\
T.serial: may only be used inside a kernel
 --> kernel.py:6:1
6 | for i in T.serial(4):
  | ^^^^^^^^^^^^^^^^^^^^^
hint: call it in the body of a function marked @T.prim_func, @T.macro or (eager style) @tilelang.jit
""",
    ),
    "a compiled kernel compiled": (
        errors.OptionError,
        """\
@T.prim_func
def program(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        A[bx] = 1.0

tilelang.compile(tilelang.compile(program, execution_backend="reference"))
""",
        """\
compile: expected a kernel, got JITKernel
  --> kernel.py:11:1
11 | tilelang.compile(tilelang.compile(program, execution_backend="reference"))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: it is compiled already: call it with its tensors
""",
    ),
    "an output that is not there": (
        errors.OptionError,
        """\
@tilelang.jit(out_idx=[2], execution_backend="reference")
def make():
    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as bx:
            T.copy(A, B)

    return program

make()
""",
        """\
program: out_idx=2 names no parameter; there are 2
 --> kernel.py:9:5
9 |     def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: the parameters are 0 (A), 1 (B); -1 is the last
""",
    ),
    "an attribute that a kernel does not have": (
        errors.UnknownAttribute,
        """\
@T.prim_func
def program(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        A[bx] = 1.0

tilelang.compile(program, execution_backend="reference").bench()
""",
        """\
a kernel has no attribute 'bench'
  --> kernel.py:11:1
11 | tilelang.compile(program, execution_backend="reference").bench()
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write kernel.get_profiler().do_bench()
""",
    ),
    "random numbers of a thread on the CPU": (
        errors.NoLowering,
        """\
@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        T.rng_init(7)
        for i in T.serial(8):
            A[i] = T.rng_rand_float()
""",
        """\
T.rng_init without seq: is for single GPU threads, which has no meaning on target cpu
 --> kernel.py:9:9
9 |         T.rng_init(7)
  |         ^^^^^^^^^^^^^
hint: name the sequence: T.rng_init(seed, bx), or T.rng_init(seed, i) in a T.Parallel loop over i
""",
    ),
    "a misspelled name in an import": (
        errors.UnknownModule,
        """\
from tilelang.language import alloc_sharde
""",
        """\
T.alloc_sharde: there is no such name
 --> kernel.py:6:1
6 | from tilelang.language import alloc_sharde
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: did you mean T.alloc_shared?
""",
    ),
}


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A text as the file kernel.py of the user, whose kernel `main` is compiled."""
    monkeypatch.chdir(folder)
    linecache.clearcache()  # of another kernel.py
    (folder / "kernel.py").write_text(HEADER + text)
    names: dict[str, object] = {"__name__": "kernel"}
    exec(compile(HEADER + text, "kernel.py", "exec"), names)
    tilelang.compile(names["main"], target="cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("mistake", [*BODIES, *FILES])
def test_a_mistake_is_told_in_one_message_without_a_frame_of_the_package(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calling_line: None
) -> None:
    kind, text, message = BODIES.get(mistake) or FILES[mistake]
    whole = KERNEL + textwrap.indent(text, " " * 8) if mistake in BODIES else text
    with pytest.raises(errors.TileLangError) as caught:
        run(tmp_path, monkeypatch, whole)
    assert message.rstrip() == str(caught.value)
    assert kind is type(caught.value)
    assert caught.value.__cause__ is None
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {"kernel.py"} >= {Path(frame.filename).name for frame in frames} - {Path(__file__).name}


def test_an_error_of_python_in_a_factory_leaves_without_a_frame_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "@tilelang.jit\ndef make(n):\n    block = n // 0\n\nmain = make(8)\n"
    with pytest.raises(ZeroDivisionError) as caught:
        run(tmp_path, monkeypatch, text)
    names = [Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert ["kernel.py", "kernel.py"] == [name for name in names if name != Path(__file__).name]
