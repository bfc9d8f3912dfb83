// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Get current time in a specific timezone */
export async function getCurrentTime(args = {}) {
  return callTool("time", "get_current_time", args);
}

/** Convert time between timezones */
export async function convertTime(args = {}) {
  return callTool("time", "convert_time", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["get_current_time"]: getCurrentTime,
  ["convert_time"]: convertTime,
};
