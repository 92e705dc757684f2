"""The whole text of every message about Python that a kernel cannot hold, or names that are not there."""

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
    "an unknown name": (
        errors.UnknownAttribute,
        """\
S = T.alloc_shard((8,))
""",
        """\
T.alloc_shard: there is no such name
 --> kernel.py:7:9
7 |         S = T.alloc_shard((8,))
  |         ^^^^^^^^^^^^^^^^^^^^^^^
hint: did you mean T.alloc_shared?
""",
    ),
    "an unknown attribute of a tile": (
        errors.UnknownAttribute,
        """\
n = A.shap[0]
""",
        """\
'A' is a tile (8, 8) and has no attribute 'shap'
 --> kernel.py:7:9
7 |         n = A.shap[0]
  |         ^^^^^^^^^^^^^
hint: did you mean 'shape'?
""",
    ),
    "an unknown keyword": (
        errors.StagingTypeError,
        """\
S = T.alloc_shared((8,), dtyp="float16")
""",
        """\
T.alloc_shared: got an unexpected keyword argument 'dtyp'
 --> kernel.py:7:9
7 |         S = T.alloc_shared((8,), dtyp="float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: did you mean 'dtype'? the form is T.alloc_shared(shape, dtype='float32', scope='shared.dyn')
""",
    ),
    "an assignment to a loop variable": (
        errors.ProgramError,
        """\
for i in T.serial(8):
    i = i + 1
""",
        """\
the loop variable 'i' cannot be assigned
 --> kernel.py:8:13
8 |             i = i + 1
  |             ^^^^^^^^^
hint: use another name: `i_ = i + ...`; to skip iterations use `continue` or a step
""",
    ),
    "an update of a loop variable": (
        errors.ProgramError,
        """\
for i in range(8):
    i += 1
""",
        """\
the loop variable 'i' cannot be assigned
 --> kernel.py:8:13
8 |             i += 1
  |             ^^^^^^
hint: use another name: `i_ = i + ...`; to skip iterations use `continue` or a step
""",
    ),
    "a use before the assignment": (
        errors.StagingError,
        """\
A[0, 0] = x
x = 1.0
""",
        """\
'x' is used before it is assigned
 --> kernel.py:7:9
7 |         A[0, 0] = x
  |         ^^^^^^^^^^^
hint: assign 'x' before this line; a name assigned anywhere in a function is local to it
""",
    ),
    "a use after a loop that assigns": (
        errors.ProgramError,
        """\
for i in T.serial(8):
    x = A[i, 0]
A[0, 0] = x
""",
        """\
'x' has no value here: it is assigned only inside the loop above
 --> kernel.py:9:9
9 |         A[0, 0] = x
  |         ^^^^^^^^^^^
hint: assign 'x' before the loop, for example `x = T.float32(0)`, or use it inside
""",
    ),
    "a use after a branch that assigns": (
        errors.ProgramError,
        """\
if bx == 0:
    x = A[0, 0]
A[0, 0] = x
""",
        """\
'x' has no value here: it is assigned only inside the branch above
 --> kernel.py:9:9
9 |         A[0, 0] = x
  |         ^^^^^^^^^^^
hint: assign 'x' before the branch, for example `x = T.float32(0)`, or use it inside
""",
    ),
    "a name that is not defined": (
        errors.StagingError,
        """\
A[0, 0] = nowhere
""",
        """\
the name 'nowhere' is not defined
 --> kernel.py:7:9
7 |         A[0, 0] = nowhere
  |         ^^^^^^^^^^^^^^^^^
""",
    ),
    "a break out of a parallel loop": (
        errors.StagingError,
        """\
for i in T.Parallel(8):
    if i > 3:
        break
""",
        """\
`break` cannot leave a T.Parallel loop: its iterations are independent or overlap
 --> kernel.py:9:17
9 |                 break
  |                 ^^^^^
hint: write the loop with T.serial, or guard the rest of the body with `if`
""",
    ),
    "for with else": (
        errors.StagingError,
        """\
for i in T.serial(8):
    A[i, 0] = 1.0
else:
    A[0, 0] = 2.0
""",
        """\
`for ... else` has no meaning in a kernel
  --> kernel.py:10:13
10 |             A[0, 0] = 2.0
   |             ^^^^^^^^^^^^^
hint: set a T.alloc_var flag before `break` and test it after the loop
""",
    ),
    "while with else": (
        errors.StagingError,
        """\
while A[0, 0] > 0:
    A[0, 0] -= 1.0
else:
    A[0, 0] = 2.0
""",
        """\
`while ... else` has no meaning in a kernel
  --> kernel.py:10:13
10 |             A[0, 0] = 2.0
   |             ^^^^^^^^^^^^^
hint: set a T.alloc_var flag before `break` and test it after the loop
""",
    ),
    "try": (
        errors.StagingError,
        """\
try:
    A[0, 0] = 1.0
except ValueError:
    pass
""",
        """\
`try` has no meaning in a kernel
 --> kernel.py:7:9
7 |         try:
  |         ^^^^
hint: a kernel cannot catch exceptions; check the condition with `if` or T.device_assert
""",
    ),
    "yield": (
        errors.StagingError,
        """\
yield A
""",
        """\
`yield` has no meaning in a kernel
 --> kernel.py:7:9
7 |         yield A
  |         ^^^^^^^
hint: a kernel is no generator; write a loop, or return values from a @T.macro
""",
    ),
    "match": (
        errors.StagingError,
        """\
match bx:
    case 0:
        A[0, 0] = 1.0
""",
        """\
`match` has no meaning in a kernel
 --> kernel.py:7:9
7 |         match bx:
  |         ^^^^^^^^^
hint: write if/elif/else
""",
    ),
    "a class": (
        errors.StagingError,
        """\
class C:
    pass
""",
        """\
`class` has no meaning in a kernel
 --> kernel.py:7:9
7 |         class C:
  |         ^^^^^^^^
hint: define classes outside of the kernel
""",
    ),
    "global": (
        errors.StagingError,
        """\
global x
x = 1
""",
        """\
`global` has no meaning in a kernel
 --> kernel.py:7:9
7 |         global x
  |         ^^^^^^^^
hint: pass values as arguments, or read the global without assigning it
""",
    ),
    "a walrus": (
        errors.StagingError,
        """\
A[0, 0] = (x := 1.0)
""",
        """\
`:=` has no meaning in a kernel
 --> kernel.py:7:20
7 |         A[0, 0] = (x := 1.0)
  |                    ^^^^^^^^
hint: assign in a statement of its own
""",
    ),
    "the truth of a value": (
        errors.StagingError,
        """\
x = [v for v in range(3) if v < bx]
""",
        """\
a value known only when the kernel runs has no truth value in Python
 --> kernel.py:7:9
7 |         x = [v for v in range(3) if v < bx]
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: inside a kernel use `if`, `and`, `or`, `not` directly; in helpers use T.if_then_else, T.all_of, T.any_of, T.max, T.min, or mark the helper @T.macro
""",
    ),
    "a function of math": (
        errors.StagingError,
        """\
import math
A[0, 0] = math.exp(A[0, 0])
""",
        """\
a value known only when the kernel runs is no Python float
 --> kernel.py:8:9
8 |         A[0, 0] = math.exp(A[0, 0])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.float32(x) to convert it, and T.exp(x), T.sqrt(x), ... in place of functions of `math`
""",
    ),
    "a function of NumPy": (
        errors.StagingTypeError,
        """\
import numpy
A[0, 0] = numpy.exp(A[0, 0])
""",
        """\
a function of NumPy is given a value known only when the kernel runs
 --> kernel.py:8:9
8 |         A[0, 0] = numpy.exp(A[0, 0])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.exp(x) in place of numpy.exp(x), and likewise for similar functions
""",
    ),
    "a step that is not constant": (
        errors.ProgramError,
        """\
for i in T.serial(0, 8, bx):
    A[i, 0] = 1.0
""",
        """\
T.serial: the step must be a constant
 --> kernel.py:7:9
7 |         for i in T.serial(0, 8, bx):
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: loop over a count and compute `start + i * step` inside
""",
    ),
}

