import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilelang.testing as door
from tilelang.errors import OptionError


def test_a_seed_makes_random_numbers_repeat() -> None:
    door.set_random_seed(5)
    first = (random.random(), np.random.rand())
    door.set_random_seed(5)
    assert first == (random.random(), np.random.rand())


def test_main_runs_the_tests_of_the_calling_file(tmp_path: Path) -> None:
    file = tmp_path / "test_mine.py"
    file.write_text(
        "import tilelang.testing\ndef test_good(): pass\ndef test_bad(): assert False\n"
        "if __name__ == '__main__': tilelang.testing.main()\n"
    )
    result = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 1 == result.returncode
    assert "1 failed, 1 passed" in result.stdout


def test_tensors_are_compared() -> None:
    torch = pytest.importorskip("torch")
    a = torch.zeros(1000)
    b = a.clone()
    b[7] = 1
    door.torch_assert_close(a, b)
    with pytest.raises(AssertionError, match=r"1 of 1000 elements differ .* LHS 0.0, RHS 1.0"):
        door.torch_assert_close(a, b, max_mismatched_ratio=0)
    with pytest.raises(AssertionError, match="LHS has dtype torch.float32, RHS has dtype torch.float16"):
        door.torch_assert_close(a, a.half())
    with pytest.raises(AssertionError, match="NaN is not equal to NaN"):
        door.torch_assert_close(a / 0, a / 0, equal_nan=False)


@door.requires_cuda
def test_on_cuda() -> None:
    raise AssertionError


@door.requires_rocm()
def test_on_rocm() -> None:
    raise AssertionError


@door.requires_cuda_compute_version_ge(9, 0)
def test_on_hopper() -> None:
    raise AssertionError


@door.requires_llvm
def test_a_test_for_the_cpu_runs() -> None:
    assert door.__all__ == sorted(door.__all__)


def test_every_comparison_of_capabilities_is_a_mark() -> None:
    for mode in ("ge", "gt", "le", "lt", "eq"):

        def anything() -> None: ...

        marked = getattr(door, f"requires_cuda_compute_version_{mode}")(8)(anything)
        (mark,) = marked.pytestmark
        assert f"needs CUDA with compute capability {mode} 8.0" == mark.kwargs["reason"]
    with pytest.raises(OptionError, match="unknown mode 'ne'"):
        door.requires_cuda_compute_version(8, mode="ne")
