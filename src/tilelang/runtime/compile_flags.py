"""Compile flags in the style of nvcc, converted for other compilers.

Flags are converted for a compiler of device code only, or for a C++ compiler of the host. Invariant:
flags that change what the code computes are passed on, and so are unknown ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilelang.records import record

# Source: NVIDIA CUDA Compiler Driver NVCC, "Command Option Description"; NVRTC, "Supported Compile Options"
STANDARD = "--std=c++17"  # default

# flags whose value may be the next word
_WITH_VALUE = frozenset(
    """
    -Xcompiler --compiler-options -Xptxas --ptxas-options -Xlinker --linker-options -Xnvlink --nvlink-options
    -Xarchive --archive-options -gencode --generate-code -arch --gpu-architecture -code --gpu-code -ccbin
    --compiler-bindir -t --threads -o --output-file -odir --output-directory --keep-dir -keep-dir -default-stream
    --default-stream -x --x -D --define-macro -U --undefine-macro -I --include-path -isystem --system-include
    -include --pre-include -maxrregcount --maxrregcount -std --std -L --library-path -l --library
    -diag-suppress --diag-suppress -diag-error --diag-error -diag-warn --diag-warn -Werror
    """.split()
)
_PTXAS = ("-Xptxas", "--ptxas-options")
_HOST = ("-Xcompiler", "--compiler-options")
_JOINED = {
    "-D": "-D", "--define-macro": "-D", "-U": "-U", "--undefine-macro": "-U", "-I": "-I", "--include-path": "-I",
    "-isystem": "-I", "--system-include": "-I", "-std": "--std=", "--std": "--std=",
}  # fmt: skip

# flags of nvcc for host code, files and phases, which a compiler of device code does not have
_HOST_ONLY = (
    r"-O\w*(=.*)?|--optimize|-W(?!error$).*|--?expt-.*|--?extended-lambda|-m(32|64)|--machine|-c|--compile|-g|--debug|"
    r"-v|--verbose|--?keep|-shared|--shared|--?res(ource)?-usage|-f[A-Za-z].*|-L.*|-l(?!ineinfo$).*|--(cubin|ptx|fatbin)"
)
_HOST_ONLY_WITH_VALUE = frozenset(
    """
    -Xcompiler --compiler-options -Xlinker --linker-options -Xnvlink --nvlink-options -Xarchive --archive-options
    -gencode --generate-code -arch --gpu-architecture -code --gpu-code -ccbin --compiler-bindir -t --threads -o
    --output-file -odir --output-directory --keep-dir -keep-dir -default-stream --default-stream -x --x -L
    --library-path -l --library
    """.split()
)

# flags of nvcc for device code, which a compiler of the host does not have
_DEVICE_ONLY = (
    r"--?expt-.*|--?extended-lambda|--?use_fast_math|--?(generate-)?line-?info|-G|--device-debug|--?(ftz|fmad)=.*|"
    r"--?prec-(div|sqrt)=.*|--?res(ource)?-usage|--?extra-device-vectorization|--?keep|-dlto|-rdc=.*|"
    r"--relocatable-device-code=.*|--?restrict"
)
_DEVICE_ONLY_WITH_VALUE = frozenset(
    """
    -Xptxas --ptxas-options -Xnvlink --nvlink-options -gencode --generate-code -arch --gpu-architecture -code --gpu-code
    -ccbin --compiler-bindir -t --threads -maxrregcount --maxrregcount -default-stream --default-stream --keep-dir
    -keep-dir -diag-suppress --diag-suppress -diag-error --diag-error -diag-warn --diag-warn
    """.split()
)


@record
class _Flag:
    """A flag with its value.

    Attributes:
        words: The words on the command line.
        name: The name without the value.
        value: The value; None for a flag without one.
    """

    words: tuple[str, ...]
    name: str
    value: str | None = None


def device_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags for a compiler of device code only."""
    result: list[str] = []
    for flag in _read(flags):
        if flag.name in _HOST_ONLY_WITH_VALUE or re.fullmatch(_HOST_ONLY, flag.name):
            continue
        if flag.name in _PTXAS:
            result += [f"--ptxas-options={option}" for option in (flag.value or "").split(",") if option]
        elif flag.name in _JOINED and flag.value is not None:
            result.append(f"{_JOINED[flag.name]}{flag.value}")
        else:
            result += flag.words
    return tuple(result)


def host_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags for a C++ compiler of the host; those that nvcc forwards to it are included."""
    result: list[str] = []
    for flag in _read(flags):
        if flag.name in _DEVICE_ONLY_WITH_VALUE or re.fullmatch(_DEVICE_ONLY, " ".join(flag.words)):
            continue
        result += (flag.value or "").split(",") if flag.name in _HOST else flag.words
    return tuple(result)


def with_standard(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags, with the default C++ standard if they name none."""
    named = any(re.match(r"--?std\b", flag) for flag in flags)
    return tuple(flags) if named else (STANDARD, *flags)


def _read(flags: Sequence[str]) -> Iterator[_Flag]:
    """Parses flags with their values: `-D X`, `-DX`, `--define-macro=X`."""
    words = iter(flags)
    for word in words:
        name, equals, value = word.partition("=")
        if word in _WITH_VALUE:
            following = next(words, None)
            yield _Flag((word,) if following is None else (word, following), word, following)
        elif equals and name in _WITH_VALUE:
            yield _Flag((word,), name, value)
        elif word[:2] in ("-D", "-U", "-I") and len(word) > 2:
            yield _Flag((word,), word[:2], word[2:])
        else:
            yield _Flag((word,), word)
