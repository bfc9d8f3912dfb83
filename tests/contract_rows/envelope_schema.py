"""JSON Schema of the envelope, written by hand from the guide; code and documentation are both compared with it."""

from __future__ import annotations

from typing import Any

from moonpool.core.calls import ApprovalState

_DIGEST = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 0}
_ENDING = {
    "stdout": {"type": "string"},
    "stderr": {"type": "string"},
    "exit_code": _COUNT,
    "signal": {"type": ["string", "null"]},
}
_TOKENS: dict[str, Any] = {
    "type": "object",
    "required": ["tools", "upfront", "manifest", "spent", "by_kind", "on_demand_per_task", "saved", "reduction"],
    "properties": {
        **dict.fromkeys(("tools", "upfront", "manifest", "spent"), _COUNT),
        "by_kind": {
            "type": "object",
            "propertyNames": {"enum": ["manifest", "own_tools", "search", "definition"]},
            "additionalProperties": _COUNT,
        },
        "on_demand_per_task": {"type": "number", "minimum": 0},
        "saved": {"type": "integer"},
        "reduction": {"type": "number", "maximum": 1},
        "uncounted": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}
_METRICS: dict[str, Any] = {
    "type": "object",
    "required": ["duration_ms", "tokens"],
    "properties": {
        "duration_ms": _COUNT,
        "tokens": _TOKENS,
        "dry_run": {"const": True},
        "plan_id": {"type": "string", "pattern": "^plan_[0-9a-f]{32}$"},
        "task_ids": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 256}},
        "limits_hit": {"type": "array", "minItems": 1, "items": {"enum": ["cpu", "memory", "processes"]}},
    },
    "additionalProperties": _COUNT,
}
_ERROR = {
    "type": "object",
    "required": ["type", "message", "retryable"],
    "properties": {
        "type": {"type": "string", "minLength": 1},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
    },
    "additionalProperties": False,
}
_CALL = {"tool": {"type": "string"}, "type": {"type": "string"}, "message": {"type": "string"}}
_FAILED = {
    "type": "object",
    "required": ["count", "first"],
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "first": {
            "type": "array",
            "maxItems": 5,
            "items": {"type": "object", "required": list(_CALL), "properties": _CALL, "additionalProperties": False},
        },
    },
    "additionalProperties": False,
}


_FILE = {
    "type": "object",
    "required": ["name", "mime", "bytes", "path"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "mime": {"type": "string"},
        "bytes": _COUNT,
        "path": {"type": ["string", "null"]},
    },
    "additionalProperties": False,
}
_MADE: dict[str, Any] = {
    "files": {"type": "array", "minItems": 1, "maxItems": 50, "items": _FILE},
    "more_files": {"type": "integer", "minimum": 1},
    "files_note": {"type": "string", "minLength": 1},
}


def _result(ok: bool, member: str, schema: object) -> dict[str, Any]:
    properties = {"ok": {"const": ok}, member: schema, "metrics": _METRICS, **_ENDING}
    return {
        "type": "object",
        "required": list(properties),
        "properties": {
            **properties,
            "plan": {"type": "object"},
            "note": {"type": "string"},
            "failed_calls": _FAILED,
            **_MADE,
        },
        "additionalProperties": False,
    }


RESULT_SCHEMA: dict[str, Any] = {"oneOf": [_result(True, "data", True), _result(False, "error", _ERROR)]}
_PROPERTIES: dict[str, Any] = {
    "run_id": {"type": "string", "pattern": "^run_[0-9a-f]{32}$"},
    "trace_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "tool_name": {"const": "moonpool.python"},
    "tool_version": {"type": "string", "minLength": 1},
    "input_digest": _DIGEST,
    "output_digest": _DIGEST,
    "sandbox_image": {"type": "string", "minLength": 1},
    "duration_ms": _COUNT,
    "approval_state": {"enum": [str(state) for state in ApprovalState]},
    "result": RESULT_SCHEMA,
}
TOKENS_SCHEMA = _TOKENS
ENVELOPE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": list(_PROPERTIES),
    "properties": _PROPERTIES,
    "additionalProperties": False,
}
