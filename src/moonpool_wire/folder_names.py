"""What code may not do in a folder of the host that is attached to its sandbox, by names. Pure; a table.

Names are patterns of `fnmatch`, for files and folders at any depth; those of credentials in upper and lower case. They
are looked for when the sandbox starts; `docs/how-to/folders.md` lists them, and a test compares.
"""

import re
from fnmatch import translate
from typing import Final

HIDDEN: Final = (
    ".env*", "*.env", ".ssh", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".gnupg", ".password-store",
    ".netrc", "_netrc", ".git-credentials", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd",
    ".vault-token", ".terraformrc", ".s3cfg", ".boto", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore",
    "*.kdbx", "*.tfstate", "*.tfstate.backup", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    "credentials.json", "service-account*.json", "secrets.toml",
)  # fmt: skip
"""Credentials: code can neither read nor replace what has such a name."""

READ_ONLY: Final = (
    ".git", ".vscode", ".idea", ".zed", ".devcontainer", ".claude", ".cursor", ".codex", ".gemini", ".windsurf",
    ".kiro", ".opencode", ".mcp.json", ".husky", ".githooks", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lldbinit",
    ".pre-commit-config.yaml", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".gitconfig", ".pdbrc", ".gdbinit",
)  # fmt: skip
"""What programs of the user run, or take commands from, without being asked: git, editors, agents, shells.

`.git` as a whole: in a repository that it could write to, code would only have to make a file `commondir` to have git
read another configuration, and with it commands.
"""

PUBLIC: Final = ("cacert.pem", "roots.pem")
"""Certificates of authorities, as packages bring them: not hidden, or code could not check a server's certificate."""

VENV_MARK: Final = "pyvenv.cfg"
"""A folder that holds this file is a virtual environment: its programs run outside, too. Read-only as a whole."""

ENTRIES_MAX: Final = 200_000
"""Files and folders below an attached folder, without those in `.git`."""
GUARDS_MAX: Final = 2_000
"""Names from these tables in one folder."""

_HIDDEN = re.compile("|".join(map(translate, HIDDEN)), re.IGNORECASE)
_READ_ONLY: Final = frozenset(READ_ONLY)
_PUBLIC: Final = frozenset(PUBLIC)


def is_hidden(name: str) -> bool:
    """Whether what has this name is a credential.

    SECURITY: by the name alone, wherever it is: code can make any place look like another for the next sandbox.
    """
    return _HIDDEN.match(name) is not None and name not in _PUBLIC


def is_read_only(name: str) -> bool:
    """Whether programs of the user take commands from what has this name."""
    return name in _READ_ONLY


def is_unsearched(name: str) -> bool:
    """Whether no names are looked for in a folder of this name: a repository has too many, and is read-only."""
    return name == ".git"
