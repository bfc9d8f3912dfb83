"""Names from outside become identifiers here, and nowhere else.

A server or a tool may be called anything; generated code needs valid, distinct, stable identifiers. `allocate` turns
a set of original names into identifiers, injectively: two originals never share one. The result depends on the set
alone, not on its order, and a name's identifier changes only when a name of its own collision group comes or goes.

Rules (X-05): the tree's seed rule first; then keywords and reserved words get a trailing `_`, leading digits a
leading `_`, names without a letter or digit become `_` and a hash. Members of a collision group get `_` and six hex
digits of the SHA-256 of the original, except the one whose original is the identifier.

INVARIANT: identifiers are ASCII, at most `LENGTH_MAX` long, never a Python keyword, never start with `__`.
SECURITY: generated code trusts this module; the original name must travel as a quoted string only.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LENGTH_MAX: Final = 128
"""Longest identifier; a file name made of it stays below 200 bytes with any ending that Python adds."""

TYPING_WORDS: Final = frozenset({"Any", "Literal", "NotRequired", "StrEnum", "TypedDict"})
BUILTIN_WORDS: Final = frozenset({"bool", "dict", "float", "int", "list", "object", "str", "tuple"})
CLIENT_WORDS: Final = frozenset({
    "Model", "ToolCallError", "ToolCallResult", "ToolRunnerError", "alias", "call_tool", "call_tool_sync", "extension",
    "pack", "run_tool", "run_tool_sync", "WIRE_NAMES",
})  # fmt: skip
MODULE_WORDS: Final = TYPING_WORDS | BUILTIN_WORDS | CLIENT_WORDS
"""Names that a generated Python module uses itself. A tool or type of such a name gets a trailing `_`."""

MODEL_WORDS: Final = frozenset({
    "model_copy", "model_dump", "model_dump_json", "model_extra", "model_fields_set", "model_validate",
})  # fmt: skip
"""Public members of the guest's `Model`; a parameter of such a name gets a trailing `_`."""

JS_WORDS: Final = frozenset({
    "Infinity", "NaN", "ToolCallResult", "arguments", "async", "await", "break", "callTool", "case", "catch", "class",
    "const", "constructor", "continue", "debugger", "default", "delete", "do", "else", "enum", "eval", "export",
    "extends", "false", "finally", "for", "function", "globalThis", "if", "implements", "import", "in", "instanceof",
    "interface", "let", "new", "null", "package", "private", "protected", "prototype", "public", "return", "static",
    "super", "switch", "then", "this", "throw", "tools", "true", "try", "typeof", "undefined", "var", "void", "while",
    "with", "yield",
})  # fmt: skip
"""Words of JavaScript and TypeScript, and names that generated files use themselves (`callTool`, `tools`...).

`then` is here because a module that exports it is taken for a promise by whoever awaits its import.
"""

_ENUM_WORDS: Final = frozenset({"mro", "name", "value", *(word for word in dir(str) if not word.startswith("_"))})
_HEX_DIGITS: Final = 6
_NOT_ASCII_WORD: Final = re.compile(r"[^A-Za-z0-9_]")
_NOT_ALNUM: Final = re.compile(r"[^A-Za-z0-9]+")


def name_server_modules(server_ids: Iterable[str]) -> dict[str, str]:
    """`google-drive` -> `google_drive`. One rule for both trees; also safe as folder names on any file system."""
    return allocate(server_ids, str.lower)


def name_tool_functions(tool_names: Iterable[str]) -> dict[str, str]:
    """`admin.tools.list` -> `admin_tools_list`; case is kept, because tool names are case-sensitive (H-014, H-015)."""
    return allocate(tool_names, str, reserved=MODULE_WORDS)


def name_sync_functions(functions: Mapping[str, str]) -> dict[str, str]:
    """`<function>_sync` for each original, kept apart from every function, also from one really called that."""
    taken = set(functions.values())
    names: dict[str, str] = {}
    for original in sorted(functions):
        function = functions[original]
        name, level = f"{function}_sync", 0
        while name in taken:
            name, level = f"{function}_sync_{_hash(original, level)}", level + 1
        names[original] = name
        taken.add(name)
    return names


