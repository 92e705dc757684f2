from types import SimpleNamespace

from tilelang.layout import Layout, make_cutlass_metadata_layout


def test_metadata_is_row_major() -> None:
    layout = make_cutlass_metadata_layout(SimpleNamespace(shape=(8, 4)), mma_dtype="int8", arch="9.0", block_k=128)
    assert Layout((8, 4), lambda i, j: (i, j)) == layout
