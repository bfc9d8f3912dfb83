// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Resolves a package/product name to a Context7-compatible library ID and returns matching libraries. */
export async function resolveLibraryId(args = {}) {
  return callTool("context7", "resolve-library-id", args);
}

/**
 * Retrieves and queries up-to-date documentation and code examples from Context7 for any programming library or framework.
 */
export async function queryDocs(args = {}) {
  return callTool("context7", "query-docs", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["resolve-library-id"]: resolveLibraryId,
  ["query-docs"]: queryDocs,
};
