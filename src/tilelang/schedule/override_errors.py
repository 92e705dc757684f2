"""Errors about what a user sets of a schedule and what cannot be, each with the nearest schedule that can.

Takes what was set and why it cannot be, gives the error. Invariant: the text names the key, the numbers, and what to
write instead.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.errors import ProgramError, ResourceError
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import For, Launch, Stmt
from tilelang.ir.visit import walk
from tilelang.options import SCHEDULE_KEYS, CompileOptions
from tilelang.saved_schedule import Placement, ScheduleOverrides, fields_set


def check_launches(func: PrimFunc, options: CompileOptions) -> None:
    """Refuses a saved schedule of another program.

    Raises:
        ProgramError: It has another number of kernels.
    """
    saved, found = len(options.saved_schedules), sum(isinstance(stmt, Launch) for stmt in walk(func.body))
    if saved not in (0, found):
        kernels = _counted(saved, "kernel")
        raise ProgramError(
            f"pass_configs: 'tl.schedule' is that of a program of {kernels}, but this one has {found}",
            hint="save the schedule of this program: kernel.explain() prints it",
        )


def check_only_placements(func: PrimFunc, options: CompileOptions, arch: str) -> None:
    """Refuses what a saved schedule sets beside placements, unless it is that there is none of something, or one.

    Raises:
        ProgramError: The schedule is that of another program, or of a machine whose kernels have more.
    """
    check_launches(func, options)
    launches = (stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
    for launch, saved in zip(launches, options.saved_schedules, strict=False):
        for name, value in fields_set(saved).items():
            if name != "loops" and (value is True or value not in (0, 1, (1, 1, 1))):
                raise _without_counterpart(launch, name, value, arch)


def _without_counterpart(launch: Launch, name: str, value: object, arch: str) -> ProgramError:
    """A saved schedule has something that no kernel for a machine has."""
    return ProgramError(
        f"pass_configs: 'tl.schedule' sets {name!r} to {value}, which kernels for {arch} do not have",
        loc=launch.loc,
        hint=f"leave {name!r} out, or save the schedule of the kernel for {arch}: kernel.explain() prints it",
    )


def wrong_number_of_loops(launch: Launch, given: int, found: int) -> ProgramError:
    """A saved schedule is that of another kernel."""
    return ProgramError(
        f"pass_configs: 'tl.schedule' places {_counted(given, 'loop')}, but the kernel has "
        f"{_counted(found, 'pipelined loop')}",
        loc=launch.loc,
        hint="give each pipelined loop an entry, null for one that shall run as it is written",
    )


def impossible_placement(loop: For, placement: Placement, reason: str) -> ProgramError:
    """A placement does not fit its loop."""
    return ProgramError(
        f"pass_configs: 'tl.schedule' gives this loop {placement}, but {reason}",
        loc=loop.loc,
        hint="write null for the loop to let it run as it is written, or leave 'loops' out for the compiler's choice",
    )


def too_many_stages(loop: For, stages: int, bytes_of_stage: int, shared_bytes: int, fitting: int) -> ResourceError:
    """The versions of the tiles of pipelined loops do not fit into shared memory."""
    return ResourceError(
        f"pass_configs: {stages} stages of {bytes_of_stage} bytes take {stages * bytes_of_stage} bytes of shared "
        f"memory, and a block has {shared_bytes} for them and all else",
        loc=loop.loc,
        hint=f"'tl.stages': {fitting} fits",
    )


def impossible_consumers(launch: Launch, consumers: int, reason: str, fitting: int) -> ProgramError:
    """Consumer warp groups do not divide the kernel's work."""
    return ProgramError(
        f"pass_configs: {_counted(consumers, 'consumer warp group')} cannot share the work: {reason}",
        loc=launch.loc,
        hint=f"'tl.consumers': {fitting} fits",
    )


def impossible_registers(launch: Launch, registers: tuple[int, int], possible: range) -> ProgramError:
    """The machine cannot give threads these numbers of registers.

    Args:
        launch: The launch.
        registers: Registers of a consumer's and of a producer's thread.
        possible: The numbers that a thread can have.
    """
    nearest = [min(possible, key=lambda count: abs(count - given)) for given in registers]
    return ProgramError(
        f"pass_configs: 'registers' is {list(registers)}, but threads have multiples of {possible.step} from "
        f"{possible[0]} to {possible[-1]}",
        loc=launch.loc,
        hint=f"'registers': {nearest} is possible",
    )


