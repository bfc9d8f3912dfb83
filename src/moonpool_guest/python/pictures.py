"""Pictures that code shows: `display(...)`, figures of matplotlib, and what else is a picture in a result.

A picture becomes a file in `/workspace` (or where `keep_in` says), and a message to the host, which shows the first few
to the model. One that is too large to be shown is made smaller where Pillow is installed; where it is not, only the
file stays, and stderr says so.

Nothing here imports matplotlib or IPython: what is a picture is told by its methods, and the functions of these two
that show pictures are replaced when code, or the zygote, imports them. Pillow is imported where a picture must be made
smaller.

SECURITY: all of this runs in hostile ground and protects nobody; the host bounds and checks what it is sent.
"""

import base64
import builtins
import io
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, cast

from moonpool_guest.channel import ChannelGoneError, GuestChannel
from moonpool_wire.filenames import PLACES
from moonpool_wire.limits import PICTURES_MAX
from moonpool_wire.pictures import SUFFIXES, fits, read_facts

_LIST, _DICT, _BYTES = cast("Any", list), cast("Any", dict), cast("Any", (bytes, bytearray, memoryview))  # not narrowed
_SIDES = (1568, 784, 392)  # dots; what a model sees of a picture is not larger than the first
_OTHER_SUFFIXES = {
    "image/svg+xml": ".svg",
    "image/bmp": ".bmp",
    "image/tiff": ".tiff",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "application/pdf": ".pdf",
}


