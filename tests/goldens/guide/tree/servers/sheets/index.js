// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** All rows of a sheet. */
export async function getAllRows(args = {}) {
  return callTool("sheets", "get_all_rows", args);
}

/** List what administrators may do. */
export async function adminToolsList(args = {}) {
  return callTool("sheets", "admin.tools.list", args);
}

/** Change rows. */
export async function updateRows(args = {}) {
  return callTool("sheets", "update-rows", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["get_all_rows"]: getAllRows,
  ["admin.tools.list"]: adminToolsList,
  ["update-rows"]: updateRows,
};
