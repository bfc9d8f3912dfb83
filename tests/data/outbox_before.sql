-- approvals
CREATE TABLE request (
    request_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_id TEXT NOT NULL, principal TEXT NOT NULL,
    server_id TEXT NOT NULL, tool_name TEXT NOT NULL, tool_digest TEXT NOT NULL, arguments TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, reason TEXT NOT NULL, rule_id TEXT NOT NULL, human_only INTEGER NOT NULL,
    cut INTEGER NOT NULL, whole TEXT NOT NULL, server_digest TEXT NOT NULL, server_address TEXT NOT NULL,
    config_file TEXT NOT NULL, code_line INTEGER NOT NULL,
    asked_at REAL NOT NULL, expires_at REAL NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL,
    approver TEXT NOT NULL, note TEXT NOT NULL, answered_at REAL, taken_at REAL
);
CREATE INDEX request_by_state ON request (state);
CREATE TABLE standing (
    answer_id TEXT PRIMARY KEY, principal TEXT NOT NULL, server_id TEXT NOT NULL, tool_name TEXT NOT NULL,
    tool_digest TEXT NOT NULL, server_digest TEXT NOT NULL, server_address TEXT NOT NULL, conditions TEXT NOT NULL,
    arguments_digest TEXT NOT NULL, human_only INTEGER NOT NULL, given_by TEXT NOT NULL,
    given_at REAL NOT NULL, expires_at REAL NOT NULL, request_id TEXT NOT NULL
);
CREATE INDEX standing_by_tool ON standing (principal, server_id, tool_name);
INSERT INTO standing VALUES (
    'abcd', 'local:alice', 'git', 'push', 'sha256:t', 'sha256:s', '', '[]', '', 0, 'terminal:alice', 1.0, 9e9, 'b'
);
INSERT INTO request VALUES (
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'run', 'session', 'local:alice', 'git', 'push', 'sha256:t', '{}', 'sha256:a', '',
    'default', 0, 0, '', 'sha256:s', '', '', 0, 1.0, 9e9, '', 'waiting', '', '', NULL, NULL
);
PRAGMA user_version=3;
-- plans
CREATE TABLE plan (
    plan_id TEXT PRIMARY KEY, body BLOB NOT NULL, digest TEXT NOT NULL, made_at REAL NOT NULL, expires_at REAL NOT NULL,
    state TEXT NOT NULL, approver TEXT NOT NULL, by_person INTEGER NOT NULL
);
PRAGMA user_version=2;
