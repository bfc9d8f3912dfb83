"""Environment variables of one execution, and the home that it lives in. They are gone after it.

Code of other languages runs in a process that may be there already; its companion passes them on.
"""

import json
import os
import sys
from typing import Any

_GUEST = "/moonpool"  # on `sys.path` behind the standard library, before packages of the environment
_PIP = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}  # else Debian's pip refuses; it takes the home, as the system is read-only


class Variables:
    """Those that the host sent for an execution."""

    def __init__(self, head: "dict[str, Any]", body: bytes) -> None:
        self.wanted: dict[str, str] = json.loads(body)
        self.before: dict[str, str | None] = {}
        self.home = str(head.get("home", ""))
        self._site = ""
        if home := self.home:
            path = f"{home}/.local/bin:{_GUEST}/moonpool_guest/bin/thread:{os.environ.get('PATH', '')}"
            self.wanted = {**_PIP, **self.wanted, "HOME": home, "PWD": home, "PATH": path}
            self._site = f"{home}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def set(self) -> None:
        """The execution begins."""
        self.before = {name: os.environ.get(name) for name in self.wanted}
        os.environ.update(self.wanted)
        if self._site and self._site not in sys.path:
            at = sys.path.index(_GUEST) if _GUEST in sys.path else len(sys.path)
            sys.path.insert(at, self._site)

    def put_back(self) -> None:
        """It is over. What code has set itself stays."""
        for name, before in self.before.items():
            if os.environ.get(name) != self.wanted[name]:
                continue
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
        if self._site in sys.path:
            sys.path.remove(self._site)
