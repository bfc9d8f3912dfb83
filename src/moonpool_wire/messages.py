"""Names of the messages on the channel, their heads and bodies.

A message is a small JSON object (the head, with its type in `t`) and an optional body of bytes. This table is the
specification; the host validates heads into typed structs (`moonpool.sandboxes.messages`), the guest reads them with
the standard library.

To the guest:

| `t` | head | body |
|---|---|---|
| `execute` | `run`, `name`, `manifest`, `final`, `result_bytes_max`, `language`, `rehearse` | source code, UTF-8 |
| `interrupt` | `run` | |
| `tool_result` | `id` | reply object, JSON |
| `close` | | |

To the host:

| `t` | head | body |
|---|---|---|
| `ready` | `protocol`, `pid`, `language`, `version` | |
| `failed` | `step`, `message` | |
| `tool_call` | `id`, `server`, `tool` | arguments object, JSON |
| `display` | `mime` | the representation |
| `output` | `stream` (1 or 2) | bytes written; only where a backend has no pipes |
| `done` | `run`, `status`, `exit_code`, `error`, `has_result` | result, JSON, when `has_result` |

`status` of `done`: `ok`, `error` (an exception, named in `error`), `exit` (`SystemExit`), `interrupted`.
"""

from typing import Final

EXECUTE: Final = "execute"
INTERRUPT: Final = "interrupt"
TOOL_RESULT: Final = "tool_result"
CLOSE: Final = "close"

READY: Final = "ready"
FAILED: Final = "failed"
TOOL_CALL: Final = "tool_call"
DISPLAY: Final = "display"
OUTPUT: Final = "output"
DONE: Final = "done"
