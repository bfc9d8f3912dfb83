"""Upstreams: the MCP servers that Moonpool is a client of.

`open_upstreams` gives one `Upstream` per configured server. Each connects on first use, lives in one owner task, is
restarted on the next call after it died, and fails with a typed error inside the caller's time limit. What a caller
gets is the server's own JSON, unknown members included: nothing passes through the SDK's models, which would drop
them.

    base                   the seam: `Upstream` and its closed set of errors
    opening                all upstreams of one configuration: `open_upstreams`
    supervisor             one upstream: owner task, time limits, restarts
    circuit                whether a failing upstream is called now; `backoff` (pure) counts
    rate_limit             how fast one is called, and whose turn it is; `callers` says who calls
    connecting             how a connection comes to be: transports in their order, within one time limit
    connection             one live connection: requests, listing; the only user of the SDK's session
    protocol_version       which revision a server speaks, and how its requests are stamped
    server_requests        what a server asks back, and who answers; `forms` (pure), `dispatcher`, `open_call`
    root_folders           what a server may ask for as roots, now
    resources_and_prompts  resources, prompts and completion, made into tools; `cursors` ends their pages
    subscription_tools     subscriptions to resources: `subscriptions` (who wants what), `changes` (what was told)
    server_logging         log messages and progress of a server, into the operator's log
    listing                what `tools/list` pages mean, also when half of them is broken (pure)
    results                which results of `tools/call` are usable (pure)
    stdio, process         a child process as a transport; its birth, stderr and death
    http, sse              the two HTTP transports

RULE: importing this package does not import `mcp`, which costs a second; `connection` and what it needs are imported on
first use.
"""

from moonpool.upstreams.base import Upstream, UpstreamError
from moonpool.upstreams.opening import Upstreams, open_upstreams

__all__ = ["Upstream", "UpstreamError", "Upstreams", "open_upstreams"]
