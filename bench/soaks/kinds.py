"""What the executions of a soak do, and what each must bring back.

Every stream of every execution carries its nonce; `faults` compares byte for byte. A nonce of somebody else, anywhere,
is a swap; anything that is missing or different is a loss.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from moonpool.core.envelope import Envelope

NONCE = re.compile(r"nonce-[0-9a-f]{16}")
_IMAGE_BYTES = 30_000  # a small plot as PNG; in base64 it fits into what an envelope keeps
_SPEAK = 'import sys\nprint("out", "{nonce}")\nprint("err", "{nonce}", file=sys.stderr)\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One execution: its code, and what its envelope must say."""

    kind: str
    nonce: str
    code: str
    stdout: str
    data: Any = None
    error: str | None = None  # type of the error
    exit_code: int = 0
    stderr_exact: bool = True  # else it begins with ours and a traceback follows
    kill: bool = False  # the host kills it once it has spoken
    timeout_s: float | None = None
    calls: int = 0
    in_data: bool = False
    language: str = "python"


@dataclass(slots=True)
class Faults:
    """What was wrong with one envelope."""

    lost: list[str] = field(default_factory=list[str])
    swapped: list[str] = field(default_factory=list[str])


def _output(nonce: str, chance: random.Random) -> Wanted:
    lines = chance.randrange(1, 400)
    code = (
        f'{_spoken(nonce)}for n in range({lines}): print(n, "{nonce}")\nresult = {{"nonce": "{nonce}", "n": {lines}}}'
    )
    stdout = f"out {nonce}\n" + "".join(f"{n} {nonce}\n" for n in range(lines))
    return Wanted(kind="output", nonce=nonce, code=code, stdout=stdout, data={"nonce": nonce, "n": lines})


def _image(nonce: str, chance: random.Random) -> Wanted:
    """Bytes as large as a picture, on stdout, with their digest as the result."""
    seed = chance.randrange(2**32)
    code = (
        f"{_spoken(nonce)}import base64, hashlib, random\npicture = random.Random({seed}).randbytes({_IMAGE_BYTES})\n"
        f'print(base64.b64encode(picture).decode())\nresult = ["{nonce}", hashlib.sha256(picture).hexdigest()]'
    )
    picture = random.Random(seed).randbytes(_IMAGE_BYTES)  # noqa: S311
    stdout = f"out {nonce}\n{base64.b64encode(picture).decode()}\n"
    data = [nonce, hashlib.sha256(picture).hexdigest()]
    return Wanted(kind="image", nonce=nonce, code=code, stdout=stdout, data=data)


def _plot(nonce: str, chance: random.Random) -> Wanted:
    """A real plot. Only its signature is compared: its bytes depend on versions."""
    code = (
        f"{_spoken(nonce)}import io, matplotlib.pyplot as plot\npicture = io.BytesIO()\n"
        f"plot.figure(figsize=(2, 2)); plot.plot(range({chance.randrange(2, 50)})); plot.title('{nonce}')\n"
        f"plot.savefig(picture, format='png'); plot.close('all')\n"
        f'result = ["{nonce}", picture.getvalue()[:4].hex(), picture.tell() > 1000]'
    )
    data = [nonce, "89504e47", True]
    return Wanted(kind="plot", nonce=nonce, code=code, stdout=f"out {nonce}\n", data=data, in_data=True, timeout_s=60)


def _error(nonce: str, _chance: random.Random) -> Wanted:
    code = f'{_spoken(nonce)}raise ValueError("{nonce}")'
    return Wanted(
        kind="error",
        nonce=nonce,
        code=code,
        stdout=f"out {nonce}\n",
        error="ValueError",
        exit_code=1,
        stderr_exact=False,
    )


def _exit(nonce: str, chance: random.Random) -> Wanted:
    status = chance.choice([0, 1, 7])
    code = f"{_spoken(nonce)}result = '{nonce}'\nsys.exit({status})"
    error, data = (None, nonce) if status == 0 else ("SystemExit", None)
    return Wanted(
        kind="exit", nonce=nonce, code=code, stdout=f"out {nonce}\n", data=data, error=error, exit_code=status
    )


def _calls(nonce: str, chance: random.Random) -> Wanted:
    numbers = [chance.randrange(10**6) for _ in range(chance.randrange(1, 8))]
    code = (
        f"{_spoken(nonce)}import asyncio\nfrom servers.bench import read_only, writing\n"
        f"answers = await asyncio.gather(*(read_only(n=n) for n in {numbers}))\nlast = await writing(n={numbers[0]})\n"
        f'result = ["{nonce}", [one["n"] for one in answers], last["n"]]'
    )
    data = [nonce, [number + 1 for number in numbers], numbers[0] + 1]
    stdout = f"out {nonce}\n"
    return Wanted(kind="calls", nonce=nonce, code=code, stdout=stdout, data=data, calls=len(numbers) + 1)


