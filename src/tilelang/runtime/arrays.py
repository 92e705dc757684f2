"""Views of arrays of any framework, and allocation of arrays, without importing a framework.

Takes NumPy arrays, torch tensors, and objects with DLPack, `__array_interface__` or `__cuda_array_interface__`.
Invariant: nothing is copied, and a framework is only used if the caller has imported it.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType, as_dtype
from tilelang.errors import OptionError
from tilelang.ir.host_memory import array_at
from tilelang.records import record


@record(slots=True)
class ArrayView:
    """A view of an array of some framework.

    Attributes:
        framework: Name of the framework in messages: "numpy", "torch", or the module of the type.
        dtype: The element dtype; None if it has no counterpart here.
        dtype_text: The framework's name of the dtype, for messages.
        shape: Extents.
        strides: Strides in elements; None if they are not whole elements.
        pointer: Address of the first element; 0 unless it is memory of the host or of a GPU of CUDA or ROCm.
        device: "cpu", "cuda:0", "rocm:0", "cuda" if only the driver can tell which, or the framework's name of another
            device. Frameworks that are built for ROCm call its devices by CUDA's name.
        writable: Whether the owner allows writing.
        aligned: Whether the address is a multiple of the element's size.
        owner: Keeps the memory alive.
        stream: The stream of the owner, if it provides one.
    """

    framework: str
    dtype: DType | None
    dtype_text: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    pointer: int
    device: str
    writable: bool
    aligned: bool
    owner: object
    stream: int | None = None

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in row-major order without gaps; extents of 1 have no stride."""
        if 0 in self.shape:
            return True
        if self.strides is None:
            return False
        distance = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != distance:
                return False
            distance *= extent
        return True

    def as_numpy(self) -> np.ndarray:
        """The same memory as a NumPy array; only for host memory of a known dtype with whole strides."""
        assert self.dtype is not None
        assert self.strides is not None
        if not self.pointer and 0 not in self.shape:  # null array of an absent tensor
            return np.broadcast_to(np.zeros((), self.dtype.numpy), self.shape)
        array = array_at(self.pointer, self.shape, self.dtype.numpy, self.strides, self.owner)
        array.flags.writeable = self.writable
        return array


def is_torch_tensor(value: object) -> bool:
    """Whether a value is a torch tensor, subclasses included."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


GPUS = ("cuda", "rocm")  # the types of devices whose memory kernels are given


def _gpu_type(framework: str) -> str:
    """The type of the devices that a framework calls CUDA's."""
    module: Any = sys.modules.get(framework)
    if framework == "torch":
        return "rocm" if module.version.hip else "cuda"
    return "rocm" if framework == "cupy" and module is not None and module.cuda.runtime.is_hip else "cuda"


def is_torch_for_rocm() -> bool:
    """Whether the torch of this process is built for ROCm."""
    return "torch" in sys.modules and _gpu_type("torch") == "rocm"


