// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Find GitHub repositories. */
export async function searchRepositories(args = {}) {
  return callTool("github", "search_repositories", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["search_repositories"]: searchRepositories,
};
