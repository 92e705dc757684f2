"""`T.cumsum`, `T.cummax` and `T.associative_scan`: what they emit and what they mean everywhere."""

import numpy as np
import pytest
from fake_cuda import needs_nvrtc
from harness import run_everywhere
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramValueError
from tilelang.language.stage import Stager
from tilelang.ops.scan import Scan


def test_running_totals(stager: Stager) -> None:
    s = T.alloc_shared((4, 8))
    T.cumsum(s)
    T.cummax(src=s, dst=T.alloc_fragment((4, 8)), dim=-1, reverse=True, annotations=None)
    first, second = (x for x in stager.statements if isinstance(x, Scan))
    assert ("T.cumsum", 0, False) == (first.name, first.dim, first.reverse)
    assert first.srcs[0].buffer is first.dsts[0].buffer
    assert ("T.cummax", 1, True) == (second.name, second.dim, second.reverse)


def test_bad_scans(stager: Stager) -> None:
    s = T.alloc_shared((4, 8))
    with pytest.raises(ProgramValueError, match="T.cumsum: 'shared' is .* and has no dimension 2"):
        T.cumsum(s, dim=2)
    with pytest.raises(ProgramValueError, match="T.cummax: 'shared' is"):
        T.cummax(s, T.alloc_fragment((4, 7)))
    with pytest.raises(ProgramValueError, match="exclusive=True with 0 values of init for 1 tiles"):
        T.associative_scan(s, None, lambda a, b: a + b, exclusive=True)
    with pytest.raises(ProgramValueError, match="exclusive=False with 1 values of init for 1 tiles"):
        T.associative_scan(s, None, lambda a, b: a + b, init=0)


@settings(max_examples=4)
@given(
    st.sampled_from([(3, 40), (2, 33), (5, 64), (4, 7)]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([16, 64]),
)
def test_any_associative_function_runs_along_a_line(
    shape: tuple[int, int], dim: int, reverse: bool, exclusive: bool, threads: int
) -> None:
    """Maps x -> p x + q modulo 2 ** 32, which compose, but not in any order."""

    def compose(p0, q0, p1, q1):
        return p0 * p1, q0 * p1 + q1

    init = (T.uint32(3), T.uint32(5)) if exclusive else None

    @T.prim_func
    def f(P: T.Tensor(shape, "uint32"), Q: T.Tensor(shape, "uint32"), R: T.Tensor((2, *shape), "uint32")):
        with T.Kernel(1, threads=threads) as _:
            p, q = T.alloc_fragment(shape, "uint32"), T.alloc_shared(shape, "uint32")
            r = T.alloc_fragment(shape, "uint32")
            T.copy(P, p)
            T.copy(Q, q)
            T.associative_scan((p, q), (r, q), compose, dim=dim, reverse=reverse, exclusive=exclusive, init=init)
            T.copy(r, R[0, :, :])
            T.copy(q, R[1, :, :])

    rng = np.random.default_rng(0)
    p, q = (rng.integers(0, 2**32, shape, dtype=np.uint32) for _ in range(2))
    *_, results = run_everywhere(f, p, q, np.zeros((2, *shape), np.uint32))
    expected = np.zeros((2, *shape), np.uint32)
    ps, qs, out = (np.moveaxis(x, axis, 0) for x, axis in ((p, dim), (q, dim), (expected, dim + 1)))
    running = (np.uint32(3), np.uint32(5)) if exclusive else None
    with np.errstate(over="ignore"):
        for k in range(shape[dim])[:: -1 if reverse else 1]:
            after = (ps[k], qs[k]) if running is None else compose(*running, ps[k], qs[k])
            out[k, 0], out[k, 1] = running if exclusive else after
            running = after
    np.testing.assert_array_equal(expected, results)


@needs_nvrtc
def test_the_text_compiles() -> None:
    @T.prim_func
    def f(A: T.Tensor((4, 40), "float16"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64) as _:
            total = T.alloc_fragment((4,), "float32")
            T.associative_scan((A, A), None, lambda a, b, c, d: (a * c, b * c + d), reverse=True)
            T.associative_scan(A, None, lambda a, b: T.max(a, b), dim=0, exclusive=True, init=0)
            T.reduce(A, total, lambda a, b: a * b, dim=1)
            T.copy(total, B)

    for arch in ("sm_75", "sm_90a"):
        tilelang.compile(f, target={"kind": "cuda", "arch": arch})
