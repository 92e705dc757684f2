"""`MmaAtom`: one matrix instruction of a warp, described by the fragments of its operands.

Gives `mma(atom)`, which makes the `Instruction` of an atom: one rule for its text and one meaning, both read off the
record. Invariant: a region of registers is a thread's array of elements, so that element v of the array is value v of
the fragment; a dtype narrower than a byte has one element per byte there too, and is packed on the way in.
"""

from __future__ import annotations

import math
from functools import cache, cached_property

import numpy as np

from tilelang.dtypes import DType, Kind
from tilelang.ir.scalar import convert
from tilelang.isa.instruction import ExecutionScope, Instruction, MatrixWork
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.records import record
from tilelang.targets.nvidia.machines import WARP_SIZE, Feature

# How PTX names the dtypes of matrix operands. Source: PTX ISA, "mma"
_PTX_NAMES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "tfloat32": "tf32",
    "float32": "f32",
    "float64": "f64",
    "int8": "s8",
    "uint8": "u8",
    "int4": "s4",
    "uint4": "u4",
    "int32": "s32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
ALL_LANES = (1 << WARP_SIZE) - 1  # the mask of a whole warp
_REGISTER_BITS = 32
TF32_MASK = np.uint32(0xFFFFE000)  # the 13 lowest bits of an operand are ignored; PTX ISA, "Alternate floating point"


