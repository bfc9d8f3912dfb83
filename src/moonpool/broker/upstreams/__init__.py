"""Upstreams: the MCP servers that the broker is a client of.

`open_upstreams` gives one `Upstream` per configured server. Each connects on first use, lives in one owner task, is
restarted on the next call after it died, and fails with a typed error inside the caller's time limit. What a caller
gets is the server's own JSON, unknown members included: nothing passes through the SDK's models, which would drop
them.

    base        the seam: `Upstream` and its closed set of errors
    opening     all upstreams of one configuration: `open_upstreams`
    supervisor  one upstream: owner task, time limits, restarts
    circuit     whether a failing upstream is called now; `backoff` (pure) counts
    pace        how fast one is called, and whose turn it is; `callers` says who calls
    observing   subscriptions to resources: `subscriptions` (who wants what), `changes` (what one connection tells)
    link        one live connection: era, requests, listing; the only user of the SDK's session
    questions   what a server asks back, and who answers; `forms` (pure), `asking` (the dispatcher)
    root_folders  what a server may ask for as roots, now
    offers      resources, prompts and completion, made into tools; `cursors` ends their pages
    remarks     log messages and progress of a server, into the operator's log
    listing     what `tools/list` pages mean, also when half of them is broken (pure)
    results     which results of `tools/call` are usable (pure)
    stdio, process   a child process as a transport; its birth, stderr and death
    http, sse        the two HTTP transports

RULE: importing this package does not import `mcp`, which costs a second; `link` and below are imported on first use.
"""

from moonpool.broker.upstreams.base import Upstream, UpstreamError
from moonpool.broker.upstreams.opening import Upstreams, open_upstreams

__all__ = ["Upstream", "UpstreamError", "Upstreams", "open_upstreams"]
