"""Matrix instructions of a warpgroup: `wgmma`, its fences, commits and waits, and the descriptors of its operands.

Gives `WgmmaAtom` for the sizes and dtypes there are, `wgmma(atom, ...)` for its instruction in each form,
`WGMMA_FENCE`, `WGMMA_COMMIT`, `wgmma_wait(n)` and `MATRIX_DESCRIPTOR`. Invariant: an atom's fragments are those of 128
threads, the warps of the warpgroup one after another; what an instruction means is in `wgmma_meaning`.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property

from tilelang.dtypes import SCALARS, DType
from tilelang.errors import CompilerBug, ProgramError
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction, MatrixWork
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Wait, Warp
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.ops.gemm import MAX_PENDING
from tilelang.records import record
from tilelang.targets.nvidia.isa import wgmma_meaning
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.atom import MmaAtom, per_register, ptx_name
from tilelang.targets.nvidia.isa.matrix_descriptor import STEP_BYTES, Operand
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "write T.gemm, which waits for itself"
WARPGROUP = 128
"""Threads of a warpgroup: four consecutive warps, the first of which has an index that is a multiple of four."""
ROWS = 64
"""M of every instruction."""
_SOURCE = "PTX ISA, 'Asynchronous Warpgroup Level Matrix Instructions: {}'"
_FENCE, _COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"


@record
class WgmmaAtom:
    """`C[m, n] += sum over k of A[m, k] * B[n, k]` for 64 rows, executed by one warpgroup.

    Attributes:
        n: Columns of C.
        k: Extent along K.
        a_dtype: Of the elements of A.
        b_dtype: Of the elements of B.
        c_dtype: Of the elements of C, the accumulator.

    Source: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts": warp w of the warpgroup has rows 16 w to
        16 w + 15 of A and C, within which the fragments are those of mma.m16n8, 8 columns after 8 columns.
    """

    n: int
    k: int
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return ROWS, self.n, self.k

    @property
    def name(self) -> str:
        """The instruction without its form, such as `m64n128k16_f32_f16_f16`."""
        return f"m{ROWS}n{self.n}k{self.k}_" + "_".join(map(ptx_name, (self.c_dtype, self.a_dtype, self.b_dtype)))

    @property
    def _of_warp(self) -> MmaAtom:
        """The mma of one warp whose fragments are the first 8 columns of a warp's part."""
        return MmaAtom((16, 8, self.k), self.a_dtype, self.b_dtype, self.c_dtype, Feature.WGMMA)

    @cached_property
    def a(self) -> Fragment:
        """Which thread holds which elements of A, if registers do. Shapes: (64, K)."""
        part = self._of_warp.a
        return fragment((ROWS, self.k), [*part.thread, digit(4, 16, 0)], part.value)

    @cached_property
    def a_as_sums(self) -> Fragment:
        """Which thread holds which elements of A, if they lie as those of C do. Shapes: (64, K)."""
        part = self._of_warp.a_as_sums
        return fragment((ROWS, self.k), [*part.thread, digit(4, 16, 0)], part.value)

    @cached_property
    def c(self) -> Fragment:
        """Which thread holds which elements of C. Shapes: (64, N)."""
        part = self._of_warp.c
        return fragment((ROWS, self.n), [*part.thread, digit(4, 16, 0)], [*part.value, digit(self.n // 8, 0, 8)])

    @property
    def transposes(self) -> bool:
        """Whether operands in shared memory may lie with M, or N, contiguous."""
        return self.a_dtype.bits == 16

    @property
    def ptx(self) -> str:
        """The instruction's name in PTX. Source: PTX ISA, "wgmma.mma_async"."""
        c, a, b = map(ptx_name, (self.c_dtype, self.a_dtype, self.b_dtype))
        return f"wgmma.mma_async.sync.aligned.m{ROWS}n{self.n}k{self.k}.{c}.{a}.{b}"


# Source: PTX ISA, "wgmma.mma_async", Matrix Shape: every multiple of 8, of 16 from 32 on for integers
COLUMNS = tuple(range(8, 257, 8))
INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_INT8 = ("int8", "uint8")


def columns(operand: DType) -> tuple[int, ...]:
    """The N of the instructions on operands of a dtype."""
    return INTEGER_COLUMNS if operand.is_int else COLUMNS


@cache
def atom_of(a: DType, b: DType, c: DType, n: int) -> WgmmaAtom | None:
    """The instruction on these dtypes with N columns; None if there is none."""
    if (a, b, c) not in PAIRS or n not in columns(a):
        return None
    return WgmmaAtom(n, 8 * STEP_BYTES // a.bits, a, b, c)


def _pairs() -> Iterator[tuple[DType, DType, DType]]:
    """Dtypes of A, B and C. Source: PTX ISA, "wgmma.mma_async", Data-types for Matrices."""
    for c in ("float32", "float16"):
        yield SCALARS["float16"], SCALARS["float16"], SCALARS[c]
    for name in ("bfloat16", "tfloat32"):
        yield SCALARS[name], SCALARS[name], SCALARS["float32"]
    for kinds, sums in ((_FLOAT8, ("float32", "float16")), (_INT8, ("int32",))):
        yield from ((SCALARS[a], SCALARS[b], SCALARS[c]) for a in kinds for b in kinds for c in sums)


PAIRS = tuple(_pairs())
"""Dtypes of A, B and C for which there are instructions."""


@record
class _Form:
    """Where A is, and which of the operands in shared memory are contiguous along M, or N, instead of K."""

    atom: WgmmaAtom
    a_in_registers: bool
    transpose_a: bool
    transpose_b: bool

    @property
    def name(self) -> str:
        """The instruction's name among ours."""
        places = ("r" if self.a_in_registers else "mk"[not self.transpose_a]) + "nk"[not self.transpose_b]
        return f"tl_wgmma_{self.atom.name}_{places}"

    def helper(self, steps: int = 1) -> Helper:
        """A function around `steps` instructions along K, whose operands are arrays in registers and descriptors.

        Several are one group: with the fence before them and the commit after them.
        """
        atom = self.atom
        sums = atom.c.values // per_register(atom.c_dtype)
        kind, letter = ("float", "f") if atom.c_dtype == "float32" else ("unsigned", "r")
        setup = [f"{kind}* d = reinterpret_cast<{kind}*>(c);"]
        parameters, operands = ["void* c"], []
        inputs: list[str] = []
        for step in map(str, range(steps)) if steps > 1 else [""]:
            if self.a_in_registers:
                count = atom.a.values // per_register(atom.a_dtype)
                a = _vector(sums + len(inputs), count)
                inputs += [f'"r"(a{step}_registers[{i}])' for i in range(count)]
                parameters.append(f"const void* a{step}")
                setup.append(f"const unsigned* a{step}_registers = reinterpret_cast<const unsigned*>(a{step});")
            else:
                a = f"%{sums + len(inputs)}"
                inputs.append(f'"l"(a{step})')
                parameters.append(f"unsigned long long a{step}")
            operands.append(f"{a}, %{sums + len(inputs)}")
            inputs.append(f'"l"(b{step})')
            parameters.append(f"unsigned long long b{step}")
        scale_d = ["p", *("1" for _ in operands[1:])]
        instructions = [
            f"{atom.ptx} {_vector(0, sums)}, {of_step}, {accumulates}{self._immediates};"
            for of_step, accumulates in zip(operands, scale_d, strict=True)
        ]
        predicate = f"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{sums + len(inputs)}, 0;"
        name, clobbers = self.name, ""
        if steps > 1:
            instructions = [_FENCE, *instructions, _COMMIT]
            name, clobbers = f"{name}_x{steps}", ' : "memory"'
        lines = [f'"{line}\\n' for line in (predicate, *instructions)]
        inputs.append('"r"((int)accumulate)')
        outputs = [f'"+{letter}"(d[{i}])' for i in range(sums)]
        margin = "\n" + " " * 17
        return Helper(
            name,
            f"__device__ __forceinline__ void {name}({', '.join(parameters)}, bool accumulate) {{\n"
            + "".join(f"    {line}\n" for line in setup)
            + f"    asm volatile({f'{chr(34)}{margin}'.join(lines)}}}\"{margin}"
            f": {', '.join(outputs)}{margin}: {', '.join(inputs)}{clobbers});\n"
            "}\n",
        )

    @property
    def _immediates(self) -> str:
        """The operands after scale-d: signs of A and B for floats, then majors for dtypes that have a choice."""
        signs = "" if self.atom.a_dtype.is_int else ", 1, 1"
        majors = [self.transpose_b] if self.a_in_registers else [self.transpose_a, self.transpose_b]
        return signs + ("".join(f", {int(major)}" for major in majors) if self.atom.transposes else "")


def _vector(first: int, count: int) -> str:
    """A vector of consecutive operands of an asm statement."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _forms(atom: WgmmaAtom) -> Iterator[_Form]:
    """The forms of an atom."""
    majors = (False, True) if atom.transposes else (False,)
    for transpose_b in majors:
        yield _Form(atom, True, False, transpose_b)
        yield from (_Form(atom, False, transpose_a, transpose_b) for transpose_a in majors)


_FORMS: dict[str, _Form] = {}  # of the instructions that were made, by name


@cache
def wgmma(
    atom: WgmmaAtom,
    *,
    a_in_registers: bool = False,
    transpose_a: bool = False,
    transpose_b: bool = False,
    overhang: int = 0,
) -> Instruction:
    """The instruction of an atom in one form.

    It is called with C, which it accumulates in, A, B and whether to accumulate; if not, the old contents of C do not
    matter. C is a region of registers, B a matrix descriptor; A is another one, or a region of registers. A fifth
    argument is the number of valid rows of A in shared memory: the results of the others are undefined.

    Args:
        atom: The instruction.
        a_in_registers: Whether A is held by the threads.
        transpose_a: Whether A lies in shared memory with M contiguous, not K.
        transpose_b: Whether B lies there with N contiguous, not K.
        overhang: Bytes after A that are fetched for rows that do not matter.

    Raises:
        CompilerBug: There is no such form.
    """
    form = _Form(atom, a_in_registers, transpose_a, transpose_b)
    if form not in _forms(atom):
        raise CompilerBug(f"wgmma: {atom.name} has no such form")
    meaning = wgmma_meaning.WgmmaMeaning(
        name=f"wgmma.{atom.name}",
        a=None if a_in_registers else Operand(ROWS, atom.a_dtype, transpose_a),
        b=Operand(atom.n, atom.b_dtype, transpose_b),
        a_fragment=atom.a,
        a_dtype=atom.a_dtype,
        c_fragment=atom.c,
        c_dtype=atom.c_dtype,
    )
    _FORMS[form.name] = form
    return Instruction(
        form.name,
        {"cuda": form.name + "({0}, {1}, {2}, {3})"},
        {"cuda": form.helper()},
        meaning.simulate,
        execution_scope=ExecutionScope.WARP_GROUP,
        async_unit=WGMMA,
        needs=Feature.WGMMA,
        overhang=overhang,
        matrix=MatrixWork(
            ROWS * atom.n * atom.k, atom.a_dtype.bits,
            (atom.n + (0 if a_in_registers else ROWS)) * atom.k * atom.a_dtype.bits // 8,
        ),
        source=_SOURCE.format("wgmma.mma_async"),
    )


def wgmma_sequence(instruction: Instruction, steps: int) -> Helper | None:
    """A group of instructions: a function of C, of A and B of `steps` steps, and of whether the first one accumulates.

    It is one asm statement with a fence, the instructions and a commit, which has each register once: NVVM's time grows
    with asm statements and their operands. All other steps accumulate.

    Args:
        instruction: The instruction to repeat; there is no function if it is none of `wgmma`.
        steps: How often.
    """
    form = _FORMS.get(instruction.name)
    return None if form is None else _sequence(form, steps)


@cache
def _sequence(form: _Form, steps: int) -> Helper:
    return form.helper(steps)


def forms(atom: WgmmaAtom) -> Iterator[Instruction]:
    """The instruction of an atom in every form."""
    for form in _forms(atom):
        yield wgmma(
            atom, a_in_registers=form.a_in_registers, transpose_a=form.transpose_a, transpose_b=form.transpose_b
        )


WGMMA_FENCE = ptx_statement(
    "wgmma_fence",
    _FENCE,
    (),
    wgmma_meaning.fence,
    "Orders accesses to registers before matrix instructions of the warpgroup that use them.",
    execution_scope=ExecutionScope.WARP_GROUP,
    async_unit=WGMMA,
    effect=Effect.FENCE,
    needs=Feature.WGMMA,
    instead=_INSTEAD,
    source=_SOURCE.format("wgmma.fence"),
)
"""Needed before the first wgmma, and after other instructions accessed its registers; takes no arguments."""

WGMMA_COMMIT = ptx_statement(
    "wgmma_commit",
    _COMMIT,
    (),
    wgmma_meaning.commit,
    "Commits the warpgroup's wgmma instructions since the last commit as one group.",
    execution_scope=ExecutionScope.WARP_GROUP,
    async_unit=WGMMA,
    effect=Effect.COMMIT,
    needs=Feature.WGMMA,
    instead=_INSTEAD,
    source=_SOURCE.format("wgmma.commit_group"),
)
"""Commits the wgmma instructions since the last commit to a group; takes no arguments."""


@cache
def wgmma_wait(pending: int) -> Instruction:
    """Waits until at most the `pending` newest wgmma groups of the warpgroup are pending; takes no arguments.

    Raises:
        CompilerBug: The instruction has no such operand.
    """
    if not 0 <= pending <= MAX_PENDING:
        raise CompilerBug(f"wgmma.wait_group: {pending} groups")

    def wait(warp: Warp) -> Iterator[Wait]:
        yield from wgmma_meaning.wait(warp, pending)

    return ptx_statement(
        f"wgmma_wait_{pending}",
        f"wgmma.wait_group.sync.aligned {pending};",
        (),
        wait,
        f"Waits until at most {pending} of the warpgroup's wgmma groups are pending.",
        execution_scope=ExecutionScope.WARP_GROUP,
        async_unit=WGMMA,
        effect=Effect.WAIT,
        pending=pending,
        needs=Feature.WGMMA,
        instead=_INSTEAD,
        source=_SOURCE.format("wgmma.wait_group"),
    )


MATRIX_DESCRIPTOR = Instruction(
    "matrix_descriptor",
    {"cuda": "tl_matrix_descriptor({0}, {1}, {2}, {3})"},
    {
        "cuda": Helper(
            "tl_matrix_descriptor",
            """\
// Where a matrix lies in shared memory: its address, two distances in bytes, and how chunks change places.
__device__ __forceinline__ unsigned long long tl_matrix_descriptor(
    const void* matrix, unsigned leading, unsigned stride, unsigned swizzle) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(matrix);
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | (unsigned long long)swizzle << 62;
}
""",
        )
    },
    wgmma_meaning.describe,
    result=SCALARS["uint64"],
    needs=Feature.WGMMA,
    source="PTX ISA, 'Asynchronous Warpgroup Level Matrix Instructions', 'Matrix Descriptor Format'",
)
"""The descriptor of an operand in shared memory.

It is called with the address of its first element, the leading and the stride distance in bytes, and the code of the
permutation; see `matrix_descriptor`. A distance of 16 bytes further on adds 1 to it.
"""


def _check_pending(what: str, count: int) -> None:
    if not 0 <= count <= MAX_PENDING:
        raise ProgramError(f"{what}: {count} groups cannot be left pending", hint=f"write 0 to {MAX_PENDING}")


FUNCTIONS = (
    Function(
        "wait_wgmma",
        wgmma_wait,
        "Waits until all but the `count` newest gemms of `T.wgmma_gemm` are complete.",
        (Parameter("count", ParameterKind.NUMBER, "How many may be pending.", default=0, check=_check_pending),),
        raises=("ProgramError: It is no plain number from 0 to 7.",),
        aliases=("warpgroup_wait",),
    ),
    Function(
        "warpgroup_arrive",
        WGMMA_FENCE,
        "Orders accesses to registers before wgmma instructions that use them; `T.wgmma_gemm` does so itself.",
    ),
    Function(
        "warpgroup_commit_batch",
        WGMMA_COMMIT,
        """Commits the wgmma instructions since the last commit to a group.

        `T.wgmma_gemm` has closed its own already, so that this one is empty: `T.wait_wgmma` counts it, too.
        """,
    ),
)


def instructions() -> Iterator[Instruction]:
    """The instructions of this file; of wgmma only those with 64 columns."""
    for a, b, c in PAIRS:
        atom = atom_of(a, b, c, 64)
        assert atom is not None
        yield from forms(atom)
    yield from (WGMMA_FENCE, WGMMA_COMMIT, *map(wgmma_wait, (0, 1)), MATRIX_DESCRIPTOR)
