"""Names of the messages on the channel, their heads and bodies.

A message is a small JSON object (the head, with its type in `t`) and an optional body of bytes. This table is the
specification; the host validates heads into typed structs (`moonpool.sandboxes.messages`), the guest reads them with
the standard library.

To the guest:

| `t` | head | body |
|---|---|---|
| `nondeterminism_log` | `run` | the nondeterminism log to replay in that execution, which comes next |
| `variables` | `run`, `home` | environment variables for that execution, which comes next, JSON |
| `execute` | `run`, `name`, `manifest`, `final`, `result_bytes_max`, `language`, `rehearse`, `record`, `ipython` | code |
| `interrupt` | `run` | |
| `tool_result` | `id` | reply object, JSON |
| `close` | | |
| `checkpoint` | `order`, `number`, `drop`, `token` | |
| `restore` | `order`, `number`, `drop` | |
| `file_put` | `order`, `path`, `mode`, `replace`, `bytes_max` | |
| `file_unpack` | `order`, `path`, `form`, `replace`, `bytes_max`, `expanded_bytes_max` | |
| `file_get` | `order`, `path`, `bytes_max` | |
| `file_archive` | `order`, `path`, `bytes_max` | |
| `file_list` | `order`, `path`, `recursive` | |
| `file_delete` | `order`, `path`, `recursive` | |
| `file_mkdir` | `order`, `path` | |
| `tree_fill` | `order`, `path`, `bytes_max` | |
| `tree_changes` | `order`, `path`, `bytes_max` | |
| `file_piece` | `order` | the next bytes |
| `file_commit` | `order`, `sha256` | |
| `file_next` | `order`, `pieces` | |
| `file_drop` | `order` | |

To the host:

| `t` | head | body |
|---|---|---|
| `ready` | `protocol`, `pid`, `language`, `version` | |
| `failed` | `step`, `message` | |
| `tool_call` | `id`, `server`, `tool`, `line` | arguments object, JSON |
| `call_refused` | `server`, `tool`, `message` | |
| `install_packages` | `id` | requirements as text; answered by `tool_result` |
| `display` | `mime`, `name` | a picture |
| `bundle` | `result` | one value in several forms: text by MIME type, JSON |
| `output` | `stream` (1 or 2) | bytes written; only where a backend has no pipes |
| `nondeterminism_log` | `run`, `divergence` | what was recorded |
| `made` | `run`, `count` | files that the code made: path and size of the first ones, JSON |
| `done` | `run`, `status`, `exit_code`, `error`, `has_result`, `has_last`, `note` | a value, JSON, if there is one |
| `checkpoint_done` | `order`, `refused`, `full`, `lost` | |
| `kernel_ended` | `status` | |
| `file_opened` | `order`, `size` | |
| `file_taken` | `order` | |
| `file_data` | `order` | the next bytes |
| `file_entries` | `order`, `truncated` | entries, JSON |
| `file_done` | `order`, `size`, `sha256`, `entries`, `skipped` | |
| `file_failed` | `order`, `code`, `message` | |

A `nondeterminism_log` is what code read of clocks and randomness; it is opaque to the host
(`docs/reference/wire.md`). The guest sends one directly before `done` where one was to be recorded (`record`) or
played.

`display`, `bundle` and `made` are the guest's word: pictures and values that code showed, and files of `/workspace`
that are new or changed (one message before `done`, where there are any). `name` is the picture's file in `/workspace`,
empty where there is none. A bundle's `result` says that it is the last expression's.

`status` of `done`: `ok`, `error` (an exception, named in `error`), `exit` (`SystemExit`), `interrupted`. Its body is
the result when `has_result`, the value of the last expression when `has_last`; `note` says why there is no such value.

`checkpoint` and `restore` come between executions, the first `checkpoint` before any code; `drop` names checkpoints to
forget. After `restore` another process answers, on the same channel. `kernel_ended` says that the process which ran code
has ended, with `status` as a shell has it; it is the first message behind a mark (`frames.restart_mark`).

Files move between executions, one order at a time; all of its messages repeat its `order`. The host sends pieces
(`file_put`, `file_unpack`) and the guest says `file_taken` for each, or the host asks for them (`file_next`) after
`file_opened` and gets `file_data`. Either way at most `FILE_PIECES_IN_FLIGHT_MAX` are on their way. An order ends in
one `file_done`, `file_entries` or `file_failed`; `file_drop` asks for that end. What comes for an order that is over is
dropped.

`tree_fill` is answered as `file_put` is, `tree_changes` as `file_get`: a stored tree comes in before code, and what
changed of it goes out after; the guest ends all other processes first. What travels is four bytes (big-endian, the
length of a list), the list as JSON, then the contents of the files in it, in order. An entry is `[kind, path, mode,
modified_ns, size or target]` with the kinds `file`, `folder` and `link`; the list of changes is `{"put": entries,
"removed": paths}`.

`variables` has the names and values that one execution has in its environment besides. With `home`, that is where it
lives: `HOME`, `PWD`, and packages and programs of `~/.local`.
"""  # noqa: E501  rows of a table

from typing import Final

VARIABLES: Final = "variables"
EXECUTE: Final = "execute"
NONDETERMINISM_LOG: Final = "nondeterminism_log"
INTERRUPT: Final = "interrupt"
TOOL_RESULT: Final = "tool_result"
CLOSE: Final = "close"
CHECKPOINT: Final = "checkpoint"
RESTORE: Final = "restore"

READY: Final = "ready"
FAILED: Final = "failed"
TOOL_CALL: Final = "tool_call"
CALL_REFUSED: Final = "call_refused"
INSTALL_PACKAGES: Final = "install_packages"
DISPLAY: Final = "display"
BUNDLE: Final = "bundle"
OUTPUT: Final = "output"
MADE: Final = "made"
DONE: Final = "done"
CHECKPOINT_DONE: Final = "checkpoint_done"
KERNEL_ENDED: Final = "kernel_ended"

FILE_PUT: Final = "file_put"
FILE_UNPACK: Final = "file_unpack"
FILE_GET: Final = "file_get"
FILE_ARCHIVE: Final = "file_archive"
FILE_LIST: Final = "file_list"
FILE_DELETE: Final = "file_delete"
FILE_MKDIR: Final = "file_mkdir"
TREE_FILL: Final = "tree_fill"
TREE_CHANGES: Final = "tree_changes"
FILE_PIECE: Final = "file_piece"
FILE_COMMIT: Final = "file_commit"
FILE_NEXT: Final = "file_next"
FILE_DROP: Final = "file_drop"

FILE_OPENED: Final = "file_opened"
FILE_TAKEN: Final = "file_taken"
FILE_DATA: Final = "file_data"
FILE_ENTRIES: Final = "file_entries"
FILE_DONE: Final = "file_done"
FILE_FAILED: Final = "file_failed"
