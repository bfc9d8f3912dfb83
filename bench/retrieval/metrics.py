"""What a ranking is worth. A rank is a line that is shown: the tool it names, and its namesakes if they are folded."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.retrieval.query_sets import Key, Question

METRICS: Final = ("R@1", "R@5", "R@10", "nDCG@10", "MRR", "C@10")
DEPTH: Final = 20
_RESAMPLES: Final = 1_000

Line = tuple["Key", ...]  # the tools that one line names, the one it leads with first


def score(question: Question, lines: Sequence[Line]) -> dict[str, float]:
    """Every metric for one question. Each group of gold tools counts once, where its first member is named."""
    ranks = [
        next((rank for rank, line in enumerate(lines, 1) if any(key in group for key in line)), 0)
        for group in question.gold
    ]
    count = len(ranks)
    found = sorted(rank for rank in ranks if rank)
    gains = sum(1 / math.log2(rank + 1) for rank in found if rank <= 10)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(count, 10) + 1))

    def recall(depth: int) -> float:
        return sum(rank <= depth for rank in found) / count

    return {
        "R@1": recall(1),
        "R@5": recall(5),
        "R@10": recall(10),
        "nDCG@10": min(1.0, gains / ideal),  # two groups may be met by one line
        "MRR": 1 / found[0] if found else 0.0,
        "C@10": float(recall(10) == 1.0),
    }


def means(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: math.fsum(one[name] for one in scores) / len(scores) for name in METRICS}


def intervals(scores: Sequence[dict[str, float]]) -> dict[str, tuple[float, float]]:
    """95 % confidence interval of every metric's mean over the questions, by bootstrap with a fixed seed."""
    chance = random.Random(20261121)  # noqa: S311  the same intervals every time
    rows = [tuple(one[name] for name in METRICS) for one in scores]
    drawn = [
        [sum(column) / len(rows) for column in zip(*chance.choices(rows, k=len(rows)), strict=True)]
        for _ in range(_RESAMPLES)
    ]
    ordered = [sorted(column) for column in zip(*drawn, strict=True)]
    return {
        name: (column[int(0.025 * _RESAMPLES)], column[int(0.975 * _RESAMPLES) - 1])
        for name, column in zip(METRICS, ordered, strict=True)
    }
