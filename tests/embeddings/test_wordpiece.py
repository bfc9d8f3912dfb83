from __future__ import annotations

import pytest

from moonpool.embeddings.wordpiece import PIECES_MAX, UNKNOWN, WordPiece

PIECES = WordPiece("\n".join(["[PAD]", "get", "fore", "##cast", "cafe", "!", "時", *(f"x{i}" for i in range(200))]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Get forecast", [1, 2, 3], id="longest known piece first"),
        pytest.param("CAFÉ!", [4, 5], id="case and accents go, punctuation stands alone"),
        pytest.param("get時get", [1, 6, 1], id="Chinese characters stand alone"),
        pytest.param("zzz", [UNKNOWN], id="an unknown word is one mark"),
        pytest.param("g" * 500, [UNKNOWN], id="an endless word is one mark"),
        pytest.param(" \n", [], id="nothing"),
    ],
)
def test_text_is_cut_into_known_pieces(text: str, expected: list[int]) -> None:
    assert PIECES.pieces(text) == expected


def test_a_long_text_is_cut_off() -> None:
    assert len(PIECES.pieces("get " * 5_000)) == PIECES_MAX - 2
