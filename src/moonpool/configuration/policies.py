"""The policy of a process: its policy files and the `moonpool` blocks of its servers, as layers."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.core.errors import ConfigError
from moonpool.core.json import digest_json
from moonpool.policy import (
    Label,
    Layer,
    LayerName,
    Policy,
    configuration_layer,
    literal_glob,
    server_rules,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from moonpool.configuration.servers import McpConfig
    from moonpool.settings import Settings

_log = logging.getLogger(__name__)


def policy_in_force(settings: Settings, config: McpConfig | None) -> Policy:
    """What these settings and this configuration say. Raises ConfigError."""
    return load_policy(settings.policy, config, key=settings.key_policy, session=settings.session_policy)


def load_policy(
    path: Path | None, config: McpConfig | None, *, key: Path | None = None, session: Path | None = None
) -> Policy:
    """The layers in force. Raises ConfigError: without a file that was named, nothing may start."""
    policy = Policy(layers=(*_file_layers(path, key, session), blocks_layer(config)))
    for told in _idle_rules(policy):
        _log.warning("%s", told)
    return policy


def files_digest(settings: Settings) -> str | None:
    """`file_digest` of the files as they are now; None when none is named. Raises ConfigError."""
    layers = _file_layers(settings.policy, settings.key_policy, settings.session_policy)
    return file_digest(Policy(layers=layers)) if layers else None


def _file_layers(path: Path | None, key: Path | None, session: Path | None) -> tuple[Layer, ...]:
    named = {LayerName.ORGANISATION: path, LayerName.KEY: key, LayerName.SESSION: session}
    files = {name: file for name, file in named.items() if file is not None}
    if not files:
        return ()
    from moonpool.configuration.policy_file import load_policy_file  # noqa: PLC0415  with a reader of TOML; most have no file

    return tuple(load_policy_file(file, name).layer for name, file in files.items())


def _idle_rules(policy: Policy) -> Iterator[str]:
    """Rules about labels that nothing carries. No error: another machine may have the servers that do."""
    carried = {name for label in policy.labels for name in (*label.returns, *label.does)} | {"destroys"}
    for rule in (rule for layer in policy.layers for rule in layer.rules):
        lacking = [name for name in rule.after if name not in carried]
        if rule.does and carried.isdisjoint(rule.does):
            lacking += rule.does
        if lacking:
            yield f"policy rule {rule.rule_id!r} never applies: no server or tool is labelled {' or '.join(lacking)}"


def file_digest(policy: Policy) -> str:
    """What a process that names policy files must name to mean this policy; empty: it has none."""
    digests = [layer.digest for layer in policy.layers if layer.name is not LayerName.CONFIGURATION]
    return digest_json([*digests]) if len(digests) > 1 else "".join(digests)


def blocks_layer(config: McpConfig | None) -> Layer:
    """What the `moonpool` blocks say. Raises ConfigError."""
    servers = config.servers if config is not None else ()
    labels = tuple(
        Label(server=literal_glob(server.server_id), returns=server.returns, does=server.does)
        for server in servers
        if server.returns or server.does
    )
    try:
        rules = tuple(
            replace(made, when=rule.when)
            for server in servers
            for rule in server.rules
            for made in server_rules(server.server_id, [(rule.tool, rule.verdict)])
        )
        return configuration_layer(rules, labels)
    except ValueError as exc:
        raise ConfigError(f"{config.source if config is not None else 'configuration'}: {exc}") from None
