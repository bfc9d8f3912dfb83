// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface CreateEntitiesEntity {
  /** The name of the entity */
  name: string;
  /** The type of the entity */
  entityType: string;
  /** An array of observation contents associated with the entity */
  observations: string[];
}

export interface CreateEntitiesEntity2 {
  /** The name of the entity */
  name: string;
  /** The type of the entity */
  entityType: string;
  /** An array of observation contents associated with the entity */
  observations: string[];
}

export interface CreateEntitiesResult {
  entities: CreateEntitiesEntity2[];
}

export interface CreateEntitiesInput {
  entities: CreateEntitiesEntity[];
}

/** Create multiple new entities in the knowledge graph */
export function createEntities(args: CreateEntitiesInput): Promise<ToolCallResult<CreateEntitiesResult>>;

export interface CreateRelationsRelation {
  /** The name of the entity where the relation starts */
  from: string;
  /** The name of the entity where the relation ends */
  to: string;
  /** The type of the relation */
  relationType: string;
}

export interface CreateRelationsRelation2 {
  /** The name of the entity where the relation starts */
  from: string;
  /** The name of the entity where the relation ends */
  to: string;
  /** The type of the relation */
  relationType: string;
}

export interface CreateRelationsResult {
  relations: CreateRelationsRelation2[];
}

export interface CreateRelationsInput {
  relations: CreateRelationsRelation[];
}

/** Create multiple new relations between entities in the knowledge graph. Relations should be in active voice */
export function createRelations(args: CreateRelationsInput): Promise<ToolCallResult<CreateRelationsResult>>;

export interface AddObservationsObservation {
  /** The name of the entity to add the observations to */
  entityName: string;
  /** An array of observation contents to add */
  contents: string[];
}

export interface AddObservationsResult2 {
  entityName: string;
  addedObservations: string[];
}

export interface AddObservationsResult {
  results: AddObservationsResult2[];
}

export interface AddObservationsInput {
  observations: AddObservationsObservation[];
}

/** Add new observations to existing entities in the knowledge graph */
export function addObservations(args: AddObservationsInput): Promise<ToolCallResult<AddObservationsResult>>;

export interface DeleteEntitiesResult {
  success: boolean;
  message: string;
}

export interface DeleteEntitiesInput {
  /** An array of entity names to delete */
  entityNames: string[];
}

/**
 * Delete multiple entities and their associated relations from the knowledge graph
 *
 * The server says that this tool may destroy data and is safe to repeat.
 */
export function deleteEntities(args: DeleteEntitiesInput): Promise<ToolCallResult<DeleteEntitiesResult>>;

export interface DeleteObservationsDeletion {
  /** The name of the entity containing the observations */
  entityName: string;
  /** An array of observations to delete */
  observations: string[];
}

export interface DeleteObservationsResult {
  success: boolean;
  message: string;
}

export interface DeleteObservationsInput {
  deletions: DeleteObservationsDeletion[];
}

/**
 * Delete specific observations from entities in the knowledge graph
 *
 * The server says that this tool may destroy data and is safe to repeat.
 */
export function deleteObservations(
  args: DeleteObservationsInput,
): Promise<ToolCallResult<DeleteObservationsResult>>;

export interface DeleteRelationsRelation {
  /** The name of the entity where the relation starts */
  from: string;
  /** The name of the entity where the relation ends */
  to: string;
  /** The type of the relation */
  relationType: string;
}

export interface DeleteRelationsResult {
  success: boolean;
  message: string;
}

export interface DeleteRelationsInput {
  /** An array of relations to delete */
  relations: DeleteRelationsRelation[];
}

/**
 * Delete multiple relations from the knowledge graph
 *
 * The server says that this tool may destroy data and is safe to repeat.
 */
export function deleteRelations(args: DeleteRelationsInput): Promise<ToolCallResult<DeleteRelationsResult>>;

export interface ReadGraphEntity {
  /** The name of the entity */
  name: string;
  /** The type of the entity */
  entityType: string;
  /** An array of observation contents associated with the entity */
  observations: string[];
}

export interface ReadGraphRelation {
  /** The name of the entity where the relation starts */
  from: string;
  /** The name of the entity where the relation ends */
  to: string;
  /** The type of the relation */
  relationType: string;
}

export interface ReadGraphResult {
  entities: ReadGraphEntity[];
  relations: ReadGraphRelation[];
}

/**
 * Read the entire knowledge graph
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function readGraph(args?: Record<string, never>): Promise<ToolCallResult<ReadGraphResult>>;

export interface SearchNodesEntity {
  /** The name of the entity */
  name: string;
  /** The type of the entity */
  entityType: string;
  /** An array of observation contents associated with the entity */
  observations: string[];
}

export interface SearchNodesRelation {
  /** The name of the entity where the relation starts */
  from: string;
  /** The name of the entity where the relation ends */
  to: string;
  /** The type of the relation */
  relationType: string;
}

export interface SearchNodesResult {
  entities: SearchNodesEntity[];
  relations: SearchNodesRelation[];
}

export interface SearchNodesInput {
  /** The search query to match against entity names, types, and observation content */
  query: string;
}

/**
 * Search for nodes in the knowledge graph based on a query
 *
 * The server says that this tool only reads.
 */
export function searchNodes(args: SearchNodesInput): Promise<ToolCallResult<SearchNodesResult>>;

export interface OpenNodesEntity {
  /** The name of the entity */
  name: string;
  /** The type of the entity */
  entityType: string;
  /** An array of observation contents associated with the entity */
  observations: string[];
}

export interface OpenNodesRelation {
  /** The name of the entity where the relation starts */
  from: string;
  /** The name of the entity where the relation ends */
  to: string;
  /** The type of the relation */
  relationType: string;
}

export interface OpenNodesResult {
  entities: OpenNodesEntity[];
  relations: OpenNodesRelation[];
}

export interface OpenNodesInput {
  /** An array of entity names to retrieve */
  names: string[];
}

/**
 * Open specific nodes in the knowledge graph by their names
 *
 * The server says that this tool only reads.
 */
export function openNodes(args: OpenNodesInput): Promise<ToolCallResult<OpenNodesResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "create_entities": typeof createEntities;
  readonly "create_relations": typeof createRelations;
  readonly "add_observations": typeof addObservations;
  readonly "delete_entities": typeof deleteEntities;
  readonly "delete_observations": typeof deleteObservations;
  readonly "delete_relations": typeof deleteRelations;
  readonly "read_graph": typeof readGraph;
  readonly "search_nodes": typeof searchNodes;
  readonly "open_nodes": typeof openNodes;
};
