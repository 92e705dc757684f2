import pytest

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramWarning, StagingError
from tilelang.ir.expr import Var

x = Var("x", INT32)


@pytest.mark.parametrize("use", [bool, int, float, iter, range, [1, 2].__getitem__])
def test_conversion_to_a_plain_value_raises(use):
    with pytest.raises(StagingError) as caught:
        use(x)
    assert "scalar cannot be iterated" in caught.value.message or caught.value.hint
    frames = [frame.path for frame in caught.traceback]
    assert [] == [path for path in frames if "tilelang" in str(path).split("/src/")[-1]]


def test_conversion_to_text_outside_of_a_kernel():
    assert ("x + 1", "  x") == (str(x + 1), f"{x:>3}")


@pytest.mark.parametrize("use", [lambda a: f"value: {a}", str, lambda a: "%s" % a, lambda a: "{}".format(a), lambda a: f"{a:.3f}"])
def test_conversion_to_text_in_a_kernel_is_a_warning(use):
    with pytest.warns(ProgramWarning) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                assert "4" == str(A.shape[0])
                text = use(A[2])
                A[0] = len(text)

    assert 1 == len(caught)
    text = str(caught[0].message)
    assert text.startswith("A[2] is formatted as text while the kernel is staged, when it has no value yet\n")
    assert text.endswith('hint: write T.print(A[2], "text"), which prints the value when the kernel runs')
    assert "text = use(A[2])" in text
