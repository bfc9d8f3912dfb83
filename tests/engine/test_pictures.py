"""Pictures and files that code makes come back, in real sandboxes; what a hostile guest claims does not (X-07)."""

from __future__ import annotations

import stat
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import fixture_server, open_app, run
from moonpool.core.created_files import MadeFile, MadeFiles
from moonpool.core.errors import HostUnfitError
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelope_line import LINE_BYTES_MAX, envelope_line, with_files_that_fit
from moonpool.engine.files import created_files as made_files
from moonpool_wire.limits import FILES_MADE_MAX, PICTURE_BYTES_MAX
from moonpool_wire.pictures import read_facts
from sandboxes.images import skip_unless_required
from server.test_answers import envelope as made_envelope
from wire.test_pictures import png

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moonpool.core.envelope import Envelope

pytestmark = [pytest.mark.anyio, pytest.mark.req("X-07")]

LIKE_MATPLOTLIB = {
    "__init__.py": "",
    "_pylab_helpers.py": """
        class Gcf:
            figs = []
            get_all_fig_managers = classmethod(lambda cls: list(cls.figs))
            destroy = classmethod(lambda cls, manager: cls.figs.remove(manager))
        """,
    "backend_bases.py": """
        from matplotlib._pylab_helpers import Gcf
        class FigureManagerBase:
            show = pyplot_show = None
            def __init__(self, figure):
                self.canvas = self
                self.figure = figure
                Gcf.figs.append(self)
        class _Backend:
            show = None
        """,
    "pyplot.py": """
        from matplotlib.backend_bases import FigureManagerBase, _Backend
        class Figure:
            def __init__(self, data):
                self.data = data
                self.manager = FigureManagerBase(self)
            def savefig(self, to, **options):
                assert options["format"] == "png"
                to.write(self.data)
        class Axes:
            def __init__(self, figure): self.figure = figure
            def get_figure(self): return self.figure
        class backend_mod(_Backend): pass
        def show(): backend_mod.show()
        """,
}
"""As much of it as shows figures: the same names, the same way."""

SHOWING = f"""
import base64, os, sys
for name, text in { ({name: textwrap.dedent(text) for name, text in LIKE_MATPLOTLIB.items()})!r}.items():
    os.makedirs("/tmp/fakes/matplotlib", exist_ok=True)
    open(f"/tmp/fakes/matplotlib/{{name}}", "w").write(text)
sys.path.insert(0, "/tmp/fakes")
import matplotlib.pyplot as plt
import servers.echo as e
first, second, third = [{png(1)!r}, {png(2)!r}, {png(3)!r}]
plt.Figure(first)
plt.show()
figure = plt.Figure(second)
display("a text", third)
os.makedirs("out/deep")
open("out/deep/rows.csv", "w").write("1,2")
tool = await e.image()
with_text = await e.image(text="a caption")
if SHOWN_ALONE:
    display(with_text)
else:
    result = {{"tool": [tool, tool], "text": with_text, "axes": plt.Axes(figure), "again": figure}}
"""


