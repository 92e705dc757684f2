"""Array functions for `@tilelang.compute`: `import tilelang.numpy as tnp`.

Names, broadcasting, indexing and promotion are those of the Python array API standard. Inside a function marked
`@tilelang.compute` they record what is computed; the compiler chooses kernels, tiles and threads.
"""

from typing import NoReturn

from tilelang.errors import UnknownAttribute, nearest
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

# what NumPy, torch and older standards call functions that exist here by another name
_OTHER_NAMES = {
    **{f"arc{name}": f"a{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "absolute": "abs", "amax": "max", "amin": "min", "arctan2": "atan2", "array": "asarray",
    "bitwise_not": "bitwise_invert", "bmm": "matmul",
    "cat": "concat", "concatenate": "concat", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum", "dot": "matmul",
    "fmax": "maximum", "fmin": "minimum", "gather": "take_along_axis", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "masked_fill": "where", "mm": "matmul", "mod": "remainder",
    "permute": "permute_dims", "power": "pow", "right_shift": "bitwise_right_shift", "swapaxes": "permute_dims",
    "transpose": "permute_dims", "true_divide": "divide", "unsqueeze": "expand_dims", "vdot": "vecdot",
}  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)  # protocol probes
    known = [known for known in globals() if not known.startswith("_")]
    near = _OTHER_NAMES.get(name) or nearest(name, known)
    hint = f"write tnp.{near}" if name in _OTHER_NAMES else f"did you mean tnp.{near}?" if near else ""
    raise UnknownAttribute(f"tilelang.numpy has no function '{name}'", hint=hint)