# what stands in a file, and what is said of it
FILES = {
    "a parameter without annotation": (
        errors.ProgramValueError,
        """\
@T.prim_func
def main(A):
    pass
""",
        """\
parameter 'A' has no type
 --> kernel.py:5:10
5 | def main(A):
  |          ^
hint: annotate it: `A: T.Tensor((M, N), T.float16)`
""",
    ),
    "a macro that calls itself": (
        errors.StagingError,
        """\
@T.macro
def again(x):
    again(x)

@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        again(A)
""",
        """\
macro 'again' calls itself: a macro is inlined, so recursion would never end
 --> kernel.py:6:5
6 |     again(x)
  |     ^^^^^^^^
  called from
  --> kernel.py:11:9
11 |         again(A)
   |         ^^^^^^^^
hint: write a loop, unroll over plain Python values: `for i in (0, 1, 2):`, or end the recursion by a condition on a plain Python value
""",
    ),
    "macros that call each other": (
        errors.StagingError,
        """\
@T.macro
def ping(x):
    pong(x)

@T.macro
def pong(x):
    ping(x)

@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        ping(A)
""",
        """\
macro 'ping' calls itself: a macro is inlined, so recursion would never end
  --> kernel.py:10:5
10 |     ping(x)
   |     ^^^^^^^
   called from
 --> kernel.py:6:5
6 |     pong(x)
  |     ^^^^^^^
  called from
  --> kernel.py:15:9
15 |         ping(A)
   |         ^^^^^^^
hint: write a loop, unroll over plain Python values: `for i in (0, 1, 2):`, or end the recursion by a condition on a plain Python value
""",
    ),
    "a mistake inside of a macro": (
        errors.ProgramError,
        """\
@T.macro
def first(x):
    x[9, 9, 9] = 1

@T.prim_func
def main(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1) as bx:
        first(A)
""",
        """\
'A' has 2 dimensions (8, 8) but is given 3 indices
 --> kernel.py:6:5
6 |     x[9, 9, 9] = 1
  |     ^^^^^^^^^^^^^^
  called from
  --> kernel.py:11:9
11 |         first(A)
   |         ^^^^^^^^
hint: write one index or slice for each, as in A[i, j]
""",
    ),
    "a value returned": (
        errors.StagingRuntimeError,
        """\
@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    with T.Kernel(1) as bx:
        A[0] = 1.0
    return A
""",
        """\
only tensors made by T.empty can be returned, got 'A'
 --> kernel.py:8:5
8 |     return A
  |     ^^^^^^^^
hint: write results into `C = T.empty(shape, dtype)` and `return C`
""",
    ),
    "a lambda": (
        errors.StagingError,
        """\
main = T.prim_func(lambda A: None)
""",
        """\
a lambda cannot be a kernel or a macro
hint: write it as a `def`
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
