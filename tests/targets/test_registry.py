import subprocess
import sys

import pytest

from tilelang.errors import CompilerBug
from tilelang.targets.backend import Backend
from tilelang.targets.registry import families, family_of
from tilelang.targets.target import Target


def test_every_target_has_a_family_and_every_family_its_backend() -> None:
    for kind, family in families().items():
        backend = Target(kind).family.backend()
        assert isinstance(backend, Backend)
        assert kind == family.kind == backend.kind


def test_a_target_without_a_family_is_our_fault() -> None:
    with pytest.raises(CompilerBug, match="target abacus: no backend"):
        family_of("abacus")


def test_a_target_that_is_named_by_its_kind_loads_no_other_vendor() -> None:
    program = (
        "import sys\n"
        "from tilelang.targets.target import parse_target\n"
        "parse_target({'kind': 'cuda', 'arch': 'sm_90a'}).machine\n"
        "assert not [n for n in sys.modules if n.startswith(('tilelang.targets.amd', 'tilelang.targets.cpu'))]"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


def test_the_compiler_is_not_loaded_before_it_is_needed() -> None:
    program = (
        "import sys, tilelang.jit, tilelang.language\n"
        "assert not [n for n in sys.modules if n.startswith(('tilelang.lower', 'tilelang.targets.cpu.codegen.cpp'))]"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
