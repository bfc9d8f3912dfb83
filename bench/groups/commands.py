"""Group `command`: whole processes of the command line."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bench.groups.toolcalls import write_config
from bench.peers.programs import Program, open_spawner
from bench.sampling import Case, take_turns

if TYPE_CHECKING:
    from bench.peers.programs import Spawner
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World

_KEPT = ("HOME", "PATH", "LANG", "XDG_DATA_HOME", "PYTHONPATH")


async def measure(world: World, sizes: Sizes) -> Measured:
    env = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    env["MOONPOOL_DATA_DIR"] = str(world.settings("base").data_dir)
    python = Path(sys.executable)
    async with open_spawner(python, env, own_uid=True) as spawner:
        plain = Program(argv=(str(python), "-c", "pass"), env=env, prints="")
        cases = [Case(name="command.python", take=lambda count: spawner.times_ms(plain, count))]
        if not _has_commands():
            why = "this installation has no command line"
            measured = await take_turns("command", cases, rounds=sizes.slow_rounds, warm_ups=sizes.warm_ups)
            return replace(measured, skipped={"command.help": why, "command.run": why})
        command = str(python.parent / "moonpool")
        cases.append(Case(name="command.help", take=lambda count: _help(spawner, command, env, count)))
        started = world.folder / "started"
        config = write_config(world.folder, ("one", "two"), {"BENCH_STARTED": str(started)})
        arguments = ("run", "--env", "base", "-c", "result=1", "--config", str(config))
        ours = Program(argv=(command, *arguments), env=env)
        await _run(spawner, ours, 1)  # lists both servers once and keeps the lists
        started.unlink(missing_ok=True)
        cases.append(Case(name="command.run", take=lambda count: _run(spawner, ours, count)))
        measured = await take_turns("command", cases, rounds=sizes.slow_rounds, warm_ups=sizes.warm_ups)
        assert not started.exists(), "a server was started although nothing was called"
        return measured


def _has_commands() -> bool:
    try:
        return find_spec("moonpool.cli.main") is not None and (Path(sys.executable).parent / "moonpool").exists()
    except ModuleNotFoundError:
        return False


async def _help(spawner: Spawner, command: str, env: dict[str, str], count: int) -> list[float]:
    answer = await spawner.run(Program(argv=(command, "--help"), env=env), count)
    assert all("run" in output and "doctor" in output for output in answer["outputs"]), answer["outputs"]
    return [1000 * seconds for seconds in answer["seconds"]]


async def _run(spawner: Spawner, program: Program, count: int) -> list[float]:
    answer = await spawner.run(program, count)
    for output in answer["outputs"]:
        envelope = json.loads(output)
        assert envelope["result"]["ok"] is True, output
        assert envelope["result"]["data"] == 1, output
    return [1000 * seconds for seconds in answer["seconds"]]
