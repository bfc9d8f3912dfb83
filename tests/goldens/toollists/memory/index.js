// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Create multiple new entities in the knowledge graph */
export async function createEntities(args = {}) {
  return callTool("memory", "create_entities", args);
}

/** Create multiple new relations between entities in the knowledge graph. */
export async function createRelations(args = {}) {
  return callTool("memory", "create_relations", args);
}

/** Add new observations to existing entities in the knowledge graph */
export async function addObservations(args = {}) {
  return callTool("memory", "add_observations", args);
}

/** Delete multiple entities and their associated relations from the knowledge graph */
export async function deleteEntities(args = {}) {
  return callTool("memory", "delete_entities", args);
}

/** Delete specific observations from entities in the knowledge graph */
export async function deleteObservations(args = {}) {
  return callTool("memory", "delete_observations", args);
}

/** Delete multiple relations from the knowledge graph */
export async function deleteRelations(args = {}) {
  return callTool("memory", "delete_relations", args);
}

/** Read the entire knowledge graph */
export async function readGraph(args = {}) {
  return callTool("memory", "read_graph", args);
}

/** Search for nodes in the knowledge graph based on a query */
export async function searchNodes(args = {}) {
  return callTool("memory", "search_nodes", args);
}

/** Open specific nodes in the knowledge graph by their names */
export async function openNodes(args = {}) {
  return callTool("memory", "open_nodes", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["create_entities"]: createEntities,
  ["create_relations"]: createRelations,
  ["add_observations"]: addObservations,
  ["delete_entities"]: deleteEntities,
  ["delete_observations"]: deleteObservations,
  ["delete_relations"]: deleteRelations,
  ["read_graph"]: readGraph,
  ["search_nodes"]: searchNodes,
  ["open_nodes"]: openNodes,
};
