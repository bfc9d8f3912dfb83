// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface GetAllRowsInput {
  /** Name or ID of the sheet. */
  sheetId: string;
  /**
   * How many rows at most.
   * Default 1000. (>= 1, <= 10000)
   */
  limit?: number;
}

/** All rows of a sheet. */
export function getAllRows(args: GetAllRowsInput): Promise<ToolCallResult<unknown>>;

/**
 * List what administrators may do.
 *
 * Takes no arguments.
 */
export function adminToolsList(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface UpdateRowsRow {
  index: number;
  cells: Record<string, string | number | null>;
}

export interface UpdateRowsInput {
  sheetId: string;
  /** (items >= 1) */
  rows: UpdateRowsRow[];
  /** Default "merge". */
  mode?: "merge" | "replace";
}

/**
 * Change rows.
 *
 * Only the cells given are changed; the others stay.
 *
 * The server says that this tool may destroy data and is safe to repeat.
 */
export function updateRows(args: UpdateRowsInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "get_all_rows": typeof getAllRows;
  readonly "admin.tools.list": typeof adminToolsList;
  readonly "update-rows": typeof updateRows;
};
