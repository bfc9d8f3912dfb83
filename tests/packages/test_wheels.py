"""Wheels that somebody made to do harm: each is refused as a whole, and nothing of it is left."""

from __future__ import annotations

import base64
import hashlib
import struct
import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.engine.packages.model import PackageRefusedError, PackageTooLargeError
from moonpool.engine.packages.store import Resolutions, WheelRef, WheelStore
from moonpool.engine.packages.wheels import WheelBounds
from packages.fake_index import link, write_wheel
from tables import check_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOUNDS = WheelBounds(bytes_max=1_000_000, files_max=100)
DIGEST = "a" * 64


def _lzma(archive: zipfile.ZipFile) -> None:
    archive.writestr("evil.bin", "x", compress_type=zipfile.ZIP_LZMA)


def _adding(*entries: tuple[str, str]) -> dict[str, Any]:
    return {"extra": lambda archive: [archive.writestr(name, content) for name, content in entries]}


def _bomb(archive: zipfile.ZipFile) -> None:
    with archive.open("big.bin", "w") as entry:
        for _ in range(50):
            entry.write(bytes(100_000))


def _compressed(how: int) -> Any:
    return lambda archive: archive.writestr("big.bin", bytes(10_000), how)


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "it leads out": (_adding(("../evil.py", "")), "`..` in it"),
    "it leads out further down": (_adding(("a/../../evil.py", "")), "`..` in it"),
    "absolute": (_adding(("/etc/evil", "")), "an absolute name"),
    "backslashes": (_adding(("a\\..\\evil.py", "")), "not a plain string"),
    "a terminal's": (_adding(("a\x1b[2J.py", "")), "not a plain string"),
    "a link": ({"extra": link("here", "/etc/passwd")}, "a link or a device"),
    "twice": (_adding(("evil.py", "1"), ("evil.py", "2")), "it comes twice"),
    "twice in other words": (_adding(("a//b.py", "1"), ("a/./b.py", "2")), "it comes twice"),
    "twice by data": (_adding(("x.py", "1"), ("evil-1.0.data/purelib/x.py", "2")), "it comes twice"),
    "a file and a folder": (_adding(("a", "1"), ("a/b.py", "2")), "in a folder that is a file"),
    "a folder and a file": (_adding(("a/b.py", "1"), ("a", "2")), "it comes twice"),
    "pth": (_adding(("evil.pth", "import os")), ".pth"),
    "pth by data": (_adding(("evil-1.0.data/platlib/evil.pth", "import os")), ".pth"),
    "another's metadata": ({"info": "requests-1.0.dist-info"}, "the metadata of requests"),
    "a longer name's metadata": ({"info": "evil-more-1.0.dist-info"}, "the metadata of evil-more"),
    "metadata of nothing": ({"info": ".dist-info"}, "the metadata of nothing"),
    "metadata that leads out": ({"info": "../evil-1.0.dist-info"}, "`..` in it"),
    "another file than RECORD says": ({"record": "evil.py,sha256=AAAA,9\r\n"}, "whose digest RECORD gives"),
    "a large RECORD": ({"record": "a,b\n" * (5 << 20)}, "RECORD: it is too large"),
    "a RECORD that cannot be read": ({"record": f"{'x' * 200_000},sha256=AAAA,9\r\n"}, "damaged"),
    "compressed for large memories": ({"extra": _lzma}, "in another way"),
    "another's name": ({"says": "requests"}, "calls itself requests 1.0"),
    "two of it": (_adding(("other-1.0.dist-info/METADATA", "")), "2 .dist-info folders"),
    "a bomb": ({"extra": _bomb}, "unpacks to more than"),
    "many files": (_adding(*((f"f{n}.py", "") for n in range(150))), "more than 100 files"),
    "a directory of many": (_adding(*((f"f{n}.py", "") for n in range(300))), "too many entries"),
    "bzip2, of which a MiB is 20 GiB": ({"extra": _compressed(zipfile.ZIP_BZIP2)}, "in another way than wheels"),
    "lzma": ({"extra": _compressed(zipfile.ZIP_LZMA)}, "in another way than wheels"),
    "deep": (_adding(("/".join(["d"] * 500), "")), "folders deep|longer than"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_each_hostile_wheel_is_refused_whole(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / "store", 10**9)

    def check(name: str) -> None:
        options, why = ROWS[name]
        (wheels := tmp_path / "wheels").mkdir(exist_ok=True)
        file = write_wheel(wheels, "evil", **options)
        with pytest.raises((PackageRefusedError, PackageTooLargeError), match=why):
            store.keep(file, DIGEST, BOUNDS, name="evil", version="1.0")
        assert not list((tmp_path / "store").iterdir())

    check_rows([(name, {"name": name}) for name in ROWS], check)
    assert {path.name for path in tmp_path.iterdir()} == {"store", "wheels"}


def test_damaged_wheels_are_refused(tmp_path: Path) -> None:
    whole = write_wheel(tmp_path, "evil", files={"evil.py": "x = 1\n" * 1000, "ö.py": ""}).read_bytes()
    store, file = WheelStore(tmp_path / "store", 10**9), tmp_path / "damaged.whl"
    # in turn: nothing, no zip, cut off, a flipped byte in the content, sizes and counts at the end that claim too much
    ends = [whole[:-12] + claim + whole[-8:] for claim in (b"\xff\xff\xff\xff", b"\0\0\0\xf0")]
    ends.append(whole.replace("ö.py".encode(), b"\xff\xff.py"))  # a name that is no text
    ends.append(whole[:-22] + _zip64(whole) + whole[-22:])
    for content in (b"", b"PK", whole[:-100], whole[:60] + b"\xff\xff" + whole[62:], whole + b"tail", *ends):
        file.write_bytes(content)
        with pytest.raises(PackageRefusedError, match="refused"):
            store.keep(file, DIGEST, BOUNDS, name="evil", version="1.0")
    assert not list((tmp_path / "store").iterdir())


def _zip64(whole: bytes) -> bytes:
    """The end record of a large zip file, which counts instead of the plain one: a directory as long as the file."""
    count, size, start = struct.unpack("<H2L", whole[-12:-2])
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    return record + struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1)


