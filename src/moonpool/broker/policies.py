"""The policy of a process: its policy file and the `moonpool` blocks of its servers, as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.broker.policy_file import load_policy_file
from moonpool.core.policy import Layer, LayerName, Policy, configuration_layer, server_rules

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.broker.config import McpConfig


def load_policy(path: Path | None, config: McpConfig | None) -> Policy:
    """The layers in force. Raises ConfigError: without the file that was named, nothing may start."""
    layers = [] if path is None else [load_policy_file(path).layer]
    return Policy(layers=(*layers, blocks_layer(config)))


def file_digest(policy: Policy) -> str:
    """What a process that names a policy file must name to mean this policy; empty: it has none."""
    return next((layer.digest for layer in policy.layers if layer.name is not LayerName.CONFIGURATION), "")


def blocks_layer(config: McpConfig | None) -> Layer:
    """What the `moonpool` blocks say."""
    servers = config.servers if config is not None else ()
    rules = [
        rule
        for server in servers
        for rule in server_rules(server.server_id, ((rule.tool, rule.verdict) for rule in server.rules))
    ]
    return configuration_layer(tuple(rules))
