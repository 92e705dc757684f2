"""Compares the machine code that we and others make for AMD's GPUs, without one: what can be counted, not timed.

Run as `python benchmarks/amd_code.py [--others FOLDER ...]`. A folder of others holds `NAME ARCH.s`, assembly as LLVM
writes it, as `amd_triton.py` makes it; its name is theirs in the table. A row for each kernel and compiler says:

    registers   vector registers of a lane, accumulators included
    in flight   those that global loads of the loop fill while matrix instructions run
    spills      of registers in memory
    LDS         KiB of a work-group
    waves       that a SIMD unit holds at once by registers and LDS
    matrix      matrix instructions of the main loop, and those of other kinds for each of them, and for each product of
                16 x 16 x 16, since matrix instructions differ in size
    ahead       whether global loads of the loop are waited for after matrix instructions, that is, overlap with them
    busy        the part of the time that the matrix unit could be busy at most: its clocks over those of the unit that
                has most to do, of all waves of a SIMD unit, if waits cost nothing
    conflicts   clocks that LDS loses to bank conflicts for each access, by the simulator; of ours only

The main loop is the loop with most matrix instructions. Clocks: a vector instruction takes 4 on CDNA and 1 on RDNA, a
transcendental one four times as many, a matrix instruction those of `targets.amd.isa.matrix_table`; an access to LDS
occupies it for the clocks of the machine's `shared_phases`.
"""

import argparse
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.amd.isa.matrix_table import MATRIX_INSTRUCTIONS
from tilelang.targets.amd.machines import CDNA_WAVE, MACHINES, SIMDS, register_file
from tilelang.targets.target import Target

ARCHES = ("gfx942", "gfx950", "gfx1100")
OPTIONS = {"tl.enable_fast_math": True, "tl.nan_propagate": False}  # as Triton compiles, unasked
_WMMA_CLOCKS = 32  # of gfx11, from 1024 operations of float16 a clock for the four SIMD units of a work-group
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_TWO_PLACES = re.compile(r"ds_(read2|write2|load_2addr|store_2addr)")
_LABEL = re.compile(r"(\.LBB\w+):")
_BRANCH = re.compile(r"s_c?branch\w*\s+(\.LBB\w+)")
_INSTRUCTION = re.compile(r"(v|s|ds|global|buffer|scratch|flat)_\w+")
_FIGURE = re.compile(r"\.(vgpr_count|vgpr_spill_count|group_segment_fixed_size|max_flat_workgroup_size):\s+(\d+)")
_WIDTHS = {"b128": 16, "b96": 12, "b64": 8, "b32": 4, "b16": 2, "u16": 2, "d16": 2, "b8": 1, "u8": 1}


def gemm(size: int, rows: int, columns: int, depth: int, threads: int) -> PrimFunc:
    """C = A @ B of float16."""
    shape = (size, size)

    @T.prim_func
    def main(A: T.Tensor(shape, "float16"), B: T.Tensor(shape, "float16"), C: T.Tensor(shape, "float16")):
        with T.Kernel(T.ceildiv(size, columns), T.ceildiv(size, rows), threads=threads) as (bx, by):
            A_shared, B_shared = T.alloc_shared((rows, depth), "float16"), T.alloc_shared((depth, columns), "float16")
            sums = T.alloc_fragment((rows, columns), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(size, depth), num_stages=2):
                T.copy(A[by * rows, k * depth], A_shared)
                T.copy(B[k * depth, bx * columns], B_shared)
                T.gemm(A_shared, B_shared, sums)
            T.copy(sums, C[by * rows, bx * columns])

    return main


