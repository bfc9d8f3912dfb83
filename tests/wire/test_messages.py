"""The table in `moonpool_wire.messages` is the specification; the host's structs say the same."""

from __future__ import annotations

import json
import re
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.sandboxes import messages as host
from moonpool_wire import messages as names
from moonpool_wire.limits import NONDETERMINISM_BYTES_MAX
from tables import every_row

_ROW = re.compile(r"^\| `(\w+)` \|([^|]*)\|", re.MULTILINE)


def table() -> dict[str, dict[str, set[str]]]:
    """Direction to message type to the names of the fields in its head."""
    text = names.__doc__ or ""
    to_guest, to_host = text.split("To the host:")
    return {
        direction: {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in _ROW.findall(part) if name != "t"}
        for direction, part in (("guest", to_guest), ("host", to_host))
    }


def structs(union: object) -> dict[str, set[str]]:
    return {str(kind.__struct_config__.tag): set(kind.__struct_fields__) for kind in get_args(union)}


def test_the_table_says_what_the_host_accepts() -> None:
    assert table() == {"guest": structs(host.HostMessage), "host": structs(host.GuestMessage)}


def test_every_type_in_the_table_has_a_name_of_its_own() -> None:
    constants = {value for name, value in vars(names).items() if name.isupper()}
    assert constants == {name for rows in table().values() for name in rows}


def test_every_head_is_tagged_in_t() -> None:
    for union in (host.HostMessage, host.GuestMessage):
        assert {kind.__struct_config__.tag_field for kind in get_args(union)} == {"t"}


@every_row(
    "head",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"[]", id="not an object"),
        pytest.param(b"{}", id="no type"),
        pytest.param(b'{"t":"execute","run":"r"}', id="a type that only the host sends"),
        pytest.param(b'{"t":"done","run":"r","status":"great"}', id="unknown status"),
        pytest.param(b'{"t":"done","run":"r","status":"ok","exit_code":256}', id="exit code out of range"),
        pytest.param(b'{"t":"done","run":"%s","status":"ok"}' % (b"r" * 257), id="run too long"),
        pytest.param(b'{"t":"tool_call","id":0,"server":"s","tool":"t"}', id="id zero"),
        pytest.param(b'{"t":"tool_call","id":true,"server":"s","tool":"t"}', id="id of another type"),
        pytest.param(b'{"t":"tool_call","id":1,"server":"","tool":"t"}', id="empty name"),
        pytest.param(b'{"t":"tool_call","id":1,"server":"s","tool":"t","line":-1}', id="line below zero"),
        pytest.param(b'{"t":"tool_call","id":1,"server":"s","tool":"t","line":"3\\n"}', id="line of another type"),
        pytest.param(b'{"t":"tool_call","id":1,"server":"s","tool":"%s"}' % (b"t" * 1025), id="name too long"),
        pytest.param(b'{"t":"output","stream":3}', id="unknown stream"),
        pytest.param(b'{"t":"nondeterminism_log"}', id="a log of no run"),
        pytest.param(b'{"t":"nondeterminism_log","run":"%s"}' % (b"r" * 257), id="a log whose run is too long"),
        pytest.param(
            b'{"t":"nondeterminism_log","run":"r","divergence":"%s"}' % (b"d" * 501), id="a divergence too long"
        ),
        pytest.param(b'{"t":"nondeterminism_log","run":"r","divergence":null}', id="a divergence of another type"),
        pytest.param(b'{"t":"display","mime":' + b"[" * 5000 + b"]" * 5000 + b"}", id="deep"),
        pytest.param(b'{"t":"display","mime":"m","x":' + b"[" * 9 + b"]" * 9 + b"}", id="deep in an unknown field"),
        pytest.param(b'{"t":"failed","step":"s","message":"' + b"m" * 8193 + b'"}', id="message too long"),
    ],
)
def test_a_head_out_of_bounds_is_invalid(head: bytes) -> None:
    with pytest.raises(host.InvalidMessage):
        host.decode_guest(head)


def test_a_field_that_a_newer_guest_adds_is_ignored() -> None:
    assert host.decode_guest(b'{"t":"output","stream":1,"new":{"a":[1]}}') == host.Output(stream=1)


def test_a_message_of_ours_comes_back_as_it_was() -> None:
    sent = host.Execute(run="r", name="<code>", manifest="m", final=True, result_bytes_max=1)
    assert host.decode_host(host.encode(sent)) == sent


def test_structs_are_frozen() -> None:
    for kind in (*get_args(host.HostMessage), *get_args(host.GuestMessage)):
        assert issubclass(kind, msgspec.Struct)
        assert kind.__struct_config__.frozen


def test_a_log_is_bounded() -> None:
    tape = host.decode_guest(b'{"t":"nondeterminism_log","run":"r"}')
    host.check_body(tape, bytes(NONDETERMINISM_BYTES_MAX))
    with pytest.raises(host.InvalidMessage, match="a nondeterminism log of 1,048,577 bytes"):
        host.check_body(tape, bytes(NONDETERMINISM_BYTES_MAX + 1))


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=600), st.lists(st.text()))


@given(st.dictionaries(st.sampled_from(["run", "divergence", "x"]), _VALUES))
def test_junk_about_a_log_is_a_log_or_invalid(fields: dict[str, object]) -> None:
    try:
        message = host.decode_guest(json.dumps({**fields, "t": "nondeterminism_log"}).encode())
    except host.InvalidMessage:
        return
    assert isinstance(message, host.RecordedNondeterminism)
