"""Branches on the thread index that are groups of threads, and those that are not."""

import pytest

import tilelang.language as T
from tilelang.ir.stmt import If
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import detect_thread_groups, inline_bindings
from tilelang.targets.target import Target


def groups(body, threads=384):
    """First thread and number of threads of every branch, None for those that are no group."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=threads):
            body(A, T.get_thread_binding(), n)

    context = PassContext(target=Target("cuda", "sm_90a"))
    func = detect_thread_groups.PASS.run(inline_bindings.PASS.run(main, context), context)
    branches = [s for s in walk(func.body) if isinstance(s, If)]
    return [None if s.group is None else (s.group.first, s.group.count) for s in branches]


@T.macro
def together(A):
    for i in T.Parallel(64):
        A[i] = i


@T.macro
def chain(A, tx, n):
    if tx < 128:
        together(A)
    elif tx < 256:
        together(A)
    else:
        together(A)


@T.macro
def nested(A, tx, n):
    if tx >= 128:
        if tx < 160:
            together(A)


@T.macro
def by_number(A, tx, n):
    if tx // 128 == 1:
        T.fill(A, 0)


@T.macro
def inside_of_ws(A, tx, n):
    with T.ws(1, 2):
        if tx < 256:
            together(A)


@T.macro
def around_ws(A, tx, n):
    if tx >= 128:
        with T.ws(1, 2):
            together(A)
    else:
        with T.ws(0):
            A[tx] = 3


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (chain, [(0, 128), (128, 256), (128, 128), (256, 128)]),
        (nested, [(128, 256), (128, 32)]),
        (by_number, [(128, 128)]),
        (inside_of_ws, [(128, 256), (128, 128)]),
        (around_ws, [(128, 256), (0, 128)]),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_branches_of_whole_neighboring_warps_are_groups(body, expected):
    assert expected == groups(body)


@T.macro
def registers_only(A, tx, n):
    if tx < 128:
        T.set_max_nreg(24, False)


def test_instructions_of_warpgroups_are_done_together_too():
    assert [(0, 128)] == groups(registers_only)


@T.macro
def single(A, tx, n):
    if tx == 0:
        together(A)


@T.macro
def even(A, tx, n):
    if tx % 64 < 32:
        together(A)


@T.macro
def given(A, tx, n):
    if tx < n:
        together(A)


@T.macro
def scalar(A, tx, n):
    if tx < 128:
        A[0] = 1


@T.macro
def nobody(A, tx, n):
    if tx > 1000:
        together(A)


@pytest.mark.parametrize("body", [single, even, given, scalar, nobody], ids=lambda case: getattr(case, "__name__", ""))
def test_other_branches_stay_as_they_are(body):
    assert [None] == groups(body)
