from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Load
from tilelang.ir.stmt import Assert, Print
from tilelang.ir.visit import walk
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager

Tensor = Callable[..., BufferProxy]


def test_elements_and_tiles_can_be_printed(tensor: Tensor, stager: Stager, box: Callable[..., list[str]]) -> None:
    a = tensor("A", (4, 8))
    T.print(a[0, 1])
    T.print(a, msg="all:")
    T.print(a[1])
    element, whole, row = stager.statements
    assert isinstance(element, Print)
    assert isinstance(element.operand, Load)
    assert isinstance(whole, Print)
    assert isinstance(whole.operand, Region)
    assert "all:" == whole.message
    assert isinstance(row, Print)
    assert isinstance(row.operand, Region)
    assert ["1+1", "0+8"] == box(row.operand)


def test_text_alone_cannot_be_printed(stager: Stager) -> None:
    with pytest.raises(ProgramError, match="T.print: the first argument is text, not a value"):
        T.print("here")


def test_the_source_text_of_the_operand_is_kept() -> None:
    @T.prim_func
    def show(A: T.Tensor((4,), "float32")):
        with T.Kernel(1) as bx:
            T.print(A[bx] * 2)
            T.device_assert(A[bx] < 3, "too large")
            T.device_assert(A[bx] < 4)

    shown = [s for s in walk(show.body) if isinstance(s, Print)]
    asserted = [s for s in walk(show.body) if isinstance(s, Assert)]
    assert ["A[bx] * 2"] == [s.source for s in shown]
    assert ["too large", "A[bx] < 4"] == [s.message for s in asserted]


def test_an_assertion_that_holds_emits_nothing(tensor: Tensor, stager: Stager) -> None:
    T.device_assert(True)
    T.device_assert(T.int32(3) > 2)
    T.device_assert(False, "never")
    (statement,) = stager.statements
    assert isinstance(statement, Assert)
    assert "never" == statement.message


def test_statements_on_one_line_are_named_each_by_its_own_argument() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.print(A[0]); T.print(A[1])  # noqa: E702

    assert ["A[0]", "A[1]"] == [s.source for s in walk(main.body) if isinstance(s, Print)]


def test_a_text_alone_is_printed_in_every_way(capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            T.print(msg='100% "here"')
            A[0] = 1.0

    ways: tuple[dict[str, Any], ...] = (
        {"execution_backend": "reference"},
        {"target": "cpu"},
        {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_80"}},
    )
    for way in ways:
        tilelang.compile(main, **way)(np.zeros(4, np.float32))
        assert '100% "here"\n' == capfd.readouterr().out
    assert 'printf("%s", "100% \\"here\\"\\n");' in tilelang.lower(main, target="sm_80").kernel_source
    assert "T.print(msg=" in str(main)


def test_what_cannot_be_printed_or_who_cannot_print(stager: Stager) -> None:
    with pytest.raises(ProgramError, match="T.print: there is nothing to print"):
        T.print()
    with pytest.raises(ProgramError, match="T.print: warp_id is -1, not the number of one"):
        T.print(3, "x", 0, -1)
    T.print(3, "x", warp_group_id=1, warp_id=2)
    T.device_assert(True, "always", no_stack_info=True)