def borrow(value: Any) -> ArrayView | None:
    """A view of an array of any framework, or None if the value is not an array."""
    if isinstance(value, np.ndarray):
        return _borrow_numpy(value, "numpy", value)
    if is_torch_tensor(value):
        return _borrow_torch(value)
    immutable = type(value).__module__.split(".")[0] in _IMMUTABLE  # DLPack also waits for what they still compute
    if not immutable and hasattr(value, "__cuda_array_interface__"):
        return _borrow_device(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _borrow_dlpack(value)
    if hasattr(value, "__array_interface__"):
        return _borrow_numpy(np.asarray(value), type(value).__module__.split(".")[0], value)
    return None


def _known_dtype(dtype: object) -> DType | None:
    try:
        return as_dtype(dtype)
    except OptionError:
        return None


def _borrow_numpy(array: np.ndarray, framework: str, owner: object) -> ArrayView:
    dtype = _known_dtype(array.dtype) if array.dtype.isnative else None
    size = array.dtype.itemsize
    whole = size > 0 and all(stride % size == 0 for stride in array.strides)
    return ArrayView(
        framework=framework,
        dtype=dtype,
        dtype_text=str(array.dtype if dtype is None else dtype),  # NumPy takes its time to name its own
        shape=array.shape,
        strides=tuple(stride // size for stride in array.strides) if whole else None,
        pointer=array.__array_interface__["data"][0],
        device="cpu",
        writable=array.flags.writeable,
        aligned=array.flags.aligned,
        owner=owner,
    )


def _borrow_torch(tensor: Any) -> ArrayView:
    on_host = tensor.device.type == "cpu"
    lazy = on_host and (tensor.is_neg() or tensor.is_conj())
    if lazy:  # lazily negated or conjugated: the memory has other values than the tensor
        tensor = tensor.resolve_neg().resolve_conj()
    strided = str(tensor.layout) == "torch.strided"
    if tensor.is_cuda and strided and tensor.is_neg():
        tensor, lazy = tensor.resolve_neg(), True
    pointer = tensor.data_ptr() if (on_host or tensor.is_cuda) and strided else 0
    device = str(tensor.device)
    return ArrayView(
        framework="torch",
        dtype=_known_dtype(tensor.dtype),
        dtype_text=str(tensor.dtype),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()) if strided else None,
        pointer=pointer,
        device=device.replace("cuda", _gpu_type("torch"), 1) if tensor.is_cuda else device,
        writable=not lazy,
        aligned=pointer % max(1, tensor.element_size()) == 0,
        owner=tensor,
    )


def _borrow_device(value: Any) -> ArrayView:
    """Source: Numba documentation, "CUDA Array Interface (Version 3)"."""
    interface = value.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    pointer, read_only = interface["data"]
    shape, steps, size = tuple(interface["shape"]), interface.get("strides"), max(1, dtype.itemsize)
    whole = steps is None or all(step % size == 0 for step in steps)
    strides = dense_strides(shape) if steps is None else tuple(step // size for step in steps) if whole else None
    number = getattr(getattr(value, "device", None), "id", None)  # as CuPy says it
    framework = type(value).__module__.split(".")[0]
    device = _gpu_type(framework)
    return ArrayView(
        framework=framework,
        dtype=_known_dtype(dtype),
        dtype_text=str(dtype),
        shape=shape,
        strides=strides,
        pointer=pointer or 0,
        device=device if number is None else f"{device}:{number}",
        writable=not read_only,
        aligned=(pointer or 0) % size == 0,
        owner=value,
        stream=interface.get("stream"),
    )


class _DlDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _DlTensor(ctypes.Structure):
    """Source: dlpack.h, struct DLTensor; the same in all versions."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DlDevice),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DlVersioned(ctypes.Structure):
    """Source: dlpack.h, struct DLManagedTensorVersioned of version 1."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DlTensor),
    )


_DL_READ_ONLY = 1
_DL_DEFAULT_STREAM = {"cuda": 1, "rocm": 0}  # Source: Python array API standard, __dlpack__, `stream`
_DL_CODES = {  # Source: dlpack.h, enum DLDataTypeCode
    0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool", 7: "float8_e3m4", 8: "float8_e4m3",
    9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu", 15: "float6_e2m3fn", 16: "float6_e3m2fn", 17: "float4_e2m1fn",
}  # fmt: skip
_DL_CODE_OF = {name: code for code, name in _DL_CODES.items()}
_DL_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 11: "cpu", 13: "cuda"}
_IMMUTABLE = ("jax", "jaxlib", "tensorflow")  # frameworks with immutable arrays


def dlpack_type(dtype: DType) -> tuple[int, int] | None:
    """The DLPack code and bits of a dtype; None if it has none."""
    name = "float32" if dtype == "tfloat32" else str(dtype)
    code = _DL_CODE_OF.get(name, _DL_CODE_OF.get(name.rstrip("0123456789")))
    return None if code is None else (code, dtype.bits)


