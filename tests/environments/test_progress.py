"""Progress goes to stderr only, and says each step once where there is no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.environments.base import BuildProgress
from moonpool.environments.progress import stderr_progress

if TYPE_CHECKING:
    import pytest


def test_without_a_terminal_each_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with stderr_progress() as show:
        for done, note in [(0, "fetching packages"), (0, "Downloading numpy"), (1, "installing packages")]:
            show(BuildProgress(environment="data", done=done, total=4, note=note))

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "environment data: fetching packages\nenvironment data: installing packages\n"


def test_on_a_terminal_a_bar_is_drawn_and_nothing_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")

    with stderr_progress() as show:
        show(BuildProgress(environment="data", done=1, total=4, note="[bold]not markup"))

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[bold]not markup" in captured.err


def test_nothing_is_shown_when_nothing_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    with stderr_progress():
        pass

    assert capsys.readouterr().err == ""
