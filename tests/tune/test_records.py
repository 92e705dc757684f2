import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tunable import double, subject_of

from tilelang.jit.options import JitOptions
from tilelang.tune import records
from tilelang.tune.inputs import set_autotune_inputs
from tilelang.tune.records import Record
from tilelang.tune.result import Measurement, SearchResult
from tilelang.tune.settings import Settings

CONFIGS: list[dict[str, Any]] = [{"block": 8}, {"block": 16}]
FOUND = SearchResult("scale", "machine", (Measurement(CONFIGS[1], 1.0, 1.0, 5), Measurement(CONFIGS[0], 2.0, 2.0, 1)), ())


def scale(n, block=None):
    return double(n, block)


def scale_otherwise(n, block=None):
    return double(n, block)


def record(function: Any = scale, n: int = 16, configs: Any = CONFIGS, options: Any = None, supply: Any = None) -> Record:
    return Record(subject_of(function, n, options=options), configs, Settings(supply_prog=supply))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_stored_results_are_found_again() -> None:
    assert None is record().load()
    record().save(FOUND)
    assert FOUND == record().load()


def test_anything_else_is_another_search(monkeypatch: pytest.MonkeyPatch) -> None:
    record().save(FOUND)
    assert None is record(scale_otherwise).load()
    assert None is record(n=17).load()
    assert None is record(configs=CONFIGS[:1]).load()
    assert None is record(options=JitOptions(target="cpu", pass_configs={"tl.enable_fast_math": True})).load()
    assert None is record(supply=lambda params: []).load()
    with set_autotune_inputs(np.zeros(16)):
        assert None is record().load()
    monkeypatch.setattr(records, "device_name", lambda target: "another machine")
    assert None is record().load()


def test_another_version_searches_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    record().save(FOUND)
    monkeypatch.setattr(records, "package_fingerprint", lambda: "newer")
    assert None is record().load()


def test_a_damaged_record_is_none(folder: Path) -> None:
    record().save(FOUND)
    (path,) = folder.rglob("*.tuned.json")
    path.write_bytes(path.read_bytes().replace(b"machine", b"Machine"))
    assert None is record().load()


def test_without_the_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", False)
    record().save(FOUND)
    assert None is record().load()
    assert [] == list(folder.rglob("*.json"))


def test_without_any_program_nothing_is_stored() -> None:
    def broken(n, block=None):
        raise ValueError

    broken_record = record(broken)
    broken_record.save(dataclasses.replace(FOUND))
    assert None is broken_record.load()