def attention(length: int, queries: int, keys: int, dim: int, threads: int) -> PrimFunc:
    """Softmax(Q @ K.T) @ V of float16, for one head."""
    shape = (length, dim)
    scale = dim**-0.5 * 1.4426950408889634

    @T.prim_func
    def main(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
             O: T.Tensor(shape, "float16")):  # fmt: skip
        with T.Kernel(T.ceildiv(length, queries), threads=threads) as bx:
            K_shared, V_shared = T.alloc_shared((keys, dim), "float16"), T.alloc_shared((keys, dim), "float16")
            Q_tile = T.alloc_fragment((queries, dim), "float16")
            S, P = T.alloc_fragment((queries, keys), "float32"), T.alloc_fragment((queries, keys), "float16")
            out = T.alloc_fragment((queries, dim), "float32")
            largest, before = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            total, part = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            T.copy(Q[bx * queries, 0], Q_tile)
            T.clear(out)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, keys), num_stages=2):
                T.copy(K[k * keys, 0], K_shared)
                T.copy(V[k * keys, 0], V_shared)
                T.gemm(Q_tile, K_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, before)
                T.reduce_max(S, largest, dim=1, clear=False)
                for i, j in T.Parallel(queries, keys):
                    S[i, j] = T.exp2(S[i, j] * scale - largest[i] * scale)
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(queries):
                    total[i] = total[i] * T.exp2((before[i] - largest[i]) * scale) + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(queries, dim):
                    out[i, j] *= T.exp2((before[i] - largest[i]) * scale)
                T.gemm(P, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(queries, dim):
                out[i, j] /= total[i]
            T.copy(out, O[bx * queries, 0])

    return main


# by the size of the problem and the lanes of a wave; Triton has the same tiles and waves
KERNELS: dict[str, tuple[Callable[[int, int], PrimFunc], int]] = {  # and a small size, to be simulated
    "gemm 128x128x64": (lambda size, lanes: gemm(size, 128, 128, 64, 4 * lanes), 128),
    "gemm 256x256x64": (lambda size, lanes: gemm(size, 256, 256, 64, 8 * lanes), 256),
    "attention D=128": (lambda size, lanes: attention(size, 2 * lanes, 64, 128, 4 * lanes), 128),
}


@dataclass
class Code:
    """What the assembly of a kernel says."""

    arch: str
    figures: dict[str, int]
    loop: list[str]

    @property
    def waves(self) -> int:
        """Waves that a SIMD unit holds."""
        machine = MACHINES[self.arch]
        of_group = -(-self.figures["max_flat_workgroup_size"] // machine.warp_size)
        # two compute units of RDNA share 128 KiB, of which a work-group gets half at most
        memory = machine.shared_bytes if machine.warp_size == CDNA_WAVE else 2 * machine.shared_bytes
        by_memory = memory // max(self.figures["group_segment_fixed_size"], 1) * of_group // SIMDS
        by_registers = register_file(machine).waves(self.figures["vgpr_count"])
        groups = min(by_memory, by_registers) * SIMDS // of_group
        return groups * of_group // SIMDS

    def count(self, pattern: str) -> int:
        """Instructions of the loop that match."""
        return sum(re.match(pattern, line) is not None for line in self.loop)

    @property
    def matrix(self) -> int:
        """Matrix instructions of the loop."""
        return self.count("v_(mfma|wmma)")

    @property
    def products(self) -> float:
        """Products of 16 x 16 x 16 of the loop."""
        shapes = [_shape(line.split()[0]) for line in self.loop if line.startswith(("v_mfma", "v_wmma"))]
        return sum(math.prod(map(int, shape.split("x"))) for shape in shapes) / 16**3

    @property
    def in_flight(self) -> int:
        """Registers that global loads of the loop fill while matrix instructions run."""
        loads = [line for line in self.loop if re.match("(global|buffer)_load", line) and not line.endswith(" lds")]
        ranges = [re.match(r"\S+ v(\d+|\[(\d+):(\d+)\])", line) for line in loads]
        filled = [range(int(r[2] or r[1]), int(r[3] or r[1]) + 1) for r in ranges if r is not None]
        return len({register for each in filled for register in each}) if self.overlaps() else 0

    def overlaps(self) -> bool:
        """Whether matrix instructions come between global loads and the stores to LDS, or the wait, after them."""
        kinds = [
            "M" if re.match("v_(mfma|wmma)", line) else "G" if re.match("(global|buffer)_load", line) else "S"
            for line in self.loop
            if re.match("v_(mfma|wmma)|(global|buffer)_load|ds_(write|store)|s_wait.*(vmcnt|loadcnt)", line)
        ]
        order = "".join(kinds) * 2  # loads at the end of an iteration are waited for in the next one
        return re.search("GM+S", re.sub("S+", "S", re.sub("G+", "G", re.sub("M+", "M", order)))) is not None

    def busy(self) -> float:
        """The part of the time that the matrix unit could be busy."""
        machine = MACHINES[self.arch]
        cdna = machine.warp_size == CDNA_WAVE
        float16 = [m for m in MATRIX_INSTRUCTIONS if machine.has(m.needs) and m.a_dtype == "float16"]
        clocks = {m.builtin: m.cycles for m in float16}
        matrix = vector = local = 0
        for line in self.loop:
            name = line.split()[0]
            if name.startswith("v_wmma"):
                matrix += _WMMA_CLOCKS
            elif name.startswith("v_mfma"):
                matrix += next(c for builtin, c in clocks.items() if _shape(builtin) == _shape(name))
            elif name.startswith("v_"):
                vector += (4 if cdna else 1) * (4 if _TRANSCENDENTAL.match(name) else 1)
            elif name.startswith("ds_"):
                width = next((b for word, b in _WIDTHS.items() if word in name), 4)
                kind = "store" if "write" in name or "store" in name else "load"
                local += len(machine.phases(kind, width).lanes) * (2 if _TWO_PLACES.match(name) else 1)
        # the waves of all SIMD units share LDS; vector instructions of one wave run beside matrix instructions
        return matrix / max(matrix, vector + 4 * self.matrix * cdna, local * SIMDS)


def _shape(name: str) -> str:
    """What identifies a matrix instruction of two float16 operands, in its name and in that of its builtin."""
    found = re.search(r"\d+x\d+x\d+", name)
    assert found is not None
    return found[0]


def code_of(text: str, arch: str) -> Code:
    """What an assembly text says."""
    figures = Counter({name: int(number) for name, number in _FIGURE.findall(text)})
    dynamic = re.match(r"; shared (\d+)", text)
    if dynamic is not None:
        figures["group_segment_fixed_size"] = int(dynamic[1])
    return Code(arch, figures, max(_loops(_blocks(text)), key=_weight, default=[]))


@dataclass
class _Block:
    """Instructions that run one after another, and the blocks that may follow."""

    lines: list[str]
    next: list[int]


def _blocks(text: str) -> list[_Block]:
    labels: dict[str, int] = {}
    blocks = [_Block([], [])]
    for raw in text.splitlines():
        label = _LABEL.match(raw)
        line = raw.split(";")[0].strip()
        if label is not None:
            blocks.append(_Block([], []))
            labels[label[1]] = len(blocks) - 1
        elif _INSTRUCTION.match(line):
            blocks[-1].lines.append(line)
            if line.startswith(("s_branch", "s_cbranch", "s_endpgm")):
                blocks.append(_Block([], []))
    for number, block in enumerate(blocks):
        last = block.lines[-1] if block.lines else ""
        branch = _BRANCH.match(last)
        if branch is not None:
            block.next.append(labels[branch[1]])
        if not last.startswith(("s_branch", "s_endpgm")) and number + 1 < len(blocks):
            block.next.append(number + 1)
    return blocks


def _loops(blocks: list[_Block]) -> Iterator[list[str]]:
    """The instructions of each natural loop, in the order of the text."""
    before: list[set[int]] = [set() for _ in blocks]
    reached, left = {0}, [0]
    while left:
        number = left.pop()
        for following in blocks[number].next:
            before[following].add(number)
            left += {following} - reached
            reached.add(following)
    above = [{0}, *(set(range(len(blocks))) for _ in blocks[1:])]  # the blocks on every way to a block
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            ways = [above[each] for each in before[number]]
            new = {number} | (set.intersection(*ways) if ways else set())
            changed, above[number] = changed or new != above[number], new
    for latch in reached:
        for head in above[latch].intersection(blocks[latch].next):
            inside, left = {head}, [latch]
            while left:
                number = left.pop()
                if number not in inside:
                    inside.add(number)
                    left += before[number]
            yield [line for number in sorted(inside) for line in blocks[number].lines]


def _weight(loop: list[str]) -> tuple[int, int]:
    return sum(line.startswith(("v_mfma", "v_wmma")) for line in loop), -len(loop)


def conflicts(make: Callable[[int, int], PrimFunc], size: int, arch: str) -> float:
    """Clocks that LDS loses for each that it needs, in a block of a small problem."""
    func = make(size, MACHINES[arch].warp_size)
    target = Target("hip", arch)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(param.buffer.static_shape).astype(np.float16) for param in func.params]
    report = Counters()
    simulate(lowered(func, target, CompileOptions()), arrays, target=target, report=report)
    traffic = [report.traffic[name] for name in ("shared load", "shared store")]
    return sum(t.transactions for t in traffic) / max(sum(t.ideal for t in traffic), 1) - 1


COLUMNS = ("kernel", "machine", "compiler", "registers", "in flight", "spills", "LDS", "waves", "matrix",
           "others for each", "for a product", "ahead", "busy", "conflicts")  # fmt: skip


def row(code: Code) -> tuple[object, ...]:
    """The figures of a kernel, in the order of the columns."""
    figures = code.figures
    return (
        figures["vgpr_count"],
        code.in_flight,
        figures["vgpr_spill_count"],
        f"{figures['group_segment_fixed_size'] / 1024:.4g}",
        code.waves,
        code.matrix,
        f"{(len(code.loop) - code.matrix) / max(code.matrix, 1):.2f}",
        f"{(len(code.loop) - code.matrix) / max(code.products, 1):.2f}",
        "yes" if code.overlaps() else "no",
        f"{code.busy():.0%}",
    )


def write(*cells: object) -> None:
    """A line of the table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--others", type=Path, nargs="*", default=[], help="folders of assembly")
    given = parser.parse_args()
    write(*COLUMNS)
    write(*["---"] * len(COLUMNS))
    for name, (make, small) in KERNELS.items():
        for arch in ARCHES:
            func = make(4096, MACHINES[arch].warp_size)
            kernel = tilelang.compile(func, target={"kind": "hip", "arch": arch}, pass_configs=OPTIONS)
            write(name, arch, "ours", *row(code_of(kernel.get_sass(), arch)), f"{conflicts(make, small, arch):.0%}")
            for folder in given.others:
                text = folder / f"{name} {arch}.s"
                if text.exists():
                    write(name, arch, folder.name, *row(code_of(text.read_text(), arch)), "")


if __name__ == "__main__":
    main()
