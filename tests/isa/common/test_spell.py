from tilelang.isa.common.spell import COLUMNS, spellings
from tilelang.isa.intrinsic import Spelling


def test_every_language_spells_the_same_names():
    assert {"cpp", "cuda"} == set(COLUMNS)
    assert set(COLUMNS["cpp"]) == set(COLUMNS["cuda"])


def test_a_name_finds_its_text_in_each_language():
    texts = spellings("exp")
    assert ("tl::exp({0})", "expf({0})") == (texts["cpp"]["float32"].text, texts["cuda"]["float32"].text)
    assert all(isinstance(text, Spelling) for column in texts.values() for text in column.values())


def test_dtypes_of_a_name_are_the_same_in_each_language():
    for name in COLUMNS["cpp"]:
        assert set(COLUMNS["cpp"][name]) == set(COLUMNS["cuda"][name]), name
