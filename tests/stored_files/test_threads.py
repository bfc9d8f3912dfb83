"""A thread's files: there before code, committed after it, whole or not at all; in three languages."""

# ruff: noqa: E501  code of sandboxes, one line each

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from moonpool.core.errors import InputError
from moonpool.engine.stored_files.run_storage import RunStorage
from moonpool.features.storage.model import TreeLostError
from stored_files.executions import in_workspace
from stored_files.memory_trees import MemoryTree

if TYPE_CHECKING:
    from stored_files.executions import Executions

pytestmark = pytest.mark.anyio
WHEN_NS = 1_234_567_890_123_456_789
WRITES = {
    "python": "open('made', 'w').write('by python')",
    "node": "require('node:fs').writeFileSync('made', 'by node')",
    "bash": "printf 'by bash' > made",
}
READS = {
    "python": "print(open('/home/baponi/made').read(), end='')",
    "node": "process.stdout.write(require('node:fs').readFileSync('/home/baponi/made', 'utf8'))",
    "bash": "cat /home/baponi/made",
}


@pytest.mark.req("J-017", "J-022")
@pytest.mark.parametrize("language", WRITES)
async def test_what_code_writes_is_there_at_the_next_execution(
    executions: Executions, thread: MemoryTree, language: str
) -> None:
    await executions.run(WRITES[language], thread, language=language)
    assert thread.files == {"made": f"by {language}".encode()}
    envelope = await executions.execute(READS[language], thread, language=language)
    assert envelope.extras["stdout"] == f"by {language}"
    assert thread.snapshot.version == 1  # nothing changed, nothing was committed


@pytest.mark.req("J-022")
async def test_home_is_the_thread_and_the_working_directory(executions: Executions, thread: MemoryTree) -> None:
    code = """
    import os, pathlib
    result = [os.environ["HOME"], os.path.samefile(os.getcwd(), os.environ["HOME"]), str(pathlib.Path.home())]
    """
    assert await executions.run(code, thread) == ["/home/baponi", True, "/home/baponi"]
    assert (
        await executions.run("echo $HOME $PWD ~", thread, language="bash") == "/home/baponi /home/baponi /home/baponi\n"
    )
    node = "console.log(process.env.HOME, require('node:os').homedir())"
    assert await executions.run(node, thread, language="node") == "/home/baponi /home/baponi\n"
    assert await executions.run("import os; result = os.environ['HOME']") == "/home/user"


async def test_modes_times_links_and_folders_come_back_as_they_were(executions: Executions, thread: MemoryTree) -> None:
    code = """
    import os
    os.makedirs("a/empty"); os.mkdir("locked")
    for path, mode in (("a/x", 0o755), ("locked/in", 0o400), ("unreadable", 0)):
        open(path, "w").write(path); os.chmod(path, mode); os.utime(path, ns=(1, 1234567890123456789))
    os.chmod("locked", 0)
    os.symlink("/etc/passwd", "out"); os.symlink("nowhere", "a/dangling"); os.symlink("a", "loop")
    os.link("a/x", "hard")
    """
    look = """
    import os
    result = {
        path: [oct(os.lstat(path).st_mode), os.lstat(path).st_mtime_ns if not os.path.islink(path) else os.readlink(path)]
        for path in ("a", "a/empty", "a/x", "hard", "locked", "unreadable", "out", "a/dangling", "loop")
    }
    """
    before = await executions.run(code + look, thread)
    assert thread.entry("locked").mode == 0
    assert thread.content("locked/in") == b"locked/in"
    assert thread.entry("a/x").modified_ns == WHEN_NS
    assert await executions.run(look, thread) == before
    assert thread.snapshot.version == 1


async def test_what_is_removed_and_replaced_by_another_kind_is_so_in_the_thread(
    executions: Executions, thread: MemoryTree
) -> None:
    await thread.put({"f": b"1", "d/x": b"2", "d/y": b"3", "gone": b"4", "e/z": b"5"})
    code = """
    import os, shutil
    os.remove("f"); os.mkdir("f"); open("f/now", "w").write("a folder")
    shutil.rmtree("d"); open("d", "w").write("a file")
    os.remove("gone"); shutil.rmtree("e"); os.symlink("d", "e")
    """
    await executions.run(code, thread)
    assert thread.files == {"f/now": b"a folder", "d": b"a file"}
    assert (thread.entry("e").kind, thread.entry("e").target) == ("link", "d")


@pytest.mark.parametrize("same_size", ["y = 'abcd'", "y = 'efgh'"])
async def test_a_change_that_hides_its_time_is_seen(executions: Executions, thread: MemoryTree, same_size: str) -> None:
    await thread.put({"f": b"abcd"}, modified_ns=WHEN_NS)
    await executions.run(
        f"import os; {same_size}; open('f','r+').write(y); os.utime('f', ns=({WHEN_NS}, {WHEN_NS}))", thread
    )
    assert thread.files == {"f": same_size[-5:-1].encode()}
    assert thread.entry("f").modified_ns == WHEN_NS


async def test_open_files_are_flushed_and_processes_that_are_left_end_first(
    executions: Executions, thread: MemoryTree
) -> None:
    code = """
    import subprocess, os
    keep = open("unflushed", "w"); keep.write("all of it")
    subprocess.Popen(["sh", "-c", "while :; do echo line >> grows; done"])
    while not os.path.exists("grows"): pass
    if not os.fork():
        while True: open("child", "a").write("x" * 1000)
    while not os.path.exists("child"): pass
    """
    await executions.run(code, thread)
    assert thread.content("unflushed") == b"all of it"
    assert thread.content("grows").replace(b"line\n", b"") in (b"", b"l", b"li", b"lin", b"line")
    assert set(thread.content("child")) <= {ord("x")}
    assert thread.entry("child").size == len(thread.content("child"))


