"""`determine_target`: which target a name means on this machine."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.api import public
from tilelang.environment import environment
from tilelang.errors import TargetError
from tilelang.targets.target import Target, TargetLike, parse_target, present_target

__all__ = ["Target", "TargetLike", "auto_detect_target", "determine_target"]


@public
def auto_detect_target() -> dict[str, str]:
    """The target of the device at hand, as a mapping that every `target=` takes.

    Raises:
        ValueError: There is no device.
    """
    present = present_target()
    if present is None:
        raise TargetError(
            "target: 'auto' finds no device here",
            hint="write target='cuda' or target='cpu', or set TILELANG_DEFAULT_TARGET",
        )
    return {"kind": str(present.kind), "arch": present.arch}


@public
def determine_target(target: TargetLike = "auto", return_object: bool = False) -> str | Mapping[str, object] | Target:
    """Return the checked target that a name or a mapping means.

    Args:
        target: A name, a mapping or a `Target`; "auto" is the target of the `with` around, else what
            TILELANG_DEFAULT_TARGET says, else the device at hand.
        return_object: Give a `Target`; else what was given comes back, and for "auto" what was found.

    Raises:
        ValueError: The target is "auto" and there is no device.
        AssertionError: The target is unknown.
        NoLowering: This version cannot compile for it.

    Example:
        `determine_target({"kind": "cuda", "arch": "sm_90a"}, return_object=True).arch`
    """
    chosen: TargetLike = target
    if chosen is None or chosen == "auto":
        default = Target.current() or environment("TILELANG_DEFAULT_TARGET")
        chosen = auto_detect_target() if default == "auto" else default
    found = parse_target(chosen)
    return found if return_object else chosen
