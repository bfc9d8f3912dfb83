// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Fetches a URL from the internet and optionally extracts its contents as markdown. */
export async function fetch(args = {}) {
  return callTool("fetch", "fetch", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["fetch"]: fetch,
};
