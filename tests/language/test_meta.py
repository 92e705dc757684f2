"""Classes whose objects hold parts of a kernel."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import StagingError


@T.meta_class
class Counter:
    def __init__(self, step):
        self.step = step
        self.value = T.alloc_var("int32", init=0)
        self.calls = 0

    @T.inline
    def add(self, x):
        self.calls += 1
        if x > 2:
            self.value = self.value + x * self.step
        else:
            self.value -= 1

    def reset(self):
        self.value = 100


@T.inline
def twice(x):
    return x * 2


@pytest.mark.parametrize("backend", [{"execution_backend": "reference"}, {"target": "cpu"}], ids=["reference", "cpu"])
def test_fields_are_variables_and_methods_are_inlined(backend):
    seen = []

    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            width = T.meta_var(3)
            counter = Counter(width)
            for i in T.serial(6):
                counter.add(A[i])
            A[6] = counter.value
            counter.reset()
            counter.add(0)
            A[7] = twice(counter.value)
            seen.append((counter.calls, counter.step))

    a = np.array([1, 5, 2, 3, 9, 0, 0, 0], np.int32)
    tilelang.compile(main, **backend)(a)
    assert [3 * (5 + 3 + 9) - 3, 2 * 99] == a[6:].tolist()
    assert [(2, 3)] == seen


def test_only_classes_and_functions_can_be_marked():
    with pytest.raises(TypeError, match="@T.meta_class needs a class, got int"):
        T.meta_class(3)
    with pytest.raises(StagingError, match="needs a function"):
        T.inline(3)