async def taken(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def names(envelope: Envelope) -> list[str]:
    return [file.name for file in envelope.made.files]


@pytest.mark.req("D-012", "X-23")
@pytest.mark.parametrize("backend", [pytest.param("bubblewrap", marks=pytest.mark.slow), "zygote"])
async def test_what_code_shows_and_writes_outlives_its_sandbox(backend: str) -> None:
    own = {} if backend == "zygote" else {"backend": backend}
    try:
        async with open_app({"echo": fixture_server("echo.py")}, **own) as app:
            with anyio.fail_after(60):
                envelope = await run(app, f"SHOWN_ALONE = False\n{SHOWING}")
                alone = await run(app, f"SHOWN_ALONE = True\n{SHOWING}")
    except HostUnfitError as error:
        skip_unless_required(backend, error.missing)
        raise

    block = {"type": "image", "mimeType": "image/png", "file": "picture-4.png"}
    assert envelope.data == {
        "tool": [[block], [block]], "text": {"caption": "a caption"}, "axes": "picture-3.png", "again": "picture-3.png"
    }, envelope  # fmt: skip
    assert envelope.extras["stdout"] == "a text\n"
    assert (alone.extras["stdout"], len(alone.pictures)) == ("a text\na caption\n", 4)
    shown = [(picture.name, facts[1]) for picture in envelope.pictures if (facts := read_facts(picture.data))]
    assert shown == [
        ("picture-1.png", 1),
        ("picture-2.png", 3),
        ("picture-3.png", 2),
        ("picture-4.png", 1),
        ("picture-5.png", 1),
    ]
    assert names(envelope) == [*(name for name, _ in shown), "out/deep/rows.csv"]
    *_, last = envelope.made.files
    assert last.path is not None
    kept = Path(last.path)
    assert (kept.read_text(encoding="utf-8"), last.size, last.mime) == ("1,2", 3, "text/csv")
    assert envelope.run_id in kept.parts
    assert envelope.to_json()["result"]["files"][-1] == {  # type: ignore[index]
        "name": "out/deep/rows.csv", "mime": "text/csv", "bytes": 3, "path": last.path,
    }  # fmt: skip


async def test_a_session_tells_of_new_and_changed_files_in_every_language_and_keeps_them() -> None:
    node = (
        'import * as e from "./servers/echo/index.js"; import fs from "node:fs"; fs.writeFileSync("n", ""); '
        "globalThis.result = await e.image()"
    )
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        session = app.runtime.session(app.caller_grant)
        with anyio.fail_after(60):
            await session.files.put("given.txt", taken(b"from outside"))
            made = [
                names(await session.execute(CodeRequest(code=code.encode(), language=language)))
                for language, code in (
                    ("python", "open('a.txt', 'w').write('1'); open('same', 'w').write('1'); open('given.txt').read()"),
                    ("bash", "echo 2 >> a.txt; mkdir -p logs; echo x > logs/b.log; ln -s /etc/passwd passwd; mkfifo p"),
                    ("python", "import os; os.remove('a.txt'); os.mkdir('empty')"),
                )
            ]
            other = await session.execute(CodeRequest(code=node.encode(), language="node"))
            alone = await session.execute(CodeRequest(code=b"await e.image()", language="node"))
            last = await session.execute(CodeRequest(code=b"open('last.png', 'wb').write(b'no picture')"))
            await session.close()

    assert made == [["a.txt", "same"], ["a.txt", "logs/b.log"], []]
    assert names(other) == ["n", "picture-1.png"], other
    assert other.data == [{"type": "image", "mimeType": "image/png", "file": "picture-1.png"}]
    assert alone.data == [{"type": "image", "mimeType": "image/png", "file": "picture-2.png"}]
    assert (len(other.pictures), len(alone.pictures)) == (1, 1)
    assert [(file.path, file.mime) for file in last.made.files] == [("/workspace/last.png", "image/png")]
    assert last.pictures == ()


async def test_files_over_the_quota_are_named_and_not_kept_and_the_rest_is_counted() -> None:
    code = f"""
import os
open('0-large', 'wb').write(bytes(300_000))
for number in range(100, 100 + {FILES_MADE_MAX}):
    open(f'{{number}}.txt', 'w').write('x')
print('x' * 30_000)
result = 1
"""
    async with open_app(artifact_session_bytes_max=200_000) as app:
        with anyio.fail_after(60):
            envelope = await run(app, code)
        private = app.runtime.artifacts.folder.parent
        kept = [Path(file.path) for file in envelope.made.files if file.path]

    assert (envelope.data, len(envelope.made.files), envelope.made.more) == (1, FILES_MADE_MAX, 1)
    assert [file.name for file in envelope.made.files if file.path is None] == ["0-large"]
    assert "artifact_session_bytes_max" in envelope.made.note
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert all(path.is_relative_to(private) and path.read_bytes() == b"x" for path in kept)


HOSTILE = f"""
import json, os, sys
from moonpool_guest import toolcalls
channel = toolcalls._state["channel"]
picture = {png()!r}
def shows(mime, body, name="x.png"):
    channel.send({{"t": "display", "mime": mime, "name": name}}, body)
shows("image/png", b"<script>")
shows("image/png", picture + b"x" * {PICTURE_BYTES_MAX})
shows("text/html", picture, name="../../etc/passwd")
for _ in range(9):
    shows("image/svg+xml", picture)
def claims(rows, run=None, count=3):
    channel.send({{"t": "made", "run": run, "count": count}}, json.dumps(rows).encode())
open("there", "w").write("1234567")
os.mkfifo("pipe")
frame = sys._getframe()
while "head" not in frame.f_locals:
    frame = frame.f_back
run = frame.f_locals["head"]["run"]  # the kernel was sent it
claims([["another run", 1]], run="run_0")
claims([["../../../up", 1], ["/etc/passwd", 1], ["a\\nb", 1], ["\\u202egnp.exe", 1], [".", 1], ["a/../b", 1],
        ["a//b", 1], ["there", 3], ["missing", 1], ["pipe", 1], ["servers/__init__.py", 10]], run=run, count=10**9)
claims([["later", 1]], run=run)
"""


async def test_what_a_hostile_guest_claims_is_bounded_checked_and_never_leaves_its_folder() -> None:
    async with open_app() as app:
        with anyio.fail_after(60):
            envelope = await run(app, HOSTILE)
        folder = app.runtime.artifacts.folder / envelope.run_id
        kept = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []

    assert envelope.error is None, envelope
    assert [(picture.mime, picture.name) for picture in envelope.pictures] == [
        ("image/png", ""), *[("image/png", "x.png")] * 4
    ]  # fmt: skip
    assert [(file.name, file.path) for file in envelope.made.files] == [
        ("there", None), ("missing", None), ("pipe", None), ("servers/__init__.py", None)
    ]  # fmt: skip
    assert envelope.made.more == 10**9 - 4
    assert kept == []


async def test_a_guest_that_is_silent_about_its_files_holds_up_the_envelope_for_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made_files, "KEEP_S", 0.2)
    code = """
from moonpool_guest import files
files.serve = lambda *_: None
for name in "abc":
    open(name, "w").close()
result = 1
"""
    async with open_app() as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert (envelope.data, [file.path for file in envelope.made.files]) == (1, [None] * 3)
    assert "3 not kept: the sandbox did not answer" in envelope.made.note


