import pytest

import tilelang.language as T
from tilelang.errors import NoLowering, StagingError
from tilelang.language.level3 import HINTS, PRIMITIVES
from tilelang.language.stage import Stager


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_thread_primitive_says_what_to_write_instead(name: str, stager: Stager) -> None:
    with pytest.raises(NoLowering) as caught:
        getattr(T, name)(1, 2, three=3)
    reason, hint = HINTS[name]
    assert (f"T.{name}: {reason}", hint) == (caught.value.message, caught.value.hint)
    assert PRIMITIVES[name].__doc__


def test_outside_of_a_kernel_they_say_that_first() -> None:
    with pytest.raises(StagingError, match="T.tma_load: may only be used inside a kernel"):
        T.tma_load()


def test_the_error_has_the_users_line() -> None:
    with pytest.raises(NoLowering) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                T.tma_load()
                A[0] = 0

    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
