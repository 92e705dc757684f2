"""Random Python control flow: a staged kernel does what Python does with the same text.

The text is run twice: staged, by the reference interpreter and the CPU target, and as plain Python in which `T` is a
stand-in that runs loops at once. All values are kept small, so that int32 never wraps.
"""

import itertools
import linecache
from types import SimpleNamespace

import numpy as np
from harness import run_everywhere, run_reference_on_copies
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tilelang.language as T

SIZE = 7  # of the input; the output has one more, in which macros count


class Writer:
    """Draws one kernel over mutable integers."""

    def __init__(self, draw):
        self.draw = draw
        self.lines = []
        self.macros = []
        self.names = 0
        self.output = "B"

    def below(self, n):
        return self.draw(st.integers(0, n - 1))

    def one(self, *options):
        return options[self.below(len(options))]

    def fresh(self, stem):
        self.names += 1
        return f"{stem}{self.names}"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    # -- expressions ------------------------------------------------------------------------------------------
    def value(self, names, fuel=2):
        if not fuel or self.below(4) == 0:
            load = names[0] if "p" in names else f"A[{self.element(names)}]"  # macros only see their arguments
            return self.one(*names, str(self.below(9)), f"-{1 + self.below(9)}", load)
        a, b = self.value(names, fuel - 1), self.value(names, fuel - 1)
        form = self.one(
            "({a} + {b})", "({a} - {b})", "({a} * {b}) % 31", "({a} // 3)", "({a} % 5)", "-({a})", "T.max({a}, {b})",
            "T.min({a}, {b})", "({a} if {c} else {b})", "(({a} + {b}) // 2 % 7)", "abs({a})", "{m}",
        )  # fmt: skip
        condition = self.truth(names, fuel - 1) if "{c}" in form else ""
        macro = self.macro(a, b) if form == "{m}" else ""
        return "(" + form.format(a=a, b=b, c=condition, m=macro) + ")"

    def element(self, names):
        return f"({self.one(*names)}) % {SIZE}"

    def truth(self, names, fuel=1):
        if fuel and self.below(2):
            a, b = self.truth(names, fuel - 1), self.truth(names, fuel - 1)
            return "(" + self.one(f"{a} and {b}", f"{a} or {b}", f"not {a}") + ")"
        a, b, c = (self.value(names, 1) for _ in range(3))
        return self.one(f"{a} < {b}", f"{a} == {b}", f"{a} <= {b} < {c}", f"{a} != {b}", f"{a} > {b}")

    def macro(self, a, b):
        name = self.fresh("macro")
        self.output, outside = "calls", self.output
        body = [f"    r = {self.value(['p', 'q'], 1)}", f"    for k in T.serial({self.below(4)}):",
                f"        r = (r * 2 + {self.value(['p', 'q', 'k'], 1)}) % 31"]  # fmt: skip
        if self.below(2):
            body += [f"    if {self.truth(['p', 'q', 'r'])}:", f"        p = {self.value(['p', 'q', 'r'], 1)}"]
        if self.below(2):
            body.append(f"    calls[{SIZE}] = (calls[{SIZE}] * 3 + q) % 31")
        self.output = outside
        self.macros += ["@T.macro", f"def {name}(p, q, calls):", *body, "    return (r + p) % 31", ""]
        return f"{name}({a}, {b}, {self.output})"

    # -- statements -------------------------------------------------------------------------------------------
    def block(self, depth, names, nesting, in_loop=False, plain=False):
        for _ in range(1 + self.below(3)):
            self.statement(depth, names, nesting, in_loop, plain)

    def statement(self, depth, names, nesting, in_loop, plain):
        variables = [n for n in names if n[0] == "x"]
        kind = self.below(16) if nesting else self.below(9)
        x, y = self.one(*variables), self.one(*variables)
        if kind == 1:
            self.line(depth, f"{x} {self.one('+', '-')}= {self.value(names)} % 31")
        elif kind == 2:
            self.line(depth, f"{x}, {y} = {y}, {x}" if x != y else f"{x} = {x}")
        elif kind == 3:
            self.line(depth, f"B[{self.element(names)}] = {self.value(names)}")
        elif kind == 4:
            local = self.fresh("t")
            self.line(depth, f"{local} = {self.value(names)} % 31")
            self.line(depth, f"{x} = {local} + {self.one(*names)} % 5")
        elif kind == 5 and in_loop:
            self.line(depth, f"if {self.truth(names)}:")
            self.line(depth + 1, self.one("continue", "break"))
        elif kind == 6:
            old = self.fresh("t")
            self.line(depth, f"{old} = {self.one(*names)}")
            self.line(depth, f"{x} = {self.value(names)} % 31")
            self.line(depth, f"{y} = ({old} + {x}) % 31")
        elif kind == 7:
            new = self.fresh("t")
            self.line(depth, f"if {self.truth(names)}:")
            self.line(depth + 1, f"{new} = {self.one(*names)}")
            self.line(depth, "else:")
            self.line(depth + 1, f"{new} = {self.value(names)} % 31")
            self.line(depth, f"{x} = {new}")
            self.line(depth, f"{new} = {new} + {self.one(*names)}")
            self.line(depth, f"{y} = {new} % 31")
        elif kind == 8:
            self.line(depth, f"{x} = {y} = {self.value(names)} % 31")
        elif kind in (9, 10):
            self.branch(depth, names, nesting - 1, in_loop, plain)
        elif kind in (11, 12):
            i = self.fresh("i")
            bounds = self.one(
                f"{self.below(5)}", f"{self.one(*names)} % 4", f"{self.below(3)}, {self.below(6)}", "5, -1, -2"
            )
            header = self.one("range", "T.serial", "T.unroll", "T.serial")
            self.line(depth, f"for {i} in {header}({bounds}):")
            self.loop_body(depth + 1, [*names, i], nesting - 1)
        elif kind == 13:
            i, j = self.fresh("i"), self.fresh("i")
            self.line(depth, f"for {i}, {j} in T.grid({self.below(4)}, {self.below(3)}):")
            self.block(depth + 1, [*names, i, j], nesting - 1)
        elif kind == 14:
            w = self.fresh("w")
            self.line(depth, f"{w} = T.alloc_var('int32', init=0)")
            self.line(depth, f"while {w} < {self.below(4)} and {self.truth(names, 0)}:")
            self.line(depth + 1, f"{w} += 1")
            self.loop_body(depth + 1, [*names, w], nesting - 1)
        elif kind == 15:
            c = self.fresh("c")
            self.line(depth, f"for {c} in {self.one('(2, 0, 3)', 'tuple(range(2))', '[k * 2 for k in (1, 2)]')}:")
            self.block(depth + 1, [*names, c], nesting - 1, plain=True)
        else:
            self.line(depth, f"{x} = {self.value(names)} % 31")

    def loop_body(self, depth, names, nesting):
        """Sometimes with scalars of its own, which each iteration makes anew."""
        own = []
        for stem in "xy"[: self.below(3)]:
            own.append("x" + self.fresh(stem))
            form = self.one("{}", "T.int32({})", "T.alloc_var('int32', init={})")
            self.line(depth, f"{own[-1]} = {form.format(self.value(names, 1))}")
        self.block(depth, [*names, *own], nesting, in_loop=True)

    def branch(self, depth, names, nesting, in_loop, plain):
        self.line(depth, f"if {self.truth(names)}:")
        self.block(depth + 1, names, nesting, in_loop and not plain, plain)
        if self.below(2):
            self.line(depth, f"elif {self.truth(names)}:")
            self.block(depth + 1, names, nesting, in_loop and not plain, plain)
        if self.below(2):
            self.line(depth, "else:")
            self.block(depth + 1, names, nesting, in_loop and not plain, plain)

    def program(self):
        names = ["x0", "x1", "x2"]
        for name in names:
            first = self.one("T.int32({})", "{}", "T.alloc_var('int32', init={})").format(self.below(9))
            self.line(2, f"{name} = {first}")
        for _ in range(2 + self.below(4)):
            self.statement(2, [*names, "bx"], 3, False, False)
        for place, name in enumerate(names):
            self.line(2, f"B[{place}] = {name}")
        head = ["@T.prim_func", f"def main(A: T.Tensor(({SIZE},), 'int32'), B: T.Tensor(({SIZE + 1},), 'int32')):",
                "    with T.Kernel(1) as bx:"]  # fmt: skip
        return "\n".join([*self.macros, *head, *self.lines, ""])


