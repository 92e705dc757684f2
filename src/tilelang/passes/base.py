"""What a pass is: a named, pure step from one function to the next, and what it may know besides the function."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir.func import Level, PrimFunc
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.target import Target


@record
class PassContext:
    """What passes may ask about beside the program.

    Attributes:
        options: What the user asked for.
        target: What is compiled for.
    """

    options: CompileOptions = CompileOptions()
    target: Target = Target("cpu")


@record(slots=True)
class Pass:
    """One step of a pipeline.

    Attributes:
        name: As shown by `kernel.show_ir()`; equals the module's name.
        run: The step itself; pure.
        reads: Level of the functions it takes.
        writes: Level of the functions it gives.
    """

    name: str
    run: Callable[[PrimFunc, PassContext], PrimFunc]
    reads: Level
    writes: Level
