"""What `moonpool serve` says on stderr: remarks for people, or lines of JSON for programs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from moonpool.cli.log_lines import log_from
from moonpool.cli.printer import remark
from moonpool.core.phrases import on_one_line
from moonpool.server.http.request_log import JsonLines, RequestLog, json_line

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLog:
    """`level` is that of Moonpool's own log records; those of libraries are shown from WARNING on."""

    as_json: bool
    level: str

    def begin(self) -> None:
        """From now on log records are said so, until the process ends."""
        log_from(self.level)
        if self.as_json:
            logging.getLogger().addHandler(JsonLines(_line))

    def say(self, text: str) -> None:
        """Tell whoever operates the service."""
        if self.as_json:
            _line(json_line({"level": "info", "logger": "serve", "message": on_one_line(text)}))
        else:
            remark(on_one_line(text))

    def requests_of(self, application: ASGIApp) -> ASGIApp:
        """`application`, whose requests are told where lines are JSON."""
        return RequestLog(application, _line) if self.as_json else application


def _line(text: str) -> None:
    click.echo(text, err=True)
