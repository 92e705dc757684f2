"""`RuntimeCompiler`: what vendors' libraries for runtime compilation share; their functions differ in a prefix only.

Takes text and flags, gives a `Compilation`. The vendors' files name their sources.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tilelang.errors import ToolchainError
from tilelang.targets.gpu.runtime.compile_log import Compilation


class RuntimeCompiler:
    """A library that compiles text inside this process; `str` of it names it in messages.

    Attributes:
        prefix: That of its functions, which is also its name.
        library: Its functions.
    """

    prefix: ClassVar[str]
    library: ctypes.CDLL

    def _compile_program(
        self, text: str, file: str, options: Sequence[str], code: str, headers: Mapping[bytes, bytes]
    ) -> Compilation:
        """The machine code of a text; the interpreter lock is free meanwhile.

        Args:
            text: The program.
            file: What logs call it.
            options: The flags.
            code: The kind of code in the name of the function that gives it, as in `Get{code}Size`.
            headers: The texts of headers, by name.
        """
        program, count = ctypes.c_void_p(), len(headers)
        texts = (ctypes.c_char_p * count)(*headers.values()) if headers else None
        names = (ctypes.c_char_p * count)(*headers) if headers else None
        source = text.encode("utf-8", "backslashreplace")
        self._call("CreateProgram", ctypes.byref(program), source, file.encode(), count, texts, names)
        try:
            words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
            status = getattr(self.library, f"{self.prefix}CompileProgram")(program, len(options), words)
            log = self._bytes("ProgramLog", program).rstrip(b"\0").decode("utf-8", "replace")
            binary = self._bytes(code, program) if status == 0 else None
        finally:
            getattr(self.library, f"{self.prefix}DestroyProgram")(ctypes.byref(program))
        return Compilation(binary, log.strip(), " ".join([self.prefix, *options, file]))

    def _call(self, name: str, *args: object) -> None:
        status = getattr(self.library, f"{self.prefix}{name}")(*args)
        if status:
            explain = getattr(self.library, f"{self.prefix}GetErrorString")
            explain.restype = ctypes.c_char_p
            raise ToolchainError(f"{self}: {self.prefix}{name} failed: {explain(status).decode()}")

    def _bytes(self, what: str, program: ctypes.c_void_p) -> bytes:
        """A text that the compiler keeps for a program, such as its log."""
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._call(f"Get{what}", program, buffer)
        return buffer.raw[: size.value]
