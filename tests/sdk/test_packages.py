"""Packages of a session, from an application and from code that IPython reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import moonpool
from packages.fake_index import Index

if TYPE_CHECKING:
    from pathlib import Path

    from sdk.faces import Face

pytestmark = pytest.mark.anyio


async def test_an_application_installs_packages_which_a_reset_keeps(
    face: Face, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(tmp_path)
    index.add("small")
    with index.served() as (address, _):
        monkeypatch.setitem(os.environ, "MOONPOOL_PACKAGE_INDEX", address)
        async with face.session(packages=["small"]) as s:
            installed = await s.install("small==1.0")
            (package,) = installed.packages
            assert package == moonpool.InstalledPackage(name="small", version="1.0", sha256=package.sha256)
            assert (await s.run("import small; x = small.version; x")).data == "1.0"
            await s.reset()
            assert (await s.run("import small; small.version")).data == "1.0"
            assert (await s.run("x")).error is not None
            with pytest.raises(
                moonpool.PackageError, match=r"are allowed; .* MOONPOOL_PACKAGES, an application in packages="
            ):
                await s.install("other")


async def test_packages_are_named_in_a_list() -> None:
    for wrong in ([7], True, 7):
        with pytest.raises(moonpool.InputError, match="packages must be"):
            moonpool.session(packages=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(moonpool.InputError, match="install takes strings"):
        async with moonpool.session() as s:
            await s.install(["humanize"])  # pyright: ignore[reportArgumentType]


@pytest.mark.slow  # builds the environment data
@pytest.mark.timeout(300)
@pytest.mark.req("X-09")
async def test_code_installs_packages_as_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(tmp_path)
    index.add("small", requires=["numpy>=1"])  # of the environment, which the index does not have
    index.add("picky", requires=["numpy<1"])
    index.add("numpy", "99.0")
    index.add("cover", files={"mpl_toolkits/__init__.py": ""})  # where the environment has a folder of many packages
    index.add("beside", files={"mpl_toolkits/beside.py": "version = '1.0'"})
    with index.served() as (address, _):
        monkeypatch.setitem(os.environ, "MOONPOOL_PACKAGE_INDEX", address)
        async with moonpool.session(environment="data", packages="any") as s:
            missing = await s.run("import small")
            assert missing.error is not None
            assert "`%pip install` gets more" in missing.error.message
            installed = await s.run("%pip install -q small")
            assert installed.stdout == "installed small==1.0\n"
            assert (await s.run("import small; small.version")).data == "1.0"
            await s.files.write("wanted.txt", b"beside==1.0  # of the index\n\n# nothing else\n")
            assert (await s.run("%pip install small -r wanted.txt")).stdout == "installed beside==1.0\n"
            both = await s.run("import mpl_toolkits.beside, mpl_toolkits.mplot3d; mpl_toolkits.beside.version")
            assert both.data == "1.0", both.error
            rows = (await s.run("%pip list")).stdout.splitlines()
            assert [row.split()[0] for row in rows if row.split()[0] in {"beside", "numpy", "small"}] == [
                "beside", "numpy", "small",
            ]  # fmt: skip
            assert "small==1.0\n" in (await s.run("%pip freeze")).stdout
            for code, why in {
                "%pip install picky": "[package_conflict]",
                "%pip install git+https://example.com/x": "[package_specifier_invalid]",
                "%uv pip install --pre small": "an option",
                "%pip install -U small": "'-U' is an option",
                "%pip install -r gone.txt": "gone.txt",
                "%pip install 'numpy>=99'": "[package_conflict]",
                "%pip install cover": "[package_refused]",
                "%pip uninstall -y small": "install another version, or begin another session",
                "%pip download small": "`%pip install PACKAGE...`, `%pip list` and `%pip freeze` work here",
                "!pip install small": "use `%pip install`",
                "!uv pip install small": "use `%pip install`",
                "!python3 -m pip list": "use `%pip install` and `%pip list`",
                "!conda install small": "use `%pip install`",
                "import pip": "`%pip install` gets more",
                "%%bash\npip3 install small": "`%pip install` gets more",
                "%conda install small": "use %pip install",
            }.items():
                failed = await s.run(code)
                assert failed.error is not None, code
                assert why in failed.error.message, failed.error
