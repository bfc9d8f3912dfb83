"""`python -m bench.retrieval --data DIR [--dense none|minilm] [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.retrieval.query_sets import DataError, left_out, load_collections
from bench.retrieval.report import as_json, print_tables
from bench.retrieval.run import run
from bench.retrieval.scale import SIZES, ScaleError, measure_apart
from bench.retrieval.vectors import CatalogMaker, have_model
from moonpool.embeddings.errors import DenseUnavailableError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description="How well search finds tools.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="a folder of catalogs with questions")
    parser.add_argument("--dense", choices=("none", "minilm"), default="none")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--no-scale", action="store_true", help="leave out time and memory at 8,500 and 100,000 tools")
    options = parser.parse_args(arguments)
    try:
        collections = load_collections(options.data)
        for path in left_out(options.data):
            print(f"left out: {path} has questions, but no tools.jsonl", file=sys.stderr)
        have_model(options.dense)
        found = run(collections, CatalogMaker(options.dense), peers=not options.no_peers)
    except (DataError, DenseUnavailableError, OSError) as error:
        parser.error(str(error))
    scale: list[dict[str, Any]] = []
    for size in () if options.no_scale else SIZES:
        try:
            scale.append(measure_apart(size))
        except ScaleError as error:
            found.missing[f"{size} made-up tools"] = str(error)
    if options.json:
        print(json.dumps(as_json(found, collections, scale)))
    else:
        print_tables(found, collections, scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
