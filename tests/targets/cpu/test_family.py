import subprocess
import sys

from tilelang.targets.cpu.family import FAMILY


def test_the_family_is_registered_by_its_kind() -> None:
    assert "cpu" == FAMILY.kind == FAMILY.backend().kind


def test_target_queries_import_no_part_of_the_compiler() -> None:
    program = (
        "import sys\n"
        "from tilelang.targets.cpu.family import FAMILY\n"
        "assert not [n for n in sys.modules if n.startswith('tilelang.passes') or n == FAMILY.module]"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
