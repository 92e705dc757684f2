import pytest
from warp_alone import WarpAlone, run

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering, ProgramError
from tilelang.targets.gpu.isa.extern import call_extern


def test_functions_of_the_user_cannot_be_simulated():
    with pytest.raises(
        NoLowering, match="the function 'twice', which is only available as C\\+\\+ source, cannot be"
    ):
        run(call_extern(as_dtype("int32"), "twice", 1), WarpAlone(), 1)


def test_functions_of_the_user_have_names_of_cpp():
    assert ("call_extern", None, "mine::f<int>", 2) == call_extern(None, "mine::f<int>", 2).dialect_key
    with pytest.raises(ProgramError, match=r"'f\(\); g' is no name of a C\+\+ function"):
        call_extern(None, "f(); g", 0)
