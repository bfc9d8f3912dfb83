"""`pip install` by code of a thread, over HTTP: there at the thread's next call, and at no other's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from packages.fake_index import Index
from server.sandbox_services import execute, on_stores
from service_stores import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from service_stores import Stores

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
INSTALLS = {
    "bash": ("bash", "pip install --user 'good<2'"),
    "file": ("bash", "echo 'good<2  # ours' > wanted.txt; pip install -r wanted.txt"),
    "node": ("node", "console.log(String(require('node:child_process').execSync('pip3 install \"good<2\"')))"),
}
REFUSALS = {
    "package": ("bash", "pip install dep", "pip: dep is not among the packages that are allowed\n"),
    "no file": ("bash", "pip install -r missing.txt", "pip: missing.txt: No such file or directory\n"),
    "python": (
        "python",
        "import subprocess, sys\nsys.exit(subprocess.call(['pip', 'install', 'good']))",
        "pip: packages are installed while Bash or Node code runs, and none does; "
        "run `pip install` in a call of its own with language `bash` and the same thread\n",
    ),
}


@pytest.mark.req("J-022")
async def test_what_pip_installs_in_a_thread_is_there_at_its_next_call(tmp_path: Path, stores: Stores) -> None:
    index = Index(tmp_path / "index")
    index.add("good", "1.0", requires=["dep"])
    index.add("good", "2.0")
    index.add("dep")
    used = "import good, dep\nprint(good.version, dep.version)"
    with anyio.fail_after(200), index.served() as (address, requests):
        async with on_stores(stores, tmp_path / "state", packages="good", package_index=address) as service:
            installed = {
                name: (await execute(service, code, language=language, thread_id=name)).json()
                for name, (language, code) in INSTALLS.items()
            }
            asked = len(requests)
            later = {name: (await execute(service, used, thread_id=name)).json()["stdout"] for name in INSTALLS}
            refused = {
                name: (await execute(service, code, language=language, thread_id="t")).json()
                for name, (language, code, _) in REFUSALS.items()
            }
            elsewhere = (await execute(service, used, thread_id="t")).json()

    assert {name: one["stdout"].strip() for name, one in installed.items()} == dict.fromkeys(
        INSTALLS, "installed dep==1.0, good==1.0"
    )
    assert later == dict.fromkeys(INSTALLS, "1.0 1.0\n")
    assert len(requests) == asked
    assert {name: one["stderr"] for name, one in refused.items()} == {name: one[2] for name, one in REFUSALS.items()}
    assert {one["exit_code"] for one in refused.values()} == {1}
    assert "No module named 'good'" in elsewhere["stderr"]


async def test_where_nobody_allowed_packages_pip_says_so(tmp_path: Path) -> None:
    async with on_stores(FOLDER, tmp_path) as service:
        refused = (await execute(service, "pip install good", language="bash", thread_id="t")).json()

    assert refused["exit_code"] == 1
    assert refused["stderr"] == "pip: packages cannot be installed here: nobody allowed it\n"