def too_many_registers(
    launch: Launch,
    consumers: int,
    producers: int,
    registers: tuple[int, int],
    pool: int,
    blocks: int,
    fitting: tuple[int, int],
) -> ResourceError:
    """Threads have more registers than a multiprocessor, or than its share for one of several blocks.

    Args:
        launch: The launch.
        consumers: Threads of consumers.
        producers: Threads of the producer.
        registers: Of a thread of consumers, and of the producer.
        pool: Of a multiprocessor.
        blocks: Blocks that it holds at once.
        fitting: Those that fit.
    """
    needed = consumers * registers[0] + producers * registers[1]
    shared = f" for {blocks} blocks at once" if blocks > 1 else ""
    return ResourceError(
        f"pass_configs: {consumers} threads with {registers[0]} registers and {producers} with {registers[1]} take "
        f"{needed}, and a multiprocessor has {pool}{shared}",
        loc=launch.loc,
        hint=f"'registers': {list(fitting)} fits",
    )


def too_few_registers(launch: Launch, registers: tuple[int, int], held: int, fitting: tuple[int, int]) -> ResourceError:
    """Threads of consumers have fewer registers than the fragments that are live at once.

    Args:
        launch: The launch.
        registers: Of a thread of consumers, and of the producer.
        held: Registers of a thread of consumers for fragments.
        fitting: Those that fit.
    """
    return ResourceError(
        f"pass_configs: {registers[0]} registers of a consumer's thread cannot hold its fragments, which take {held} "
        "where most of them are live",
        loc=launch.loc,
        hint=f"'registers': {list(fitting)} fits",
    )


def impossible(launch: Launch, field: str, value: object, reason: str, fitting: object) -> ProgramError:
    """A kernel cannot have what the user sets of its schedule.

    Args:
        launch: The launch.
        field: The field of `ScheduleOverrides`.
        value: What it is set to.
        reason: Why that cannot be.
        fitting: The nearest value that can.
    """
    return ProgramError(
        f"pass_configs: {key_of(field)} cannot be {value}: {reason}",
        loc=launch.loc,
        hint=f"{key_of(field)}: {fitting} fits",
    )


def impossible_together(
    launch: Launch, overrides: ScheduleOverrides, reason: str, fitting: ScheduleOverrides
) -> ProgramError:
    """Warps of a kernel cannot be specialized with all that the user sets, and can be without it.

    Args:
        launch: The launch.
        overrides: What the user sets.
        reason: Why warps are not specialized then.
        fitting: The schedule that the compiler chooses without it.
    """
    given, chosen = fields_set(overrides), fields_set(fitting)
    what = " and ".join(f"{key_of(name)}: {value}" for name, value in given.items())
    instead = " and ".join(
        f"{key_of(name)}: {chosen[name]}" if name in chosen else f"no {key_of(name)}" for name in given
    )
    return ProgramError(
        f"pass_configs: warps cannot be specialized with {what}: {reason}",
        loc=launch.loc,
        hint=f"{instead} {'fits' if len(given) == 1 else 'fit'}",
    )


def nearest_fitting(wanted: int, most: int, fits: Callable[[int], bool]) -> int | None:
    """The number from 1 to `most` that fits and is closest to a wanted one; None if none fits."""
    return next(filter(fits, sorted(range(1, most + 1), key=lambda number: abs(number - wanted))), None)


def key_of(field: str) -> str:
    """How a user sets a field of `ScheduleOverrides`: by a key of `pass_configs`, or in the text of a schedule."""
    return f"'{SCHEDULE_KEYS[field].value}'" if field in SCHEDULE_KEYS else f"{field!r} of 'tl.schedule'"


def statement_at(stmt: Stmt) -> str:
    """A statement by its line."""
    return f"the statement in line {stmt.loc.line}" if stmt.loc.line else f"a {type(stmt).__name__}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
