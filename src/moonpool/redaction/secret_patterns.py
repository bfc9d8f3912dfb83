"""The shapes of secrets that are not configured. Two finders, in this order: tokens with a known format, then values
with a secret-sounding name (`DB_PASSWORD=…`, `"password": "…"`, `Authorization: Bearer …`).

Only the value is replaced. Comparisons (`token == expected`), calls, references (`${VAR}`, `<token>`), masks (`****`)
and redacted values are left alone; `docs/reference/redaction.md` lists every kind with examples.

SECURITY: this catches accidents; it is no security boundary: code that transforms a secret gets past it. Known values
come first (`known_values`); private keys have their own finder (`private_keys`), because they span many lines.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from moonpool.redaction.line_finder import Kind, LineFinder, hold_from_words
from moonpool.redaction.named_values import NamedValues
from moonpool.redaction.private_keys import PrivateKeys

if TYPE_CHECKING:
    from moonpool.redaction.spans import SpanFinder

_START: Final = r"(?:\b|\\[nrtbf]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]*m)"
"""Before a token: no word character, unless it is part of an escape in JSON, in a URL or for colours."""

_TOKENS: Final = (
    # name, shape, and what each shape begins with
    ("moonpool_key", r"sk-[a-z0-9]{1,16}-[A-Za-z0-9]{43}\b", ()),
    ("baponi_key", r"sk-(?:us|eu)-[A-Za-z0-9_-]{12,}", ("sk-",)),
    ("aws_access_key", r"(?:AKIA|ASIA)[A-Z0-9]{16}\b", ("AKIA", "ASIA")),
    ("github_fine_grained_pat", r"github_pat_[A-Za-z0-9_]{22,}", ("github_pat_",)),
    ("github_pat", r"ghp_[A-Za-z0-9]{30,}", ("ghp_",)),
    ("github_oauth", r"gh[ousr]_[A-Za-z0-9]{30,}", ("gho_", "ghu_", "ghs_", "ghr_")),
    ("gitlab_token", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{20,}", ("gl",)),
    ("anthropic_api_key", r"sk-ant-[A-Za-z0-9_-]{16,}", ()),
    ("openai_api_key", r"sk-(?:[A-Za-z0-9]{20,}|(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,})", ()),
    ("google_api_key", r"AIza[A-Za-z0-9_-]{35}", ("AIza",)),
    ("google_oauth", r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_-]{20,}", ("ya29.", "GOCSPX-")),
    ("slack_token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}", ("xox",)),
    ("slack_token", r"xapp-[0-9]-[A-Za-z0-9-]{10,}", ("xapp-",)),
    ("slack_webhook", r"hooks\.slack\.com/services/([A-Za-z0-9_/]{20,})", ("hooks.slack.com/",)),
    ("stripe_key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,}", ("sk_", "rk_", "whsec_")),
    ("npm_token", r"npm_[A-Za-z0-9]{36}", ("npm_",)),
    ("pypi_token", r"pypi-[A-Za-z0-9_-]{50,}", ("pypi-",)),
    ("huggingface_token", r"hf_[A-Za-z0-9]{30,}", ("hf_",)),
    ("docker_token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", ("dckr_",)),
    ("digitalocean_token", r"do[opr]_v1_[a-f0-9]{64}", ("doo_", "dop_", "dor_")),
    ("sendgrid_key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", ("SG.",)),
    ("shopify_token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", ("shp",)),
    ("vault_token", r"hv[sbr]\.[A-Za-z0-9_-]{24,}", ("hvs.", "hvb.", "hvr.")),
    ("age_key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", ("AGE-SECRET-KEY-",)),
    ("jwt", r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}", ("eyJ",)),
)
_USER: Final = r"""[^\x00-\x20\x7f/:@"'`<>\\?#]*"""
_URL_USER_HAS: Final = r"""[^\x00-\x20\x7f/"'`<>\\?#{}$*\[][^\x00-\x20\x7f/"'`<>\\?#{}]*"""
_URL: Final = rf"://{_USER}:({_URL_USER_HAS})@"


def _token_finder() -> LineFinder:
    kinds = [Kind(name, _START + _grouped(shape)) for name, shape, _ in _TOKENS] + [Kind("basic_auth_url", _URL)]
    hint = "|".join(f"(?:{shape})" for _, shape, _ in _TOKENS) + f"|{_URL}"
    words = [word for _, _, beginnings in _TOKENS for word in beginnings]
    return LineFinder(kinds, hint=hint, hold=hold_from_words([*words, "://"], any_case=False))


def _grouped(shape: str) -> str:
    return shape if re.search(r"(?<!\\)\((?!\?)", shape) else f"({shape})"


@cache
def secret_finders() -> tuple[SpanFinder, ...]:
    """Finders of all kinds of secrets, in the order in which they must search. Compiled once; they hold no state."""
    return PrivateKeys(), _token_finder(), NamedValues()
