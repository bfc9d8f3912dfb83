// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Search the web for images. */
export async function braveImageSearch(args = {}) {
  return callTool("brave_search", "brave_image_search", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["brave_image_search"]: braveImageSearch,
};
