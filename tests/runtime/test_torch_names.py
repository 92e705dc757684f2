import pytest

torch = pytest.importorskip("torch")


def test_each_name_is_that_of_torch() -> None:
    from tilelang.runtime.torch_names import TORCH_DTYPE_TO_STR

    assert "float16" == TORCH_DTYPE_TO_STR[torch.float16]
    assert {str(row).removeprefix("torch.") for row in TORCH_DTYPE_TO_STR} == set(TORCH_DTYPE_TO_STR.values())
