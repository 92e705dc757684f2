import numpy as np
import pytest
from tunable import double, subject_of

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, StagingError
from tilelang.jit.options import JitOptions
from tilelang.tune.subject import Subject, jitted_function


def scale(n, block=None, dtype="float32"):
    return double(n, block)


@tilelang.jit(target="cpu")
def add_one(A, factor: T.int32, block: int = None):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] + factor
    return B


def test_tunables_are_the_parameters_without_a_value() -> None:
    assert ("block",) == subject_of(scale, 16).tunables
    assert ("n", "block") == subject_of(scale).tunables
    assert () == subject_of(scale, 16, block=8).tunables
    assert {"n": 16, "dtype": "float32"} == subject_of(scale, 16).known
    assert {"n": 16, "block": 8} == subject_of(scale, 16, block=8, dtype=None).pinned


def test_tunables_join_the_arguments_of_the_call() -> None:
    assert ((16,), {"block": 8}) == subject_of(scale, 16).arguments({"block": 8})
    assert ((16, 8), {"dtype": "x"}) == subject_of(scale, 16, None, dtype="x").arguments({"block": 8})
    assert ((), {"n": 16, "block": 8}) == subject_of(scale, n=16, block=None).arguments({"block": 8, "pass_configs": {}})


def test_pass_configs_are_merged_with_those_of_the_function() -> None:
    subject = subject_of(scale, 16, options=JitOptions(target="cpu", pass_configs={"tl.stages": 2}))
    assert subject.jitted is subject.with_pass_configs_of({"block": 8})
    other = subject.with_pass_configs_of({"block": 8, "pass_configs": {"tl.staged": True}})
    assert {"tl.stages": 2, "tl.staged": True} == other.options.pass_configs
    assert other is subject.with_pass_configs_of({"block": 16, "pass_configs": {"tl.staged": True}})


def test_programs_follow_from_configurations() -> None:
    subject = subject_of(scale, 16)
    assert "double" == subject.program({"block": 8}).name


def test_calls_with_equal_arguments_have_the_same_key() -> None:
    assert subject_of(scale, 16).key == subject_of(scale, n=16).key
    assert subject_of(scale, 16).key != subject_of(scale, 17).key
    assert subject_of(scale, 16).key != subject_of(scale, 16, options=JitOptions(target="sm_90a")).key


def test_tensors_of_a_call_count_by_shape_and_dtype() -> None:
    a, b = np.zeros(8, np.float32), np.ones(8, np.float32)
    assert Subject(add_one, (a, 1)).key == Subject(add_one, (b, 2)).key
    assert Subject(add_one, (a, 1)).key != Subject(add_one, (a[:4], 1)).key
    assert Subject(add_one, (a, 1)).key != Subject(add_one, (a.astype(np.float64), 1)).key


def test_the_inputs_of_a_call_of_an_eager_function() -> None:
    a = np.arange(8, dtype=np.float32)
    subject = Subject(add_one, (a, 3))
    kernel = subject.kernel({"block": 4})
    given = subject.inputs(kernel)
    assert given is not None
    np.testing.assert_array_equal(kernel(*given), a + 3)
    assert None is Subject(add_one, (), {"N": 8}).inputs(kernel)
    assert ("A", "factor", "block") == Subject(add_one, (), {"N": 8}).tunables


def test_a_call_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="scale: got an unexpected keyword argument 'm'"):
        subject_of(scale, m=3)
    with pytest.raises(ArgumentError) as caught:
        subject_of(scale).check_call({"block": 8})
    assert (
        "scale: missing a required argument: 'n'\nhint: the signature is scale(n, block=None, dtype='float32')"
    ) == str(caught.value)


@pytest.mark.parametrize(("what", "kind"), [(scale, "function"), (double(16), "a kernel"), (3, "int")])
def test_only_functions_that_make_kernels_are_tuned(what: object, kind: str) -> None:
    with pytest.raises(StagingError) as caught:
        jitted_function(what, "@tilelang.autotune")
    assert (
        f"@tilelang.autotune needs a function marked @tilelang.jit, got {kind}\n"
        "hint: write @tilelang.autotune(...) above @tilelang.jit"
    ) == str(caught.value)
