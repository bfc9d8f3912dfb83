"""`python -m bench.retrieval.neighbours [--write]`: makes the lines of `moonpool.catalog.synonyms` anew.

The words are those that the file has now, the first of each line. They came from outside of any labelled question:
words of three letters and more in the one-line summaries of at least 20 published Python and JavaScript packages (at
least 300 where the model's vocabulary lacks the word), one word per search term, without stop words, rude ones and some
for groups of people. The model of `moonpool catalog build-model` embeds each alone; near are those with a cosine
of at least `NEAR`.

Add a word: a line of its own in the file, then `--write`.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.bootstrap import data_folder
from moonpool.embeddings.arrays import numpy
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.models import open_model
from moonpool.settings import Settings
from moonpool.store.paths import models_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moonpool.embeddings.vectors import EmbeddingModel

LISTED_MAX: Final = 8
NEAR: Final = 0.5
_ROWS: Final = 500


def lines(words: Sequence[str], model: EmbeddingModel) -> Iterator[str]:
    np = numpy()
    rows = model.embed(words)
    for start in range(0, len(words), _ROWS):
        for place, near in enumerate(rows[start : start + _ROWS] @ rows.T, start):
            near[place] = -1.0
            best = [int(other) for other in np.argsort(-near, kind="stable")[:LISTED_MAX] if near[other] >= NEAR]
            yield " ".join([words[place], *(words[other] for other in best)])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval.neighbours", description="Words near each other.")
    parser.add_argument("--write", action="store_true", help="into the package's file, not to standard output")
    options = parser.parse_args(arguments)
    path = Path(str(resources.files("moonpool.catalog").joinpath("neighbours.txt")))
    words = sorted({line.split()[0] for line in path.read_text(encoding="utf-8").splitlines()})
    settings = Settings.load(os.environ, dense="minilm")
    try:
        model, _ = open_model(models_dir(data_folder(settings, os.environ)))
    except DenseUnavailableError as error:
        parser.error(str(error))
    text = "".join(f"{line}\n" for line in lines(words, model))
    if options.write:
        path.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
