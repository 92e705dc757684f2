"""Templates of computations that recommend how to cut them into tiles.

Takes sizes and dtypes, gives `Hint`s, the most promising first. Invariant: every hint is one that its architecture can
run: tiles fit into shared memory and sums into registers, for as many versions as it names.

The order is by a simple model: rounds of blocks over the multiprocessors, each of which computes its tile and loads its
operands, whichever takes longer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tilelang import language
from tilelang.api import public
from tilelang.carver.arch.cuda import CUDA
from tilelang.carver.arch.kinds import CPU, auto_infer_current_arch, has_mma_support, is_hopper_arch
from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DRow
from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.func import PrimFunc
from tilelang.powers import next_power_of_two

T: Any = language  # kernels below are staged, not run, and what they say has no static types
_VECTOR_BYTES = 16
_FLOPS_PER_BYTE = 64  # of a multiprocessor's matrix unit, per byte that reaches its shared memory from the L2 cache
_SUMS_PER_THREAD = 128  # registers for sums, beyond which too few are left for operands
_THREADS = 128
_ROWS_PER_WARP = 16  # of attention
# Rows of queries and of keys in attention on Hopper, by the dimension of a head: registers hold no more
_LARGE_TILES = {64: ((192, 128),), 128: ((192, 80), (192, 64))}


@public
class BaseTemplate:
    """A computation for an architecture: that of `with_arch`, or of the machine at hand."""

    _arch: CUDA | CPU | None = None

    @property
    def arch(self) -> CUDA | CPU:
        """The machine that hints are for."""
        if self._arch is None:
            self._arch = auto_infer_current_arch()
        return self._arch

    def with_arch(self, arch: CUDA | CPU) -> Any:
        """The template for an architecture: itself.

        Raises:
            ProgramTypeError: It is no description of `tilelang.carver.arch`.
        """
        if not isinstance(arch, CUDA | CPU):
            raise ProgramTypeError(f"{type(self).__name__}: {arch!r:.40} is no architecture", hint="write CUDA('cuda')")
        self._arch = arch
        return self

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """The best configurations, at most `topk`.

        Raises:
            ProgramValueError: `topk` is below 1.
        """
        if isinstance(topk, bool) or not isinstance(topk, int) or topk < 1:
            raise ProgramValueError(f"{type(self).__name__}: topk is {topk!r:.40}, not a positive int")
        ranked = sorted(self._candidates(), key=lambda pair: pair[0])
        return [hint for _, hint in ranked[:topk]]

    def equivalent_function(self) -> PrimFunc:
        """The computation as a plain function, one element after another."""
        raise NotImplementedError

    def _candidates(self) -> Iterator[tuple[float, Hint]]:
        """Configurations with their costs."""
        raise NotImplementedError

    def _shared_bytes(self) -> int:
        return self.arch.smem_cap if isinstance(self.arch, CUDA) else 48 * 1024

    def _rounds(self, tiles: int) -> int:
        return -(-tiles // max(1, self.arch.compute_max_core))


def _sizes(name: str, **sizes: Any) -> None:
    for size, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ProgramValueError(f"{name}: {size} is {value!r:.40}, not a positive int")


def _tiles_of(extent: int, largest: int = 256, smallest: int = 16) -> list[int]:
    """Powers of two to cut an extent into, one of them at least as long."""
    most = max(smallest, min(largest, next_power_of_two(extent)))
    return [n for n in (16, 32, 64, 128, 256, 512, 1024) if smallest <= n <= most]


class _Product(BaseTemplate):
    """A product of matrices: M x N sums over K."""

    def _product(self, batch: int, m: int, n: int, k: int, in_dtype: Any, accum_dtype: Any) -> Iterator[Any]:
        size, sums = as_dtype(in_dtype).storage_bytes, as_dtype(accum_dtype).storage_bytes
        tensor_cores = has_mma_support(self.arch) and size <= 2
        for bm, bn, bk, stages in itertools.product(_tiles_of(m), _tiles_of(n), (32, 64, 128), (1, 2, 3, 4)):
            warps = max(1, min(8, bm * bn // 2048))
            if bk * size < _VECTOR_BYTES or bk > max(32, k) or stages > max(1, k // bk):
                continue
            if stages * (bm + bn) * bk * size > self._shared_bytes():
                continue
            if bm * bn * sums // (4 * 32 * warps) > _SUMS_PER_THREAD:
                continue
            rows = max(r for r in (1, 2, 4, 8) if warps % r == 0 and bm // r >= 16 and (r * r <= 2 * warps or r == 1))
            if bn % (warps // rows) or bn // (warps // rows) < 8:
                continue
            tiles = batch * -(-m // bm) * -(-n // bn)
            steps = -(-k // bk)
            compute, load = bm * bn * bk / _FLOPS_PER_BYTE, (bm + bn) * bk * size
            hidden = max(compute, load) if stages > 1 else compute + load
            cost = self._rounds(tiles) * (steps * (hidden + 2048 / stages) + bm * bn)
            plan = Rasterization2DRow() if m * k * size > 1 << 22 and n > bn else NoRasterization()
            hint = Hint([bm, bn], [bm // rows, bn // (warps // rows)], [], [bk], stages, plan, tensor_cores)
            hint.vectorize = dict.fromkeys("AB", _VECTOR_BYTES // size)
            yield cost, hint


@public
class MatmulTemplate(_Product):
    """`C = A @ B`, with B as (N, K) if `trans_B`.

    Raises:
        ProgramValueError: A size is no positive int.
    """

    def __init__(
        self,
        M: int | None = None,
        N: int | None = None,
        K: int | None = None,
        trans_A: bool = False,
        trans_B: bool = True,
        in_dtype: Any = "float16",
        out_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        with_bias: bool = False,
    ) -> None:
        _sizes(type(self).__name__, M=M, N=N, K=K)
        self.M, self.N, self.K, self.trans_A, self.trans_B, self.with_bias = M, N, K, trans_A, trans_B, with_bias
        self.in_dtype, self.out_dtype, self.accum_dtype = map(as_dtype, (in_dtype, out_dtype, accum_dtype))

    def equivalent_function(self) -> PrimFunc:
        """The product, one element after another."""
        m, n, k, turned_a, turned_b = self.M, self.N, self.K, self.trans_A, self.trans_B
        a_shape, b_shape = ((k, m) if turned_a else (m, k)), ((n, k) if turned_b else (k, n))
        sums, out, biased = self.accum_dtype, self.out_dtype, self.with_bias

        @T.prim_func  # type: ignore[untyped-decorator]
        def matmul(
            A: T.Tensor(a_shape, self.in_dtype),  # type: ignore[valid-type]
            B: T.Tensor(b_shape, self.in_dtype),  # type: ignore[valid-type]
            bias: T.Tensor((n,), out),  # type: ignore[valid-type]
            C: T.Tensor((m, n), out),  # type: ignore[valid-type]
        ) -> None:
            with T.Kernel(n, m, threads=32) as (j, i):
                total = T.alloc_local((1,), sums)
                total[0] = 0
                for x in T.serial(k):
                    left = A[x, i] if turned_a else A[i, x]
                    right = B[j, x] if turned_b else B[x, j]
                    total[0] += T.cast(left, sums) * T.cast(right, sums)
                C[i, j] = T.cast(total[0], out) + (bias[j] if biased else 0)

        func: PrimFunc = matmul
        return func

    def _candidates(self) -> Iterator[Any]:
        yield from self._product(1, self.M or 1, self.N or 1, self.K or 1, self.in_dtype, self.accum_dtype)


@public
class ConvTemplate(MatmulTemplate):
    """A convolution of (N, H, W, C) by (K, K, C, F) as the product of its patches by its weights.

    Args:
        N: Images.
        C: Channels.
        H: Height.
        W: Width.
        F: Channels of the result.
        K: Extent of the weights.
        S: Stride.
        D: Dilation.
        P: Padding.
        in_dtype: Of images and weights.
        out_dtype: Of the result.
        accum_dtype: Of the sums.
        with_bias: Whether a number per channel is added.

    Raises:
        ProgramValueError: A size is no positive int, or the result would be empty.
    """

    def __init__(
        self,
        N: int,
        C: int,
        H: int,
        W: int,
        F: int,
        K: int,
        S: int,
        D: int,
        P: int,
        in_dtype: Any = "float16",
        out_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        with_bias: bool = False,
    ) -> None:
        _sizes("ConvTemplate", N=N, C=C, H=H, W=W, F=F, K=K, S=S, D=D)
        pixels = N * math.prod(max(0, (size + 2 * P - D * (K - 1) - 1) // S + 1) for size in (H, W))
        super().__init__(pixels, F, K * K * C, False, False, in_dtype, out_dtype, accum_dtype, with_bias)


@public
class FlashAttentionTemplate(_Product):
    """Attention of heads: a block takes rows of the queries, and a step rows of the keys.

    Hints are for a result (batch, heads, sequence, dimension of a head).

    Raises:
        ProgramValueError: A size is no positive int.
    """

    def __init__(
        self,
        _output_nodes: object = None,
        batch_size: int = 1,
        num_heads: int = 1,
        head_dim: int = 1,
        seq_length: int = 1,
        seq_kv_length: int = 1,
        is_causal: bool = False,
        in_dtype: Any = "float16",
        out_dtype: Any = "float16",
        accum_dtype: Any = "float16",
    ) -> None:
        del _output_nodes
        _sizes(
            "FlashAttentionTemplate",
            batch_size=batch_size, num_heads=num_heads, head_dim=head_dim,
            seq_length=seq_length, seq_kv_length=seq_kv_length,
        )
        self.shape = (batch_size, num_heads, seq_length, head_dim)
        self.seq_kv_length, self.is_causal = seq_kv_length, is_causal
        self.in_dtype, self.out_dtype, self.accum_dtype = map(as_dtype, (in_dtype, out_dtype, accum_dtype))

    def equivalent_function(self) -> PrimFunc:
        """The scores of every pair of rows, the first of its products."""
        (b, h, s, d), kv, sums = self.shape, self.seq_kv_length, self.accum_dtype

        @T.prim_func  # type: ignore[untyped-decorator]
        def scores(
            Q: T.Tensor((b, h, s, d), self.in_dtype),  # type: ignore[valid-type]
            K: T.Tensor((b, h, kv, d), self.in_dtype),  # type: ignore[valid-type]
            S: T.Tensor((b, h, s, kv), self.out_dtype),  # type: ignore[valid-type]
        ) -> None:
            with T.Kernel(s, h, b, threads=32) as (i, y, z):
                for j in T.serial(kv):
                    total = T.alloc_local((1,), sums)
                    total[0] = 0
                    for x in T.serial(d):
                        total[0] += T.cast(Q[z, y, i, x], sums) * T.cast(K[z, y, j, x], sums)
                    S[z, y, i, j] = T.cast(total[0], S.dtype)

        func: PrimFunc = scores
        return func

    def _candidates(self) -> Iterator[Any]:
        batch, heads, rows, depth = self.shape
        size, kv = self.in_dtype.storage_bytes, self.seq_kv_length
        shapes = [*itertools.product(_tiles_of(rows, 128, 64), _tiles_of(kv, 128, 32))]
        shapes += _LARGE_TILES.get(depth, ()) if is_hopper_arch(self.arch) and rows > max(shapes)[0] else ()
        for (bm, bn), stages in itertools.product(shapes, (1, 2, 3)):
            if (bm + stages * 2 * bn) * depth * size > self._shared_bytes():
                continue
            tiles, steps = batch * heads * -(-rows // bm), -(-kv // bn)
            compute, load = 2 * bm * bn * depth / _FLOPS_PER_BYTE, 2 * bn * depth * size
            step = (max(compute, load) if stages > 1 else compute + load) + 2048 / stages
            cost = self._rounds(tiles) * steps * step
            warps = bm // _ROWS_PER_WARP
            yield cost, Hint([1, 1, bm, depth], [1, 1, bm // warps, depth], [], [bn], stages, use_tc=size <= 2)


class _Loops(BaseTemplate):
    """A computation by ordinary arithmetic: elements of a result, each of which may fold some of an input."""

    def _nest(self, out: Sequence[int], folded: Sequence[int], dtype: Any) -> Iterator[Any]:
        size = as_dtype(dtype).storage_bytes
        lanes = max(1, _VECTOR_BYTES // size)
        for total, depth in itertools.product((128, 256, 512, 1024, 2048, 4096), (16, 32, 64, 128, 256, 1024)):
            block, left = [], total
            for extent in reversed(out):
                block.append(min(next_power_of_two(extent), left))
                left //= block[-1]
            block.reverse()
            rstep, rest = [], depth
            for extent in reversed(folded):
                rstep.append(min(next_power_of_two(extent), rest))
                rest //= rstep[-1]
            rstep.reverse()
            if not folded and depth != 16 or math.prod(block) * math.prod(rstep) * size > self._shared_bytes():
                continue
            threads, thread = min(_THREADS * 2, max(32, math.prod(block) // lanes)), []
            for extent in reversed(block):
                thread.append(min(extent, threads))
                threads //= thread[-1]
            tiles = math.prod(-(-extent // tile) for extent, tile in zip(out, block, strict=True))
            steps = math.prod(-(-extent // tile) for extent, tile in zip(folded, rstep, strict=True))
            work = math.prod(block) * math.prod(rstep) * size
            cost = self._rounds(tiles) * steps * (work + 4096)
            yield cost, Hint(block, [], thread[::-1], rstep, vectorize={"A": min(lanes, block[-1])})


@public
class GEMVTemplate(_Loops):
    """`C = B @ a` of a vector of K elements and a matrix (N, K).

    Raises:
        ProgramValueError: A size is no positive int.
    """

    def __init__(
        self,
        N: int | None = None,
        K: int | None = None,
        trans_B: bool = True,
        in_dtype: Any = "float16",
        out_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        with_bias: bool = False,
    ) -> None:
        self._product = MatmulTemplate(1, N, K, False, trans_B, in_dtype, out_dtype, accum_dtype, with_bias)

    def equivalent_function(self) -> PrimFunc:
        """The product with a matrix of one row, one element after another."""
        return self._product.equivalent_function()

    def _candidates(self) -> Iterator[Any]:
        yield from self._nest((1, self._product.N or 1), (self._product.K or 1,), self._product.in_dtype)


@public
class GeneralReductionTemplate(_Loops):
    """A fold of some axes of a tensor.

    Args:
        structure: A letter per axis: S stays, R is folded.
        shape: The tensor's extents.
        dtype: Of its elements.

    Raises:
        ProgramValueError: The letters are others or not as many as the extents.
    """

    def __init__(
        self, structure: str | Sequence[str] = "", shape: Sequence[int] = (), dtype: Any = "float16"
    ) -> None:
        name, letters = type(self).__name__, "".join(structure)
        if not letters or set(letters) - set("SR") or len(letters) != len(shape):
            axes = f"each axis of {tuple(shape)}"
            raise ProgramValueError(f"{name}: structure {letters!r} does not say S or R for {axes}")
        _sizes(name, **{f"extent {axis}": extent for axis, extent in enumerate(shape)})
        self.structure, self.shape, self.dtype = letters, tuple(shape), as_dtype(dtype)

    def equivalent_function(self) -> PrimFunc:
        """The sums, one element after another."""
        shape, letters, dtype = self.shape, self.structure, self.dtype
        out = [extent for letter, extent in zip(letters, shape, strict=True) if letter == "S"] or [1]

        @T.prim_func  # type: ignore[untyped-decorator]
        def reduction(A: T.Tensor(shape, dtype), B: T.Tensor(out, dtype)) -> None:  # type: ignore[valid-type]
            with T.Kernel(1, threads=32):
                T.clear(B)
                for at in T.grid(*shape):
                    B[_kept(letters, at)] = B[_kept(letters, at)] + A[at]

        func: PrimFunc = reduction
        return func

    def _candidates(self) -> Iterator[Any]:
        by = {letter: [e for s, e in zip(self.structure, self.shape, strict=True) if s == letter] for letter in "SR"}
        yield from self._nest(by["S"] or [1], by["R"], self.dtype)


def _kept(letters: str, at: Any) -> tuple[Any, ...]:
    """The indices of the axes that stay."""
    indices = at if isinstance(at, tuple) else (at,)
    return tuple(index for letter, index in zip(letters, indices, strict=True) if letter == "S") or (0,)


@public
class ElementwiseTemplate(GeneralReductionTemplate):
    """A computation of each element of a tensor by itself.

    Raises:
        ProgramValueError: An extent is no positive int.
    """

    def __init__(self, shape: Sequence[int] = (), dtype: Any = "float16") -> None:
        super().__init__("S" * len(shape), shape, dtype)
