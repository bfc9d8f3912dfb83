"""The OpenAPI 3.1 document, made of the same types that decode and encode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from moonpool.core.version import VERSION
from moonpool.server.http.sessions import messages
from moonpool.server.http.sessions.lines import NDJSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from moonpool.server.http.sessions.operations import Operation

_REFS: Final = "#/components/schemas/{name}"
_BYTES: Final = {"type": "string", "contentMediaType": "application/octet-stream"}
_ERRORS: Final = {
    "400": "The request cannot be used.", "401": "There is no valid credential.", "403": "This credential may not.",
    "404": "There is no such thing for you.", "409": "It cannot be done as things are.", "413": "It is too large.",
    "429": "Too many at once; see Retry-After.", "500": "The service failed.", "502": "What it needs elsewhere failed.",
    "503": "Not now; see Retry-After.",
}  # fmt: skip

_OF_SIGNED_URLS: Final = {
    "408": "The file came too slowly.", "411": "Content-Length is missing.", "415": "The file is compressed.",
    "416": "The file has no such range.",
}  # fmt: skip


def document(offered: Sequence[Operation]) -> dict[str, Any]:
    """The document that `/v1/openapi.json` serves."""
    models = [*_models(offered), messages.Unauthorized]
    schemas, components = msgspec.json.schema_components(models, ref_template=_REFS)
    by_model = dict(zip(models, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in offered:
        paths.setdefault(f"/v1{operation.path}", {})[operation.method.lower()] = _described(operation, by_model)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Moonpool", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _models(offered: Sequence[Operation]) -> list[Any]:
    found: list[Any] = []
    for operation in offered:
        of_operation = (operation.body, operation.answer, operation.accepted, operation.form.model)
        found += [*(one for one in of_operation if isinstance(one, type)), operation.line]
    return list(dict.fromkeys(found))


def _described(operation: Operation, by_model: dict[Any, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.endpoint is None:
        about["security"] = []
    elif operation.scope is not None:
        about["x-scope"] = operation.scope
    if parameters := [*_path_parameters(operation.path), *_query_parameters(operation.query)]:
        about["parameters"] = parameters
    if operation.body == "bytes":
        about["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": _BYTES}}}
    elif operation.body is not None:
        needed = any(field.required for field in msgspec.structs.fields(operation.body))  # no body is an empty object
        content = {"application/json": {"schema": by_model[operation.body]}}
        about["requestBody"] = {"required": needed, "content": content}
    about["responses"] = {str(operation.status): _answer(operation, by_model), **_errors(operation, by_model)}
    if operation.endpoint is None and operation.answer == "bytes":
        about["responses"]["206"] = {**_answer(operation, by_model), "description": "A range of the file."}
    if operation.accepted is not None:
        content = {"application/json": {"schema": by_model[operation.accepted]}}
        about["responses"]["202"] = {"description": "It runs.", "content": content}
        about["responses"][str(operation.status)]["content"][NDJSON] = {"schema": by_model[operation.line]}
    return about


def _answer(operation: Operation, by_model: dict[Any, Any]) -> dict[str, Any]:
    if operation.answer is None:
        return {"description": "Done."}
    if operation.answer == "bytes":
        return {"description": "The file.", "content": {"application/octet-stream": {"schema": _BYTES}}}
    if operation.answer == "lines":
        line = by_model[operation.line]
        return {"description": "One line of JSON each.", "content": {NDJSON: {"schema": line}}}
    return {"description": "Done.", "content": {"application/json": {"schema": by_model[operation.answer]}}}


def _errors(operation: Operation, by_model: dict[Any, Any]) -> dict[str, Any]:
    texts = _ERRORS if operation.endpoint is not None else {**_ERRORS, **_OF_SIGNED_URLS}
    models = dict.fromkeys(texts, operation.form.model) | {"401": messages.Unauthorized}
    return {
        status: {"description": text, "content": {"application/json": {"schema": by_model[models[status]]}}}
        for status, text in texts.items()
    }


def _path_parameters(path: str) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(query: type[Any]) -> Iterable[dict[str, Any]]:
    _, components = msgspec.json.schema_components([query], ref_template=_REFS)
    (schema,) = components.values()
    required = schema.get("required", ())
    for name, of in schema["properties"].items():
        yield {"name": name, "in": "query", "required": name in required, "schema": of}
