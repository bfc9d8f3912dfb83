"""Text as vectors, for searches that share no word with what they look for. An extra: `pip install moonpool[dense]`.

Two models, both made on this machine from one published set of weights (`weights`), once and on demand (`build`):
`static`, a table of one vector per piece of a word (`static_table`), and `minilm`, the network itself with 8-bit
weights (`minilm_graph` writes it, `minilm` runs it). `wordpiece` cuts text, `vectors` keeps what was computed.

The catalog knows none of this: it takes similarities through `moonpool.catalog.dense`. Bootstrap brings both together.
"""
