import pytest
from intrinsic_texts import RECORDS, check_generators, check_texts

from tilelang.targets.nvidia.isa.intrinsics import templates


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_each_intrinsic_has_a_text_for_every_dtype_it_computes_in(record):
    check_texts(templates, record)


def test_generators_of_random_numbers_have_a_text_and_other_names_have_none():
    check_generators(templates)
