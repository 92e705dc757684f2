import pytest

import tilelang.language as T
from tilelang.utils.language import (
    is_fragment,
    is_global,
    is_local,
    is_shared,
    retrieve_shape,
    retrieve_stride,
    to_buffer_region,
)


def test_a_buffer_s_scope_shape_and_region_are_known() -> None:
    found: dict[str, object] = {}

    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 8), "float32")
            f = T.alloc_fragment((16, 8), "float32")
            v = T.alloc_local((4,), "float32")
            found["scopes"] = [
                [is_global(x), is_shared(x), is_fragment(x), is_local(x)] for x in (A, s, f, v, s[0:4, :], A[1, 2])
            ]
            found["static"] = is_shared(s, allow_dynamic=False)
            found["shapes"] = [retrieve_shape(A), retrieve_shape(A[0:4, 1]), retrieve_shape(A.buffer)]
            found["strides"] = [retrieve_stride(s), retrieve_stride(A[0:4, 1])]
            region = to_buffer_region(A[2, 4], extents=[3, 4]).region
            found["region"] = ([int(x.value) for x in region.start], [int(x.value) for x in region.extent])
            found["whole"] = to_buffer_region(s).shape
            T.fill(to_buffer_region(A[4:8, 0:8]), 1.0)
            with pytest.raises(ValueError, match="retrieve_shape: an element of 'A' has no extents"):
                retrieve_shape(A[1, 2])
            with pytest.raises(ValueError, match="to_buffer_region: 1 extents for 'A' of 2 dimensions"):
                to_buffer_region(A, extents=[3])
            with pytest.raises(TypeError, match="is_global: expected a buffer, a region or an element, got 3"):
                is_global(3)

    assert main is not None
    rows = [[True, False, False, False], [False, True, False, False], [False, False, True, False]]
    assert [*rows, [False, False, False, True], rows[1], rows[0]] == found["scopes"]
    assert found["static"] is False
    assert [[16, 8], [4, 1], [16, 8]] == found["shapes"]
    assert ([2, 4], [3, 4]) == found["region"]
    assert [[8, 1], [8, 1]] == found["strides"]
    assert (16, 8) == found["whole"]
