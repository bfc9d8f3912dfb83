// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Run an aggregation against a MongoDB database */
export async function aggregateDb(args = {}) {
  return callTool("mongodb", "aggregate-db", args);
}

/** Run an aggregation against a MongoDB collection */
export async function aggregate(args = {}) {
  return callTool("mongodb", "aggregate", args);
}

/** Describe the indexes for a collection */
export async function collectionIndexes(args = {}) {
  return callTool("mongodb", "collection-indexes", args);
}

/** Describe the schema for a collection */
export async function collectionSchema(args = {}) {
  return callTool("mongodb", "collection-schema", args);
}

/** Gets the size of the collection */
export async function collectionStorageSize(args = {}) {
  return callTool("mongodb", "collection-storage-size", args);
}

/** Connect to a MongoDB instance and get back a connectionId to pass to the other MongoDB tools. */
export async function connect(args = {}) {
  return callTool("mongodb", "connect", args);
}

/** Gets the number of documents in a MongoDB collection using db.collection.count() and query as an optional filter… */
export async function count(args = {}) {
  return callTool("mongodb", "count", args);
}

/** Creates a new collection in a database. */
export async function createCollection(args = {}) {
  return callTool("mongodb", "create-collection", args);
}

/** Create an index for a collection */
export async function createIndex(args = {}) {
  return callTool("mongodb", "create-index", args);
}

/** Returns statistics that reflect the use state of a single database */
export async function dbStats(args = {}) {
  return callTool("mongodb", "db-stats", args);
}

/** Removes all documents that match the filter from a MongoDB collection */
export async function deleteMany(args = {}) {
  return callTool("mongodb", "delete-many", args);
}

/** Close a MongoDB connection and revoke its connectionId. */
export async function disconnect(args = {}) {
  return callTool("mongodb", "disconnect", args);
}

/** Removes a collection or view from the database. */
export async function dropCollection(args = {}) {
  return callTool("mongodb", "drop-collection", args);
}

/** Removes the specified database, deleting the associated data files */
export async function dropDatabase(args = {}) {
  return callTool("mongodb", "drop-database", args);
}

/** Drop an index for the provided database and collection. */
export async function dropIndex(args = {}) {
  return callTool("mongodb", "drop-index", args);
}

/**
 * Returns statistics describing the execution of the winning plan chosen by the query optimizer for the evaluated method
 */
export async function explain(args = {}) {
  return callTool("mongodb", "explain", args);
}

/** Export a query or aggregation results in the specified EJSON format. */
export async function export_(args = {}) {
  return callTool("mongodb", "export", args);
}

/** Run a find query against a MongoDB collection */
export async function find(args = {}) {
  return callTool("mongodb", "find", args);
}

/** Insert an array of documents into a MongoDB collection. */
export async function insertMany(args = {}) {
  return callTool("mongodb", "insert-many", args);
}

/** List all collections for a given database */
export async function listCollections(args = {}) {
  return callTool("mongodb", "list-collections", args);
}

/** List the active MongoDB connections and their connectionIds. */
export async function listConnections(args = {}) {
  return callTool("mongodb", "list-connections", args);
}

/** List all databases for a MongoDB connection */
export async function listDatabases(args = {}) {
  return callTool("mongodb", "list-databases", args);
}

/** Returns the most recent logged mongod events */
export async function mongodbLogs(args = {}) {
  return callTool("mongodb", "mongodb-logs", args);
}

/** Renames a collection in a MongoDB database */
export async function renameCollection(args = {}) {
  return callTool("mongodb", "rename-collection", args);
}

/** Updates all documents that match the specified filter for a collection. */
export async function updateMany(args = {}) {
  return callTool("mongodb", "update-many", args);
}

/** Search for information in the MongoDB Assistant knowledge base. */
export async function searchKnowledge(args = {}) {
  return callTool("mongodb", "search-knowledge", args);
}

/** List available data sources in the MongoDB Assistant knowledge base. */
export async function listKnowledgeSources(args = {}) {
  return callTool("mongodb", "list-knowledge-sources", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["aggregate-db"]: aggregateDb,
  ["aggregate"]: aggregate,
  ["collection-indexes"]: collectionIndexes,
  ["collection-schema"]: collectionSchema,
  ["collection-storage-size"]: collectionStorageSize,
  ["connect"]: connect,
  ["count"]: count,
  ["create-collection"]: createCollection,
  ["create-index"]: createIndex,
  ["db-stats"]: dbStats,
  ["delete-many"]: deleteMany,
  ["disconnect"]: disconnect,
  ["drop-collection"]: dropCollection,
  ["drop-database"]: dropDatabase,
  ["drop-index"]: dropIndex,
  ["explain"]: explain,
  ["export"]: export_,
  ["find"]: find,
  ["insert-many"]: insertMany,
  ["list-collections"]: listCollections,
  ["list-connections"]: listConnections,
  ["list-databases"]: listDatabases,
  ["mongodb-logs"]: mongodbLogs,
  ["rename-collection"]: renameCollection,
  ["update-many"]: updateMany,
  ["search-knowledge"]: searchKnowledge,
  ["list-knowledge-sources"]: listKnowledgeSources,
};
