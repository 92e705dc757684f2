"""Reads the error logs of clang and hiprtc.

Takes a `Source` and a failed `Compilation`; gives the error to raise, as `targets.gpu.runtime.compile_log` words it.
"""

from __future__ import annotations

import re

from tilelang.codegen.source import Source
from tilelang.errors import TileLangError
from tilelang.options import CompileOptions
from tilelang.targets.gpu.runtime.compile_log import Compilation, failed_compiler, kept_source, rejected_line

# hiprtc of ROCm 5 has a name of its own for the text
_PLACE = re.compile(r"(?:kernel\.hip|CompileSource):(\d+):\d+: (?:fatal )?error: (.*)")
_OWN_TEXT = "T.import_source or T.call_extern"


def rejection(source: Source, compilation: Compilation, options: CompileOptions) -> TileLangError:
    """The error for a text that a compiler rejected; the text is kept in a file.

    Args:
        source: What was compiled.
        compilation: Its result.
        options: The user's flags.
    """
    notes = kept_source(source, compilation, "kernel.hip")
    place = _PLACE.search(compilation.log)
    if place is not None:
        return rejected_line(source, compilation, options, int(place[1]), place[2], notes, _OWN_TEXT)
    return failed_compiler(source, compilation, options, notes)
