"""The log of ptxas, parsed: registers, memory, spills of each kernel, and the warnings that matter to users.

Takes the log of a compiler that ran ptxas with -v; gives `Resources` per kernel and the warnings.
"""

from __future__ import annotations

import re

from tilelang.targets.gpu.runtime.resources import Resources

# patterns that `re` compiles when a log is read: a kernel in the cache has none
_ENTRY = r"Compiling entry function '([^']+)'"
_PROPERTIES = r"Function properties for (\S+)"
_SPILLS = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
_USED = r"Used (\d+) registers"
_SHARED = r"(\d+) bytes smem"
_SAID = r"ptxas\s*(?:,[^:]*)?(?:warning|info)\s*:\s*(.*)"
_SERIALIZED = r"\bC75\d\d\b.*(?:serialized|injected).*function '([^']+)'"  # where ptxas adds waits and arrivals
_ADVICE = r"\bC7[5-9]\d\d\b|[Pp]otential [Pp]erformance [Ll]oss"


def resources_of(log: str) -> dict[str, Resources]:
    """The figures of each kernel that a verbose log of ptxas names."""
    found: dict[str, Resources] = {}
    serialized = set(re.findall(_SERIALIZED, log))
    called = set(re.findall(_PROPERTIES, log)).difference(re.findall(_ENTRY, log))  # by any of the kernels
    entry = described = ""
    local = spills = 0
    for line in log.splitlines():
        if match := re.search(_ENTRY, line):
            entry, local, spills = match[1], 0, 0
        elif match := re.search(_PROPERTIES, line):
            described = match[1]
        elif match := re.search(_SPILLS, line):
            if described == entry:
                local, spills = int(match[1]), int(match[2]) + int(match[3])
        elif (match := re.search(_USED, line)) and entry:
            shared = re.search(_SHARED, line)
            waits = not serialized.isdisjoint((entry, *called))
            found[entry] = Resources(int(match[1]), int(shared[1]) if shared else 0, spills, local, waits)
            entry = ""
    return found


def warnings_of(log: str) -> tuple[str, ...]:
    """Return the warnings of ptxas: advice numbered C75xx, as about matrix instructions that it serialized."""
    found: dict[str, None] = {}
    for line in log.splitlines():
        match = re.search(_SAID, line)
        if match and ("warning" in line.partition(":")[0] or re.search(_ADVICE, line)):
            found[match[1].strip()] = None
    return tuple(found)
