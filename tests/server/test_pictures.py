"""Pictures and files over MCP, against the real server: image blocks, named files, resources."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from server.raw_client import RawClient
from wire.test_pictures import png

CODE = f"""
display({png()!r})
open("rows.csv", "w").write("1,2")
import base64
result = base64.b64encode({png(more=300)!r}).decode()
"""


@pytest.mark.req("X-07", "C-013", "C-014", "C-015", "C-030", "C-031", "C-032", "C-038", "C-041")
def test_a_model_sees_pictures_and_reads_files_of_its_sessions() -> None:
    with RawClient() as client:
        offered = client.handshake()["capabilities"]["resources"]
        alone = client.tool("execute_code", code=CODE)
        kept = client.tool("execute_code", code=CODE, session="a b")["structuredContent"]
        listed = client.call("resources/list")["result"]["resources"]
        [template] = client.call("resources/templates/list")["result"]["resourceTemplates"]
        read = client.call("resources/read", {"uri": "moonpool://a%20b/rows.csv"})["result"]["contents"]
        bash = client.tool("execute_code", code="echo x >> rows.csv", session="a b", language="bash")
        [again] = client.call("resources/read", {"uri": "moonpool://a%20b/rows.csv"})["result"]["contents"]
        image = next(
            one for one in listed if one["uri"].startswith("moonpool://run_") and one["mimeType"] == "image/png"
        )
        [blob] = client.call("resources/read", {"uri": image["uri"]})["result"]["contents"]
        refused = [
            client.call("resources/read", {"uri": uri})["error"]
            for uri in ("moonpool://a%20b/%2e%2e/etc/passwd", "moonpool://a%20b/missing", "moonpool://c/rows.csv")
        ]

    text, block = alone["content"]
    assert (text["type"], block["type"], block["mimeType"]) == ("text", "image", "image/png")
    assert base64.b64decode(block["data"]) == png()
    assert "iVBOR" not in text["text"]
    told = {file["name"]: file for file in alone["structuredContent"]["files"]}
    assert Path(told["rows.csv"]["path"]).name == "rows.csv"
    assert told["picture-1.png"]["bytes"] == len(png())
    assert [file["uri"] for file in kept["files"]] == ["moonpool://a%20b/picture-1.png", "moonpool://a%20b/rows.csv"]
    assert [file["name"] for file in bash["structuredContent"]["files"]] == ["rows.csv"]
    assert len(listed) == 4
    assert template["uriTemplate"] == "moonpool://{session}/{+path}"
    assert offered.get("subscribe") is not True
    assert (read[0]["text"], again["text"]) == ("1,2", "1,2x\n")
    assert base64.b64decode(blob["blob"]) == png()
    assert [one["code"] for one in refused] == [-32002] * 3
    assert refused[1]["data"]["uri"] == "moonpool://a%20b/missing"
