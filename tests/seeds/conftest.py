"""The simulator runs every program of the seeds in several schedules, which must give the same bits."""

import pytest
from gpu import run_every_schedule


@pytest.fixture(autouse=True)
def _every_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    run_every_schedule(monkeypatch)
