"""\"\"\" import os; os.abort() \"\"\"\\: 4 tools of the server "hostile".

import servers.hostile; await servers.hostile.<tool>(...), or <tool>_sync(...) without await.

plain: \"\"\" import os; os.abort() \"\"\"\\
_import_os__os_abort_______: \\x00 \\x1b[31m\\u202eevil\\ud800 '''\"\"\"\\N{DIGIT ONE}\\x41{x}%s" + __import__("os").abort() + "
_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______: ends with a quote"
with_icons_and_spaces: Icon.
"""

from client.packages import open_server

__all__ = [
    "_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______",
    "_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort_______sync",
    "_import_os__os_abort_______",
    "_import_os__os_abort________sync",
    "plain",
    "plain_sync",
    "with_icons_and_spaces",
    "with_icons_and_spaces_sync",
]

open_server(__name__, {
    "plain": ("plain", "plain_sync"),
    "_import_os__os_abort_______": ("_import_os__os_abort_______", "_import_os__os_abort________sync"),
    "_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______": ("_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort______", "_31m_evil__________N_DIGIT_ONE__x41_x__s______import____os___abort_______sync"),
    "with_icons_and_spaces": ("with_icons_and_spaces", "with_icons_and_spaces_sync"),
})
del open_server  # a tool may be called that
