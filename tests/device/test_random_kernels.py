"""Random whole kernels on a real GPU: it computes what the reference interpreter and the simulator compute."""

import contextlib
import dataclasses
import functools

import numpy as np
import pytest
from random_kernels.checking import check_random, compare
from random_kernels.choices import Seeded
from random_kernels.products import ProductPrograms
from random_kernels.role_programs import RolePrograms, wishes

import tilelang
from tilelang import target
from tilelang.errors import ArgumentError, ResourceError
from tilelang.testing import requires_cuda, to_device, to_host


def to_device_with_strides(array):
    """A copy on the GPU in which rows lie as far apart as they do on the host."""
    if array.flags.c_contiguous:
        return to_device(array, target="cuda")
    return to_device(array.base, target="cuda")[..., : array.shape[-1]]


def on_device(func, arguments, **pass_configs):
    options = {f"tl.{name}": value for name, value in pass_configs.items()}
    there = [to_device_with_strides(a) if isinstance(a, np.ndarray) else a for a in arguments]
    tilelang.compile(func, target="cuda", pass_configs=options)(*there)
    return [to_host(t) if isinstance(a, np.ndarray) else a for t, a in zip(there, arguments, strict=True)]


def on_simulator(func, arguments):
    tilelang.compile(func, target="cuda", execution_backend="simulator")(*arguments)
    return arguments


def can_be_moved(program):
    try:
        for array in program.copies():
            if isinstance(array, np.ndarray):
                to_device_with_strides(array)
    except ArgumentError:  # torch has no such dtype
        return False
    return True


def check(program, *ways):
    if can_be_moved(program):
        with contextlib.suppress(ResourceError):  # it wants more shared memory than a block has, which is no secret
            compare(program, *(ways or (on_simulator, on_device)))


@requires_cuda
@pytest.mark.parametrize("seed", range(100))
def test_kernels_agree_with_the_reference_and_the_simulator(seed):
    check_random(seed, check)


@requires_cuda
@pytest.mark.parametrize("seed", range(5000, 5060))
def test_products_agree_with_the_reference_and_the_simulator(seed):
    check_random(seed, check, 1, 1, ProductPrograms)


@requires_cuda
@pytest.mark.parametrize("seed", range(6000, 6150))
def test_programs_of_several_products_and_loops_agree_with_the_reference(seed, monkeypatch):
    few = dataclasses.replace(target.ARCHITECTURES["sm_90a"], groups=(4,))  # so that blocks have several tiles
    monkeypatch.setattr(target, "ARCHITECTURES", {**target.ARCHITECTURES, "sm_90a": few})
    way = functools.partial(on_device, **wishes(Seeded(seed)))
    check_random(seed, lambda program: check(program, way), 1, 1, RolePrograms)
