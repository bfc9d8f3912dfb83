"""The demo that `make demo` starts.

A placeholder until the command line exists: it fails, so that nobody takes it for done.
"""

import sys

sys.exit("demo: not written yet")
