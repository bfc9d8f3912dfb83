"""Text as vectors, for searches that share no word with what they look for. An extra: `pip install moonpool[dense]`.

The model, MiniLM with 8-bit weights, is made on this machine from one published set of weights (`weights`), once and
on demand: `minilm` writes it and runs it. `wordpiece` cuts text, `vectors` keeps what was computed.

The catalog knows none of this: it takes similarities through `moonpool.catalog.dense`. Bootstrap brings both together.
"""
