"""The published place of what is known about machines: `tilelang.carver.arch`."""

from tilelang.carver import arch

__all__ = ["arch"]
