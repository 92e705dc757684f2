"""Pipelined loops that gather rows into a shared tile, in many forms."""

import numpy as np

import tilelang.language as T

ROWS, N, WIDTH = 24, 8, 16


def gathered(form, stages=3, trip_count=5, dtype="float16", count=13, safe=None, threads=32):
    """C[k] = the tile of iteration k, of rows of A that the index names; every tile goes through shared memory."""
    other = "float32" if dtype == "float16" else "float16"

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, WIDTH + 8), dtype),
        index: T.Tensor((trip_count * N,), "int32"),
        B: T.Tensor((ROWS, WIDTH), other),
        C: T.Tensor((max(trip_count, 1), N, WIDTH), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            if safe is not None:
                T.annotate_safe_value({A: safe})
            tile, table = T.alloc_shared((N, WIDTH), dtype), T.alloc_shared((N,), "int32")
            held = T.alloc_fragment((N, WIDTH), "float32")
            rows = T.alloc_fragment((N,), "int32")
            T.clear(tile)
            for k in T.Pipelined(trip_count, num_stages=stages):
                if form == "table":
                    T.copy(index[k * N : k * N + N], table)
                if form == "held":
                    T.copy(index[k * N : k * N + N], rows)
                if form == "turned":
                    for j, i in T.Parallel(WIDTH, N):
                        tile[i, j] = A[index[k * N + i], j]
                else:
                    for i, j in T.Parallel(N, WIDTH):
                        at = k * N + i
                        if form == "row":
                            tile[i, j] = A[index[at], j]
                        elif form == "named":
                            row = index[at]
                            tile[i, j] = A[row, 8 + j]
                        elif form == "selected":
                            tile[i, j] = T.if_then_else(at < count, A[index[at], j], 0)
                        elif form == "selected turned":
                            tile[i, j] = T.if_then_else(at >= count, 0, A[index[at], j])
                        elif form == "branch":
                            if at < count:
                                tile[i, j] = A[index[at], j]
                            else:
                                tile[i, j] = 0
                        elif form == "chosen":
                            row = index[at]
                            tile[i, j] = T.if_then_else(row % 3 != 0, A[row, j], 0)
                        elif form == "table":
                            tile[i, j] = A[table[i], j]
                        elif form == "held":
                            tile[i, j] = A[rows[i], j]
                        elif form == "twice":
                            tile[i, j] = A[index[T.max(index[at], 0)], j]
                        elif form == "changed":
                            tile[i, j] = A[index[at], j]
                        elif form == "plain":
                            tile[i, j] = A[k + i, j]
                        elif form == "offset":
                            tile[i, j] = A[index[at], j + 1]
                        elif form == "columns":
                            tile[i, j] = A[j, index[at]]
                        elif form == "other":
                            tile[i, j] = T.if_then_else(at < count, A[index[at], j], 1)
                        elif form == "half":
                            if at < count:
                                tile[i, j] = A[index[at], j]
                        elif form == "within":
                            tile[i, j] = T.if_then_else(j < 7, A[index[at], j], 0)
                        elif form == "converted":
                            tile[i, j] = B[index[at], j]
                        elif form == "shifted":
                            tile[i, (j + 8) % WIDTH] = A[index[at], j]
                        elif form == "computed":
                            tile[i, j] = A[index[at], j] * 2
                        elif form == "two":
                            tile[i, j] = A[index[at], j]
                            tile[i, j] += A[index[at], j]
                for i, j in T.Parallel(N, WIDTH):
                    held[i, j] = tile[i, WIDTH - 1 - j]
                T.copy(held, C[k, :, :])
                if form == "changed" and k + 1 < trip_count:
                    index[k * N + N] = k

    return main


def arguments(trip_count, dtype="float16", seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(-99, 99, (ROWS, WIDTH + 8)).astype(dtype)
    b = rng.integers(-99, 99, (ROWS, WIDTH)).astype("float32" if dtype == "float16" else "float16")
    index = rng.integers(-2, ROWS + 2, trip_count * N).astype(np.int32)  # rows out of bounds among them
    return a, index, b, np.zeros((max(trip_count, 1), N, WIDTH), np.float32)
