"""Names of the language that people know from NumPy, PyTorch, Triton or CUDA, and what to write instead.

Each row is the hint of the error that the name gives. Names that mean exactly what one of ours does are aliases of it,
and stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        # tiles and what fills them
        "zeros": "allocate it with T.alloc_fragment(shape, dtype), and write T.clear(tile)",
        "zeros_like": "allocate it with T.alloc_fragment(x.shape, x.dtype), and write T.clear(tile)",
        "ones": "allocate it with T.alloc_fragment(shape, dtype), and write T.fill(tile, 1)",
        "full": "allocate it with T.alloc_fragment(shape, dtype), and write T.fill(tile, value)",
        "empty_like": "allocate it with T.alloc_fragment(x.shape, x.dtype)",
        "arange": "write `for i in T.Parallel(n):`, where i is the index",
        "load": "write T.copy(A[i * block, 0], tile) for a tile, or A[i, j] for an element; what lies outside reads 0",
        "store": "write T.copy(tile, A[i * block, 0]) for a tile, or A[i, j] = x for an element",
        "make_block_ptr": "write T.copy(A[i * block, 0], tile), and T.copy(tile, A[i * block, 0]) for the way back",
        "make_tensor_descriptor": "leave it out: T.copy uses the copy engine where there is one",
        "multiple_of": "write T.assume(x % 16 == 0)",
        "max_contiguous": "leave it out: the compiler knows how indices lie",
        "trans": "write T.transpose(src, dst), or T.gemm(..., transpose_B=True) for an operand",
        "permute": "write a loop over elements: `for i, j, k in T.Parallel(...): dst[k, i, j] = src[i, j, k]`",
        "broadcast_to": "index the smaller tile in a loop: `for i, j in T.Parallel(M, N): y[i, j] = x[i]`",
        "expand_dims": "write T.reshape(tile, shape), or index the tile as it is in a loop",
        "cat": "write one T.copy for each part: T.copy(a, out[:, :n]) and T.copy(b, out[:, n:])",
        "concatenate": "write one T.copy for each part: T.copy(a, out[:, :n]) and T.copy(b, out[:, n:])",
        "flip": "write a loop over elements: `for i in T.Parallel(n): dst[i] = src[n - 1 - i]`",
        # products and reductions
        "dot": "write T.gemm(A, B, C), which adds the product to C",
        "matmul": "write T.gemm(A, B, C), which adds the product to C",
        "mma": "write T.gemm(A, B, C), which adds the product to C",
        "sum": "write T.reduce_sum(src, dst, dim), or `total += x` in a T.Parallel loop",
        "mean": "write T.reduce_sum(src, dst, dim), and divide by the extent in a T.Parallel loop",
        "reduce_mean": "write T.reduce_sum(src, dst, dim), and divide by the extent in a T.Parallel loop",
        "reduce_prod": "write T.reduce(src, dst, lambda a, b: a * b, dim)",
        "prod": "write T.reduce(src, dst, lambda a, b: a * b, dim)",
        "cumprod": "write T.associative_scan(src, dst, lambda a, b: a * b, dim)",
        "argsort": "write T.sort(src, dst, indices=order)",
        "any": "write T.any_of(tile)",
        "all": "write T.all_of(tile)",
        "index_select": "write T.gather(src, index, dst, dim)",
        "take": "write T.gather(src, index, dst, dim)",
        "softmax": "write T.reduce_max, exponentials in a T.Parallel loop, T.reduce_sum, and divisions in another, "
        "or T.online_softmax where rows arrive in tiles",
        # elements
        "maximum": "write T.max(a, b)",
        "minimum": "write T.min(a, b)",
        "silu": "write x * T.sigmoid(x)",
        "relu": "write T.max(x, 0)",
        "gelu": "write 0.5 * x * (1 + T.erf(x * 0.7071067811865476))",
        "softplus": "write T.log(1 + T.exp(x))",
        "fdiv": "write a / b",
        "rand": "write T.rng_init(seed, i), and then T.rng_rand_float(), in a T.Parallel loop over i",
        "randn": 'write T.rng_init(seed, i), and then T.rng_rand_float(dist="normal"), in a T.Parallel loop over i',
        "randint": "write T.rng_init(seed, i), and then T.rng_rand(), in a T.Parallel loop over i",
        # the grid and loops
        "program_id": "name the indices of blocks: `with T.Kernel(gx, gy) as (bx, by):`",
        "num_programs": "keep the extents that T.Kernel is given in variables: `with T.Kernel(gx, gy) as (bx, by):`",
        "range": "write T.serial(n), T.Pipelined(n, num_stages=2), or Python's own range(n)",
        "prange": "write `for i in T.Parallel(n):`",
        "static_range": "write T.unroll(n), or loop over a Python list to repeat code while the kernel is staged",
        "threadIdx": "write T.get_thread_binding(0)",
        "blockIdx": "name the indices of blocks: `with T.Kernel(gx, gy) as (bx, by):`",
        "syncthreads": "write T.sync_threads(); tile operators need none",
        "debug_barrier": "write T.sync_threads(); tile operators need none",
        "jit": "write @tilelang.jit",
        "constexpr": "leave it out: Python values of the function around the kernel are constants",
        # debugging
        "device_print": 'write T.print(x, "text")',
        "printf": 'write T.print(x, "text")',
        "static_assert": "write Python's own assert",
        "static_print": "write Python's own print",
    }
)
