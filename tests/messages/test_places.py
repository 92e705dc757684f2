"""Every error names a line of the user, and no frame of the compiler stands between."""

import sys
import traceback

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, NoLowering, OptionError, ProgramError, TileLangError


@T.prim_func
def copy(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
    with T.Kernel(1) as bx:
        T.copy(A, B)


def frames_of_the_package(error):
    return [f for f in traceback.extract_tb(error.__traceback__) if "/tilelang/" in f.filename]


def test_an_option_names_the_line_that_gave_it(calling_line):
    with pytest.raises(OptionError) as caught:
        tilelang.compile(copy, target="cup")
    lines = str(caught.value).splitlines()
    assert "target: unknown name 'cup'" == lines[0]
    assert __file__ in lines[1]
    assert 'tilelang.compile(copy, target="cup")' in lines[2]
    if sys.version_info >= (3, 11):
        assert lines[3].strip(" |") == "^" * len('tilelang.compile(copy, target="cup")')
    options = "Pass target options as a dict, such as {'kind': 'cuda', 'arch': 'sm_90a'}"
    assert f"hint: did you mean 'cpu'? {options}" == lines[-1]


def test_a_signature_names_its_line(calling_line):
    with pytest.raises(OptionError, match=r'T.Tensor\(\(4,\), "flaot32"\)'):

        @T.prim_func
        def main(A: T.Tensor((4,), "flaot32")):
            pass


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: tilelang.compile(copy, target="metal"),
        lambda: tilelang.compile(copy, target="cpu")(np.zeros(3, np.int32), np.zeros(4, np.int32)),
        lambda: tilelang.compile(copy, execution_backend="reference")(np.zeros(4, np.int32), 1),
        lambda: tilelang.lower(copy, "cpi"),
        lambda: tilelang.jit(lambda: copy, target="metal")(),
    ],
)
def test_the_traceback_shows_at_most_the_door_of_the_package(mistake, calling_line):
    with pytest.raises((ArgumentError, OptionError, NoLowering, TileLangError)) as caught:
        mistake()
    assert len(frames_of_the_package(caught.value)) <= 3


def test_both_ways_of_running_refuse_the_same_programs():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.Parallel(7):
                A[i + 1] = A[i]

    messages = []
    for backend in ("cc", "reference"):
        with pytest.raises(ProgramError) as caught:
            tilelang.compile(main, execution_backend=backend)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
