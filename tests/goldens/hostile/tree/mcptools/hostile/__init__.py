"""\"\"\" import os; os.abort() \"\"\"\\: each tool is a module with Params, run and, where it is known, Result.

plain: \"\"\" import os; os.abort() \"\"\"\\
_import_os__os_abort_______: \\x00 \\x1b[31m\\u202eevil\\ud800 '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "
_31m_evil__________n_digit_one__x41_x__s______import____os___abort______: ends with a quote"
with_icons_and_spaces: Icon.
"""

__all__ = [
    "_31m_evil__________n_digit_one__x41_x__s______import____os___abort______",
    "_import_os__os_abort_______",
    "plain",
    "with_icons_and_spaces",
]
