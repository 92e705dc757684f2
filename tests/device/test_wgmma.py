"""Matrix instructions of warpgroups on a GPU: where descriptors find operands, and who holds what, against NumPy.

Operands are laid out by the host as `layout.boxes` says; descriptors and the distances between them are those that the
lowering works out.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from device_launch import GPUS, Module, architecture, needs_gpu
from device_text import cuda_source
from lowered_gemm import Case, buffer, constant, lowered

from tilelang.dtypes import as_dtype
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import int_const
from tilelang.layout.boxes import Boxes
from tilelang.layout.shared_memory import offsets
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.atom import per_register
from tilelang.targets.nvidia.isa.wgmma import (
    COLUMNS,
    INTEGER_COLUMNS,
    MATRIX_DESCRIPTOR,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    atom_of,
    wgmma,
    wgmma_wait,
)
from tilelang.targets.nvidia.lowerings.gemm_wgmma import LOWERING
from tilelang.targets.nvidia.lowerings.wgmma_operand import Tile
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target

pytestmark = [
    needs_gpu,
    pytest.mark.skipif(
        GPUS > 0 and not (architecture() == "sm_90a" and Target("cuda", "sm_90a").has(Feature.WGMMA)),
        reason="needs warpgroup instructions",
    ),
]


@dataclass(frozen=True)
class Form:
    """One instruction in one form, on operands that lie in boxes with rows of so many bytes."""

    a: str
    b: str
    c: str
    n: int
    row_bytes: int = 128
    held: bool = False
    transpose_a: bool = False
    transpose_b: bool = False

    @property
    def name(self):
        places = ("r" if self.held else "mk"[not self.transpose_a]) + "nk"[not self.transpose_b]
        return f"{self.c}_{self.a}_{self.b}_n{self.n}_{places}_{self.row_bytes}"

    @property
    def atom(self):
        return atom_of(*map(as_dtype, (self.a, self.b, self.c)), self.n)

    @property
    def record(self):
        options = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        return wgmma(self.atom, a_in_registers=self.held, **options)

    @property
    def depth(self):
        """Along K: 128 bytes, and 64 where K runs over lines."""
        return 128 // as_dtype(self.a).storage_bytes

    def tile(self, letter):
        rows, dtype, transposed = {
            "A": (64, self.a, self.transpose_a),
            "B": (self.n, self.b, self.transpose_b),
        }[letter]
        shape = (self.depth, rows) if transposed else (rows, self.depth)
        memory = buffer(letter, shape, dtype, Scope.SHARED)
        tile = Tile(Region(memory, (constant(0), constant(0)), memory.shape), transposed, rows, rows)
        boxes = Boxes(self.row_bytes if self.row_bytes > 16 else 0, self.row_bytes // tile.size)
        return tile, boxes

    def image(self, letter, matrix):
        """A tile as it lies in shared memory."""
        tile, boxes = self.tile(letter)
        out = np.zeros(matrix.size, matrix.dtype)
        out[offsets(tile.layout(boxes))] = matrix.T if tile.transposed else matrix
        return out.view(np.uint8)

    def operands(self, rng):
        shapes = (64, self.depth), (self.n, self.depth), (64, self.n)
        lows = [0 if name.startswith("uint") else -3 for name in (self.a, self.b, self.c)]
        names = (self.a, self.b, self.c)
        return [
            rng.integers(low, 4, shape).astype(as_dtype(name).numpy)
            for low, shape, name in zip(lows, shapes, names, strict=True)
        ]

    def kernel(self):
        """All steps along K; A in shared memory or, as registers of threads, in global memory."""
        atom, lines = self.atom, []
        sums = atom.c.values // per_register(atom.c_dtype)
        of_a = 4 * atom.a.values // per_register(atom.a_dtype) // 4
        steps = self.depth // atom.shape[2]
        bytes_a, bytes_b = 64 * 128, self.n * 128
        for letter, start in (("B", bytes_a),) if self.held else (("A", 0), ("B", bytes_a)):
            tile, boxes = self.tile(letter)
            numbers = ", ".join(map(str, tile.distances(boxes)))
            text = MATRIX_DESCRIPTOR.texts["cuda"].format(f"shared + {start}", *numbers.split(", "))
            lines.append(f"const unsigned long long {letter} = {text};")
        lines.append(f"{WGMMA_FENCE.texts['cuda']};")
        for step in range(steps):
            at = {}
            for letter in "B" if self.held else "AB":
                tile, boxes = self.tile(letter)
                at[letter] = f"{letter} + {int_const(tile.chunks(boxes, constant(0), constant(step * atom.shape[2])))}"
            a = f"a + {step * of_a}" if self.held else at["A"]
            lines.append(f"{self.record.texts['cuda'].format('c', a, at['B'], 'true')};")
        lines += [f"{WGMMA_COMMIT.texts['cuda']};", f"{wgmma_wait(0).texts['cuda']};"]
        word = "float" if self.c == "float32" else "unsigned"
        body = "\n    ".join(lines)
        return (
            f'extern "C" __global__ void __launch_bounds__(128) k_{self.name}(\n'
            f"    {word}* sums, const uint4* tile_a, const uint4* tile_b, const unsigned* registers) {{\n"
            f"    __shared__ __align__(1024) unsigned char shared[{bytes_a + bytes_b}];\n"
            "    const int t = threadIdx.x;\n"
            f"    for (int i = t; i < {bytes_a // 16}; i += 128) ((uint4*)shared)[i] = tile_a[i];\n"
            f"    for (int i = t; i < {bytes_b // 16}; i += 128) ((uint4*)(shared + {bytes_a}))[i] = tile_b[i];\n"
            f"    alignas(16) unsigned a[{steps * of_a}];\n"
            f"    for (int i = 0; i < {steps * of_a}; ++i) a[i] = registers[t * {steps * of_a} + i];\n"
            f"    alignas(16) {word} c[{sums}];\n"
            f"    for (int i = 0; i < {sums}; ++i) c[i] = sums[t * {sums} + i];\n"
            '    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
            "    __syncthreads();\n"
            f"    {body}\n"
            f"    for (int i = 0; i < {sums}; ++i) sums[t * {sums} + i] = c[i];\n"
            "}\n"
        )

    def check(self, module):
        a, b, c = self.operands(np.random.default_rng(self.n + self.row_bytes))
        atom = self.atom
        held = np.ascontiguousarray(c[tuple(np.moveaxis(atom.c.table, -1, 0))])
        depth = atom.shape[2]
        steps = [a[:, k : k + depth][tuple(np.moveaxis(atom.a.table, -1, 0))] for k in range(0, self.depth, depth)]
        registers = np.ascontiguousarray(np.stack(steps, axis=1))
        bits = held.reshape(-1).view(np.uint8).copy()
        arrays = [self.image("A", a), self.image("B", b), registers.reshape(-1).view(np.uint8)]
        module.run(f"k_{self.name}", bits, *arrays, threads=128)
        wide = np.int64 if self.c == "int32" else np.float64
        expected = (c.astype(wide) + a.astype(wide) @ b.astype(wide).T)[tuple(np.moveaxis(atom.c.table, -1, 0))]
        got = bits.view(c.dtype).reshape(expected.shape)
        assert np.array_equal(expected.astype(np.float64), got.astype(np.float64)), self.name


SIXTEEN = [("float16", "float16", "float32"), ("float16", "float16", "float16"), ("bfloat16", "bfloat16", "float32")]
OTHERS = [
    ("tfloat32", "tfloat32", "float32"),
    ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("float8_e5m2", "float8_e4m3fn", "float16"),
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
]
ROW_BYTES = (128, 64, 32, 16)


def forms():
    """Every box in both orders of both operands for one dtype, and every dtype in every order."""
    for row_bytes, (a, b) in itertools.product(ROW_BYTES, itertools.product([False, True], repeat=2)):
        yield Form(*SIXTEEN[0], 128, row_bytes, False, a, b)
    yield from (Form(*SIXTEEN[0], 64, row_bytes, True, False, b) for row_bytes in (128, 16) for b in (False, True))
    for dtypes, (a, b) in itertools.product(SIXTEEN[1:], itertools.product([False, True], repeat=2)):
        yield Form(*dtypes, 64, 64, False, a, b)
        if not a:
            yield Form(*dtypes, 64, 128, True, False, b)
    for dtypes in OTHERS:
        yield from (Form(*dtypes, 96, row_bytes) for row_bytes in (128, 32, 16))
        yield Form(*dtypes, 16, 128, True)


FORMS = list(forms())
WIDTHS = [Form(*SIXTEEN[0], n, 128) for n in COLUMNS if n not in (128,)]
WIDTHS += [Form("int8", "int8", "int32", n, 64) for n in INTEGER_COLUMNS]


def module_of(rows):
    helpers = [record.helpers["cuda"] for row in rows for record in (row.record,)]
    helpers += [record.helpers["cuda"] for record in (MATRIX_DESCRIPTOR, WGMMA_FENCE, WGMMA_COMMIT, wgmma_wait(0))]
    return Module(cuda_source(helpers, [row.kernel() for row in rows]))


@pytest.fixture(scope="module")
def of_forms():
    return module_of(FORMS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_form_finds_its_operands(of_forms, form):
    form.check(of_forms)


def test_every_number_of_columns_has_the_same_fragments():
    module = module_of(WIDTHS)
    for form in WIDTHS:
        form.check(module)


PRODUCTS = [
    Case(128, 128, 32, threads=256, transpose_b=True),
    Case(128, 256, 64, threads=256, clear_in_block=0),
    Case(256, 192, 64, threads=256),
    Case(64, 192, 64, threads=256, policy=GemmWarpPolicy.FullCol),
    Case(64, 128, 64, transpose_a=True, clear_in_block=1),
    Case(64, 64, 64, "bfloat16", "bfloat16", transpose_a=True, transpose_b=True),
    Case(128, 40, 64, "int8", "int32", transpose_b=True),
    Case(40, 64, 48, a_scope=Scope.FRAGMENT, transpose_b=True),
    Case(64, 64, 32, "tfloat32", "float32", transpose_b=True, a_scope=Scope.FRAGMENT),
    Case(64, 64, 64, "float8_e4m3fn", transpose_b=True, dtype_b="float8_e5m2"),
    Case(64, 64, 64, "float8_e5m2", transpose_b=True, dtype_b="float8_e4m3fn", a_scope=Scope.FRAGMENT),
    Case(64, 24, 80, stages=3),
    Case(48, 64, 64),
    Case(80, 64, 32, stages=2),
    Case(96, 64, 64, threads=256, transpose_a=True),
    Case(16, 64, 64, explicit=True),
    Case(40, 64, 32, "int8", "int32", transpose_b=True),
]


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: f"{case.m}x{case.n}x{case.k}-{case.dtype}")
def test_lowered_products(case):
    case.arch = "sm_90a"
    source = emit(lowered(case, LOWERING))
    (launch,) = source.launches
    a, b, c = case.arguments()
    expected = case.expected(a, b, c)
    arrays = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy() for array in (a, b, c)]
    Module(source.text).run(launch.name, *arrays, threads=case.threads, shared=launch.shared_bytes)
    got = arrays[2].view(c.dtype).reshape(c.shape)
    assert np.array_equal(expected.astype(np.float64), got.astype(np.float64))
