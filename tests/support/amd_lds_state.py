"""What the words of LDS hold while waves of a work-group read and write them: rules about waits and barriers.

An access that is on its way is over when its own wave waits for it; another wave may rely on that after the next
barrier. A direct load to LDS arrives whenever it likes until then; so do reads and writes of threads, as far as other
waves are concerned. Words count 4 bytes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


class Hazard(Exception):
    """An access that nothing orders after another one."""


@dataclass(eq=False)
class Access:
    """One instruction's access of LDS by one wave.

    Attributes:
        wave: Whose.
        words: Which words.
        kind: "direct load", "write" or "read".
        place: Of the instruction, for messages.
    """

    wave: int
    words: Any
    kind: str
    place: str


class Lds:
    """The words of LDS of one work-group.

    Args:
        waves: How many there are.
        size_bytes: Of LDS.
    """

    def __init__(self, waves: int, size_bytes: int) -> None:
        words = -(-size_bytes // 4)
        shape = (waves, words)
        self.words = words
        self._writing = np.zeros(shape, np.int32)  # writes of a wave that are on their way
        self._direct = np.zeros(shape, np.int32)  # direct loads among them
        self._reading = np.zeros(shape, np.int32)
        self._written = np.zeros(shape, bool)  # since the last barrier, and over
        self._read = np.zeros(shape, bool)
        self._defined = np.zeros(words, bool)

    def start(self, access: Access) -> None:
        """An access begins.

        Raises:
            Hazard: Something that it conflicts with is not over for its wave.
        """
        words = access.words
        if words.size and (int(words.max()) >= self.words or int(words.min()) < 0):
            raise Hazard(f"{_said(access)}: word {int(words.max())} is beyond the {self.words} words of LDS")
        others = np.arange(len(self._writing)) != access.wave
        if access.kind == "read":
            self._refuse(access, self._direct[:, words], "a direct load has not been waited for")
            self._refuse(access, self._writing[others][:, words], "another wave's write has not been waited for")
            self._refuse(access, self._written[others][:, words], "no barrier separates it from another wave's write")
            self._refuse(access, ~self._defined[words], "nothing has been written there")
            self._reading[access.wave, words] += 1
            return
        direct = access.kind == "direct load"
        mine_too = slice(None) if direct else others  # threads' own accesses of LDS happen in their order
        self._refuse(access, self._reading[mine_too][:, words], "a read there has not been waited for")
        self._refuse(access, self._read[others][:, words], "no barrier separates it from another wave's read")
        self._refuse(access, self._writing[mine_too][:, words], "a write there has not been waited for")
        self._refuse(access, self._written[others][:, words], "no barrier separates it from another wave's write")
        self._writing[access.wave, words] += 1
        if direct:
            self._direct[access.wave, words] += 1
        self._defined[words] = True

    def finish(self, access: Access) -> None:
        """The wave of an access has waited for it."""
        words = access.words
        if access.kind == "read":
            self._reading[access.wave, words] -= 1
            self._read[access.wave, words] = True
            return
        self._writing[access.wave, words] -= 1
        self._written[access.wave, words] = True
        if access.kind == "direct load":
            self._direct[access.wave, words] -= 1

    def barrier(self) -> None:
        """All waves have met: what was over before is ordered for all."""
        self._written[:] = False
        self._read[:] = False

    @staticmethod
    def _refuse(access: Access, found: Any, why: str) -> None:
        if found.any():
            raise Hazard(f"{_said(access)}: {why}")


def _said(access: Access) -> str:
    return f"{access.kind} of wave {access.wave} at {access.place}"
