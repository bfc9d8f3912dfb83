"""Searches narrowed by what servers and the host say of tools."""

from __future__ import annotations

import pytest

from catalog.builders import catalog_of, listing
from moonpool.catalog.errors import CatalogQueryError
from moonpool.catalog.filters import only_tools
from moonpool.policy.labels import Label

CATALOG = catalog_of(
    listing(
        "mail",
        {"name": "read_mail", "annotations": {"readOnlyHint": True}},
        {"name": "send_mail", "annotations": {"readOnlyHint": "yes"}},
        {"name": "drop_mail"},
    )
)
LABELS = [Label(tool="read_*", returns=("private",)), Label(tool="send_*", returns=("private",), does=("sends_out",))]


def names(*, read_only: bool = False, labels: tuple[str, ...] = ()) -> list[str]:
    only = only_tools(
        read_only=read_only,
        labels=labels,
        labels_of=lambda tool: [
            name for label in LABELS if label.covers(tool) for name in (*label.returns, *label.does)
        ],
    )
    return sorted(hit.entry.tool_name for hit in CATALOG.search("mail", only=only))


def test_nothing_asked_narrows_nothing() -> None:
    assert names() == ["drop_mail", "read_mail", "send_mail"]


def test_only_tools_that_say_they_read() -> None:
    assert names(read_only=True) == ["read_mail"]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (("private",), ["read_mail", "send_mail"]),
        (("private", "sends_out"), ["send_mail"]),
        (("spends",), []),
    ],
)
def test_tools_with_all_these_labels(labels: tuple[str, ...], found: list[str]) -> None:
    assert names(labels=labels) == found


def test_an_unknown_label_is_refused_with_the_nearest() -> None:
    with pytest.raises(CatalogQueryError, match="did you mean sends_out"):
        names(labels=("send_out",))