@record
class MmaAtom:
    """`C[m, n] += sum over k of A[m, k] * B[n, k]`, executed by one warp.

    Attributes:
        shape: M, N and K.
        a_dtype: Of the elements of A.
        b_dtype: Of the elements of B.
        c_dtype: Of the elements of C, the accumulator.
        needs: What the target must have.

    Source: PTX ISA, "Matrix Fragments for mma.m8n8k4" to "... for mma.m16n8k64": every fragment there is the one below
        with `e` elements per register. Four neighboring lanes share a row of A, a row of B (a column of the product's
        right side) and a row of C; eight such groups take consecutive rows; further registers hold row + 8, then the
        other half of k.
    """

    shape: tuple[int, int, int]
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    needs: Feature

    @property
    def name(self) -> str:
        """The instruction without `mma.sync`, such as `m16n8k16_f32_f16_f16`."""
        m, n, k = self.shape
        kinds = "_".join(map(ptx_name, (self.c_dtype, self.a_dtype, self.b_dtype)))
        return f"m{m}n{n}k{k}_{kinds}"

    @cached_property
    def a(self) -> Fragment:
        """Which lane holds which elements of A. Shapes: (M, K)."""
        m, _, k = self.shape
        e = per_register(self.a_dtype)
        value = [digit(e, 0, 1), digit(m // 8, 8, 0), digit(k // (4 * e), 0, 4 * e)]
        return fragment((m, k), [digit(4, 0, e), digit(8, 1, 0)], value)

    @cached_property
    def a_as_sums(self) -> Fragment:
        """Which lane holds which elements of A, if they lie as those of C do. Shapes: (M, K)."""
        m, _, k = self.shape
        return fragment((m, k), self.c.thread, [*self.c.value, digit(k // 8, 0, 8)])

    @cached_property
    def b(self) -> Fragment:
        """Which lane holds which elements of B. Shapes: (N, K)."""
        _, n, k = self.shape
        e = per_register(self.b_dtype)
        return fragment((n, k), [digit(4, 0, e), digit(8, 1, 0)], [digit(e, 0, 1), digit(k // (4 * e), 0, 4 * e)])

    @cached_property
    def c(self) -> Fragment:
        """Which lane holds which elements of C. Shapes: (M, N)."""
        m, n, _ = self.shape
        return fragment((m, n), [digit(4, 0, 2), digit(8, 1, 0)], [digit(2, 0, 1), digit(m // 8, 8, 0)])

    @property
    def ptx(self) -> str:
        """The instruction's name in PTX. Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma"."""
        m, n, k = self.shape
        c, a, b = map(ptx_name, (self.c_dtype, self.a_dtype, self.b_dtype))
        return f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{c}.{a}.{b}.{c}"


def ptx_name(dtype: DType) -> str:
    """PTX's name of a dtype of operands and accumulators of matrix instructions."""
    return _PTX_NAMES[dtype]


def per_register(dtype: DType) -> int:
    """Elements of a matrix operand that the instruction takes from one register; a float64 has two registers."""
    return max(1, _REGISTER_BITS // dtype.bits)


@cache
def mma(atom: MmaAtom) -> Instruction:
    """The instruction of an atom.

    Its arguments are three regions of registers: C, which it accumulates in, A and B.
    """
    name = f"tl_mma_{atom.name}"

    def simulate(warp: Warp, c: Pointer, a: Pointer, b: Pointer) -> None:
        warp.converge(ALL_LANES, f"mma.sync.{atom.name}")
        left, left_known = _matrix(warp, a, atom.a, atom.a_dtype)
        right, right_known = _matrix(warp, b, atom.b, atom.b_dtype)
        where = atom.c.places
        sums, defined = warp.read_raw(c, atom.c.values)
        wide = np.int64 if atom.c_dtype.is_int else np.float64
        total = sums.astype(wide) + (left.astype(wide) @ right.astype(wide).T)[where]
        if left_known is not None or right_known is not None:
            defined = defined & (_rows(left_known, atom.a)[:, None] & _rows(right_known, atom.b))[where]
        warp.write(c, np.asarray(convert(total, atom.c_dtype)), defined=defined)

    return Instruction(
        name=name,
        texts={"cuda": name + "({0}, {1}, {2})"},
        helpers={"cuda": Helper(name, _helper_text(atom, name), _pack_needs(atom))},
        simulate=simulate,
        execution_scope=ExecutionScope.WARP,
        needs=atom.needs,
        matrix=MatrixWork(math.prod(atom.shape), atom.a_dtype.bits),
        instead="write T.gemm, which takes the matrix instructions of every GPU",
        source='PTX ISA, "mma"',
    )


def _matrix(warp: Warp, pointer: Pointer, layout: Fragment, dtype: DType) -> tuple[np.ndarray, np.ndarray | None]:
    """An operand, and which of its elements are defined, or None if all are: padding need not be."""
    values, is_defined = warp.read_raw(pointer, layout.values)
    if dtype == "tfloat32":
        values = (np.ascontiguousarray(values).view(np.uint32) & TF32_MASK).view(np.float32)
    matrix, where = np.zeros(layout.shape, values.dtype), layout.places
    matrix[where] = values
    if np.count_nonzero(is_defined) == is_defined.size:
        return matrix, None
    defined = np.zeros(layout.shape, bool)
    defined[where] = is_defined
    return matrix, defined


def _rows(defined: np.ndarray | None, layout: Fragment) -> np.ndarray:
    """The rows of an operand of which all elements are defined. Shape (rows,)."""
    return np.ones(layout.shape[0], bool) if defined is None else np.asarray(defined.all(axis=1))


# Each element of a dtype narrower than a byte has a byte of its own in registers, and the instruction takes them packed
_PACK = Helper(
    "tl_pack_nibbles",
    """\
// Eight elements, one in the low half of each byte, as one register.
__device__ __forceinline__ unsigned tl_pack_nibbles(const unsigned* bytes) {
    unsigned low = bytes[0] & 0x0f0f0f0fu, high = bytes[1] & 0x0f0f0f0fu;
    low = (low | low >> 4) & 0x00ff00ffu;
    high = (high | high >> 4) & 0x00ff00ffu;
    return __byte_perm(low, high, 0x6420);
}
""",
)


def _pack_needs(atom: MmaAtom) -> tuple[Helper, ...]:
    return (_PACK,) if atom.a_dtype.bits < 8 else ()


# Where a condition that is the same for the whole warp clears the accumulator, ptxas makes it a predicate of the
# instruction, DMMA.16x8x16 with UP0, and then rows 8 to 15 are accumulated twice. It does not where it cannot see
# that all of them are zero. Found with ptxas 13.0 for sm_90a on an H200.
_OPAQUE_ZERO = """\
    unsigned zero;  // which the assembler does not know: it must not take the clearing of all sums for a predicate
    asm("mov.u32 %0, %%dynamic_smem_size; shr.u32 %0, %0, 31;" : "=r"(zero));
    d[0] = __longlong_as_double(__double_as_longlong(d[0]) | zero);
"""


def _needs_opaque_zero(atom: MmaAtom) -> bool:
    return atom.c_dtype == "float64" and atom.shape[0] == 16


def _helper_text(atom: MmaAtom, name: str) -> str:
    """A function around the instruction, whose operands are arrays of elements in registers."""
    sums = max(1, atom.c.values // per_register(atom.c_dtype))
    c_type, c_letter = _c_register(atom.c_dtype)
    operands = [_operand("a", atom.a, atom.a_dtype), _operand("b", atom.b, atom.b_dtype)]
    counts = [sums, *(len(values) for _, values in operands)]
    groups, first = [], 0
    for count in counts:
        groups.append("{" + ", ".join(f"%{first + i}" for i in range(count)) + "}")
        first += count
    setup = "".join(line for line, _ in operands) + (_OPAQUE_ZERO if _needs_opaque_zero(atom) else "")
    outputs = ", ".join(f'"+{c_letter}"(d[{i}])' for i in range(sums))
    inputs = ", ".join(f'"{letter}"({value})' for (_, values) in operands for letter, value in values)
    return (
        f"__device__ __forceinline__ void {name}(void* c, const void* a, const void* b) {{\n"
        f"    {c_type}* d = reinterpret_cast<{c_type}*>(c);\n"
        f"{setup}"
        f'    asm volatile("{atom.ptx} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};"\n'
        f"                 : {outputs}\n"
        f"                 : {inputs});\n"
        "}\n"
    )


def _c_register(dtype: DType) -> tuple[str, str]:
    """The C type of an accumulator register, and the letter of its constraint in inline assembly."""
    if dtype.kind is Kind.FLOAT and dtype.bits >= 32:
        return ("double", "d") if dtype.bits == 64 else ("float", "f")
    return "unsigned", "r"


def _operand(name: str, layout: Fragment, dtype: DType) -> tuple[str, list[tuple[str, str]]]:
    """Return the names of an operand's registers: a line that must come first; (constraint, expression) of each."""
    kind, letter = ("double", "d") if dtype.bits == 64 else ("unsigned", "r")
    registers = layout.values // per_register(dtype)
    line = f"    const {kind}* {name}_registers = reinterpret_cast<const {kind}*>({name});\n"
    if dtype.bits < 8:
        return line, [(letter, f"tl_pack_nibbles({name}_registers + {2 * i})") for i in range(registers)]
    return line, [(letter, f"{name}_registers[{i}]") for i in range(registers)]
