// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface ReadQueryInput {
  /** SELECT SQL query to execute */
  query: string;
}

/** Execute a SELECT query on the SQLite database */
export function readQuery(args: ReadQueryInput): Promise<ToolCallResult<unknown>>;

export interface WriteQueryInput {
  /** SQL query to execute */
  query: string;
}

/** Execute an INSERT, UPDATE, or DELETE query on the SQLite database */
export function writeQuery(args: WriteQueryInput): Promise<ToolCallResult<unknown>>;

export interface CreateTableInput {
  /** CREATE TABLE SQL statement */
  query: string;
}

/** Create a new table in the SQLite database */
export function createTable(args: CreateTableInput): Promise<ToolCallResult<unknown>>;

/**
 * List all tables in the SQLite database
 *
 * Takes no arguments.
 */
export function listTables(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface DescribeTableInput {
  /** Name of the table to describe */
  table_name: string;
}

/** Get the schema information for a specific table */
export function describeTable(args: DescribeTableInput): Promise<ToolCallResult<unknown>>;

export interface AppendInsightInput {
  /** Business insight discovered from data analysis */
  insight: string;
}

/** Add a business insight to the memo */
export function appendInsight(args: AppendInsightInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "read_query": typeof readQuery;
  readonly "write_query": typeof writeQuery;
  readonly "create_table": typeof createTable;
  readonly "list_tables": typeof listTables;
  readonly "describe_table": typeof describeTable;
  readonly "append_insight": typeof appendInsight;
};
