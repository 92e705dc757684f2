"""A row per function that is one instruction of every GPU: a call, and what it is in CUDA."""

import pytest
from function_rows import cuda_of

import tilelang.language as T
from tilelang.targets.gpu.language.functions import FUNCTIONS

ROWS = {
    "syncthreads_count": (lambda A, tx: T.syncthreads_count(A[tx] > 0), "__syncthreads_count("),
    "syncthreads_and": (lambda A, tx: T.syncthreads_and(A[tx]), "__syncthreads_and("),
    "syncthreads_or": (lambda A, tx: T.syncthreads_or(A[tx]), "__syncthreads_or("),
    "sync_grid": (lambda A, tx: T.sync_grid(), "tl_sync_grid();"),
    "sync_warp": (lambda A, tx: T.sync_warp(), "__syncwarp(4294967295u);"),
    "thread_fence": (lambda A, tx: T.thread_fence("system"), "__threadfence_system();"),
    "shfl_sync": (lambda A, tx: T.shfl_sync(A[tx], 3, width=16), "__shfl_sync(4294967295u, A[tid], 3, 16)"),
    "shfl_xor": (lambda A, tx: T.shfl_xor(A[tx], 1), "__shfl_xor_sync(4294967295u, A[tid], 1, 32)"),
    "shfl_up": (lambda A, tx: T.shfl_up(A[tx], 1, mask=0xFF), "__shfl_up_sync(255u, A[tid], 1, 32)"),
    "shfl_down": (lambda A, tx: T.shfl_down(A[tx], delta=2), "__shfl_down_sync(4294967295u, A[tid], 2, 32)"),
    "tvm_warp_shuffle": (lambda A, tx: T.tvm_warp_shuffle(7, A[tx], 1, 32), "__shfl_sync(7u, A[tid], 1, 32)"),
    "tvm_warp_shuffle_up": (lambda A, tx: T.tvm_warp_shuffle_up(7, A[tx], 1, 32, 32), "__shfl_up_sync(7u, "),
    "tvm_warp_shuffle_down": (lambda A, tx: T.tvm_warp_shuffle_down(7, A[tx], 1, 32), "__shfl_down_sync(7u, "),
    "any_sync": (lambda A, tx: T.any_sync(A[tx] > 0), "__any_sync(4294967295u, A[tid] > 0)"),
    "all_sync": (lambda A, tx: T.all_sync(A[tx] > 0, 3), "__all_sync(3u, A[tid] > 0)"),
    "ballot_sync": (lambda A, tx: T.ballot_sync(A[tx] > 0, 3), "__ballot_sync(3u, A[tid] > 0)"),
    "ballot": (lambda A, tx: T.ballot(A[tx] > 0), "__ballot_sync(4294967295u, A[tid] > 0)"),
    "match_any_sync": (lambda A, tx: T.match_any_sync(A[tx]), "__match_any_sync(4294967295u, A[tid])"),
    "match_all_sync": (lambda A, tx: T.match_all_sync(A[tx], 3), "tl_match_all(3u, A[tid])"),
    "warp_redux_add": (lambda A, tx: T.warp_redux_add(A[tx]), "__reduce_add_sync(4294967295u, int32_t(A[tid]))"),
    "warp_redux_min": (lambda A, tx: T.warp_redux_min(A[tx] * 0.5), "tl_redux_min(4294967295u, "),
    "warp_redux_max": (lambda A, tx: T.warp_redux_max(A[tx], 3), "__reduce_max_sync(3u, int32_t(A[tid]))"),
    "warp_redux_and": (lambda A, tx: T.warp_redux_and(A[tx]), "__reduce_and_sync(4294967295u, (uint32_t)(A[tid]))"),
    "warp_redux_or": (lambda A, tx: T.warp_redux_or(A[tx]), "__reduce_or_sync(4294967295u, (uint32_t)(A[tid]))"),
    "warp_redux_xor": (lambda A, tx: T.warp_redux_xor(A[tx]), "__reduce_xor_sync(4294967295u, (uint32_t)(A[tid]))"),
    "activemask": (lambda A, tx: T.activemask(), "__activemask()"),
    "tvm_warp_activemask": (lambda A, tx: T.tvm_warp_activemask(), "__activemask()"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_is_its_instruction(name):
    call, text = ROWS[name]
    assert text.replace("tid", "thread") in cuda_of(lambda A, tx, bar: call(A, tx))