class Numbers:
    """An array whose elements are Python integers."""

    def __init__(self, values):
        self.values = values

    def __getitem__(self, index):
        return int(self.values[index])

    def __setitem__(self, index, value):
        self.values[index] = value


class OneBlock:
    def __enter__(self):
        return 0

    def __exit__(self, *_):
        return False


PLAIN = SimpleNamespace(
    prim_func=lambda function: function,
    macro=lambda function: function,
    Tensor=lambda *_: None,
    Kernel=lambda *_: OneBlock(),
    int32=int,
    alloc_var=lambda _, init: init,
    serial=range,
    unroll=range,
    grid=lambda *extents: itertools.product(*map(range, extents)),
    max=max,
    min=min,
)


def load(text, namespace):
    name = f"<random control flow {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"T": namespace}
    exec(compile(text, name, "exec"), scope)
    return scope["main"]


@st.composite
def programs(draw):
    return Writer(draw).program()


def check(text, run):
    note(text)
    a = (np.arange(SIZE, dtype=np.int32) * 5 + 3) % 11 - 4
    expected = np.zeros(SIZE + 1, np.int32)
    load(text, PLAIN)(Numbers(a), Numbers(expected))
    _, actual = run(load(text, T), [a, np.zeros(SIZE + 1, np.int32)])
    assert expected.tolist() == actual.tolist()


@settings(max_examples=2 * settings().max_examples)
@given(programs())
def test_staged_control_flow_does_what_python_does(text):
    check(text, run_reference_on_copies)


@settings(max_examples=max(1, settings().max_examples // 5))
@given(programs())
def test_compiled_control_flow_does_what_python_does(text):
    check(text, lambda func, arguments: run_everywhere(func, *arguments, compile_flags="-O1"))
