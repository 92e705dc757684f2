"""The checks common to all refused mistakes, for tables of mistakes."""

import os
import re
import sys
import traceback
from collections.abc import Callable

import pytest

import tilelang
from tilelang.errors import CompilerBug, TileLangError

_PACKAGE = os.path.dirname(tilelang.__file__) + os.sep


def refusal(call: Callable[[], object], kinds: tuple[type[Exception], ...], text: str = "") -> TileLangError:
    """The error of a call: one of the tree, caught as any of `kinds`, with `text`, and without frames of the package."""
    with pytest.raises(TileLangError) as caught:
        call()
    error = caught.value
    assert not isinstance(error, CompilerBug)
    assert [] == [kind.__name__ for kind in kinds if not isinstance(error, kind)]
    assert re.search(text, str(error)), str(error)
    frames = [] if sys.version_info < (3, 11) else traceback.extract_tb(error.__traceback__)
    assert [] == [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename.startswith(_PACKAGE)]
    return error
