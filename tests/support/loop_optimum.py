"""The fewest cycles of a loop graph by OR-Tools' CP-SAT, with nothing of the search of `modulo_schedule` in it."""

import math

from ortools.sat.python import cp_model

from tilelang.schedule.loop_graph import LoopGraph


def optimum(graph: LoopGraph, stages: int = 2) -> int:
    """The cycles of the best schedule with so many stages at most."""
    model = cp_model.CpModel()
    horizon = sum(each.cycles + each.issue + each.latency for each in graph.work)
    stage = [model.new_int_var(0, stages - 1, f"stage{n}") for n in range(len(graph.work))]
    start, end, by_warps, on_unit = [], [], [], []
    for n, work in enumerate(graph.work):
        start.append(model.new_int_var(0, horizon, f"start{n}"))
        if not work.asynchronous:
            by_warps.append(model.new_fixed_size_interval_var(start[n], work.cycles, f"work{n}"))
            end.append(start[n] + work.cycles)
            continue
        by_warps.append(model.new_fixed_size_interval_var(start[n], work.issue, f"issue{n}"))
        begin = model.new_int_var(0, horizon, f"begin{n}")
        model.add(begin >= start[n])
        on_unit.append((n, begin, model.new_fixed_size_interval_var(begin, work.cycles, f"unit{n}")))
        end.append(begin + work.cycles + work.latency)
    model.add_no_overlap(by_warps)
    model.add_no_overlap([interval for _, _, interval in on_unit])
    for n, begin, _ in on_unit:  # the matrix unit is first in, first out
        for m, other, _ in on_unit:
            if n < m:
                first = model.new_bool_var(f"first{n}_{m}")
                model.add(start[n] < start[m]).only_enforce_if(first)
                model.add(begin < other).only_enforce_if(first)
                model.add(start[m] < start[n]).only_enforce_if(first.negated())
                model.add(other < begin).only_enforce_if(first.negated())
    for edge in graph.edges:
        later = stage[edge.target] + edge.distance
        model.add(stage[edge.source] <= later)
        same = model.new_bool_var("same")
        model.add(stage[edge.source] == later).only_enforce_if(same)
        model.add(stage[edge.source] != later).only_enforce_if(same.negated())
        done = end[edge.source] if edge.waits else start[edge.source] + graph.work[edge.source].warp_cycles
        model.add(done <= start[edge.target]).only_enforce_if(same)
    for first, *others in map(sorted, graph.together):
        for other in others:
            model.add(stage[first] == stage[other])
    makespan = model.new_int_var(0, horizon, "makespan")
    for each in end:
        model.add(makespan >= each)
    model.add(makespan >= 0)
    for n, work in enumerate(graph.work):
        if work.asynchronous:
            model.add(makespan >= start[n] + work.issue)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status == cp_model.OPTIMAL
    return round(solver.objective_value)


def interval(graph: LoopGraph, in_flight: int) -> float:
    """The fewest cycles from an iteration to the next where a loop is one gemm, of which so many stay in flight."""
    period = math.lcm(graph.stages or 1, in_flight + 1)  # the stages and what is in flight are as before
    few, more = 6 * period, 8 * period
    return (_makespan(graph, in_flight, more) - _makespan(graph, in_flight, few)) / (more - few)


def _makespan(graph: LoopGraph, in_flight: int, count: int) -> int:
    """The cycles of so many iterations of all groups of warps, with the producer that loads the tiles."""
    (work,) = graph.work
    model = cp_model.CpModel()
    part = work.cycles // graph.groups
    horizon = count * (work.cycles + work.latency + work.issue + graph.load_cycles)

    def times(name: str) -> list[cp_model.IntVar]:
        return [model.new_int_var(0, horizon, f"{name}{n}") for n in range(count)]

    loaded, released = times("load"), times("release")  # when a load begins, and when its stage is free again
    on_unit, ends = [], []
    for group in range(graph.groups):
        issue, begin = times(f"issue{group}_"), times(f"begin{group}_")
        for n in range(count):
            on_unit.append(model.new_fixed_size_interval_var(begin[n], part, f"unit{group}_{n}"))
            ends.append(begin[n] + part + work.latency)
            model.add(begin[n] >= issue[n])
            if graph.stages:
                model.add(issue[n] >= loaded[n] + graph.load_cycles)
            if n:
                model.add(issue[n] >= issue[n - 1] + work.issue)
                model.add(begin[n] >= begin[n - 1] + part)
            if n > in_flight:  # the wait behind the issue of the gemm before
                model.add(issue[n] >= ends[-1 - in_flight - 1])
            if n + in_flight < count:
                model.add(released[n] >= issue[n + in_flight])
            model.add(released[n] >= ends[-1])
    model.add_no_overlap(on_unit)
    for n in range(graph.stages, count):
        model.add(loaded[n] >= released[n - graph.stages])
    makespan = model.new_int_var(0, horizon, "makespan")
    for end in ends:
        model.add(makespan >= end)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)
