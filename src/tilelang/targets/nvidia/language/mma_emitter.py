"""`TensorCoreIntrinEmitter`: gemms of shared tiles by `ldmatrix` and `mma`, instruction by instruction (level 3).

Takes shared tiles and local buffers, emits calls of instructions for the warps of a block. Invariant: a warp computes
`warp_rows` x `warp_cols` atoms of C; `mma_store_index_map` maps the registers of a lane to the elements of an atom.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "Matrix Fragments for mma.m16n8k8" to "m16n8k32".
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering, ProgramAssertionError, ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, ExprLike
from tilelang.language.api import api
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.threads import get_thread_binding
from tilelang.language.types import DTypeLike
from tilelang.layout.thread_values import Fragment
from tilelang.targets.nvidia.isa.atom import MmaAtom
from tilelang.targets.nvidia.isa.mma import ATOMS
from tilelang.targets.nvidia.language.matrix_instructions import ptx_ldmatrix, ptx_mma
from tilelang.targets.nvidia.language.mma_index import mma_store_index_map

__all__ = [
    "SparseTensorCoreIntrinEmitter",
    "TCGEN05TensorCoreIntrinEmitter",
    "TensorCoreIntrinEmitter",
    "TensorCoreIntrinEmitterSM120",
    "TensorCoreIntrinEmitterWithLadderTransform",
    "WGMMATensorCoreIntrinEmitter",
    "WGSparseTensorCoreIntrinEmitter",
]

_DEPTH_BITS = 256  # of the elements that an instruction multiplies along k
_ROW_BYTES = 16  # of a row of a matrix of ldmatrix


@api
class TensorCoreIntrinEmitter:
    """Emits the instructions of a block's gemm `C += A @ B` one by one.

    Args:
        a_dtype: Of the elements of A: 8, 16 or 32 bits.
        b_dtype: Of the elements of B.
        accum_dtype: Of the accumulator.
        a_transposed: A's tile is (K, M) rather than (M, K).
        b_transposed: B's tile is (N, K) rather than (K, N).
        block_row_warps: Warps of the block along M.
        block_col_warps: Warps along N.
        warp_row_tiles: Rows of C of a warp, a multiple of 16.
        warp_col_tiles: Columns of C of a warp, a multiple of 8.
        chunk: Depth of the tiles in shared memory.
        reduce_k: Parts of the depth that groups of warps sum up; only 1.
        num_elems_per_byte: Elements in a byte; only 1.
        is_m_first: Whether warps are counted along N first, then M; the other way round without it.
        thread_var: The thread's index, if it is not the one of the block.

    Attributes:
        micro_size_x: Rows of a piece.
        micro_size_y: Columns of a piece.
        micro_size_k: Depth of a piece.
        warp_rows: Pieces of a warp along M.
        warp_cols: Pieces along N.
        local_size_a: Elements of A that a lane holds of a piece.
        local_size_b: Elements of B.
        local_size_out: Sums.

    Raises:
        ProgramAssertionError: A size does not fit.
        NoLowering: No instruction multiplies these dtypes so.

    Example:
        `emitter.ldmatrix_a(A_local, A_s, ki)`, `emitter.ldmatrix_b(B_local, B_s, ki)`,
        `emitter.mma(A_local, B_local, C_local)` for each `ki`, then `emitter.stmatrix(C_local, C_s)`
    """

    M_DIM = 16
    WARP_SIZE = 32

    def __init__(
        self,
        a_dtype: DTypeLike = "float16",
        b_dtype: DTypeLike = "float16",
        accum_dtype: DTypeLike = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        chunk: int = 16,
        reduce_k: int = 1,
        num_elems_per_byte: int = 1,
        is_m_first: bool | None = False,
        thread_var: Expr | None = None,
    ) -> None:
        self.a_dtype, self.b_dtype, self.accum_dtype = map(as_dtype, (a_dtype, b_dtype, accum_dtype))
        self.a_transposed, self.b_transposed = bool(a_transposed), bool(b_transposed)
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles = warp_row_tiles, warp_col_tiles
        self.chunk, self.reduce_k, self.num_elems_per_byte = chunk, reduce_k, num_elems_per_byte
        self.is_m_first, self.thread_var = bool(is_m_first), thread_var
        if reduce_k != 1 or num_elems_per_byte != 1:
            raise NoLowering(f"{self._name}: only with reduce_k=1 and num_elems_per_byte=1", hint="write T.gemm")
        if warp_row_tiles < self.M_DIM or warp_row_tiles % self.M_DIM or warp_col_tiles < 8 or warp_col_tiles % 8:
            raise ProgramAssertionError(
                f"{self._name}: a warp of {warp_row_tiles} x {warp_col_tiles} is not made of pieces of 16 x 8",
                hint="make warp_row_tiles a multiple of 16 and warp_col_tiles one of 8",
            )
        self._atom = self._chosen()
        self.n_dim = 8 if warp_col_tiles % 16 else 16
        self.micro_size_x, self.micro_size_y, self.micro_size_k = self.M_DIM, self.n_dim, self._atom.shape[2]
        self.k_dim = self.micro_size_k
        if chunk % self.micro_size_k:
            raise ProgramAssertionError(
                f"{self._name}: chunk is {chunk}, no multiple of the {self.micro_size_k} of an instruction"
            )
        self.warp_rows, self.warp_cols = warp_row_tiles // self.M_DIM, warp_col_tiles // self.n_dim
        self.local_size_a = self.micro_size_x * self.micro_size_k // self.WARP_SIZE
        self.local_size_b = self.micro_size_y * self.micro_size_k // self.WARP_SIZE
        self.local_size_out = self.micro_size_x * self.micro_size_y // self.WARP_SIZE
        self.threads = self.WARP_SIZE * block_row_warps * block_col_warps

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _chosen(self) -> MmaAtom:
        a, b = (as_dtype("tfloat32") if dtype == "float32" else dtype for dtype in (self.a_dtype, self.b_dtype))
        for atom in ATOMS:
            dtypes = (atom.a_dtype, atom.b_dtype, atom.c_dtype)
            if dtypes == (a, b, self.accum_dtype) and atom.shape == (16, 8, _DEPTH_BITS // a.bits):
                return atom
        raise NoLowering(
            f"{self._name}: no instruction multiplies {self.a_dtype!s} by {self.b_dtype!s} into {self.accum_dtype!s}",
            hint="write T.gemm",
        )

    @property
    def mma_num_inst_m(self) -> int:
        """Pieces of a warp along M."""
        return self.warp_rows

    @property
    def mma_num_inst_n(self) -> int:
        """Pieces of a warp along N."""
        return self.warp_cols

    def get_thread_binding(self) -> Expr:
        """The index of the thread."""
        return get_thread_binding() if self.thread_var is None else self.thread_var

    def extract_thread_binding(self, thread_id: Any, is_m_first: bool | None = None) -> tuple[Any, Any, Any]:
        """The lane of a thread, the number of its warp along N, and that along M."""
        warp = thread_id // self.WARP_SIZE
        rows, columns = self.block_row_warps, self.block_col_warps
        if self.is_m_first if is_m_first is None else is_m_first:
            return thread_id % self.WARP_SIZE, warp % columns, warp // columns % rows
        return thread_id % self.WARP_SIZE, warp // rows % columns, warp % rows

    def ldmatrix_a(self, A_local_buf: BufferProxy, A_shared_buf: TileProxy, ki: ExprLike, rk: ExprLike = 0) -> None:
        """Loads the pieces of A of this warp at depth `ki`, counted in pieces, of chunk `rk`."""
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        depth = rk * self.chunk + ki * self.micro_size_k
        for i in range(self.warp_rows):
            first = warp_m * self.warp_row_tiles + i * self.micro_size_x
            target = _local("ldmatrix_a", A_local_buf), i * self.local_size_a
            pieces = [(self._atom.a, 0)]
            _load(target, A_shared_buf, first, depth, lane, pieces, self.a_transposed, along_rows=True)

    def ldmatrix_b(self, B_local_buf: BufferProxy, B_shared_buf: TileProxy, ki: ExprLike, rk: ExprLike = 0) -> None:
        """Loads the pieces of B of this warp at depth `ki`, counted in pieces, of chunk `rk`."""
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        depth = rk * self.chunk + ki * self.micro_size_k
        for j in range(self.warp_cols):
            first = warp_n * self.warp_col_tiles + j * self.micro_size_y
            target = _local("ldmatrix_b", B_local_buf), j * self.local_size_b
            pieces = [(self._atom.b, column) for column in range(0, self.n_dim, 8)]
            _load(target, B_shared_buf, first, depth, lane, pieces, not self.b_transposed, along_rows=False)

    def mma(
        self, A_local_buf: BufferProxy, B_local_buf: BufferProxy, C_local_buf: BufferProxy, k_inner: ExprLike = 0
    ) -> None:
        """`C += A @ B` for all pieces of the warp."""
        for i in range(self.warp_rows):
            for j in range(self.warp_cols):
                self.mma_atom(A_local_buf, B_local_buf, C_local_buf, i, j, k_inner)

    def mma_atom(
        self,
        A_local_buf: BufferProxy,
        B_local_buf: BufferProxy,
        C_local_buf: BufferProxy,
        inst_m_idx: ExprLike,
        inst_n_idx: ExprLike,
        k_inner: ExprLike = 0,
    ) -> None:
        """`C += A @ B` for one piece; local buffers hold one k-step, so `k_inner` is ignored."""
        del k_inner
        a, b, c = (_local("mma", buffer) for buffer in (A_local_buf, B_local_buf, C_local_buf))
        m, n, k = self._atom.shape
        names = [str(dtype) for dtype in (self._atom.c_dtype, self._atom.a_dtype, self._atom.b_dtype)]
        halves = self.n_dim // n
        for half in range(halves):
            a_index = inst_m_idx * self.local_size_a
            b_index = inst_n_idx * self.local_size_b + half * (self.local_size_b // halves)
            c_index = (inst_m_idx * self.warp_cols + inst_n_idx) * self.local_size_out
            c_index = c_index + half * (self.local_size_out // halves)
            shape = f"m{m}n{n}k{k}"
            ptx_mma(names[0], shape, "row", "col", names[1], names[2], names[0], a, a_index, b, b_index, c, c_index)

    def stmatrix(
        self, C_local_buf: BufferProxy, C_buf: BufferProxy, pid_m: ExprLike | None = None, pid_n: ExprLike | None = None
    ) -> None:
        """Stores the accumulator of this warp.

        Args:
            C_local_buf: What the lanes hold.
            C_buf: A tile of pieces (rows of pieces, columns of pieces, 16, `micro_size_y`), or a matrix.
            pid_m: The block's number along M, if `C_buf` is the matrix of all blocks.
            pid_n: The block's number along N, likewise.

        Raises:
            ProgramError: `C_buf` is neither.
        """
        lane, warp_n, warp_m = self.extract_thread_binding(self.get_thread_binding())
        source = _local("stmatrix", C_local_buf)
        if C_buf.ndim not in (2, 4):
            raise ProgramError(f"stmatrix: '{C_buf.name}' has {C_buf.ndim} dimensions, neither 2 nor 4")
        above: Any = 0 if pid_m is None else pid_m * self.block_row_warps
        left: Any = 0 if pid_n is None else pid_n * self.block_col_warps
        for i in range(self.warp_rows):
            for j in range(self.warp_cols):
                piece = (above + warp_m) * self.warp_rows + i, (left + warp_n) * self.warp_cols + j
                for number in range(self.local_size_out):
                    row, column = mma_store_index_map(lane, number)
                    at: tuple[Any, ...] = (*piece, row, column)
                    if C_buf.ndim == 2:
                        at = (piece[0] * self.micro_size_x + row, piece[1] * self.micro_size_y + column)
                    C_buf[at] = source[(i * self.warp_cols + j) * self.local_size_out + number]


def _local(what: str, buffer: BufferProxy) -> BufferProxy:
    if not isinstance(buffer, BufferProxy) or buffer.buffer.scope is not Scope.LOCAL or buffer.ndim != 1:
        raise ProgramError(
            f"{what}: {getattr(buffer, 'name', buffer)!r:.40} is no flat buffer of each thread",
            hint="allocate it with T.alloc_local((n,), dtype); gemms of fragments are T.gemm",
        )
    return buffer


def _load(
    target: tuple[BufferProxy, int],
    tile: TileProxy,
    first: ExprLike,
    depth: ExprLike,
    lane: Expr,
    pieces: list[tuple[Fragment, int]],
    turned: bool,
    *,
    along_rows: bool,
) -> None:
    """Loads the operands of one piece of A or B.

    Args:
        target: The local buffer, and where in it they begin.
        tile: Rows of it are rows of A or columns of B, unless it is turned.
        first: The first row.
        depth: Where along k.
        lane: The thread's number in its warp.
        pieces: The fragments of the instructions, and the rows at which they begin.
        turned: Whether the tile's rows lie along k.
        along_rows: Whether the second matrix has the next rows (as of A), rather than the next elements along k.
    """
    buffer, begin = target
    region: Region = tile.region
    size = region.dtype.storage_bytes
    shared = BufferProxy(region.buffer)

    def element(row: Any, column: Any) -> tuple[Any, ...]:
        row, column = (depth + column, first + row) if turned else (first + row, depth + column)
        return (*region.start[:-2], region.start[-2] + row, region.start[-1] + column)

    per_row, count = _ROW_BYTES // size, 2 * len(pieces) if not along_rows else 4
    if not turned or size == 2:
        near, far = lane % 16 // 8, lane // 16  # the lanes of the second and fourth, and of the last two matrices
        rows, steps = (near, far) if along_rows else (far, near)
        within = lane % 8
        if turned:
            row = shared[element(rows * 8, steps * per_row + within)]
        else:
            row = shared[element(rows * 8 + within, steps * per_row)]
        ptx_ldmatrix(turned, count, row, buffer[begin])
        return
    for number, (fragment, rows_before) in enumerate(pieces):
        for value in range(fragment.values):
            row, column = fragment.coordinates(lane, value)
            buffer[begin + number * fragment.values + value] = shared[element(row + rows_before, column)]


class _Absent(TensorCoreIntrinEmitter):
    """A kin of the emitter that writes instructions which are not offered by hand."""

    _instead = "T.gemm"

    def __init__(self, *arguments: object, **keywords: object) -> None:
        raise NoLowering(
            f"{self._name}: writes instructions that are internal to published TileLang", hint=f"write {self._instead}"
        )


class TensorCoreIntrinEmitterWithLadderTransform(_Absent):
    """Not offered: the constructor raises and points to `T.gemm`, which arranges operands itself."""


class INT4TensorCoreIntrinEmitter(_Absent):
    """Not offered: the constructor raises and points to `T.gemm`, which takes int4."""


class TensorCoreIntrinEmitterSM120(_Absent):
    """Not offered: the constructor raises and points to `T.gemm`."""


class TCGEN05TensorCoreIntrinEmitter(_Absent):
    """Not offered: the constructor raises and points to `T.gemm`."""


class WGMMATensorCoreIntrinEmitter(_Absent):
    """Not offered: the constructor raises and points to `T.wgmma_gemm`."""

    _instead = "T.wgmma_gemm, or T.gemm"


class SparseTensorCoreIntrinEmitter(_Absent):
    """Not offered: the constructor raises and points to `T.gemm_sp`."""

    _instead = "T.gemm_sp"


class WGSparseTensorCoreIntrinEmitter(_Absent):
    """Not offered: the constructor raises and points to `T.gemm_sp`."""

    _instead = "T.gemm_sp"
