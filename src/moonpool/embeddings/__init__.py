"""Text as vectors, for searches that share no word with their results. An extra: `pip install moonpool[dense]`.

The model, MiniLM with 8-bit weights, is built on this machine from published weights (`weights`), once and on demand:
`minilm` writes and runs it. `wordpiece` splits text, `vectors` caches results.

The catalog is independent of this: it gets similarities through `moonpool.catalog.dense`. `bootstrap` connects both.
"""
