from tilelang.backends.cuda import LOWERINGS
from tilelang.lowering.lowering import Site
from tilelang.options import CompileOptions
from tilelang.target import Target


def test_a_site_knows_nothing_before_layouts_are_inferred():
    site = Site(Target("cuda", "sm_80"), CompileOptions(), 128)
    assert (None, {}, {}, {}) == (site.thread, site.fragments, site.registers, site.shared_layouts)


def test_every_row_of_the_table_says_what_it_is_called():
    names = [lowering.name for rows in LOWERINGS.values() for lowering in rows]
    assert len(names) == len(set(names))
    assert all(name.count(".") == 1 for name in names)


def test_every_row_refuses_constrains_and_lowers():
    for rows in LOWERINGS.values():
        for lowering in rows:
            assert all(callable(getattr(lowering, method)) for method in ("refusal", "constrain", "lower"))
