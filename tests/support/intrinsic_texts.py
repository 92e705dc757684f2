"""What the texts of intrinsics must be in every language that they are printed in."""

import string

from tilelang.dtypes import SCALARS
from tilelang.errors import ProgramError
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.common.ieee import MODES, OPERATIONS, ieee
from tilelang.isa.common.random import MRG32K3A_START, PHILOX, XORWOW_START

RECORDS = (
    *INTRINSICS.values(),
    *(ieee(operation, mode) for operation in OPERATIONS if operation != "frsqrt" for mode in MODES),
)


def check_texts(templates, record):
    """A text for every dtype in which an intrinsic computes, with each operand once."""
    for dtype in SCALARS.values():
        try:
            compute = record.compute((dtype,) * record.arity)
        except ProgramError:
            continue
        text = templates(record.name)[str(compute)].text
        places = [int(field) for _, field, _, _ in string.Formatter().parse(text) if field is not None]
        assert list(range(record.arity)) == sorted(places)


def check_generators(templates):
    """Generators of random numbers have a text, and a name that there is not has none."""
    for record in (PHILOX, XORWOW_START, MRG32K3A_START):
        assert f"tl_{record.name}(" in templates(record.name)["uint64"].text
    assert not templates("no_such_function")
