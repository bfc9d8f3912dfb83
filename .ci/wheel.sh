#!/bin/sh
# Build the wheel and start it from an empty place, its MCP server too: what is not in the wheel is missed here, not by
# users.
set -eu
cd "$(dirname "$0")/.."
top=$(pwd)
place=$(mktemp -d /var/tmp/moonpool-wheel.XXXXXX) # a sandbox covers /tmp with its own
chmod 755 "$place"
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
venv/bin/moonpool keys create --data-dir "$place/service" --org acme --json >/dev/null # with its migrations
venv/bin/moonpool db upgrade --database-url postgresql://localhost/none 2>&1 | grep -qF "pip install 'moonpool[postgres]'"
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
PY
mkdir workspace data
MOONPOOL_DATA_DIR=$place/data MOONPOOL_ENVIRONMENT=base venv/bin/python -I - "$place" <<'PY'
import json, subprocess, sys
import moonpool.ipybox
from pathlib import Path

assert all(getattr(moonpool.ipybox, name) for name in moonpool.ipybox.__all__)
place = Path(sys.argv[1])
command = [place / "venv/bin/moonpool", "mcp", "--profile", "ipybox", "--workspace", place / "workspace"]
client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wheel", "version": "1"}}
cell = {"name": "execute_ipython_cell", "arguments": {"code": "import os; print(os.getcwd(), 6 * 7)"}}
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as server:
    def ask(number, method, params):
        print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=server.stdin, flush=True)
        return json.loads(server.stdout.readline())["result"]

    assert ask(1, "initialize", client)["serverInfo"]["name"] == "moonpool"
    print('{"jsonrpc": "2.0", "method": "notifications/initialized"}', file=server.stdin, flush=True)
    answer = ask(2, "tools/call", cell)
    assert answer["content"] == [{"type": "text", "text": f"{place}/workspace 42"}], answer
    server.stdin.close()
    assert server.wait(60) == 0
print("wheel: complete")
PY
