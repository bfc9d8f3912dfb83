// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Execute a SELECT query on the SQLite database */
export async function readQuery(args = {}) {
  return callTool("sqlite", "read_query", args);
}

/** Execute an INSERT, UPDATE, or DELETE query on the SQLite database */
export async function writeQuery(args = {}) {
  return callTool("sqlite", "write_query", args);
}

/** Create a new table in the SQLite database */
export async function createTable(args = {}) {
  return callTool("sqlite", "create_table", args);
}

/** List all tables in the SQLite database */
export async function listTables(args = {}) {
  return callTool("sqlite", "list_tables", args);
}

/** Get the schema information for a specific table */
export async function describeTable(args = {}) {
  return callTool("sqlite", "describe_table", args);
}

/** Add a business insight to the memo */
export async function appendInsight(args = {}) {
  return callTool("sqlite", "append_insight", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["read_query"]: readQuery,
  ["write_query"]: writeQuery,
  ["create_table"]: createTable,
  ["list_tables"]: listTables,
  ["describe_table"]: describeTable,
  ["append_insight"]: appendInsight,
};
