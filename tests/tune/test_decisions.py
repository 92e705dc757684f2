import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError, TuningError
from tilelang.tune.autotune import TunedFunction
from tilelang.tune.decisions import Decision, add_decisions, argument_text, find, read_decisions


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def scaling(**options: Any) -> TunedFunction:
    @tilelang.autotune(configs={"block": [16, 64]}, warmup=1, rep=5, **options)
    @tilelang.jit(out_idx=[-1], target="cpu")
    def scale(n, block=None):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i] * 2

        return main

    return scale


DECISION = Decision("scale", {"n": "256"}, "cpu", {"block": 32}, 0.5, "a machine")


def test_what_was_found_is_exported_and_obeyed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = scaling()
    found = tuned(256)
    tuned.export(folder / "decisions.json")
    monkeypatch.setattr("tilelang.tune.autotune.tune", None)  # nothing is searched
    again = scaling(decisions=folder / "decisions.json")
    kernel = again(256)
    assert (found.config, found.latency) == (kernel.config, kernel.latency)
    np.testing.assert_array_equal(kernel(np.ones(256, np.float32)), np.full(256, 2, np.float32))
    assert again.tune(256).reloaded


def test_a_decision_may_be_written_by_hand(folder: Path) -> None:
    add_decisions(folder / "decisions.json", [DECISION])
    assert {"block": 32} == scaling(decisions=str(folder / "decisions.json"))(256).config


def test_decisions_replace_those_for_the_same_call(folder: Path) -> None:
    path = folder / "decisions.json"
    other = Decision("scale", {"n": "512"}, "cpu", {"block": 8}, 0.5, "a machine")
    add_decisions(path, [DECISION, other])
    add_decisions(path, [Decision("scale", {"n": "256"}, "cpu", {"block": 64}, 0.4, "a machine")])
    assert [64, 8] == [each.config["block"] for each in sorted(read_decisions(path), key=lambda each: each.arguments["n"])]
    assert 8 == find(path, "scale", {"n": "512"}, "cpu").config["block"]


def fault(path: Path) -> tuple[str, str]:
    with pytest.raises(TuningError) as caught:
        scaling(decisions=path)(256)
    return caught.value.message, caught.value.hint


def test_a_file_that_does_not_fit_is_refused(folder: Path) -> None:
    path = folder / "decisions.json"
    assert f"{path}: cannot be read: No such file or directory" == fault(path)[0]
    path.write_text("{}")
    assert f"{path}: is no file of decisions" == fault(path)[0]
    add_decisions(folder / "new.json", [Decision("scale", {"n": "512"}, "cpu", {"block": 8}, 0.5, "a machine")])
    message, hint = fault(folder / "new.json")
    assert f"{folder / 'new.json'}: no decision for scale(n=256) for cpu" == message
    assert hint.startswith("it has scale(n=512) for cpu; tune it again without decisions=, and scale.export(")
    add_decisions(folder / "renamed.json", [Decision("scale", {"n": "256"}, "cpu", {"size": 8}, 0.5, "a machine")])
    message, _ = fault(folder / "renamed.json")
    assert f"{folder / 'renamed.json'}: the decision size=8 names 'size', which is no parameter of 'scale'" == message
    content = json.loads((folder / "new.json").read_text())
    path.write_text(json.dumps({**content, "version": "0.0.0"}))
    assert fault(path)[0].startswith(f"{path}: was made by version 0.0.0 of tilelang, and this is ")


def test_decisions_need_no_configurations(folder: Path) -> None:
    add_decisions(folder / "decisions.json", [DECISION])
    again = tilelang.autotune(scaling().jitted, decisions=folder / "decisions.json")
    assert {"block": 32} == again(256).config
    assert None is again(256, block=16).latency


def test_nothing_to_export(folder: Path) -> None:
    with pytest.raises(OptionError) as caught:
        scaling().export(folder / "decisions.json")
    assert "export: 'scale' has not been tuned yet" == caught.value.message


def test_arguments_as_texts() -> None:
    assert ["3", "'a'", "float32 [2, 3]"] == [argument_text(value) for value in (3, "a", np.zeros((2, 3), np.float32))]