def _death(nonce: str, _chance: random.Random) -> Wanted:
    code = f"{_spoken(nonce)}import os\nsys.stdout.flush(); sys.stderr.flush()\nos._exit(3)"
    return Wanted(kind="death", nonce=nonce, code=code, stdout=f"out {nonce}\n", error="KernelExited", exit_code=3)


def _killed(nonce: str, _chance: random.Random) -> Wanted:
    code = f"{_spoken(nonce)}sys.stdout.flush(); sys.stderr.flush()\nimport time\nwhile True: time.sleep(1)"
    return Wanted(
        kind="killed",
        nonce=nonce,
        code=code,
        stdout=f"out {nonce}\n",
        error="Cancelled",
        exit_code=137,
        kill=True,
        timeout_s=60,
    )


def _late(nonce: str, _chance: random.Random) -> Wanted:
    code = f"{_spoken(nonce)}sys.stdout.flush(); sys.stderr.flush()\nimport time\nwhile True: time.sleep(1)"
    return Wanted(
        kind="timeout",
        nonce=nonce,
        code=code,
        stdout=f"out {nonce}\n",
        error="Timeout",
        exit_code=130,
        stderr_exact=False,
        timeout_s=0.5,
    )


def _node(nonce: str, _chance: random.Random) -> Wanted:
    code = f'console.log("out", "{nonce}"); console.error("err", "{nonce}"); globalThis.result = ["{nonce}", 7]'
    stdout = f"out {nonce}\n"
    return Wanted(kind="node", nonce=nonce, code=code, stdout=stdout, data=[nonce, 7], language="node")


def _bash(nonce: str, _chance: random.Random) -> Wanted:
    code = f"echo out {nonce}; echo err {nonce} >&2; echo '[\"{nonce}\", 7]'"
    stdout = f'out {nonce}\n["{nonce}", 7]\n'
    return Wanted(kind="bash", nonce=nonce, code=code, stdout=stdout, data=[nonce, 7], language="bash")


def _spoken(nonce: str) -> str:
    return _SPEAK.format(nonce=nonce)


_MIX: tuple[tuple[Callable[[str, random.Random], Wanted], int], ...] = (
    (_output, 36),
    (_image, 18),
    (_error, 12),
    (_calls, 14),
    (_exit, 8),
    (_death, 5),
    (_killed, 3),
    (_late, 1),
    (_plot, 3),
    (_node, 3),
    (_bash, 4),
)
_NEEDS: Final = {_plot: "data", _node: "node", _bash: "bash"}


def choose(chance: random.Random, *, having: Collection[str]) -> Wanted:
    """The next execution of the mix; `having` says which of the environment `data`, `node` and `bash` there are."""
    makers, weights = zip(*_MIX, strict=True)
    nonce = f"nonce-{chance.randrange(16**16):016x}"
    maker = chance.choices(makers, weights)[0]
    return (maker if _NEEDS.get(maker, "") in {"", *having} else _image)(nonce, chance)


def faults(wanted: Wanted, envelope: Envelope) -> Faults:
    """Compare an envelope with what it must be."""
    found = Faults()
    stdout, stderr = (str(envelope.extras.get(name, "")) for name in ("stdout", "stderr"))
    message = envelope.error.message if envelope.error else ""
    everything = json.dumps([stdout, stderr, envelope.data, message])
    found.swapped += [f"{wanted.kind}: {other}" for other in set(NONCE.findall(everything)) - {wanted.nonce}]
    compared = {
        "stdout": (stdout, wanted.stdout),
        "data": (envelope.data, wanted.data),
        "error": (envelope.error.type if envelope.error else None, wanted.error),
        "exit code": (envelope.extras.get("exit_code"), wanted.exit_code),
        "tool calls": (envelope.metrics.get("tool_calls"), wanted.calls),
    }
    for what, (is_value, must) in compared.items():
        if is_value != must:
            found.lost.append(f"{wanted.kind}: {what} is {_short(is_value)}, not {_short(must)} ({message[:200]})")
    ours = f"err {wanted.nonce}\n"
    if (stderr != ours) if wanted.stderr_exact else not stderr.startswith(ours):
        found.lost.append(f"{wanted.kind}: stderr is {_short(stderr)}")
    return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:80]}…{text[-80:]}"
