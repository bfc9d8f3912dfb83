"""Limits of the channel between host and guest. Bytes unless the name says otherwise.

A guest that breaks one of them is discarded; the host never does. Sources: `docs/reference/wire.md`.
"""

from typing import Final

PROTOCOL_VERSION: Final = 1

HEAD_BYTES_MAX: Final = 16 * 1024
"""A message's JSON head: fixed, small fields. Measured: the largest honest head is below 6 KiB."""

INLINE_BODY_BYTES_MAX: Final = 64 * 1024
"""A larger body travels as a blob, with its length and digest first and credits as back-pressure."""

FRAME_BYTES_MAX: Final = 4 + HEAD_BYTES_MAX + INLINE_BODY_BYTES_MAX

BLOB_CHUNK_BYTES_MAX: Final = 64 * 1024
BLOB_WINDOW_BYTES: Final = 512 * 1024
"""What may be on its way without a credit. Two pipe buffers' worth keeps the pipe full at any body size."""

BLOB_BYTES_MAX_TO_GUEST: Final = 64 * 1024 * 1024
BLOB_BYTES_MAX_TO_HOST: Final = 16 * 1024 * 1024

DEPTH_MAX: Final = 64
"""Nesting of JSON that a guest sends. Deeper values crash naive decoders by recursion."""

CONTAINERS_MAX: Final = 200_000
"""Objects and arrays in one JSON body: 1 MiB of `{}` is 349,000 objects, 25 MB of memory and 100 ms of parsing."""

VALUES_MAX: Final = 500_000
"""Values in one JSON body. A decoder does not let go of the interpreter: 16 MiB of `1,` held the host for 0.5 s."""

FRAMES_PER_SECOND_MAX: Final = 20_000
FRAMES_BURST_MAX: Final = 5_000
MESSAGES_PER_SECOND_MAX: Final = 3_000
MESSAGES_BURST_MAX: Final = 1_000
RECEIVED_BYTES_PER_SECOND_MAX: Final = 64 * 1024 * 1024
RECEIVED_BYTES_BURST_MAX: Final = 32 * 1024 * 1024
"""Above one of these rates the host stops reading that guest for a moment; neighbours do not notice."""

REFUSED_CALLS_PER_SECOND_MAX: Final = 50
REFUSED_CALLS_BURST_MAX: Final = 500
REFUSED_CALL_BYTES: Final = 1024
REFUSED_CALL_UNITS_MAX: Final = 50
"""The same for tool calls that the broker refuses by itself: each costs the host 0.3 ms and the guest nothing. One with
large arguments, which were read before it was refused (60 KiB: 3 ms), counts as one more for each `REFUSED_CALL_BYTES`.
"""

CALLS_IN_FLIGHT_MAX: Final = 256
"""Tool calls of one execution that may wait at the same time."""

CALL_BYTES_IN_FLIGHT_MAX: Final = 64 * 1024 * 1024
"""Arguments of those calls together. The host holds them three times over: as text, as values, as canonical text."""

NONDETERMINISM_BYTES_MAX: Final = 1024 * 1024
"""Bounds one nondeterminism log. One that reaches it is marked as incomplete."""

DIVERGENCE_CHARS_MAX: Final = 500

PICTURES_MAX: Final = 5
PICTURE_BYTES_MAX: Final = 1024 * 1024
PICTURE_SIDE_MAX: Final = 8000
"""Pictures that one execution may show a model, bytes of one, and its longer side in dots. Model APIs refuse more."""

BUNDLES_MAX: Final = 32
BUNDLE_BYTES_MAX: Final = 512 * 1024
BUNDLE_MIMES: Final = (
    "text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml", "application/json",
    "application/javascript",
)  # fmt: skip
"""Rich displays that one execution may send, bytes of one as JSON, and the forms that it may have."""

FILES_MADE_MAX: Final = 50
FILES_MADE_BYTES_MAX: Final = INLINE_BODY_BYTES_MAX
FILE_MADE_CHARS_MAX: Final = 200
"""Files that one execution may name as made by its code, and the length of such a name. More are counted."""

FILE_PIECE_BYTES_MAX: Final = INLINE_BODY_BYTES_MAX
"""Files travel in pieces of this size, each inside one frame, so that neither end holds more than a window of them."""

FILE_PIECES_IN_FLIGHT_MAX: Final = 16
"""Pieces that may be on their way: the sender waits until the receiver has used one of them."""

FILE_PATH_BYTES_MAX: Final = 4096
FILE_NAME_BYTES_MAX: Final = 255
FILE_DEPTH_MAX: Final = 64
"""Folders inside folders, in a listing and in an archive."""

FILE_ENTRIES_MAX: Final = 10_000
FILE_LISTING_BYTES_MAX: Final = 1024 * 1024
"""A listing ends at whichever comes first, and says that it was cut."""

ARCHIVE_ENTRIES_MAX: Final = 20_000
"""Above the 16,384 files that a sandbox may hold, so that whatever is in one can be archived."""

TREE_ENTRIES_MAX: Final = 20_000
TREE_LIST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Files, folders and links that a stored tree brings in or a change of it takes out, and the list of them as JSON."""

TREE_PATH_BYTES_MAX: Final = 3584
"""Of a path of a stored tree in a sandbox. Linux takes 4095 bytes in all: the rest is for the folder that the tree is
in, there or on the host, where volumes are checked out.
"""

ARCHIVE_RATIO_MAX: Final = 200
ARCHIVE_RATIO_FREE_BYTES: Final = 16 * 1024 * 1024
"""A compressed archive may expand so many times; the first megabytes are free, because small ones compress well."""
