"""Tests for tilelang.level1.tune, and for what `ComputeFunction` makes of it."""

import json
from pathlib import Path
from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from level1_kernels import scaled_and_shifted

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.errors import OptionError, TuningError
from tilelang.level1 import tune as module
from tilelang.level1.lower import lower
from tilelang.level1.tune import candidates, known_tilings
from tilelang.targets.target import parse_target
from tilelang.tune.executors import SubjectMessage
from tilelang.tune.subject import Subject

CPU = parse_target("cpu")
H200 = parse_target({"kind": "cuda", "arch": "sm_90a"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_measurements: None) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_MAX_TILINGS", 3)
    return tmp_path


def scaled(**options: Any) -> Any:
    @tilelang.compute(target="cpu", **options)
    def f(x: Any, factor: float = 2.0) -> Any:
        return tnp.exp(x) * factor

    return f


X = np.linspace(0, 1, 300, dtype=np.float32).reshape(20, 15)


def test_candidates_are_different_programs_and_begin_with_the_best() -> None:
    graph = graphs.matmul(512, 512, 4096)
    programs = candidates(graph, H200)
    assert lower(graph, H200).text == programs[0].text
    assert 3 == len(programs) == len({program.text for program in programs})


def test_each_kernel_of_several_is_divided_otherwise() -> None:
    programs = candidates(graphs.attention((1, 1, 16, 8192, 64)), H200)
    assert 1 < len(programs[0].kernels)
    changed = [
        [str(a) != str(b) for a, b in zip(programs[0].tilings, each.tilings, strict=True)] for each in programs[1:]
    ]
    assert all(1 == sum(each) for each in changed)


def test_kernels_that_are_rewritten_for_their_tiles_have_candidates() -> None:
    """The mean and the variance share a loop, which tilings of the kernel before that divide."""

    @tilelang.compute(target=H200)
    def statistics(x: Any) -> Any:
        return tnp.mean(x, axis=(0, 2)), tnp.var(x, axis=(0, 2))

    programs = candidates(statistics.graph(T.Tensor((64, 64, 3136), "float16")), H200)
    assert 3 == len({program.text for program in programs})
    assert all(tilings[0] is own for tilings, own in zip(programs[0].choices, programs[0].tilings, strict=True))


def test_the_fastest_program_is_taken_from_then_on(folder: Path) -> None:
    f = scaled()
    result = f.tune(X, budget_s=120)
    assert "f" == result.name
    assert len(result.measured) + len(result.rejected) == 3
    tilings = tuple(str(each) for each in f.lower(X).tilings)
    np.testing.assert_allclose(f(X), np.exp(X) * 2, rtol=1e-6)
    again = scaled()
    assert tilings == tuple(str(each) for each in again.lower(X).tilings)
    assert tilings == known_tilings(lower(again.graph(X), CPU), CPU)


def test_parts_between_calls_are_tuned_one_by_one(folder: Path) -> None:
    kernel = scaled_and_shifted(target="cpu")

    @tilelang.compute(target="cpu")
    def f(x: Any) -> Any:
        return kernel(tnp.exp(x), 2.0)[0] * x

    x = X.reshape(-1)
    for given in (x, T.Tensor(x.shape, "float32")):
        result = f.tune(given, budget_s=120)
        assert ("f", {"f_0", "f_1"}) == (result.name, set(result.config))
    np.testing.assert_allclose(f(x), np.exp(x) * 2 * x, rtol=1e-6)
    f.export(folder / "f.json")
    decisions = json.loads((folder / "f.json").read_text())["decisions"]
    assert [str(each) for each in f.lower(x).tilings] in [decision["config"]["tilings"] for decision in decisions]


def test_decisions_are_exported_and_obeyed(folder: Path) -> None:
    f = scaled()
    f.tune(X)
    path = folder / "f.json"
    f.export(path)
    assert json.loads(path.read_text())["decisions"][0]["arguments"]["x"] == "float32 [20, 15]"
    again = scaled(decisions=path)
    assert [str(each) for each in f.lower(X).tilings] == [str(each) for each in again.lower(X).tilings]
    with pytest.raises(TuningError, match="no decision for f"):
        again(X[:3])
    content = json.loads(path.read_text())
    content["decisions"][0]["config"]["tilings"] = ["i 3, 7 threads"]
    path.write_text(json.dumps(content))
    with pytest.raises(TuningError, match="f: its 1 kernel cannot be divided as the decision says: i 3, 7 threads"):
        scaled(decisions=path)(X)


def test_nothing_to_export(folder: Path) -> None:
    with pytest.raises(OptionError) as caught:
        scaled().export(folder / "f.json")
    assert "export: 'f' has not been tuned yet" == caught.value.message


def test_what_is_interpreted_has_no_times() -> None:
    @tilelang.compute(target="cpu", execution_backend="reference")
    def f(x: Any) -> Any:
        return x + 1

    with pytest.raises(OptionError, match="cannot be tuned with execution_backend 'reference'"):
        f.tune(X)


def test_programs_are_sent_as_texts() -> None:
    from tilelang.jit.decorator import JitFunction
    from tilelang.jit.options import JitOptions

    programs = candidates(graphs.matmul(64, 64, 64), CPU)
    made = JitFunction(module._program_maker("matmul", [each.text for each in programs]), JitOptions(target=CPU))
    sent = SubjectMessage.of(Subject(made))
    assert "main" == sent.restore().program({"number": 0}).name
