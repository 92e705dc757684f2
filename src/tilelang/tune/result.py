"""The result of a search: the fastest configuration, the times of the others, and the rejected ones with reasons.

Invariant: a result read from JSON equals the stored one, for the same configurations in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from tilelang.errors import Note, TuningError
from tilelang.ir.func import PrimFunc
from tilelang.jit.kernel import JITKernel
from tilelang.records import record
from tilelang.tune.space import Config, text_of

_SHOWN = 3  # configurations listed per reason in an error

# stages of rejection, with their texts in reports
STAGES = {
    "model": "were not measured, since the model expects them to be slower",
    "compile": "failed to compile",
    "same": "compile to the same code as another one",
    "run": "failed to run",
    "check": "gave wrong results",
    "slow": "were given up as far too slow",
    "budget": "were not measured within the budget",
}


@record
class Rejection:
    """A configuration without a time.

    Attributes:
        config: The configuration.
        stage: Where it was rejected, one of `STAGES`.
        message: The reason, in one line.
        details: The whole error, with its location in the program.
    """

    config: Config
    stage: str
    message: str
    details: str = ""

    def __str__(self) -> str:
        return f"{text_of(self.config)}: {self.message}"


@record
class Measurement:
    """A configuration with its time.

    Attributes:
        config: The configuration.
        latency: Milliseconds of a call, the median over all rounds that it took part in.
        ratio: Ratio to the time of the fastest, over the rounds in which both were measured; more accurate than
            latencies, since the speed of a device differs between rounds.
        rounds: Number of these rounds; slower configurations are dropped earlier.
    """

    config: Config
    latency: float
    ratio: float
    rounds: int


@record
class SearchResult:
    """The result of a search, without a kernel.

    Attributes:
        name: What was tuned.
        device: What it was tuned on.
        measured: Configurations with times, the best first.
        rejected: The others.
        ref_latency: Milliseconds of a call of the reference, if there is one.
        compared: What results were compared with.
        seconds: Duration of the search.
    """

    name: str
    device: str
    measured: tuple[Measurement, ...]
    rejected: tuple[Rejection, ...]
    ref_latency: float | None = None
    compared: str = ""
    seconds: float = 0.0

    def report(self) -> str:
        """All configurations, with times or the reasons of rejection."""
        total = len(self.measured) + len(self.rejected)
        lines = [
            f"{self.name} on {self.device}: {len(self.measured)} of {total} configurations measured in "
            f"{self.seconds:.1f} s"
        ]
        if self.compared:
            lines.append(f"results compared with {self.compared}")
        for found in self.measured:
            lines.append(f"  {found.latency:10.4f} ms  {found.ratio:5.2f}x  {text_of(found.config)}")
        if self.ref_latency is not None:
            lines.append(f"  {self.ref_latency:10.4f} ms  the reference")
        for (stage, message), group in grouped([r for r in self.rejected if r.stage != "same"]).items():
            lines.append(f"{len(group)} {STAGES[stage]}: {message}")
            lines += [f"  {text_of(rejection.config)}" for rejection in group]
        same = [rejection for rejection in self.rejected if rejection.stage == "same"]
        if same:
            lines.append(f"{len(same)} {STAGES['same']}:")
            lines += [f"  {text_of(rejection.config)}: {rejection.message}" for rejection in same]
        return "\n".join(lines)


@record
class TuningResult(SearchResult):
    """The result of a search, with the kernel of the fastest configuration.

    Attributes:
        config: The fastest configuration.
        latency: Milliseconds of a call of it, a median.
        ref_latency: Milliseconds of a call of the reference, if there is one.
        measured: The configurations that were timed, as `Measurement`, the best first.
        rejected: The others, as `Rejection`.
        compared: What results were compared with.
        device: What it was tuned on.
        seconds: What the search took.
        func: The program of the fastest configuration.
        kernel: That kernel; it carries `config`, `latency` and `ref_latency` as well.
        reloaded: Whether all this was found before, and read from disk.
    """

    kernel: JITKernel | None = field(default=None, compare=False)
    reloaded: bool = False

    @property
    def config(self) -> Config:
        """The fastest configuration."""
        return self.measured[0].config

    @property
    def latency(self) -> float:
        """Its milliseconds."""
        return self.measured[0].latency

    @property
    def func(self) -> PrimFunc:
        """The program of the fastest configuration."""
        assert self.kernel is not None
        return self.kernel.prim_func

    @property
    def libcode(self) -> str:
        """The generated source of the fastest configuration."""
        assert self.kernel is not None
        return self.kernel.get_kernel_source()

    def __repr__(self) -> str:
        return f"TuningResult({text_of(self.config)}: {self.latency:.4f} ms)"


def grouped(rejected: Sequence[Rejection]) -> dict[tuple[str, str], list[Rejection]]:
    """Rejections by stage and message, the most frequent first within a stage."""
    groups: dict[tuple[str, str], list[Rejection]] = {}
    for rejection in rejected:
        groups.setdefault((rejection.stage, rejection.message), []).append(rejection)
    stages = list(STAGES)
    return dict(sorted(groups.items(), key=lambda item: (stages.index(item[0][0]), -len(item[1]))))


def nothing_found(name: str, rejected: Sequence[Rejection]) -> TuningError:
    """The error of a search that rejects all configurations."""
    notes = []
    for (stage, message), group in grouped(rejected).items():
        shown = "; ".join(text_of(rejection.config) for rejection in group[:_SHOWN])
        more = f"; and {len(group) - _SHOWN} more" if len(group) > _SHOWN else ""
        notes.append(Note(f"{len(group)} {STAGES[stage]}: {message} ({shown}{more})"))
    hints = {
        "compile": "call the function with one of these configurations to see the whole error",
        "check": "compare one of these configurations with the reference, or pass rtol= and atol=",
        "budget": "pass a larger budget=, or fewer configurations",
    }
    stage = next(iter(grouped(rejected)))[0] if rejected else "compile"
    return TuningError(
        f"autotune: none of {len(rejected)} configurations of '{name}' can be used",
        notes=tuple(notes),
        hint=hints.get(stage, ""),
    )


# -- on disk -------------------------------------------------------------------------------------------------
def to_json(found: SearchResult, configs: Sequence[Config]) -> bytes:
    """The result, one configuration a line, with configurations as texts for readers."""
    index_of = {id(config): number for number, config in enumerate(configs)}
    rows: dict[int, dict[str, Any]] = {}
    for rank, item in enumerate(found.measured):
        rows[index_of[id(item.config)]] = {
            "rank": rank,
            "latency": item.latency,
            "ratio": item.ratio,
            "rounds": item.rounds,
        }
    for rejection in found.rejected:
        row = {"stage": rejection.stage, "message": rejection.message, "details": rejection.details}
        rows[index_of[id(rejection.config)]] = row
    texts = [json.dumps({"config": text_of(configs[n]), "index": n, **rows[n]}) for n in sorted(rows)]
    head = {
        "name": found.name,
        "device": found.device,
        "ref_latency": found.ref_latency,
        "compared": found.compared,
        "seconds": found.seconds,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    return "\n".join(["{", *lines, '"configurations": [', ",\n".join(texts), "]}", ""]).encode()


def from_json(data: bytes, configs: Sequence[Config]) -> SearchResult | None:
    """The result in a record; None if the record is invalid, or is of other configurations."""
    try:
        fields: Mapping[str, Any] = json.loads(data)
        rows = sorted(fields["configurations"], key=lambda row: (row.get("rank", len(configs)), row["index"]))
        known = all(row["config"] == text_of(configs[row["index"]]) for row in rows)
        if not known or not rows or "rank" not in rows[0]:
            return None
        return SearchResult(
            fields["name"],
            fields["device"],
            tuple(Measurement(configs[r["index"]], r["latency"], r["ratio"], r["rounds"]) for r in rows if "rank" in r),
            tuple(
                Rejection(configs[r["index"]], r["stage"], r["message"], r["details"]) for r in rows if "rank" not in r
            ),
            fields["ref_latency"],
            fields["compared"],
            fields["seconds"],
        )
    except (ValueError, LookupError, TypeError):
        return None