def test_scripts_bytecode_and_files_for_other_folders_are_left_out(tmp_path: Path) -> None:
    others = ("bin/x", "data/os.py", "scripts/x", "headers/x.h", "data/etc/passwd", "purelib/__pycache__/good.pyc")
    names = ("__pycache__/fine.cpython-311.pyc", *(f"fine-1.0.data/{name}" for name in others))
    files = {"fine.py": "version = '1.0'\n", "Fine.py": ""}  # two names here
    digest = base64.urlsafe_b64encode(hashlib.sha256(files["fine.py"].encode()).digest()).decode().rstrip("=")
    record = f"fine.py,sha256={digest},16\r\nfine-1.0.dist-info/RECORD,,\r\n"
    file = write_wheel(tmp_path, "fine", files=files, record=record, **_adding(*((name, "") for name in names)))
    stored = WheelStore(tmp_path / "store", 10**9).keep(file, DIGEST, BOUNDS, name="fine", version="1.0")
    assert [path for path in stored.files if "dist-info" not in path] == ["fine.py", "Fine.py"]
    assert stored.metadata == "Metadata-Version: 2.1\nName: fine\nVersion: 1.0\n"
    assert (stored.folder / "fine.py").stat().st_mode & 0o777 == 0o644


def test_the_store_is_bounded_and_keeps_what_is_in_use(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / "store", 4_000)
    for number in range(5):
        file = write_wheel(tmp_path, "fine", f"{number}.0", {"fine.py": "#" * 1_000})
        stored = store.keep(file, str(number) * 64, BOUNDS, name="fine", version=f"{number}.0")
        if number == 1:  # as a slot of another process does
            (tmp_path / "slot").hardlink_to(stored.folder / "fine.py")
    store.evict({"0" * 64})
    assert [number for number in range(5) if store.find(str(number) * 64)] == [0, 1, 4]
    assert not list((tmp_path / "store").glob(".*"))


def test_a_damaged_wheel_makes_room_and_nothing_else_is_touched(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / "store", 10**9)
    file = write_wheel(tmp_path, "fine")
    wheels = {name: tmp_path / "store" / (name * 64) for name in "abcde"}
    for name in wheels:
        store.keep(file, name * 64, BOUNDS, name="fine", version="1.0")
    (wheels["a"] / "wheel.json").write_text("[1]", encoding="utf-8")
    for name in "bcd":
        (wheels[name] / "wheel.json").unlink()
    (tmp_path / "slot").hardlink_to(wheels["d"] / "site" / "fine.py")
    (tmp_path / "store" / "notes").mkdir()
    store.evict({"c" * 64})
    assert {path.name[0] for path in (tmp_path / "store").iterdir()} == set("cden")


