"""A strict reader of Prometheus' text format 0.0.4, so that what is exposed is what a collector accepts."""

from __future__ import annotations

import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_VALUE = r"NaN|[+-]Inf|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LABEL = rf'{_NAME}="(?:[^"\\\n]|\\[\\"n])*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? ({_VALUE})")
_META = re.compile(rf"# (HELP|TYPE) ({_NAME}) (.+)")
_TYPES = {"counter", "gauge", "summary", "histogram", "untyped"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    """Samples by name and labels. Fails on everything that the format forbids, and on what readers merely bear."""
    assert text.endswith("\n")
    assert "\r" not in text
    types: dict[str, str] = {}
    helped: set[str] = set()
    samples: Samples = {}
    current = ""
    for line in text[:-1].split("\n"):
        if meta := _META.fullmatch(line):
            word, name, rest = meta.groups()
            if word == "HELP":
                assert name not in helped, f"{name} has two HELP lines"
                helped.add(name)
            else:
                assert name not in types, f"{name} has two TYPE lines"
                assert rest in _TYPES
                types[name] = rest
            current = name
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, f"not a sample: {line!r}"
        name, labels, value = sample.groups()
        family = re.sub(r"_(sum|count|bucket)$", "", name) if types.get(current) in {"summary", "histogram"} else name
        assert family == current, f"{name} stands outside its family"
        assert family in types
        assert family in helped
        if types[family] == "counter":
            assert name.endswith("_total")
        pairs = re.findall(rf'({_NAME})="((?:[^"\\]|\\.)*)"', labels or "")
        assert len({key for key, _ in pairs}) == len(pairs), f"{line!r} has a label twice"
        key = (name, frozenset(pairs))
        assert key not in samples, f"{line!r} is there twice"
        samples[key] = float(value)
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    """One sample."""
    return samples[name, frozenset(labels.items())]
