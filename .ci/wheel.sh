#!/bin/sh
# Build the wheel and start it from an empty place: what is not in the wheel is missed here, not by users.
set -eu
cd "$(dirname "$0")/.."
top=$(pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

with_index() {
    "$top/.venv/bin/python" "$top/src/moonpool/environments/package_index.py" "$@"
}

with_index .venv/bin/uv build --quiet --wheel --build-constraints requirements/build.txt --out-dir "$place" .
.venv/bin/uv venv --quiet --python .venv/bin/python "$place/venv"
with_index .venv/bin/uv pip install --quiet --python "$place/venv/bin/python" --require-hashes --requirement requirements/runtime.txt
.venv/bin/uv pip install --quiet --python "$place/venv/bin/python" --no-deps --offline "$place"/moonpool-*.whl

cd "$place"
venv/bin/moonpool --help >/dev/null
venv/bin/python -I - "$place/environments" <<'PY'
import pathlib, sys
import moonpool
from moonpool.environments.build import packaged_text
from moonpool.environments.guest import publish_guest
from moonpool.environments.recipes import RECIPES
from moonpool.wrappers.tree import CLIENT_FILES

root = pathlib.Path(sys.argv[1])
root.mkdir()
assert "site-packages" in moonpool.__file__, moonpool.__file__
assert all(getattr(moonpool, name) for name in moonpool.__all__)
assert (pathlib.Path(moonpool.__file__).parent / "py.typed").is_file()
assert all(packaged_text(recipe.lock) for recipe in RECIPES.values() if recipe.lock)
assert all(CLIENT_FILES.values())
assert (publish_guest(root) / "moonpool_guest" / "zygote.py").is_file()
print("wheel: complete")
PY