def name_files(functions: Mapping[str, str]) -> dict[str, str]:
    """File stems for functions: the function's own name, unless two differ in case only.

    Such files would overwrite each other on a case-insensitive file system; then only an all-lower-case one keeps
    its name.
    """
    folded = Counter(function.lower() for function in functions.values())
    lower = {function for function in functions.values() if function == function.lower()}
    taken = set(folded)
    stems: dict[str, str] = {}
    for original in sorted(functions):
        function = functions[original]
        stem, level = function, 0
        if folded[function.lower()] > 1 and function not in lower:
            while (stem := _suffixed(function, original, level)).lower() in taken:
                level += 1
            taken.add(stem.lower())
        stems[original] = stem
    return stems


def name_tool_modules(tool_names: Iterable[str]) -> dict[str, str]:
    """Ipybox's rule: other characters become `_`, then lower case (I-023). `_client` is a package's own module."""
    return allocate(tool_names, str.lower, reserved=frozenset({"_client"}))


def name_parameters(wire_names: Iterable[str]) -> dict[str, str]:
    """Keyword and attribute names of a tool's parameters, or of the members of one of its objects."""
    return allocate(wire_names, str, reserved=_PARAMETER_WORDS)


def name_enum_members(values: Iterable[str]) -> dict[str, str]:
    """`-created` -> `v__created`: Python's enums claim names with underscores at both ends."""
    return allocate(values, _enum_seed, reserved=_ENUM_WORDS)


def name_js_functions(tool_names: Iterable[str]) -> dict[str, str]:
    """`get_document` -> `getDocument`; the first part keeps its case."""
    return allocate(tool_names, _camel, reserved=JS_WORDS)


def pascal(name: str) -> str:
    """`get_all-rows` -> `GetAllRows`: a readable start for a class name. Not injective; may be empty."""
    return "".join(part[:1].upper() + part[1:] for part in _NOT_ALNUM.split(name) if part)


def safe_identifier(seed: str, *, original: str, reserved: frozenset[str] = frozenset()) -> str:
    """Turn the outcome of a seed rule into a valid identifier of its own; knows nothing of other names."""
    seed = _NOT_ASCII_WORD.sub("_", seed)
    if not seed.strip("_"):
        return f"_{_hash(original, 0)}"
    if seed.startswith("__"):  # dunders mean something to Python, and `__x` is mangled in class bodies
        seed = "_" + seed.lstrip("_")
    if seed[0].isdigit():
        seed = "_" + seed
    if len(seed) > LENGTH_MAX:
        seed = _suffixed(seed, original, 0)
    if seed in reserved or keyword.iskeyword(seed):
        seed += "_"
    return seed


def allocate(
    originals: Iterable[str], seed: Callable[[str], str], *, reserved: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Give every original its own identifier; see the module's rules."""
    wanted = {name: safe_identifier(seed(name), original=name, reserved=reserved) for name in sorted(set(originals))}
    sizes = Counter(wanted.values())
    identifiers = {name: base for name, base in wanted.items() if sizes[base] == 1 or name == base}
    crowded = [name for name in wanted if name not in identifiers]
    taken, level = set(sizes), 0
    while crowded:  # ends: each round past the first needs a name somebody really claimed
        offers = {name: _suffixed(wanted[name], name, level) for name in crowded}
        claims = Counter(offers.values())
        settled = {name: offer for name, offer in offers.items() if claims[offer] == 1 and offer not in taken}
        identifiers.update(settled)
        taken.update(claims)
        crowded, level = [name for name in crowded if name not in settled], level + 1
    return identifiers


def _suffixed(base: str, original: str, level: int) -> str:
    suffix = "_" + _hash(original, level)
    return base[: LENGTH_MAX - len(suffix)] + suffix


def _hash(original: str, level: int) -> str:
    """Hex digits of the original's SHA-256; further levels give others, should somebody own the first."""
    salted = f"{original}\0{level}" if level else original
    digits = min(64, _HEX_DIGITS + 2 * level)
    return hashlib.sha256(salted.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def _camel(name: str) -> str:
    first, *rest = re.split(r"[._-]+", name)
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _enum_seed(value: str) -> str:
    word = _NOT_ASCII_WORD.sub("_", value)
    return word if word[:1].isalpha() else f"v_{word}"


_PARAMETER_WORDS: Final = MODEL_WORDS | frozenset({"alias", "_fill", "_known", "_wire"})
