"""A program under construction, for tests that build the IR by hand."""

import pytest
from by_hand import Program, ThreadProgram


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def threads() -> ThreadProgram:
    return ThreadProgram()


@pytest.fixture(scope="session")
def programs() -> tuple[type[Program], type[ThreadProgram]]:
    return Program, ThreadProgram
