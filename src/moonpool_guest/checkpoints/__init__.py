"""Checkpoints of a session: PID 1 supervises, runs no code, and keeps stopped twins of the kernel.

    supervisor  PID 1: which kernel is in use, which twins there are, orphans, interrupts
    twins       the kernel's side: becoming one, leaving a twin behind, handing over to one
    saved       the files of `/workspace` at each checkpoint, kept by PID 1

The kernel of such a session is a child of PID 1. A checkpoint is a fork of it that waits (a twin), and the state of
`/workspace`. To go back, the twin becomes the kernel, and the one in use is ended; the host then asks for a twin of it
under the same number, while nobody waits. When the kernel dies while it runs code, a twin goes on in the same way.

The kernel and its twins speak JSON datagrams with PID 1: each process over a pair of sockets of its own, which it
hands over when it reports on the one socket that all of them share.

    kernel      {"op": "check", "id", "fds", "threads"}     may a checkpoint be made? -> {"refused", "full"}; then it
                                                            forks -> {"refused"}, once the twin has reported
                {"op": "failed"}                            it cannot fork
                {"op": "restore", "id", "order", "blob"}    go back -> {"refused"}, or its end
                {"op": "drop", "ids"}
    report      {"op": "twin", "pid", "id"}                 a twin waits
                {"op": "kernel", "pid", "order"}            a kernel waits to be put in use -> {"op": "go"}

SECURITY: all of this has the code's own rights, limits and filter. Code can end its twins or talk nonsense here: then
it cannot be put back, or its sandbox ends. The host takes no word of it for more than that.
"""
