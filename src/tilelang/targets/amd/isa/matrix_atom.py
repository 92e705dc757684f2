"""`MatrixAtom`: the matrix instructions that multiply the operands of one load, as one instruction of a gemm.

Gives the fragments of its operands, and `matrix_multiply(atom)`, the `Instruction`. Invariants: the instructions get B
as their A and vice versa, so that a lane holds contiguous columns of the sums; a region of registers is a thread's
array of elements, so that element v of the array is value v of the fragment.

Columns of the sums, and elements of the operands along K, are distributed to groups of lanes round-robin, in contiguous
runs: group g of G has those at g * run, then at (G + g) * run. If both runs have the same length, the sums of one gemm
have the layout of A of the next. Any order of K is correct if A and B have the same, since an instruction sums over it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, cached_property

import numpy as np

from tilelang.dtypes import DType
from tilelang.isa.instruction import ExecutionScope, Instruction, MatrixWork
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.layout.digits import Mode
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.records import record
from tilelang.targets.amd.isa.matrix import MatrixInstruction

_WORD_BYTES = 4


@record
class MatrixAtom:
    """`C[m, n] += sum over k of A[m, k] * B[n, k]`, executed by one wave.

    Attributes:
        matrix: The instruction.
        rows: Instructions along M. If there are several, consecutive rows of A are in consecutive registers, as they
            are in memory where A is transposed.
        columns: Instructions along N.
        depth: Instructions along K.
        k_run: Contiguous elements along K in a lane.
        column_run: Contiguous columns of the sums in a lane.
        column_major: Whether consecutive columns of B are in consecutive registers, as they are in memory where B is
            not transposed.
        halves: Whether the fragment of A is that of gfx11 without replicas: the halves of a wave hold alternate runs.
    """

    matrix: MatrixInstruction
    rows: int
    columns: int
    depth: int
    k_run: int
    column_run: int
    column_major: bool
    halves: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        size, _, k = self.matrix.shape
        return size * self.rows, size * self.columns, k * self.depth

    @property
    def a_dtype(self) -> DType:
        """Of the elements of A."""
        return self.matrix.b_dtype

    @property
    def b_dtype(self) -> DType:
        """Of the elements of B."""
        return self.matrix.a_dtype

    @property
    def c_dtype(self) -> DType:
        """Of the elements of C, the accumulator."""
        return self.matrix.c_dtype

    @property
    def name(self) -> str:
        """The name in programs and messages."""
        order = "n" if self.column_major else "k"
        counts = f"{self.rows}x{self.columns}x{self.depth}"
        return f"{self.matrix.name}_{counts}_{order}{self.k_run}_{self.column_run}"

    @property
    def sums(self) -> int:
        """Values of an instruction's sums in a lane."""
        return self.matrix.c.values

    @property
    def elements(self) -> int:
        """Elements of an instruction's A, and B, in a lane."""
        return self.matrix.a.values

    @cached_property
    def a(self) -> Fragment:
        """Which lane holds which elements of A. Shapes: (M, K)."""
        size, _, _ = self.matrix.shape
        rows, _, k = self.shape
        if self.halves:
            run = self.elements // self.matrix.groups
            values = [digit(run, 0, 1), digit(self.depth, 0, self.elements)]
            return fragment((rows, k), [digit(size, 1, 0), digit(self.matrix.groups, 0, run)], values)
        return fragment((rows, k), [digit(size, self.rows, 0), *self._k_groups], [digit(self.rows, 1, 0), *self._k])

    @cached_property
    def b(self) -> Fragment:
        """Which lane holds which elements of B. Shapes: (N, K)."""
        _, columns, k = self.shape
        slots: list[Mode] = []
        for mode, is_value in self.matrix.slots:
            (place,) = mode.stride
            slots += self._columns(mode.size, place) if is_value else [digit(mode.size, place * self.column_run, 0)]
        atoms = _round_robin(self.columns, self._between_atoms, self.column_run, self.matrix.groups, 0)
        values = [*atoms, *self._k] if self.column_major else [*self._k, *atoms]
        return fragment((columns, k), [*slots, *self._k_groups], values)

    @cached_property
    def c(self) -> Fragment:
        """Which lane holds which elements of C. Shapes: (M, N)."""
        size, _, _ = self.matrix.shape
        rows, columns, _ = self.shape
        groups: list[Mode] = []
        values: list[Mode] = []
        for mode, is_value in self.matrix.slots:
            (place,) = mode.stride
            if is_value:
                values += [digit(each.size, *reversed(each.stride)) for each in self._columns(mode.size, place)]
            else:
                groups.append(digit(mode.size, 0, place * self.column_run))
        values += _round_robin(self.columns, self._between_atoms, self.column_run, self.matrix.groups, 1)
        return fragment((rows, columns), [digit(size, self.rows, 0), *groups], [*values, digit(self.rows, 1, 0)])

    def _columns(self, size: int, place: int) -> list[Mode]:
        """The columns, along dimension 0, of a digit of the sums of an instruction."""
        step = place * self.columns if self.column_major else place
        return _round_robin(size, step, self.column_run, self.matrix.groups, 0)

    @property
    def _between_atoms(self) -> int:
        """The stride between the columns of two instructions, in a lane's columns."""
        return 1 if self.column_major else self.sums

    @property
    def _k_groups(self) -> list[Mode]:
        """The digits of the lane that count along K of A and B; replicated digits stay replicated."""
        return [digit(mode.size, 0, 0 if mode.is_broadcast else self.k_run) for mode in self.matrix.a.thread[1:]]

    @property
    def _k(self) -> list[Mode]:
        """The digits of a lane's elements along K."""
        return _round_robin(self.elements * self.depth, 1, self.k_run, self.matrix.k_groups, 1)

    def instructions(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each instruction, in order: the values of A, B and C in a lane that are its operands."""
        for k in range(self.depth):
            inner = np.arange(k * self.elements, (k + 1) * self.elements)
            for i in range(self.rows):
                for j in range(self.columns):
                    b = inner * self.columns + j if self.column_major else inner + j * self.depth * self.elements
                    first = (i * self.columns + j) * self.sums
                    yield inner * self.rows + i, b, np.arange(first, first + self.sums)


def _round_robin(size: int, step: int, run: int, groups: int, axis: int) -> list[Mode]:
    """The digits of all elements for one that counts by `step` in a group; runs go to groups round-robin."""
    inside = max(1, min(size, run // step))
    beyond = max(step, run) * groups
    digits = [(inside, step), (size // inside, beyond)] if step < run else [(size, step * groups)]
    return [digit(count, *((0, stride) if axis else (stride, 0))) for count, stride in digits if count > 1]


@cache
def matrix_multiply(atom: MatrixAtom) -> Instruction:
    """The instruction of an atom.

    Its arguments are three regions of registers: C, which it accumulates in, A and B.
    """
    name = f"tl_{atom.name}"

    def simulate(warp: Warp, c: Pointer, a: Pointer, b: Pointer) -> None:
        warp.converge((1 << warp.size) - 1, atom.matrix.name)
        left, left_known = warp.read_raw(a, atom.a.values)
        right, right_known = warp.read_raw(b, atom.b.values)
        sums, known = (x.copy() for x in warp.read_raw(c, atom.c.values))
        for rows, columns, into in atom.instructions():
            sums[:, into] = atom.matrix.multiply(right[:, columns], left[:, rows], sums[:, into])
            known[:, into] &= atom.matrix.defined_sums(right_known[:, columns], left_known[:, rows])
        warp.write(c, sums, defined=known)

    return Instruction(
        name=name,
        texts={"hip": name + "({0}, {1}, {2})"},
        helpers={"hip": Helper(name, _text(atom, name), (_VECTOR, *_needs(atom)))},
        simulate=simulate,
        execution_scope=ExecutionScope.WARP,
        needs=atom.matrix.needs,
        matrix=MatrixWork(
            math.prod(atom.shape),
            atom.matrix.a_dtype.bits,
            cycles=atom.rows * atom.columns * atom.depth * atom.matrix.cycles,
        ),
        source="AMD's Instruction Set Architecture guides, 'Matrix Arithmetic Instructions'",
    )


# -- text ---------------------------------------------------------------------------------------------------
_VECTOR = Helper(
    "tl_vector",
    """\
// Values in neighbouring registers, as matrix instructions take them; arrays of registers are aligned to 16 bytes.
template <typename T, int N> struct tl_vector_of {
    typedef T type __attribute__((ext_vector_type(N), may_alias, aligned(sizeof(T) * N < 16 ? sizeof(T) * N : 16)));
};
template <typename T> struct tl_vector_of<T, 1> { typedef T type __attribute__((may_alias)); };
template <typename T, int N> using tl_vector = typename tl_vector_of<T, N>::type;
""",
)

NIBBLES = Helper(
    "tl_nibbles",
    """\
// Integers of 4 bits without the upper halves of their bytes, as matrix instructions take them.
template <typename T> __device__ __forceinline__ tl_vector<int, sizeof(T) / 8> tl_nibbles(T x) {
    unsigned packed[sizeof(T) / 8];
#pragma unroll
    for (int i = 0; i < sizeof(T) / 8; ++i) {
        const unsigned low = x[2 * i] & 0x0f0f0f0f, high = x[2 * i + 1] & 0x0f0f0f0f;
        packed[i] = __builtin_amdgcn_perm(high | high >> 4, low | low >> 4, 0x06040200);
    }
    return __builtin_bit_cast(tl_vector<int, sizeof(T) / 8>, packed);
}
""",
    needs=(_VECTOR,),
)
_NIBBLE_BITS = 4

_BYTES_OF = {"_Float16": 2, "short": 2, "__bf16": 2, "int": 4, "float": 4, "long": 8, "double": 8}
_SUMS = {"float32": "float", "float64": "double", "int32": "int"}

# Of N elements of each of Q columns, those of a column one after another; words are permuted bytewise
_COLUMNS = {
    1: Helper(
        "tl_columns_of_1",
        """\
// The elements of 1 byte of Q columns, given row by row: N of the first column, then of the next one.
template <int Q, int N> __device__ __forceinline__ void tl_columns_of_1(const tl_vector<unsigned, 1>* x, unsigned* y) {
#pragma unroll
    for (int i = 0; i < Q * N / 16; ++i) {
        const int row = i / (Q / 4), column = i % (Q / 4);
        const unsigned r0 = x[4 * row * Q / 4 + column], r1 = x[(4 * row + 1) * Q / 4 + column];
        const unsigned r2 = x[(4 * row + 2) * Q / 4 + column], r3 = x[(4 * row + 3) * Q / 4 + column];
        const unsigned low01 = __builtin_amdgcn_perm(r1, r0, 0x05010400);
        const unsigned low23 = __builtin_amdgcn_perm(r3, r2, 0x05010400);
        const unsigned up01 = __builtin_amdgcn_perm(r1, r0, 0x07030602);
        const unsigned up23 = __builtin_amdgcn_perm(r3, r2, 0x07030602);
        y[4 * column * N / 4 + row] = __builtin_amdgcn_perm(low23, low01, 0x05040100);
        y[(4 * column + 1) * N / 4 + row] = __builtin_amdgcn_perm(low23, low01, 0x07060302);
        y[(4 * column + 2) * N / 4 + row] = __builtin_amdgcn_perm(up23, up01, 0x05040100);
        y[(4 * column + 3) * N / 4 + row] = __builtin_amdgcn_perm(up23, up01, 0x07060302);
    }
}
""",
        needs=(_VECTOR,),
    ),
    2: Helper(
        "tl_columns_of_2",
        """\
// The elements of 2 bytes of Q columns, given row by row: N of the first column, then of the next one.
template <int Q, int N> __device__ __forceinline__ void tl_columns_of_2(const tl_vector<unsigned, 1>* x, unsigned* y) {
#pragma unroll
    for (int i = 0; i < Q * N / 4; ++i) {
        const int row = i / (Q / 2), column = i % (Q / 2);
        const unsigned r0 = x[2 * row * Q / 2 + column], r1 = x[(2 * row + 1) * Q / 2 + column];
        y[2 * column * N / 2 + row] = __builtin_amdgcn_perm(r1, r0, 0x05040100);
        y[(2 * column + 1) * N / 2 + row] = __builtin_amdgcn_perm(r1, r0, 0x07060302);
    }
}
""",
        needs=(_VECTOR,),
    ),
    4: Helper(
        "tl_columns_of_4",
        """\
// The elements of 4 bytes of Q columns, given row by row: N of the first column, then of the next one.
template <int Q, int N> __device__ __forceinline__ void tl_columns_of_4(const tl_vector<unsigned, 1>* x, unsigned* y) {
#pragma unroll
    for (int i = 0; i < Q * N; ++i) y[i] = x[i % N * Q + i / N];
}
""",
        needs=(_VECTOR,),
    ),
    8: Helper(
        "tl_columns_of_8",
        """\
// The elements of 8 bytes of Q columns, given row by row: N of the first column, then of the next one.
template <int Q, int N> __device__ __forceinline__ void tl_columns_of_8(const tl_vector<unsigned, 1>* x, unsigned* y) {
#pragma unroll
    for (int i = 0; i < 2 * Q * N; ++i) y[i] = x[2 * (i / 2 % N * Q + i / 2 / N) + i % 2];
}
""",
        needs=(_VECTOR,),
    ),
}


def _interleaved(atom: MatrixAtom) -> tuple[int, int]:
    """The number of rows of A, and of columns of B, that are interleaved in registers."""
    return atom.rows, atom.columns if atom.column_major else 1


def _needs(atom: MatrixAtom) -> Sequence[Helper]:
    columns = [_COLUMNS[atom.a_dtype.storage_bytes]] if max(_interleaved(atom)) > 1 else []
    return [*columns, NIBBLES] if atom.a_dtype.bits == _NIBBLE_BITS else columns


def _text(atom: MatrixAtom, name: str) -> str:
    """A function around the instructions, whose operands are arrays of elements in registers."""
    matrix = atom.matrix
    size = atom.elements * atom.a_dtype.storage_bytes
    count = size // _BYTES_OF[matrix.operand_type]
    vector = f"tl_vector<{matrix.operand_type}, {count}>"
    sums = f"tl_vector<{_SUMS[str(atom.c_dtype)]}, {atom.sums}>"
    lines = [f"__device__ __forceinline__ void {name}(void* c, const void* a, const void* b) {{"]
    for letter, parts in zip("ab", _interleaved(atom), strict=True):
        if parts == 1:
            lines.append(f"    const {vector}* {letter}_parts = (const {vector}*){letter};")
            continue
        elements = atom.elements * atom.depth
        width = atom.a_dtype.storage_bytes
        lines += [
            f"    unsigned {letter}_words[{parts * elements * width // _WORD_BYTES}];",
            f"    tl_columns_of_{width}<{parts}, {elements}>((const tl_vector<unsigned, 1>*){letter}, {letter}_words);",
            f"    const {vector}* {letter}_parts = (const {vector}*){letter}_words;",
        ]
    a_part, b_part, c_part = "a_parts[{}]", "b_parts[{}]", "sums[{}]"
    lines.append(f"    {sums}* sums = ({sums}*)c;")
    indent, index = "    ", {"i": "0", "j": "0", "k": "0"}
    for variable, extent in (("k", atom.depth), ("i", atom.rows), ("j", atom.columns)):
        if extent > 1:
            lines += ["#pragma unroll", f"{indent}for (int {variable} = 0; {variable} < {extent}; ++{variable})"]
            indent += "    "
            index[variable] = variable
    place = _place((index["i"], atom.columns), (index["j"], 1))
    a_part = a_part.format(_place((index["i"], atom.depth), (index["k"], 1)))
    b_part = b_part.format(_place((index["j"], atom.depth), (index["k"], 1)))
    c_part = c_part.format(place)
    lines.append(f"{indent}{c_part} = {matrix.call(b_part, a_part, c_part)};")
    return "\n".join([*lines, "}", ""])


def _place(*terms: tuple[str, int]) -> str:
    """The text of an index, a sum of products."""
    shown = [name if factor == 1 else f"{name} * {factor}" for name, factor in terms if name != "0"]
    return " + ".join(shown) or "0"
