// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Echoes back the input string */
export async function echo(args = {}) {
  return callTool("everything", "echo", args);
}

/** Demonstrates how annotations can be used to provide metadata about content. */
export async function getAnnotatedMessage(args = {}) {
  return callTool("everything", "get-annotated-message", args);
}

/** Returns all environment variables, helpful for debugging MCP server configuration */
export async function getEnv(args = {}) {
  return callTool("everything", "get-env", args);
}

/** Returns up to ten resource links that reference different types of resources */
export async function getResourceLinks(args = {}) {
  return callTool("everything", "get-resource-links", args);
}

/** Returns a resource reference that can be used by MCP clients */
export async function getResourceReference(args = {}) {
  return callTool("everything", "get-resource-reference", args);
}

/** Returns structured content along with an output schema for client data validation */
export async function getStructuredContent(args = {}) {
  return callTool("everything", "get-structured-content", args);
}

/** Returns the sum of two numbers */
export async function getSum(args = {}) {
  return callTool("everything", "get-sum", args);
}

/** Returns a tiny MCP logo image. */
export async function getTinyImage(args = {}) {
  return callTool("everything", "get-tiny-image", args);
}

/** Compresses a single file using gzip compression. */
export async function gzipFileAsResource(args = {}) {
  return callTool("everything", "gzip-file-as-resource", args);
}

/** Toggles simulated, random-leveled logging on or off. */
export async function toggleSimulatedLogging(args = {}) {
  return callTool("everything", "toggle-simulated-logging", args);
}

/** Toggles simulated resource subscription updates on or off. */
export async function toggleSubscriberUpdates(args = {}) {
  return callTool("everything", "toggle-subscriber-updates", args);
}

/** Demonstrates a long running operation with progress updates. */
export async function triggerLongRunningOperation(args = {}) {
  return callTool("everything", "trigger-long-running-operation", args);
}

/** Lists the current MCP roots provided by the client. */
export async function getRootsList(args = {}) {
  return callTool("everything", "get-roots-list", args);
}

/** Trigger a Request from the Server for User Elicitation */
export async function triggerElicitationRequest(args = {}) {
  return callTool("everything", "trigger-elicitation-request", args);
}

/** Trigger a Request from the Server for LLM Sampling */
export async function triggerSamplingRequest(args = {}) {
  return callTool("everything", "trigger-sampling-request", args);
}

/** Simulates a deep research operation that gathers, analyzes, and synthesizes information. */
export async function simulateResearchQuery(args = {}) {
  return callTool("everything", "simulate-research-query", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["echo"]: echo,
  ["get-annotated-message"]: getAnnotatedMessage,
  ["get-env"]: getEnv,
  ["get-resource-links"]: getResourceLinks,
  ["get-resource-reference"]: getResourceReference,
  ["get-structured-content"]: getStructuredContent,
  ["get-sum"]: getSum,
  ["get-tiny-image"]: getTinyImage,
  ["gzip-file-as-resource"]: gzipFileAsResource,
  ["toggle-simulated-logging"]: toggleSimulatedLogging,
  ["toggle-subscriber-updates"]: toggleSubscriberUpdates,
  ["trigger-long-running-operation"]: triggerLongRunningOperation,
  ["get-roots-list"]: getRootsList,
  ["trigger-elicitation-request"]: triggerElicitationRequest,
  ["trigger-sampling-request"]: triggerSamplingRequest,
  ["simulate-research-query"]: simulateResearchQuery,
};
