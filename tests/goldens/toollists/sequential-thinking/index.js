// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** A detailed tool for dynamic and reflective problem-solving through thoughts. */
export async function sequentialthinking(args = {}) {
  return callTool("sequential-thinking", "sequentialthinking", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["sequentialthinking"]: sequentialthinking,
};
