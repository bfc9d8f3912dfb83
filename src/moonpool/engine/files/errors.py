"""What can be wrong with a file transfer, and what follows: nothing of it was published, in the sandbox or here.

A guest's answer names a reason by a code (`moonpool_guest.files.refusals`). SECURITY: code and words are the guest's;
an unknown code is a plain failure, and the words are shortened and stripped of what a terminal would act on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DETAIL_CHARS_MAX: Final = 400


class FileTransferError(MoonpoolError):
    """A transfer failed: the sandbox ended, did not answer, or could not do it. No partial file is left."""

    code = "transfer_failed"
    fault = Fault.GUEST


class TransferTimeoutError(FileTransferError):
    """A transfer took too long and was given up, or the sandbox stopped answering and was ended."""

    code = "transfer_timeout"
    fault = Fault.GUEST
    retryable = True


class DigestMismatchError(FileTransferError):
    """What arrived is not what was sent. Nothing was kept."""

    code = "digest_mismatch"
    fault = Fault.GUEST


class FileChangedError(FileTransferError):
    """A file changed while it was read. Nothing was kept."""

    code = "file_changed"
    fault = Fault.GUEST
    retryable = True


class FileMissingError(FileTransferError):
    """There is no such file in the sandbox."""

    code = "file_missing"
    fault = Fault.CALLER


class TargetExistsError(FileTransferError):
    """Something is there already, and replacing it was not asked for."""

    code = "target_exists"
    fault = Fault.CALLER


class NotARegularFileError(FileTransferError):
    """It is a folder, link, pipe, socket or device; only regular files are sent and replaced."""

    code = "not_a_regular_file"
    fault = Fault.CALLER


class NameRefusedError(FileTransferError):
    """A path cannot be used: too long, no text, or no part of it is a name."""

    code = "name_refused"
    fault = Fault.CALLER


class PathOutsideError(NameRefusedError):
    """A path leads out of the places where files may lie."""

    code = "path_outside"
    fault = Fault.CALLER


class FileInaccessibleError(FileTransferError):
    """Permissions in the sandbox forbid it."""

    code = "file_inaccessible"
    fault = Fault.CALLER


class FileTooLargeError(FileTransferError):
    """A file or folder is larger than may be transferred."""

    code = "file_too_large"
    fault = Fault.CALLER


class DiskQuotaError(FileTransferError):
    """The sandbox's disk quota is full."""

    code = "disk_quota_full"
    fault = Fault.CALLER


class ArchiveRefusedError(FileTransferError):
    """An archive cannot be unpacked safely. Nothing of it was."""

    code = "archive_refused"
    fault = Fault.CALLER


_KINDS: Final[dict[str, tuple[type[FileTransferError], str]]] = {
    "missing": (FileMissingError, "list the folder to see what is there"),
    "exists": (TargetExistsError, "choose another path, or replace it (`--force`)"),
    "not_regular": (NotARegularFileError, "name a regular file; a folder can be archived"),
    "not_a_folder": (NotARegularFileError, "name a folder"),
    "not_empty": (NotARegularFileError, "ask for everything in it, too"),
    "link": (NotARegularFileError, "name what the link leads to"),
    "name": (NameRefusedError, "choose a shorter, plain name"),
    "outside": (PathOutsideError, "name a path below /workspace, /home/user, /data or /tmp"),
    "inaccessible": (FileInaccessibleError, "change its mode with code first"),
    "too_large": (FileTooLargeError, "transfer less at a time"),  # `refusal` names the setting
    "too_many": (FileTooLargeError, "transfer less at a time"),
    "too_large_there": (FileTooLargeError, "make smaller files, or raise disk_bytes_max"),
    "quota": (DiskQuotaError, "delete files first, or raise disk_bytes_max"),
    "digest_mismatch": (DigestMismatchError, "try again"),
    "changed": (FileChangedError, "try again when the code that writes it has ended"),
    "archive": (ArchiveRefusedError, "make the archive anew without it"),
    "memory": (FileTransferError, "open a new session"),
    "busy": (FileTransferError, "let the code close some files first"),
}


def refusal(path: str, code: str, detail: str, *, size_setting: str = "") -> FileTransferError:
    """The error for a guest's `code` about `path`; `size_setting` is what bounds the size of such a transfer."""
    kind, remedy = _KINDS.get(code, (FileTransferError, "open a new session if it happens again"))
    if code == "too_large" and size_setting:
        remedy += f", or raise {size_setting}"
    return kind(f"{shown(path)}: {shown(detail) or 'it failed'}; {remedy}")


def _kinds_of(kind: type[FileTransferError]) -> Iterator[type[FileTransferError]]:
    yield kind
    for special in kind.__subclasses__():
        yield from _kinds_of(special)


_BY_CODE: Final = {kind.code: kind for kind in _kinds_of(FileTransferError)}


def error_of(code: str, message: str) -> FileTransferError | None:
    """The error with this `code` and `message`, as another process raised it; None if `code` is none of these."""
    kind = _BY_CODE.get(code)
    return None if kind is None else kind(message)


def shown(text: str) -> str:
    """`text` from anywhere, for one line of a message."""
    short = text if len(text) <= _DETAIL_CHARS_MAX else text[:_DETAIL_CHARS_MAX] + "..."
    return "".join(char if char.isprintable() else "?" for char in short)
