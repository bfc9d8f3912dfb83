"""Packages of a session, from an application and from code that IPython reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import moonpool
from packages.fake_index import Index

if TYPE_CHECKING:
    from pathlib import Path

    from sdk.faces import Coroutines, PlainCalls

pytestmark = pytest.mark.anyio


async def test_an_application_installs_packages_which_a_reset_keeps(
    face: Coroutines | PlainCalls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(tmp_path)
    index.add("small")
    with index.served() as (address, _):
        monkeypatch.setitem(os.environ, "MOONPOOL_PACKAGE_INDEX", address)
        async with face.session(packages=["small"]) as s:
            installed = await s.install("small==1.0")
            assert installed.packages == (moonpool.InstalledPackage(name="small", version="1.0"),)
            assert (await s.run("import small; x = small.version; x")).data == "1.0"
            await s.reset()
            assert (await s.run("import small; small.version")).data == "1.0"
            assert (await s.run("x")).error is not None
            with pytest.raises(moonpool.PackageError, match="not among the packages"):
                await s.install("other")


async def test_packages_are_named_in_a_list() -> None:
    with pytest.raises(moonpool.InputError, match="packages must be"):
        moonpool.session(packages=[7])  # pyright: ignore[reportArgumentType]


@pytest.mark.slow  # builds the environment data
@pytest.mark.timeout(300)
@pytest.mark.req("X-09")
async def test_code_installs_packages_as_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(tmp_path)
    index.add("small", requires=["numpy>=1"])  # of the environment, which the index does not have
    index.add("picky", requires=["numpy<1"])
    with index.served() as (address, _):
        monkeypatch.setitem(os.environ, "MOONPOOL_PACKAGE_INDEX", address)
        async with moonpool.session(environment="data", packages="any") as s:
            missing = await s.run("import small")
            assert missing.error is not None
            assert "`%pip install` gets more" in missing.error.message
            installed = await s.run("%pip install -q small")
            assert installed.stdout == "installed small==1.0\n"
            assert (await s.run("import small; small.version")).data == "1.0"
            for code, why in {
                "%pip install picky": "[package_conflict]",
                "%pip install git+https://example.com/x": "[package_specifier_invalid]",
                "%uv pip install --pre small": "an option",
                "!pip install small": "use `%pip install`",
                "%pip list": "only `%pip install",
                "%conda install small": "use %pip install",
            }.items():
                failed = await s.run(code)
                assert failed.error is not None, code
                assert why in failed.error.message, failed.error
