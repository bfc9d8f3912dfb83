"""Parts of the patterns for values with a secret-sounding name: names, assignment operators, values.

`named_values` combines them; `prefilters` has narrower patterns of the values, which exclude harmless ones.
"""

from __future__ import annotations

from typing import Final

# What follows is about names and their values. (?i:…) where case does not matter.
_NOT_BEHIND_ETC: Final = r"(?:(?m:^)(?:t?c)?[/_.-]?|[^/_.\n-]|[^c\n][/_.-]|[^t\n]c[/_.-]|[^e\n]tc[/_.-])"
"""What may stand before `passwd`: `/etc/passwd` is a file that everybody may read."""
PASSWORD_NAMES: Final = rf"(?i:password|{_NOT_BEHIND_ETC}passwd|passphrase|passcode|[_-]pwd)[0-9]*"
STRONG_WORDS: Final = (
    r"(?:(?:access|refresh|auth|api|bearer|id|session|secret|bot|app|client|user|oauth2?|github|gitlab|slack|npm|pypi"
    r"|hf|personal|deploy|service|admin|login|jwt|security|private|registration|csrf|xsrf|vault|webhook)[_-]?token"
    r"|(?:client|app|api|consumer|shared|webhook|signing|jwt|oauth|auth|session|hmac|aws|bot|master)[_-]?secret"
    r"|(?:api|access|secret|private|auth|encryption|signing|master|account|shared|storage|license|deploy|hmac|ssh|gpg"
    r"|webhook|subscription|admin|service)[_-]?(?:access[_-]?)?key|credentials?)"
)
STRONG: Final = f"(?i:{STRONG_WORDS})"
STRONG_IN_CAPITALS: Final = STRONG_WORDS.upper()
ALONE: Final = r"(?:(?m:^)|--|[^A-Za-z0-9_\n-])"
BARE: Final = ALONE + "(?i:token|secret|auth)"
BARE_IN_CAPITALS: Final = ALONE + "(?:TOKEN|SECRET|AUTH)"
IN_CAPITALS: Final = r"\b[A-Z0-9_]*"  # case-sensitive, as for environment variables
ENV_NAMES_OF_PASSWORDS: Final = rf"{IN_CAPITALS}(?:(?:PASSWORD|PASSPHRASE)[A-Z0-9_]*|PASSWD[0-9]*|_PASS|_PWD)"
ENV_NAMES_OF_SECRETS: Final = rf"{IN_CAPITALS}(?:TOKEN|SECRET|_KEY|APIKEY|_PAT|_CREDENTIALS|_DSN)[0-9]*"
PASSWORDS: Final = rf"(?:{PASSWORD_NAMES}|(?i:[_-]pass)|{ENV_NAMES_OF_PASSWORDS})"
SECRETS: Final = rf"(?:{STRONG}|{BARE}|{ENV_NAMES_OF_SECRETS})"
IS: Final = r"""\\{0,3}["']?\]?[ \t]*(?::[ \t]*[A-Za-z_][A-Za-z0-9_.\[\] |]*)?(?:=>|:=|=|:)[ \t]*[bBrRuU]?"""
"""Between a name and a quoted value: JSON, Python, JavaScript, Ruby, PHP, Go; a second `=` does not match."""
IN_DOUBLE_QUOTES: Final = r'"((?:[^"\\\r\n]+|\\[^\r\n])+)(?:"|\\?[\r\n]|\\?\z)?'
IN_SINGLE_QUOTES: Final = r"'((?:[^'\\\r\n]+|\\[^\r\n])+)(?:'|\\?[\r\n]|\\?\z)?"
IN_ESCAPED_QUOTES: Final = r"""\\{1,3}["']([^"'\\\r\n]+)(?:["'\\\r\n]|\z)?"""
QUOTED: Final = f"(?:{IN_DOUBLE_QUOTES}|{IN_SINGLE_QUOTES}|{IN_ESCAPED_QUOTES})"
SPACE: Final = r" \t\n\f\r"
r"""In brackets. SECURITY: not `\s`, which is one character more in Python's engine than in RE2: they must agree."""
WORD: Final = rf"""[^{SPACE}"'`\\()&;,<>\[\]{{}}|]"""
FIRST: Final = rf"""[^{SPACE}"'`\\()&;,<>\[\]{{}}|=$%*]"""
IS_ALSO: Final = r"[ \t]*[=:][ \t]*"
TELLING: Final = rf"((?:{FIRST}{WORD}*[0-9!@#$%^*+~?]|[0-9!@#^+~?]|[$%][0-9]){WORD}*)"
"""Without quotes: no plain word, which is probably a variable, a type or prose, and no reference."""
NUMBERED: Final = rf"((?:{FIRST}{WORD}*)?[0-9]{WORD}*)"
MERE: Final = rf"([A-Za-z\x80-\xff]{WORD}*)"
STOP: Final = rf"""(?:[{SPACE}"'`\\)&;,<>\]}}|]|\z)"""
LINE_STOP: Final = r"""(?:[ \t]*(?:[\r\n"'`\\]|\z)|[ \t]+#)"""
ENV_WORD: Final = rf"""=([^{SPACE}"'`\\()=<{{*\[][^{SPACE}"'`\\()]*)(?:[{SPACE}"'`)]|\\[^"'\\]?|\z)"""
SCHEME: Final = r"(?i:bearer|basic|token|apikey|digest|negotiate)[ \t]+"
CREDENTIAL: Final = r"([A-Za-z0-9._~+/=:-]{4,})"
