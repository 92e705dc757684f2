"""What a user sets of a schedule and what no kernel of the program has, such as stages where nothing loads tiles ahead.

Takes the options and the launches as they were compiled; gives lines for `kernel.explain()`. What a kernel could have
and what cannot be as it is set are errors of the passes that choose schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.launch import LaunchPlan
from tilelang.options import CompileOptions
from tilelang.saved_schedule import ScheduleOverrides, fields_set
from tilelang.schedule.override_errors import key_of

_CHOICES = ("consumers", "stages")  # of which any number is one
_SWITCHES = ("persistent", "ping_pong", "mma_in_flight", "epilogue_parts", "loops")  # which are off by default
_ONE = (1, (1, 1, 1))  # which other fields are by default


def unused_overrides(options: CompileOptions, plans: Sequence[LaunchPlan]) -> list[str]:
    """A line for what a user sets of schedules and one for keys that steer nothing here, where there are such.

    Args:
        options: What the user sets.
        plans: The plans of all launches that the user wrote.
    """
    lines = []
    unused = [key_of(field) for field in _unused(options.schedule, plans)]
    unused += ["'tl.schedule'"] if any(_unused(saved, plans) for saved in options.saved_schedules) else []
    if unused:
        reason = "no kernel here has warps that are specialized as producers and consumers"
        if "'tl.stages'" in unused:
            reason += "; num_stages of T.Pipelined says how far other kernels load ahead"
        lines.append(f"pass_configs: {_listed(unused)} no effect, since {reason}")
    if options.without_effect:
        keys = [f"{key!r}" for key in options.without_effect]
        lines.append(f"pass_configs: {_listed(keys)} no effect, since only published TileLang takes such decisions")
    return lines


def _unused(overrides: ScheduleOverrides, plans: Sequence[LaunchPlan]) -> list[str]:
    """The fields that are set and that no kernel has."""
    return [name for name, value in fields_set(overrides).items() if _is_wanted(name, value) and not _has(plans, name)]


def _is_wanted(field: str, value: object) -> bool:
    return field in _CHOICES or (bool(value) if field in _SWITCHES else value not in _ONE)


def _has(plans: Sequence[LaunchPlan], field: str) -> bool:
    """Whether some kernel has a schedule to which a field belongs."""
    if field == "loops":
        return any(plan.placements for plan in plans)
    split = any(plan.workspace_split > 1 for plan in plans) and field in ("workspace_split", "last_wave")
    return split or any(plan.schedule is not None for plan in plans)


def _listed(keys: Sequence[str]) -> str:
    return f"{', '.join(keys)} {'has' if len(keys) == 1 else 'have'}"
