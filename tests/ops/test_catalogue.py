"""The catalogue is complete, and so is the interface of every operator."""

import importlib
import inspect
import pkgutil

import tilelang.ops
from tilelang.ir.stmt import TileOp
from tilelang.ops.catalogue import TILE_OPS


def test_the_catalogue_holds_every_operator_of_the_package():
    found = set()
    for module in pkgutil.iter_modules(tilelang.ops.__path__, "tilelang.ops."):
        members = vars(importlib.import_module(module.name)).values()
        found |= {m for m in members if inspect.isclass(m) and issubclass(m, TileOp) and not inspect.isabstract(m)}
    assert found == set(TILE_OPS)


def test_every_operator_implements_the_interface():
    assert [] == [op.__name__ for op in TILE_OPS if inspect.isabstract(op)]
