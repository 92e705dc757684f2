from tilelang.targets.gpu.isa.catalogue import MODULES


def test_texts_are_in_the_dialects():
    records = [record for module in MODULES for record in module.instructions()]
    assert len(records) == len({record.name for record in records})
    assert all(record.dialect_key and not record.texts for record in records)