async def test_a_file_that_a_thread_of_the_code_writes_is_kept_in_part_or_refused_whole(
    executions: Executions, thread: MemoryTree
) -> None:
    code = """
    import threading, os
    def write():
        with open("log", "ab", buffering=0) as log:
            while True: log.write(b"x" * 4096); os.lseek(log.fileno(), 0, 0)
    threading.Thread(target=write, daemon=True).start()
    while not os.path.exists("log") or not os.path.getsize("log"): pass
    """
    envelope = await executions.execute(code, thread)
    assert envelope.error is None or envelope.error.type in ("StorageError", "OutOfMemory")
    if envelope.error is None:
        assert set(thread.content("log")) == {ord("x")}
    else:
        assert thread.files == {}


@pytest.mark.req("J-021", "J-022")
async def test_interrupted_code_that_came_to_rest_commits(executions: Executions, thread: MemoryTree) -> None:
    code = "f = open('f','w'); f.write('1'); f.close()\nwhile True: pass"
    envelope = await executions.execute(code, thread, timeout_s=0.5)
    assert envelope.error is not None
    assert envelope.error.type == "Timeout"
    assert envelope.note == ""
    assert thread.files == {"f": b"1"}


@pytest.mark.claim("C-STO-7")
@pytest.mark.req("J-022")
@pytest.mark.parametrize(
    "end", ["os._exit(1)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 11)", "print('x' * 10**9)"]
)
async def test_a_killed_run_commits_nothing_and_says_so(executions: Executions, thread: MemoryTree, end: str) -> None:
    await thread.put({"f": b"before"})
    envelope = await executions.execute(f"import os; open('f', 'w').write('after'); open('g', 'w'); {end}", thread)
    if envelope.error is None or ("print" in end and thread.snapshot.version > 1):
        return  # this kernel kept up with the flood
    assert thread.files == {"f": b"before"}
    assert envelope.note == "the code's sandbox was ended; the thread keeps the state of before this execution"


async def test_a_commit_that_fails_fails_the_execution(executions: Executions, thread: MemoryTree) -> None:
    thread.bytes_max = 10
    envelope = await executions.execute("open('f', 'w').write('x' * 11)", thread)
    assert envelope.error is not None
    assert (envelope.error.type, envelope.failed_by) == ("StorageFull", "moonpool")
    assert "the code came to its end, but its changes of stored files were not kept" in envelope.error.message
    assert thread.files == {}
    thread.refused = TreeLostError("the thread was taken away")
    envelope = await executions.execute("open('f', 'w').write('x')\n1/0", thread)
    assert envelope.error is not None
    assert envelope.error.type == "ZeroDivisionError"
    assert "were not kept" in envelope.error.message
    assert thread.files == {}


async def test_what_cannot_be_stored_is_left_out_and_told(executions: Executions, thread: MemoryTree) -> None:
    code = r"""
    import os, socket
    os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("socket")
    open(b"no \xff text", "w"); open("kept", "w")
    os.symlink("/wrappers/current/servers", "more-servers")
    """
    envelope = await executions.execute(code, thread)
    assert envelope.error is None
    assert set(thread.files) == {"kept"}
    assert [one.path for one in thread.snapshot.tree] == ["kept"]
    assert envelope.note == "3 files or names could not be stored and were not kept: pipes, sockets, no UTF-8"


@pytest.mark.slow
@pytest.mark.req("F-022")
async def test_ten_thousand_files_go_in_and_out(executions: Executions, thread: MemoryTree) -> None:
    code = "import os\nfor n in range(100):\n os.mkdir(f'd{n}')\n for m in range(100): open(f'd{n}/{m}', 'w').write('x' * (m % 10 == 0))"
    await executions.run(code, thread)
    assert len(thread.files) == 10_000
    count = "import os; result = sum(len(files) for _, _, files in os.walk('.', followlinks=False))"
    assert await executions.run(count, thread) == 10_000
    assert thread.snapshot.version == 1


async def test_what_does_not_fit_stays_in_the_thread_and_is_not_taken_for_removed(
    executions: Executions, thread: MemoryTree
) -> None:
    large = os.urandom(30 * 1024**2)
    await thread.put({"d/large": large, "d/small": b"small", "top": b"1"})
    envelope = await executions.execute("import os, shutil; print(os.listdir('d')); shutil.rmtree('d')", thread)
    assert envelope.error is None
    assert envelope.extras["stdout"] == "['small']\n"
    assert envelope.note == (
        "1 file of the thread (31,457,280 bytes) did not fit into the sandbox; they are kept, and the Files API reaches them"
    )
    assert thread.files == {"d/large": large, "top": b"1"}


async def test_names_of_ours_in_a_thread_come_before_our_links(executions: Executions, thread: MemoryTree) -> None:
    await thread.put({"servers/mine.py": b"x = 1", "mcptools": b"a file"})
    assert await executions.run("result = [open('servers/mine.py').read(), open('mcptools').read()]", thread) == [
        "x = 1", "a file"
    ]  # fmt: skip
    assert thread.snapshot.version == 1


async def test_a_tree_is_for_one_execution_only(executions: Executions, thread: MemoryTree) -> None:
    storage = RunStorage(mounts=(in_workspace(thread),), timeout_s=30)
    with pytest.raises(InputError, match="for one execution"):
        executions.app.runtime.session(executions.app.caller_grant, storage=storage)
