// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Tool 0. */
export async function getX_e64bf8(args = {}) {
  return callTool("Client", "get-x", args);
}

/** Tool 1. */
export async function getX_cd341f(args = {}) {
  return callTool("Client", "get_x", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["get-x"]: getX_e64bf8,
  ["get_x"]: getX_cd341f,
};
