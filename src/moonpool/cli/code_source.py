"""Reads the code of `moonpool run` from a file, `-c` or standard input: unchanged bytes, bounded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from moonpool.core.errors import InputError
from moonpool.core.languages import PYTHON, is_typescript, language_of, language_of_file
from moonpool.engine.code_request import CodeRequest

_STDIN = 0


def read_code(file: str | None, inline: str | None, language: str | None = None, *, bytes_max: int) -> CodeRequest:
    """A request for the code alone. Without `language` the file's name decides. Raises InputError."""
    named = language_of(language) if language is not None else None
    if inline is not None:
        if file is not None:
            raise InputError(f"give either -c CODE or the file {file!r}, not both")
        code = _checked(os.fsencode(inline), "the code given with -c", bytes_max)
        return CodeRequest(code=code, language=named or PYTHON, typescript=is_typescript(language))
    if file == "-" or (file is None and not os.isatty(_STDIN)):
        with open(_STDIN, "rb", closefd=False) as stdin:
            code = _checked(_read(stdin, bytes_max, "standard input"), "standard input", bytes_max)
        return CodeRequest(code=code, name="<stdin>", language=named or PYTHON, typescript=is_typescript(language))
    if file is None:
        raise InputError("there is no code to run; give a file, -c CODE, or code on standard input")
    code = _checked(_read_file(file, bytes_max), file, bytes_max)
    written_in = named or language_of_file(file)
    shown = os.fsencode(file).decode(errors="replace")  # a file name may be invalid UTF-8, a name in tracebacks may not
    typescript = written_in == "node" and is_typescript(language, file)
    return CodeRequest(code=code, name=shown, language=written_in, typescript=typescript)


def _read_file(name: str, bytes_max: int) -> bytes:
    try:
        with Path(name).open("rb") as opened:
            return _read(opened, bytes_max, name)
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file; give a file, -c CODE, or `-` for standard input") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder; name a file with code") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise InputError(f"{name!r} cannot be a file's name") from None


def _read(stream: BinaryIO, bytes_max: int, what: str) -> bytes:
    try:
        return stream.read(bytes_max + 1)
    except IsADirectoryError:
        raise
    except OSError as error:
        raise InputError(f"{what}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def _checked(code: bytes, what: str, bytes_max: int) -> bytes:
    if not code.strip():
        raise InputError(f"{what}: there is no code to run, it is empty; put code there")
    if len(code) > bytes_max:
        raise InputError(
            f"{what}: the code is larger than {bytes_max:,} bytes; move data into files or fetch it through a tool"
        )
    try:
        code.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{what}: the code is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    return code
