"""Every example runs, checks its own result, and prints what it found."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# small sizes, so that the compiler is what is tested and not the clock
SIZES = {
    "quickstart.py": {"M": 130, "N": 257, "K": 67},
    "vector_add.py": {"N": 1003},
    "02_gemm/gemm_simple.py": {"size": 64, "rectangle": (70, 33, 17)},
    "02_gemm/gemm_pipelined.py": {"M": 70, "N": 65, "K": 100, "block_M": 32, "block_N": 64, "block_K": 16},
    "elementwise.py": {"M": 37, "N": 131},
    "softmax.py": {"M": 9, "N": 131},
    "normalization.py": {"M": 9, "N": 131},
    "gemv.py": {"N": 37, "K": 300},
    "03_attention/flash_attention.py": {"batch": 1, "n_heads": 2, "seq_len": 100, "head_dim": 32},
    "04_mla_decoding/mla_decode.py": {"batch": 1, "n_heads": 2, "kv_len": 100, "head_dim": 32, "latent_dim": 48},
    "dynamic_gemm.py": {"sizes": ((64, 64, 64), (1, 65, 33), (5, 1, 7), (0, 8, 8), (5, 7, 0))},
    "eager_style.py": {"M": 65, "N": 33, "K": 40},
    "macro.py": {"M": 65, "N": 33, "K": 40},
}


def load(name: str):
    path = EXAMPLES / name
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(SIZES))
def test_example_runs_and_agrees_with_its_reference(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(**SIZES[name])
    assert "" != capsys.readouterr().out


def test_every_example_is_tested() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert files == set(SIZES)
