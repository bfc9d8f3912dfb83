"""Definitions nobody thought of, for property tests: texts that would like to be code, and schemas of every kind."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_FRAGMENTS = [
    '"""', "'''", "\\", '"', "'", "\n", "\r", "\x00", "\u2028", "\ud800", "#", "{", "${", "\f", "\x85", "*/", "/*", "`",
    "//", "@", " @ts-expect-error", "\n@deprecated ", "<!--", "-->", "__proto__", ");", "\U000e0001",
    '"""\nimport os\n"""', "*/\nimport 'node:fs';\n/*", '", {}); process.exit(); ("',
]  # fmt: skip
_fragments = st.one_of(st.sampled_from(_FRAGMENTS), st.text(st.characters(), max_size=4))
hostile_texts = st.lists(_fragments, max_size=5).map("".join)

member_names = st.one_of(
    st.sampled_from(
        ["a", "a-b", "a_b", "from", "self", "schema", "copy", "model_dump", "params", "list", "_wire", "__x"]
    ),
    st.text(max_size=8),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(member_names, inner, max_size=3),
    max_leaves=8,
)
_leaves = st.one_of(
    st.booleans(),
    st.sampled_from([{"type": "string"}, {"type": ["integer", "null"]}, {"$ref": "#/$defs/Params"}, {"$ref": "#"}, {}]),
    st.builds(lambda listed: {"enum": listed}, st.lists(values, max_size=4)),
    st.builds(lambda value: {"type": "integer", "default": value}, values),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, required, extra: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if required],
            "additionalProperties": extra,
        },
        st.dictionaries(member_names, inner, max_size=4),
        st.booleans(),
        inner,
    )


_schemas = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda items: {"type": "array", "prefixItems": items}, st.lists(inner, max_size=3)),
        st.builds(
            lambda word, parts: {word: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, max_size=3)
        ),
    ),
    max_leaves=6,
)
object_schemas = st.builds(
    lambda root, named: {**root, "$defs": {"Params": named}}, _objects(_schemas), _objects(_schemas)
)
"""Schemas of arguments, with a definition that their parts may refer to."""
