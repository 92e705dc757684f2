"""The error of `kernel[grid](...)`, which is how Triton and Numba launch kernels."""

from __future__ import annotations

from typing import NoReturn

from tilelang.errors import StagingTypeError


class WithoutSubscript:
    """The base of what is called without a grid, which stands in `T.Kernel`."""

    def __getitem__(self, grid: object) -> NoReturn:
        """Raises: kernels have their grid inside.

        Raises:
            StagingTypeError: Always.
        """
        try:
            raise StagingTypeError(
                "a kernel has its grid inside, in T.Kernel, and is called without one",
                hint="write `kernel(A, B)` in place of `kernel[grid](A, B)`",
            )
        except StagingTypeError as error:
            error.__traceback__ = None  # the frame of this package
            raise
