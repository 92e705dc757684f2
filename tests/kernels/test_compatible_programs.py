"""Whole programs in the style of published TileLang, small, in the simulator of Hopper."""

import pytest

torch = pytest.importorskip("torch")

import compatible_mla  # noqa: E402
import compatible_programs as programs  # noqa: E402
import compatible_rows as rows  # noqa: E402

ON = programs.Machine("cpu", {"target": {"kind": "cuda", "arch": "sm_90a"}, "execution_backend": "simulator"})
SMALL = {
    "sparse MLA": (
        programs.check_sparse_mla,
        {"queries": 1, "keys": 40, "heads": 16, "dim": 16, "tail": 16, "chosen": 32}
        | {"block_H": 16, "block_K": 16, "threads": 32},
    ),
    "MLA in splits": (compatible_mla.check_mla_split, {"batch": 1, "heads": 64, "keys": 256, "dim": 256, "tail": 64, "splits": 2}),
    "attention backward": (
        programs.check_attention_backward,
        {"batch": 1, "heads": 1, "length": 32, "dim": 8, "dtype": "float16", "causal": True}
        | {"block_M": 16, "block_N": 32, "threads": 32},
    ),
    "grouped products": (programs.check_grouped_products, {"rows": (5, 20, 1), "N": 16, "K": 32, "block_M": 16, "block_N": 16, "block_K": 16}),
    "reducers": (programs.check_reducers, {"tiles": 3, "rows": 8, "columns": 32}),
    "float8": (programs.check_to_float8, {"rows": 4, "columns": 64, "block": 4}),
    "fp4": (programs.check_from_fp4, {"rows": 4, "columns": 64}),
    "topk": (rows.check_topk, {"rows": 1, "columns": 64, "k": 3, "threads": 32}),
    "sort": (rows.check_sort, {"rows": 1, "columns": 64, "threads": 32}),
    "scans": (rows.check_scans, {"rows": 2, "columns": 100, "reverse": False, "threads": 64}),
    "scans backwards": (rows.check_scans, {"rows": 2, "columns": 100, "reverse": True, "threads": 64}),
    "eager": (rows.check_eager, {"rows": (3,), "N": 16, "K": 32, "block": 32, "step": 16}),
    "optional tensor": (rows.check_optional, {"rows": (2, 3), "columns": 40}),
    "dynamic shared memory": (rows.check_dynamic_shared, {"rows": 2, "lengths": (5, 300)}),
    "roles": (
        rows.check_roles_gemm,
        {"M": 64, "N": 64, "K": 128, "block_M": 64, "block_N": 64, "block_K": 32},
    ),
    "dependent launches": (rows.check_dependent_launches, {"length": 1500, "steps": 3}),
}


@pytest.mark.parametrize("name", SMALL)
def test_program_agrees_with_torch(name):
    check, sizes = SMALL[name]
    check(ON, **sizes)
