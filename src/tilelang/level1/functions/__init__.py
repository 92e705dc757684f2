"""The functions of `tilelang.numpy`, by subject, and the names of all."""

from tilelang.level1.functions import (
    constants,
    creation,
    elementwise,
    linear,
    normalization,
    notation,
    reductions,
    selection,
    shaping,
    sorting,
)

MODULES = (
    elementwise,
    reductions,
    normalization,
    linear,
    selection,
    sorting,
    shaping,
    creation,
    notation,
    constants,
)
NAMES = tuple(name for module in MODULES for name in module.__all__)

# what NumPy, torch and older standards call functions that exist here by another name
OTHER_NAMES = {
    **{f"arc{name}": f"a{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "absolute": "abs", "amax": "max", "amin": "min", "arctan2": "atan2", "array": "asarray",
    "bitwise_not": "bitwise_invert", "bmm": "matmul",
    "cat": "concat", "concatenate": "concat", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum", "dot": "matmul",
    "fmax": "maximum", "fmin": "minimum", "gather": "take_along_axis", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "masked_fill": "where", "mm": "matmul", "mod": "remainder",
    "permute": "permute_dims", "power": "pow", "right_shift": "bitwise_right_shift", "swapaxes": "permute_dims",
    "transpose": "permute_dims", "true_divide": "divide", "unsqueeze": "expand_dims", "vdot": "vecdot",
}  # fmt: skip


def name_here(name: str) -> str | None:
    """The function of `tilelang.numpy` that another library calls by a name; None if there is none."""
    return name if name in NAMES else OTHER_NAMES.get(name)
