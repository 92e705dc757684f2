import pytest

from tilelang.carver.arch import CUDA, driver
from tilelang.errors import OptionError


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "get_num_sms", lambda: 7)
    arch = CUDA("sm_80")
    assert ("CUDA", 80, 32, 163 * 1024, 7) == (
        arch.platform, arch.sm_version, arch.warp_size, arch.smem_cap, arch.compute_max_core
    )


def test_the_cpu_is_none() -> None:
    with pytest.raises(OptionError) as caught:
        CUDA("cpu")
    assert "carver.arch.CUDA: the target is the CPU\nhint: write CUDA('cuda')" == str(caught.value)
