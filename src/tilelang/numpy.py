"""Array functions for `@tilelang.compute`: `import tilelang.numpy as tnp`.

Names, broadcasting, indexing and promotion are those of the Python array API standard. Inside a function marked
`@tilelang.compute` they record what is computed; the compiler chooses kernels, tiles and threads.
"""

from typing import NoReturn

from tilelang.errors import UnknownAttribute, nearest
from tilelang.level1.functions import OTHER_NAMES
from tilelang.level1.functions.constants import *
from tilelang.level1.functions.constants import DTYPES
from tilelang.level1.functions.creation import *
from tilelang.level1.functions.elementwise import *
from tilelang.level1.functions.linear import *
from tilelang.level1.functions.normalization import *
from tilelang.level1.functions.notation import *
from tilelang.level1.functions.reductions import *
from tilelang.level1.functions.selection import *
from tilelang.level1.functions.shaping import *
from tilelang.level1.functions.sorting import *

globals().update(DTYPES)


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)  # protocol probes
    known = [known for known in globals() if not known.startswith("_")]
    near = OTHER_NAMES.get(name) or nearest(name, known)
    hint = f"write tnp.{near}" if name in OTHER_NAMES else f"did you mean tnp.{near}?" if near else ""
    raise UnknownAttribute(f"tilelang.numpy has no function '{name}'", hint=hint)
