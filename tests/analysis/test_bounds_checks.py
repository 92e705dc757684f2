"""Which tests keep an access within its buffer."""

from loops import buffer, exprs

from tilelang.analysis.bounds_checks import bounds_checks
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var

I = Var("i", INT32, index=True)
A = buffer("A", 16)
DOMAIN = Domain().with_loop(I, 0, exprs(20)[0])


def test_only_tests_that_are_not_proven_remain():
    assert ["i < 16"] == [str(test) for test in bounds_checks(A, (I,), DOMAIN)]
    assert [] == bounds_checks(A, exprs(15), DOMAIN)


def test_an_access_of_several_elements_ends_within_the_buffer():
    assert ["i + 3 < 16"] == [str(test) for test in bounds_checks(A, (I,), DOMAIN, exprs(4))]


def test_an_access_beyond_the_buffer_has_no_tests():
    assert bounds_checks(A, exprs(16), DOMAIN) is None