class Pictures:
    """Those of one execution."""

    def __init__(self, channel: GuestChannel) -> None:
        self.channel = channel
        self._sent = 0
        self._numbers: dict[str, int] = {}  # of the last file of each kind: looking from 1 on again is quadratic
        self._names: dict[int, tuple[object, str]] = {}  # what was shown, kept so that no other object gets its id

    def show(self, value: Any, *, again: bool) -> "str | None":
        """Show `value` if it is a picture; the name of its file. None: it is none. Raises what rendering it raises.

        What was shown is not shown a second time unless `again`.
        """
        value = _figure_of(value)
        if not again and (name := self.name_of(value)) is not None:
            return name
        data = _rendered(value)
        return None if data is None else self.keep(value, data)

    def name_of(self, value: object) -> "str | None":
        """The file that was made of `value`, if one was."""
        known = self._names.get(id(value))
        return None if known is None else known[1]

    def keep(self, value: object, data: bytes, mime: str = "") -> str:
        """Make a file of `value`, which is `data`; show it if it is a picture that can be shown. The file's name."""
        facts = read_facts(data)
        kind = "picture" if facts is not None else "audio" if mime.startswith("audio/") else "file"
        suffix = SUFFIXES[facts.mime] if facts is not None else _OTHER_SUFFIXES.get(mime, ".bin")
        name = self._write(kind, suffix, data)
        self._names[id(value)] = (value, name)
        if facts is not None:
            self._send(data, name)
        return name

    def _write(self, kind: str, suffix: str, data: bytes) -> str:
        """A new file in the folder of pictures; its name. Raises OSError."""
        while True:
            number = self._numbers[kind + suffix] = self._numbers.get(kind + suffix, 0) + 1
            name = f"{kind}-{number}{suffix}"
            try:
                with open(f"{_folder[0]}/{name}", "xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return name

    def _send(self, data: bytes, name: str) -> None:
        self._sent += 1
        if self._sent > PICTURES_MAX:
            if self._sent == PICTURES_MAX + 1:
                _remark(f"more than {PICTURES_MAX} pictures: {name} and later ones are not shown, but are files")
            return
        shown = data if fits(data) else _smaller(data)
        facts = read_facts(shown)
        if not shown or facts is None:
            self._sent -= 1
            _remark(
                f"{name} is too large to be shown ({len(data):,} bytes), and cannot be made smaller here; it is a file"
            )
            return
        try:
            self.channel.send({"t": "display", "mime": facts.mime, "name": name}, shown)
        except ChannelGoneError:
            pass  # a forked child: it has its file


_under_way: "list[Pictures]" = []  # at most one
_folder = [PLACES[0]]  # where files of pictures are made


def keep_in(folder: str) -> None:
    """Make files of pictures in this folder from now on. ipybox's profile: `/workspace` is the user's project there."""
    _folder[:] = [folder]


def begin(channel: GuestChannel) -> None:
    """An execution begins."""
    _under_way[:] = [Pictures(channel)]


def end() -> None:
    """The execution is over."""
    _under_way.clear()


def show(value: Any, *, again: bool = False) -> "str | None":
    """Show `value` if it is a picture and code runs; the name of its file."""
    return _under_way[0].show(value, again=again) if _under_way else None


def display(*values: Any, **_options: Any) -> None:
    """Show pictures: figures, images, bytes of one, what a tool returned. Anything else is printed."""
    for value in values:
        blocks = _blocks_beside(value)
        for part in [value] if blocks is None else blocks:
            if show(part, again=True) is None and without_blobs(part) is part:
                _show_other(part.get("text", part) if blocks else part)


def _show_other(value: Any) -> None:
    """What is no picture is printed; where IPython reads the code, its richer forms are shown beside."""
    shell = sys.modules.get("moonpool_guest.python.ipython")
    if shell is not None and _under_way and shell.is_bound():
        shell.show(_under_way[0].channel, value, result=False)
    print(value)  # noqa: T201  that is what it is for


def show_left_open() -> None:
    """Show the figures that the code left open, and close them."""
    if (pylab := sys.modules.get("matplotlib._pylab_helpers")) is not None:
        _show_figures(pylab.Gcf)


def _show_figures(gcf: Any) -> None:
    for manager in list(gcf.get_all_fig_managers()):
        try:
            show(manager.canvas.figure)
        finally:
            gcf.destroy(manager)


# --- what is a picture


def _figure_of(value: Any) -> Any:
    """The figure that `value` is a part of, such as its axes; else `value`."""
    kind = cast("Any", type(value))
    if callable(getattr(kind, "get_figure", None)) and not callable(getattr(kind, "savefig", None)):
        return value.get_figure() or value
    return value


def _rendered(value: Any) -> "bytes | None":
    """`value` as bytes of a picture, if it is one."""
    kind = cast("Any", type(value))  # a class is no picture, whatever its instances are
    if isinstance(value, _BYTES):
        data = bytes(value)
        return data if read_facts(data) is not None else None
    if callable(getattr(kind, "savefig", None)):
        return _saved_figure(value)
    for name in ("_repr_png_", "_repr_jpeg_"):
        represent = cast("Any", getattr(kind, name, None))
        if callable(represent) and (data := _of_representation(represent(value))) is not None:
            return data
    return None


def _saved_figure(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()


def _of_representation(made: Any) -> "bytes | None":
    """What `_repr_png_` gives: bytes, base64, either with its metadata, or None."""
    if isinstance(made, tuple) and made:
        made = made[0]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(made, str):
        made = base64.b64decode(made)
    return made if isinstance(made, bytes) and read_facts(made) is not None else None


def _smaller(data: bytes) -> bytes:
    """The same picture so that it fits; empty where that cannot be done."""
    try:
        pillow: Any = import_module("PIL.Image")
    except ImportError:
        return b""
    try:
        picture = pillow.open(io.BytesIO(data))
        picture = picture.convert("RGBA" if "A" in picture.getbands() or "transparency" in picture.info else "RGB")
        tries = (_encoded(picture, side, form) for side in _SIDES for form in ("PNG", "JPEG"))
        return next(small for small in tries if fits(small))
    except Exception:  # damaged, or it does not fit at any size
        return b""


def _encoded(picture: Any, side: int, form: str) -> bytes:
    buffer = io.BytesIO()
    small = picture.copy() if form == "PNG" else picture.convert("RGB")
    small.thumbnail((side, side))
    small.save(buffer, form, quality=85)
    return buffer.getvalue()


def _remark(text: str) -> None:
    try:
        sys.stderr.write(f"moonpool: {text}\n")
    except Exception:
        pass


# --- what tools return


def show_beside(value: Any, data: object) -> None:
    """Show the images of what a tool returned that are not in its `data`, as beside structured content."""
    for block in _blocks_beside(value, data) or []:
        without_blobs(block)


def _blocks_beside(value: Any, data: object = None) -> "list[Any] | None":
    """The content blocks of a tool's result, or of a list of them, if there are images and they are not the `data`."""
    raw: Any = getattr(value, "raw", None) if hasattr(cast("Any", type(value)), "__moonpool_json__") else None
    blocks: Any = raw.get("content") if isinstance(raw, _DICT) else value
    if not isinstance(blocks, _LIST) or blocks is data or not all(isinstance(block, _DICT) for block in blocks):
        return None
    return blocks if any(block.get("type") in ("image", "audio") for block in blocks) else None


def without_blobs(block: Any) -> Any:
    """A content block or resource of MCP with its bytes in a file: `file` instead of `data` or `blob`.

    A picture is shown. Anything else is returned as it is.
    """
    if not isinstance(block, _DICT):
        return block
    member = "data" if block.get("type") in ("image", "audio") else "blob" if "uri" in block else ""
    encoded, mime = block.get(member), block.get("mimeType")
    if not (isinstance(encoded, str) and isinstance(mime, str) and encoded and mime):
        return block
    if not _under_way:
        return block
    pictures = _under_way[0]
    try:
        name = pictures.name_of(block) or pictures.keep(block, base64.b64decode(encoded, validate=True), mime)
    except ValueError:  # it only looks like one
        return block
    return {**{key: block[key] for key in block if key != member}, "file": name}


# --- packages that show pictures themselves


class _PatchOnImport:
    """A finder, first among them, that patches two modules directly after they have been imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> "ModuleSpec | None":
        """None for every other module."""
        patch = _PATCHES.get(name)
        spec = None if patch is None else PathFinder.find_spec(name, path, target)
        if patch is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                patch(module)
            except Exception:
                pass  # another version than we know: it shows pictures its own way

        spec.loader.exec_module = exec_module
        return spec


def _patch_matplotlib(bases: Any) -> None:
    """`plt.show()` shows all figures and closes them, as a notebook does; `figure.show()` shows one."""

    def show_all(_cls: Any, **_options: Any) -> None:
        _show_figures(bases.Gcf)

    def show_one(manager: Any) -> None:
        show(manager.canvas.figure, again=True)

    bases.FigureManagerBase.show = show_one
    bases.FigureManagerBase.pyplot_show = classmethod(show_all)
    bases._Backend.show = classmethod(show_all)


def _patch_ipython(module: Any) -> None:
    module.display = display


_PATCHES: "dict[str, Callable[[Any], None]]" = {
    "matplotlib.backend_bases": _patch_matplotlib,
    "IPython.core.display_functions": _patch_ipython,
}


def install() -> None:
    """Give code `display`, and patch what it imports. Call it before anything is preloaded."""
    builtins.display = display  # pyright: ignore[reportAttributeAccessIssue]
    sys.meta_path.insert(0, _PatchOnImport)  # pyright: ignore[reportArgumentType]