def test_what_was_changed_in_the_store_is_not_used(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / "store", 10**9)
    file = write_wheel(tmp_path, "fine", files={"fine.py": "x = 1\n", "in/it.py": ""})
    site, kept = tmp_path / "store" / DIGEST / "site", tmp_path / "store" / DIGEST / "wheel.json"

    def check(change: Callable[[], object]) -> None:
        store.keep(file, DIGEST, BOUNDS, name="fine", version="1.0")
        assert store.find(DIGEST) is not None
        change()
        assert store.find(DIGEST) is None
        store.keep(file, DIGEST, BOUNDS, name="fine", version="1.0")
        assert store.find(DIGEST) is not None

    changes: dict[str, Callable[[], object]] = {
        "another content of the same size": lambda: (site / "fine.py").write_text("x = 2\n", encoding="utf-8"),
        "a file more": (site / "in" / "evil.py").touch,
        "a file less": (site / "fine.py").unlink,
        "a link": lambda: ((site / "fine.py").rename(tmp_path / "moved"), (site / "fine.py").symlink_to("../../moved")),
        "no list": kept.unlink,
        "half a list": lambda: kept.write_bytes(kept.read_bytes()[:50]),
        "a list of something else": lambda: kept.write_text("[1]", encoding="utf-8"),
    }
    check_rows([(name, {"change": change}) for name, change in changes.items()], check)


@pytest.mark.parametrize("steps", range(6))
def test_unpacking_ends_soon_once_nobody_waits_for_it(steps: int, tmp_path: Path) -> None:
    """Between pieces of its four files, and between lines of its RECORD."""

    class GivenUp(threading.Event):
        left = steps

        def is_set(self) -> bool:
            self.left -= 1
            return self.left < 0

    store, file = WheelStore(tmp_path / "store", 10**9), write_wheel(tmp_path, "fine", record="a,b\r\nc,d\r\n")
    with pytest.raises(InterruptedError):
        store.keep(file, DIGEST, BOUNDS, name="fine", version="1.0", given_up=GivenUp())
    assert not list((tmp_path / "store").iterdir())


@pytest.mark.parametrize("name", ["", "../other", "ABSOLUTE", "a" * 63, "A" * 64, f"{DIGEST}\n"])
def test_nothing_but_a_digest_names_a_wheel(name: str, tmp_path: Path) -> None:
    other = tmp_path / "private" / "other"
    (store := tmp_path / "private" / "wheels").mkdir(parents=True, mode=0o700)
    other.mkdir()
    assert WheelStore(store, 10**9).find(name.replace("ABSOLUTE", str(other))) is None
    assert store.is_dir()
    assert other.is_dir()


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_makes_is_not(tmp_path: Path) -> None:
    store = WheelStore(tmp_path / "store", 10**9)
    dying = (
        "import os, pathlib, sys\n"
        "from moonpool.engine.packages.store import WheelStore\n"
        "with WheelStore(pathlib.Path(sys.argv[1]), 1).working_folder() as folder:\n"
        "    (folder / '0.whl').write_bytes(b'half of it')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", dying, str(tmp_path / "store")], check=False, timeout=30)
    assert [path.name for path in (tmp_path / "store").glob(".*/*")] == ["0.whl"]
    with store.working_folder() as folder:
        WheelStore(tmp_path / "store", 10**9).sweep()
        assert list((tmp_path / "store").iterdir()) == [folder]
    assert not list((tmp_path / "store").iterdir())


def test_a_resolution_is_forgotten_after_a_day(tmp_path: Path) -> None:
    ref, ahead_s = WheelRef(name="x", version="1", sha256=DIGEST), 0.0

    def clock() -> float:
        return (tmp_path / "kept" / "key.json").stat().st_mtime + ahead_s

    resolutions = Resolutions(tmp_path / "kept", clock=clock)
    resolutions.keep("key", (ref,))
    assert resolutions.find("key") == (ref,)
    ahead_s = 86_401.0
    assert resolutions.find("key") is None
    (tmp_path / "kept" / "key.json").write_text("{", encoding="utf-8")
    ahead_s = 0.0
    assert resolutions.find("key") is None
