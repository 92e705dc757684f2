"""Checks the user's register requests (setmaxnreg).

Takes a tile-level function and gives it back without requests that have no effect. Invariant: in an accepted function
no warpgroup waits for registers that no other one releases.
"""

from __future__ import annotations

from tilelang.analysis.divergence import divergence
from tilelang.analysis.thread_groups import ThreadGroups
from tilelang.errors import ProgramError, ResourceError, warn
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk, without
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.isa.registers import REGISTER_COUNTS, REGISTER_STEP, requested_registers
from tilelang.targets.nvidia.machines import REGISTERS_PER_SM
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS


def check_registers(func: PrimFunc, _: PassContext) -> PrimFunc:
    """The function; a `ProgramWarning` for each request without effect.

    Raises:
        ResourceError: Warpgroups request more registers than the block has.
        ProgramError: A warpgroup increases to fewer registers than it has, or groups are no whole warpgroups.
    """
    superfluous: set[CallStmt] = set()
    for launch in walk(func.body):
        if isinstance(launch, Launch):
            superfluous |= _check_setmaxnreg(launch)
    return with_body(func, without(func.body, superfluous))


def _check_setmaxnreg(launch: Launch) -> set[CallStmt]:
    """Checks the calls of T.set_max_nreg, in program order for each warpgroup; gives those without effect."""
    groups = ThreadGroups(launch)
    calls = [(s, s.routine) for s in walk(launch.body) if isinstance(s, CallStmt)]
    found = [(s, requested_registers(routine)) for s, routine in calls if isinstance(routine, Instruction)]
    requests = [(s, asked) for s, asked in found if asked is not None]
    if not requests or any(stmt in divergence(launch).divergent_in_group for stmt, _ in requests):
        return set()  # the executing threads are not known
    threads = launch.num_threads
    if threads % WARPGROUP_THREADS:
        with requests[0][0].loc:
            raise ProgramError(
                f"T.set_max_nreg: the block has {threads} threads, no whole warpgroups of {WARPGROUP_THREADS}",
                hint=f"write threads={-(-threads // WARPGROUP_THREADS) * WARPGROUP_THREADS}",
            )
    for stmt, _ in requests:
        group = groups.around(stmt)
        if group.first % WARPGROUP_THREADS or group.count % WARPGROUP_THREADS:
            with stmt.loc:
                raise ProgramError(
                    f"T.set_max_nreg: threads {group.first} to {group.end - 1} come here, no whole warpgroups of "
                    f"{WARPGROUP_THREADS}",
                    hint="let all threads of a warpgroup come here, as in `with T.ws(0):`",
                )
    blocks = launch.hints.min_blocks_per_sm or 1
    given = min(REGISTERS_PER_SM // (threads * blocks) // REGISTER_STEP * REGISTER_STEP, REGISTER_COUNTS[-1])
    held = [given] * (threads // WARPGROUP_THREADS)
    superfluous: set[CallStmt] = set()
    for stmt, (count, increase) in requests:
        group = groups.around(stmt)
        numbers = range(group.first // WARPGROUP_THREADS, group.end // WARPGROUP_THREADS)
        least = min(held[number] for number in numbers)
        if not increase and count > least:
            with stmt.loc:
                raise ProgramError(
                    f"T.set_max_nreg: a thread has {least} registers here, so that {count} are more",
                    hint=f"write T.set_max_nreg({count}, True)",
                )
        if increase and all(count < held[number] for number in numbers):
            # the instruction may only ask for more. Source: PTX ISA, "setmaxnreg"
            warn(
                f"T.set_max_nreg: no effect: a thread has {least} registers here already, and {count} are fewer",
                stmt.loc,
                hint="leave it out, or launch more threads",
            )
            superfluous.add(stmt)
            continue
        for number in numbers:
            held[number] = count
    together = given * len(held)
    if sum(held) > together:
        excess = -(-(sum(held) - together) // REGISTER_STEP) * REGISTER_STEP
        with requests[-1][0].loc:
            raise ResourceError(
                f"T.set_max_nreg: the warpgroups of the block ask for {' + '.join(map(str, held))} = {sum(held)} "
                f"registers of a thread, but have {together} together: {given} each",
                hint=f"ask for {excess} fewer; producers need 24 to 40",
            )
    return superfluous


PASS = Pass(
    "check_registers", check_registers, Level.TILE, Level.TILE,
    requires=(Property.LAYOUTS_INFERRED,),
)
