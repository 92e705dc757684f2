import pytest

from tilelang.errors import NoLowering
from tilelang.targets.nvidia.isa.unsupported import unsupported
from tilelang.targets.nvidia.machines import MACHINES


def test_no_architecture_has_what_the_record_needs() -> None:
    record = unsupported("tcgen05_mma")
    assert record is unsupported("tcgen05_mma")
    assert not any(record.needs in row.features for row in MACHINES.values())


def test_the_record_has_no_meaning_in_the_simulator() -> None:
    with pytest.raises(NoLowering, match=r"T\.tcgen05_mma: no target of this version has it"):
        unsupported("tcgen05_mma").simulate(None)
