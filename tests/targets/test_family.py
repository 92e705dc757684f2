import subprocess
import sys

import pytest

from tilelang.targets.registry import families


@pytest.mark.parametrize("family", families().values(), ids=families())
def test_a_family_agrees_with_itself(family) -> None:
    assert family.kind in family.aliases and family.kind in family.keys
    assert family.default in family.machines
    assert all(name == machine.name for name, machine in family.machines.items())
    assert all(name.startswith(family.prefix) for name in family.machines)
    assert all((machine.warp_size > 1) == family.is_gpu for machine in family.machines.values())
    assert family.example["kind"] == family.kind and family.example.get("arch", "native") == family.default
    assert set(family.products.values()) <= set(family.machines)
    assert all(family.runs_on(machine, machine) for machine in family.machines.values())
    assert all(family.execution_backends[way] for way in (family.default_execution_backend, "reference"))


def test_no_name_means_two_families() -> None:
    names = [name for family in families().values() for name in (*family.aliases, *family.nicknames, *family.products)]
    assert len(set(names)) == len(names)
    assert {"cpu", "cuda"} <= set(families())


_THREADS = """
import threading
from tilelang.targets.registry import families
family, together, found = families()["cuda"], threading.Barrier(8), []
def ask():
    together.wait()
    found.append(family.backend())
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8, len(found)
"""


def test_threads_may_ask_for_a_compiler_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
