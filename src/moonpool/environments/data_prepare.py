"""Prepare a kernel of the `data` environment. This file is copied into the environment and runs in sandboxes only.

Matplotlib refuses a read-only configuration folder and would then scan every font again (about a second). The font list
built with the environment is copied to the sandbox's own tmpfs instead; the preloading zygote reads it once.
"""

import os
import shutil

_BUILT = os.path.normpath(os.path.join(__file__, os.pardir, os.pardir, "matplotlib"))  # noqa: PTH118
_OWN = os.environ.get("MPLCONFIGDIR", "")

if _OWN and os.path.isdir(_BUILT) and not os.path.isdir(_OWN):  # noqa: PTH112
    shutil.copytree(_BUILT, _OWN, copy_function=shutil.copyfile)
