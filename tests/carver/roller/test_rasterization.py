from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DColumn, Rasterization2DRow


def test_orders_are_what_they_are_made_of() -> None:
    assert Rasterization2DRow(4) == Rasterization2DRow() != Rasterization2DRow(8)
    assert Rasterization2DRow(4) != Rasterization2DColumn(4)
    assert 3 == len({NoRasterization(), NoRasterization(), Rasterization2DRow(), Rasterization2DColumn()})
    assert ["<NoRasterization>", "<Rasterization2DColumn 2>"] == [
        repr(one) for one in (NoRasterization(), Rasterization2DColumn(2))
    ]
