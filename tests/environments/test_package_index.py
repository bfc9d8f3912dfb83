"""pip's settings of this machine, said in uv's words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from moonpool.environments.package_index import parse_pip_config, read_pip_settings, uv_variables

if TYPE_CHECKING:
    from pathlib import Path


def test_the_environment_wins_over_the_command_over_global() -> None:
    listed = (
        ":env:.index-url='https://env.test/'\nglobal.index-url='https://global.test/'\ninstall.cert='/install.pem'\n"
    )

    assert parse_pip_config(listed) == {"index-url": "https://env.test/", "cert": "/install.pem"}


def test_settings_of_other_commands_and_noise_are_ignored() -> None:
    assert parse_pip_config("freeze.timeout='10'\nnonsense\n\nglobal.timeout=60\n") == {"timeout": "60"}


@pytest.mark.parametrize("python_path", ["", os.pathsep + "elsewhere"])
def test_a_pip_in_the_current_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_path: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path)
    (tmp_path / "pip").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "pip" / f"{name}.py").write_text("open('run by the host', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    read_pip_settings()
    assert [path.name for path in tmp_path.iterdir()] == ["pip"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, {}, id="nothing set changes nothing"),
        pytest.param(
            {"index-url": "https://mirror.test/simple"},
            {"UV_DEFAULT_INDEX": "https://mirror.test/simple"},
            id="a mirror replaces the default index",
        ),
        pytest.param(
            {"extra-index-url": "https://a.test/s\nhttps://b.test/s"},
            {"UV_INDEX": "https://a.test/s https://b.test/s", "UV_INDEX_STRATEGY": "unsafe-best-match"},
            id="extra indexes are merged as pip merges them",
        ),
        pytest.param(
            {"extra-index-url": "file:///nowhere/at/all https://a.test/s"},
            {"UV_INDEX": "https://a.test/s", "UV_INDEX_STRATEGY": "unsafe-best-match"},
            id="a file index that does not exist is left out",
        ),
        pytest.param({"find-links": "/nowhere/at/all"}, {}, id="a folder of wheels that does not exist is left out"),
        pytest.param({"cert": "/ca.pem"}, {"SSL_CERT_FILE": "/ca.pem"}, id="certificate"),
        pytest.param({"trusted-host": "a.test\nb.test"}, {"UV_INSECURE_HOST": "a.test b.test"}, id="trusted hosts"),
        pytest.param({"proxy": "http://p.test:1"}, {"ALL_PROXY": "http://p.test:1"}, id="proxy"),
        pytest.param({"default-timeout": "180"}, {"UV_HTTP_TIMEOUT": "180"}, id="timeout"),
        pytest.param({"no-index": "true"}, {"UV_NO_INDEX": "1"}, id="no index"),
    ],
)
def test_settings_become_uv_variables(settings: dict[str, str], expected: dict[str, str]) -> None:
    assert uv_variables(settings, {}) == expected


def test_folders_that_exist_are_kept(tmp_path: Path) -> None:
    settings = {"find-links": str(tmp_path), "extra-index-url": tmp_path.as_uri()}

    variables = uv_variables(settings, {})

    assert (variables["UV_FIND_LINKS"], variables["UV_INDEX"]) == (str(tmp_path), tmp_path.as_uri())


def test_a_variable_the_user_set_for_uv_wins() -> None:
    settings = {"index-url": "https://pip.test/", "cert": "/pip.pem"}

    assert uv_variables(settings, {"UV_DEFAULT_INDEX": "https://uv.test/"}) == {"SSL_CERT_FILE": "/pip.pem"}
