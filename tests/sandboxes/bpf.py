"""Runs a seccomp program as the Linux kernel would, for one system call."""

from __future__ import annotations

import struct
from dataclasses import dataclass

KILL, ALLOW, ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000


@dataclass(frozen=True)
class Call:
    """What a filter sees of a system call."""

    number: int
    audit: int
    arguments: tuple[int, ...] = ()

    def packed(self) -> bytes:
        arguments = (*self.arguments, *(0,) * (6 - len(self.arguments)))
        return struct.pack("<iIQ6Q", self.number - (self.number >> 31 << 32), self.audit, 0, *arguments)


def instructions(program: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", program))


def verdict(program: bytes, call: Call) -> int:
    """What the program returns."""
    steps, data, at, register = instructions(program), call.packed(), 0, 0
    while True:
        code, jump_true, jump_false, value = steps[at]
        at += 1
        if code == 0x20:
            (register,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            register &= value
        elif code == 0x06:
            return value
        elif code == 0x05:
            at += value
        else:
            taken = {0x15: register == value, 0x25: register > value, 0x35: register >= value, 0x45: register & value}
            at += jump_true if taken[code] else jump_false
