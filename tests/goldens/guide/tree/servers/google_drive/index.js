// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Read one document. */
export async function getDocument(args = {}) {
  return callTool("google-drive", "get_document", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["get_document"]: getDocument,
};