def _borrow_dlpack(value: Any) -> ArrayView:
    framework = type(value).__module__.split(".")[0]
    kind, number = value.__dlpack_device__()
    device = _DL_DEVICES.get(int(kind), f"device kind {int(kind)}")
    device = device if device == "cpu" else f"{device}:{number}"
    family = device.partition(":")[0]
    if device != "cpu" and family not in GPUS:
        shape = tuple(getattr(value, "shape", ()))
        dtype = getattr(value, "dtype", None)
        return ArrayView(framework, _known_dtype(dtype), str(dtype), shape, None, 0, device, True, True, value)
    # on a device the producer makes its work visible to the default stream, on which the kernel then runs
    keywords = {} if device == "cpu" else {"stream": _DL_DEFAULT_STREAM[family]}
    try:
        capsule = value.__dlpack__(max_version=(1, 0), **keywords)
    except TypeError:  # a producer from before version 1
        capsule = value.__dlpack__(**keywords)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if "versioned" in repr(capsule):
        managed = _DlVersioned.from_address(get(capsule, b"dltensor_versioned"))
        tensor, read_only = managed.tensor, bool(managed.flags & _DL_READ_ONLY)
    else:
        tensor, read_only = _DlTensor.from_address(get(capsule, b"dltensor")), False
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else dense_strides(shape)
    code = _DL_CODES.get(tensor.code, f"code{tensor.code}_")
    name = code if code == "bool" or code.startswith(("float8", "float4")) else f"{code}{tensor.bits}"
    pointer = (tensor.data or 0) + tensor.byte_offset
    return ArrayView(
        framework=framework,
        dtype=_known_dtype(name) if tensor.lanes == 1 else None,
        dtype_text=name,
        shape=shape,
        strides=strides,
        pointer=pointer,
        device=device,
        writable=not read_only and framework not in _IMMUTABLE,
        aligned=pointer % max(1, tensor.bits // 8) == 0,
        owner=(value, capsule),
    )


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


_PROTOCOLS = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")


def framework_of(values: Sequence[object]) -> object:
    """The array argument that determines the framework of the outputs, or None."""
    for value in values:
        if is_torch_tensor(value) or any(hasattr(value, name) for name in _PROTOCOLS):
            return value
    return None


@record
class Allocation:
    """A deferred allocation: a function and its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        """A new array."""
        return self.function(*self.args, **self.keywords)


def host_allocation(like: object, shape: tuple[int, ...], dtype: DType) -> Allocation:
    """The allocation of a host array in the framework of `like`.

    Frameworks with immutable arrays get a NumPy array, which `to_framework_of` converts after the call. Without `like`
    it is a torch tensor if torch is imported.
    """
    torch = sys.modules.get("torch")
    row: Any = torch_dtype(dtype)
    if torch is None or row is None or not (like is None or isinstance(like, torch.Tensor)):
        return Allocation(np.empty, (shape, dtype.numpy))
    if math.prod(shape) * row.itemsize < HUGE_PAGES_FROM_BYTES:
        return Allocation(torch.empty, (shape,), {"dtype": row})
    return Allocation(_empty_in_huge_pages, (shape, row))


def torch_device_allocation(shape: tuple[int, ...], dtype: object, device: int) -> Allocation:
    """The allocation of a torch tensor on a GPU, which torch calls a CUDA device whoever made it."""
    torch = sys.modules["torch"]
    return Allocation(torch.empty, (shape,), {"dtype": dtype, "device": torch.device(f"cuda:{device}")})


def allocate(like: object, shape: tuple[int, ...], dtype: DType) -> Any:
    """An uninitialized host array; see `host_allocation`."""
    return host_allocation(like, shape, dtype).make()


def allocate_on_device(like: object, shape: tuple[int, ...], dtype: DType, device: int) -> Any:
    """An uninitialized array on a GPU, in the framework of `like`; torch's or CuPy's without it.

    None if no imported framework can allocate it.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    row = torch_dtype(dtype)
    library = type(like).__module__.split(".")[0]
    if torch is not None and row is not None and (like is None or isinstance(like, torch.Tensor) or library == "numba"):
        return torch_device_allocation(shape, row, device).make()
    if library in _IMMUTABLE and hasattr(like, "__array_namespace__"):
        array = like.__array_namespace__().empty(shape, dtype=dtype.numpy, device=getattr(like, "device", None))
        return array.block_until_ready() if hasattr(array, "block_until_ready") else array
    if cupy is not None:
        with cupy.cuda.Device(device):
            return cupy.empty(shape, dtype.numpy)
    return None


HUGE_PAGES_FROM_BYTES = 1 << 22  # where NumPy starts to ask the system for huge pages


def _empty_in_huge_pages(shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialized torch tensor on memory of NumPy, which uses huge pages.

    Page faults of 64 MiB in small pages take several times as long as writing them.
    """
    torch = sys.modules["torch"]
    size_bytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(size_bytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return torch.from_numpy(memory[start : start + size_bytes]).view(dtype).view(shape)


def to_framework_of(array: Any, like: object) -> Any:
    """A filled output as an array of the framework of `like`."""
    if like is None or isinstance(like, np.ndarray) or not isinstance(array, np.ndarray):
        return array
    if not hasattr(like, "__array_namespace__"):
        return array
    return like.__array_namespace__().asarray(array)


def torch_dtype(dtype: DType) -> object | None:
    """The torch dtype that stores a dtype, if torch is imported and has it."""
    torch = sys.modules.get("torch")
    if torch is None or dtype.bits < 8 or str(dtype) not in SCALARS:
        return None
    return getattr(torch, "float32" if dtype == "tfloat32" else str(dtype), None)