async def test_a_picture_that_cannot_be_shown_is_a_file_and_said_so() -> None:
    large = f"{png()!r}[:-12] + b'x' * {PICTURE_BYTES_MAX} + {png()[-12:]!r}"
    code = f"display({large})\nfor _ in range(6): display({png()!r})\nresult = 1"
    async with open_app() as app:
        with anyio.fail_after(60):
            envelope = await run(app, code)
    assert [picture.name for picture in envelope.pictures] == [f"picture-{number}.png" for number in range(2, 7)]
    told = str(envelope.extras["stderr"])
    assert "picture-1.png is too large to be shown" in told
    assert "picture-7.png and later ones are not shown" in told
    assert len(envelope.made.files) == 7


async def test_a_result_of_many_pictures_looks_for_each_name_once() -> None:
    block = f'{{"type": "image", "mimeType": "image/png", "data": base64.b64encode({png()!r}).decode()}}'
    code = f"""
import base64, builtins
opened, real = [], builtins.open
builtins.open = lambda *given, **options: opened.append(given) or real(*given, **options)
display([{block} for _ in range(30)])
result = len(opened)
"""
    async with open_app() as app:
        with anyio.fail_after(60):
            envelope = await run(app, code)
    assert (envelope.data, len(envelope.made.files)) == (30, 30)


@pytest.mark.req("H-021")
def test_files_are_only_counted_where_the_line_would_be_too_long() -> None:
    files = tuple(MadeFile(name=f"{number}{'x' * 190}", size=1, path="/" + "x" * 300) for number in range(50))
    made = MadeFiles(files=files, more=7)
    short, long, too_long = (replace(made_envelope("x" * size), made=made) for size in (10, 60_000, 70_000))

    assert with_files_that_fit(short) is short
    counted = with_files_that_fit(long).made
    assert (counted.files, counted.more) == ((), 57)
    assert envelope_line(with_files_that_fit(long)).ok
    assert with_files_that_fit(too_long) is too_long  # it has no room without files either
    assert len(envelope_line(too_long).line) <= LINE_BYTES_MAX


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bubblewrap", "zygote"])
async def test_figures_and_images_of_the_real_packages(backend: str) -> None:
    code = """
import matplotlib, sys
import matplotlib.pyplot as plt, numpy as np, pandas as pd
from IPython.display import display as shown, Image as Shown
from PIL import Image
for number in range(2):
    plt.plot([number, 1]); plt.show()
matplotlib.use("Agg")
plt.plot([1, 2]); plt.show(); plt.close()
noise = Image.fromarray((np.random.rand(1200, 1200, 3) * 255).astype("uint8"))
shown(noise)
left = pd.DataFrame({"a": [1, 2]}).plot()
result = {"left": left, "open": len(plt.get_fignums())}
"""
    async with open_app(environment="data", backend=backend) as app:
        with anyio.fail_after(300):
            envelope = await run(app, code, timeout_s=120)
    assert envelope.data == {"left": "picture-5.png", "open": 1}, envelope
    facts = [read_facts(picture.data) for picture in envelope.pictures]
    assert [one.mime for one in facts if one] == ["image/png"] * 3 + ["image/jpeg", "image/png"]
    assert all(one is not None and one.width > 300 for one in facts)
    assert names(envelope) == [f"picture-{number}.png" for number in range(1, 6)]
