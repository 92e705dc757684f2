import string

import pytest

from tilelang.dtypes import SCALARS
from tilelang.errors import ProgramError
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.common.ieee import MODES, OPERATIONS, ieee
from tilelang.isa.common.random import MRG32K3A_START, PHILOX, XORWOW_START
from tilelang.targets.nvidia.isa.intrinsics import templates

RECORDS = (
    *INTRINSICS.values(),
    *(ieee(operation, mode) for operation in OPERATIONS if operation != "frsqrt" for mode in MODES),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_each_intrinsic_has_a_text_for_every_dtype_it_computes_in(record):
    for dtype in SCALARS.values():
        try:
            compute = record.compute((dtype,) * record.arity)
        except ProgramError:
            continue
        text = templates(record.name)[str(compute)].text
        places = [int(field) for _, field, _, _ in string.Formatter().parse(text) if field is not None]
        assert set(range(record.arity)) == set(places)
        assert len(places) == record.arity  # each operand once


def test_generators_of_random_numbers_have_a_text():
    for record in (PHILOX, XORWOW_START, MRG32K3A_START):
        assert f"tl_{record.name}(" in templates(record.name)["uint64"].text


def test_a_name_without_text_has_none():
    assert not templates("no_such_function")
