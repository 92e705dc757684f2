"""The nearest stages and order of a loop's statements that keep its dependences.

Takes dependences and a placement that may break some, gives one that breaks none. Invariant: a placement that keeps all
is given back as it is; stages are raised as little as possible, and statements move after those that they depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilelang.saved_schedule import Placement, in_sequence

# `target` of iteration i + distance depends on `source` of iteration i: (source, target, distance)
Dependence = tuple[int, int, int]


def keeps(placement: Placement, dependence: Dependence) -> bool:
    """Whether a placement keeps a dependence."""
    source, target, distance = dependence
    stage, order = placement.stage, placement.order
    return source == target or (stage[source], order[source]) < (stage[target] + distance, order[target])


def nearest_legal(placement: Placement, dependences: Iterable[Dependence]) -> Placement:
    """The nearest placement that keeps all dependences; those of one iteration point forward in the program."""
    edges = tuple(dependences)
    if all(keeps(placement, edge) for edge in edges):
        return placement
    stage = list(placement.stage)
    while any(stage[target] + distance < stage[source] for source, target, distance in edges):
        for source, target, distance in edges:
            stage[target] = max(stage[target], stage[source] - distance)
    before: list[set[int]] = [set() for _ in stage]
    for source, target, distance in edges:
        if source != target and stage[source] == stage[target] + distance:
            before[target].add(source)
    return in_sequence([each - min(stage) for each in stage], _sorted(placement.sequence, before))


def _sorted(sequence: Sequence[int], before: Sequence[set[int]]) -> list[int]:
    """The statements in this sequence as far as each comes after those before it."""
    left, found = list(sequence), list[int]()
    while left:
        found.append(next(number for number in left if before[number].issubset(found)))
        left.remove(found[-1])
    return found
