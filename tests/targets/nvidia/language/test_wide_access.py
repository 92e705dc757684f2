"""Accesses of several words move bytes as they are, and predicates switch them off."""

import numpy as np
import pytest
from gpu import in_every_schedule

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering


def test_words_of_every_width_move_between_global_and_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), B: T.Tensor((5, 32, 16), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32, 8), "float16")
            T.stg32(B[0, tx, 0], T.ldg32(A[tx, 0]))
            T.stg64(B[1, tx, 0], T.ldg64(A[tx, 0]))
            T.stg256(B[2, tx, 0], T.ldg256(A[tx, 0], pred=tx < 16), pred=tx % 2 == 0)
            T.sts128(s[tx, 0], T.ldg128(A[tx, 0]))
            T.stg128(B[3, tx, 0], T.lds128(s[tx, 0]))
            T.sts64(s[tx, 0], T.lds64(s[tx, 4]))
            T.sts32(s[tx, 0], T.lds32(s[tx, 2]))
            T.stg128(B[4, tx, 0], T.lds128(s[tx, 0]))

    a = np.random.randn(32, 16).astype(np.float16)
    before = np.full((5, 32, 16), 9, np.float16)
    expected = before.copy()
    expected[0, :, :2], expected[1, :, :4], expected[3, :, :8] = a[:, :2], a[:, :4], a[:, :8]
    expected[2, ::2] = np.where(np.arange(32) < 16, 1, 0)[::2, None] * a[::2]
    expected[4, :, :8] = np.concatenate([a[:, 6:8], a[:, 6:8], a[:, 4:8]], axis=1)
    np.testing.assert_array_equal(expected, in_every_schedule(main, a, before, arch="sm_90a")[1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda A, s: T.evaluate(T.ldg32(s[0])), "T.ldg32: 's' is not in global memory"),
        (lambda A, s: T.sts32(A[0], T.uint32(0)), "T.sts32: 'A' is not in shared memory"),
        (lambda A, s: T.evaluate(T.lds32(s[0])), "T.lds32: 4 bytes are no whole number of elements of float64"),
        (lambda A, s: T.stg64(A[0], T.uint32(0)), "T.stg64: writes 8 bytes, and uint32 has 32 bits"),
    ],
)
def test_places_and_values_that_do_not_fit_are_refused(body, message):
    with pytest.raises(Exception) as raised:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=1):
                s = T.alloc_shared((8,), "float64")
                body(A, s)

    assert message in str(raised.value)


@pytest.mark.parametrize("access", [lambda s: T.evaluate(T.lds64(s[0])), lambda s: T.sts64(s[0], T.uint32x2(1, 2))])
def test_a_target_without_threads_has_no_wide_accesses(access):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((8,), "float32")
            access(s)

    message = "an access to several elements at once: is for single GPU threads, and target cpu has none"
    with pytest.raises(NoLowering) as raised:
        tilelang.lower(main, "cpu")
    assert message == str(raised.value).splitlines()[0]
