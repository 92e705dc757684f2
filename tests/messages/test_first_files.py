"""The whole messages of first mistakes outside of a kernel's body: signatures, grids, sizes, macros, imports."""

from pathlib import Path

import pytest
from first_hour import assert_message, compile_file, file_names

from tilelang import errors

FILES = {  # a whole file, and the message
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
T.rng_init without seq: is for single GPU threads, and target cpu has none
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


@pytest.mark.parametrize("mistake", FILES)
def test_a_mistake_raises_one_message_without_a_frame_of_the_package(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calling_line: None
) -> None:
    assert_message(tmp_path, monkeypatch, FILES[mistake][1], FILES[mistake][0], FILES[mistake][2])


def test_a_python_error_in_a_factory_has_no_frame_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "@tilelang.jit\ndef make(n):\n    block = n // 0\n\nmain = make(8)\n"
    with pytest.raises(ZeroDivisionError) as caught:
        compile_file(tmp_path, monkeypatch, text)
    assert ["kernel.py", "kernel.py"] == [name for name in file_names(caught.value) if name != Path(__file__).name]
