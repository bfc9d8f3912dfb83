// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Set a field in a hash stored at key with an optional expiration time. */
export async function hset(args = {}) {
  return callTool("redis", "hset", args);
}

/** Get the value of a field in a Redis hash. */
export async function hget(args = {}) {
  return callTool("redis", "hget", args);
}

/** Delete a field from a Redis hash. */
export async function hdel(args = {}) {
  return callTool("redis", "hdel", args);
}

/** Get all fields and values from a Redis hash. */
export async function hgetall(args = {}) {
  return callTool("redis", "hgetall", args);
}

/** Check if a field exists in a Redis hash. */
export async function hexists(args = {}) {
  return callTool("redis", "hexists", args);
}

/** Store a vector as a field in a Redis hash. */
export async function setVectorInHash(args = {}) {
  return callTool("redis", "set_vector_in_hash", args);
}

/** Retrieve a vector from a Redis hash and convert it back from binary blob. */
export async function getVectorFromHash(args = {}) {
  return callTool("redis", "get_vector_from_hash", args);
}

/** Set a JSON value in Redis at a given path with an optional expiration time. */
export async function jsonSet(args = {}) {
  return callTool("redis", "json_set", args);
}

/** Retrieve a JSON value from Redis at a given path. */
export async function jsonGet(args = {}) {
  return callTool("redis", "json_get", args);
}

/** Delete a JSON value from Redis at a given path. */
export async function jsonDel(args = {}) {
  return callTool("redis", "json_del", args);
}

/** Push a value onto the left of a Redis list and optionally set an expiration time. */
export async function lpush(args = {}) {
  return callTool("redis", "lpush", args);
}

/** Push a value onto the right of a Redis list and optionally set an expiration time. */
export async function rpush(args = {}) {
  return callTool("redis", "rpush", args);
}

/** Remove and return the first element from a Redis list. */
export async function lpop(args = {}) {
  return callTool("redis", "lpop", args);
}

/** Remove and return the last element from a Redis list. */
export async function rpop(args = {}) {
  return callTool("redis", "rpop", args);
}

/** Get elements from a Redis list within a specific range. */
export async function lrange(args = {}) {
  return callTool("redis", "lrange", args);
}

/** Get the length of a Redis list. */
export async function llen(args = {}) {
  return callTool("redis", "llen", args);
}

/** Remove elements from a Redis list. */
export async function lrem(args = {}) {
  return callTool("redis", "lrem", args);
}

/** Delete a Redis key. */
export async function delete_(args = {}) {
  return callTool("redis", "delete", args);
}

/** Returns the string representation of the type of the value stored at key */
export async function type(args = {}) {
  return callTool("redis", "type", args);
}

/** Set an expiration time for a Redis key. */
export async function expire(args = {}) {
  return callTool("redis", "expire", args);
}

/** Renames a Redis key from old_key to new_key. */
export async function rename(args = {}) {
  return callTool("redis", "rename", args);
}

/** Scan keys in the Redis database using the SCAN command (non-blocking, production-safe). */
export async function scanKeys(args = {}) {
  return callTool("redis", "scan_keys", args);
}

/** Scan and return ALL keys matching a pattern using multiple SCAN iterations. */
export async function scanAllKeys(args = {}) {
  return callTool("redis", "scan_all_keys", args);
}

/** Search Redis documentation and knowledge base to learn about Redis concepts and use cases. */
export async function searchRedisDocuments(args = {}) {
  return callTool("redis", "search_redis_documents", args);
}

/** Publish a message to a Redis channel. */
export async function publish(args = {}) {
  return callTool("redis", "publish", args);
}

/** Subscribe to a Redis channel and return a reusable subscription handle. */
export async function subscribe(args = {}) {
  return callTool("redis", "subscribe", args);
}

/** Subscribe to Redis channels using a pattern. */
export async function psubscribe(args = {}) {
  return callTool("redis", "psubscribe", args);
}

/** Read pending pub/sub messages for an existing subscription. */
export async function readMessages(args = {}) {
  return callTool("redis", "read_messages", args);
}

/** Unsubscribe and close an existing pub/sub subscription. */
export async function unsubscribe(args = {}) {
  return callTool("redis", "unsubscribe", args);
}

/** List of indexes in the Redis database */
export async function getIndexes(args = {}) {
  return callTool("redis", "get_indexes", args);
}

/** Retrieve schema and information about a specific Redis index using FT.INFO. */
export async function getIndexInfo(args = {}) {
  return callTool("redis", "get_index_info", args);
}

/** Retrieve the number of indexed keys by the index */
export async function getIndexedKeysNumber(args = {}) {
  return callTool("redis", "get_indexed_keys_number", args);
}

/** Create a Redis 8 vector similarity index using HNSW on a Redis hash. */
export async function createVectorIndexHash(args = {}) {
  return callTool("redis", "create_vector_index_hash", args);
}

/** Perform a KNN vector similarity search using Redis 8 or later version on vectors stored in hash data structures. */
export async function vectorSearchHash(args = {}) {
  return callTool("redis", "vector_search_hash", args);
}

/** Perform a hybrid search combining a Redis filter expression with KNN vector similarity. */
export async function hybridSearch(args = {}) {
  return callTool("redis", "hybrid_search", args);
}

/** Get the number of keys stored in the Redis database */
export async function dbsize(args = {}) {
  return callTool("redis", "dbsize", args);
}

/** Get Redis server information and statistics. */
export async function info(args = {}) {
  return callTool("redis", "info", args);
}

/** Get a list of connected clients to the Redis server. */
export async function clientList(args = {}) {
  return callTool("redis", "client_list", args);
}

/** Add a value to a Redis set with an optional expiration time. */
export async function sadd(args = {}) {
  return callTool("redis", "sadd", args);
}

/** Remove a value from a Redis set. */
export async function srem(args = {}) {
  return callTool("redis", "srem", args);
}

/** Get all members of a Redis set. */
export async function smembers(args = {}) {
  return callTool("redis", "smembers", args);
}

/** Add a member to a Redis sorted set with an optional expiration time. */
export async function zadd(args = {}) {
  return callTool("redis", "zadd", args);
}

/** Retrieve a range of members from a Redis sorted set. */
export async function zrange(args = {}) {
  return callTool("redis", "zrange", args);
}

/** Remove a member from a Redis sorted set. */
export async function zrem(args = {}) {
  return callTool("redis", "zrem", args);
}

/** Add an entry to a Redis stream with an optional expiration time. */
export async function xadd(args = {}) {
  return callTool("redis", "xadd", args);
}

/** Read entries from a Redis stream. */
export async function xrange(args = {}) {
  return callTool("redis", "xrange", args);
}

/** Delete an entry from a Redis stream. */
export async function xdel(args = {}) {
  return callTool("redis", "xdel", args);
}

/** Create a consumer group for a Redis stream. */
export async function xgroupCreate(args = {}) {
  return callTool("redis", "xgroup_create", args);
}

/** Destroy a consumer group for a Redis stream. */
export async function xgroupDestroy(args = {}) {
  return callTool("redis", "xgroup_destroy", args);
}

/** Read entries from a Redis stream using a consumer group. */
export async function xreadgroup(args = {}) {
  return callTool("redis", "xreadgroup", args);
}

/** Acknowledge entries that were processed by a consumer group. */
export async function xack(args = {}) {
  return callTool("redis", "xack", args);
}

/** Set a Redis string value with an optional expiration time. */
export async function set(args = {}) {
  return callTool("redis", "set", args);
}

/** Get a Redis string value. */
export async function get(args = {}) {
  return callTool("redis", "get", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["hset"]: hset,
  ["hget"]: hget,
  ["hdel"]: hdel,
  ["hgetall"]: hgetall,
  ["hexists"]: hexists,
  ["set_vector_in_hash"]: setVectorInHash,
  ["get_vector_from_hash"]: getVectorFromHash,
  ["json_set"]: jsonSet,
  ["json_get"]: jsonGet,
  ["json_del"]: jsonDel,
  ["lpush"]: lpush,
  ["rpush"]: rpush,
  ["lpop"]: lpop,
  ["rpop"]: rpop,
  ["lrange"]: lrange,
  ["llen"]: llen,
  ["lrem"]: lrem,
  ["delete"]: delete_,
  ["type"]: type,
  ["expire"]: expire,
  ["rename"]: rename,
  ["scan_keys"]: scanKeys,
  ["scan_all_keys"]: scanAllKeys,
  ["search_redis_documents"]: searchRedisDocuments,
  ["publish"]: publish,
  ["subscribe"]: subscribe,
  ["psubscribe"]: psubscribe,
  ["read_messages"]: readMessages,
  ["unsubscribe"]: unsubscribe,
  ["get_indexes"]: getIndexes,
  ["get_index_info"]: getIndexInfo,
  ["get_indexed_keys_number"]: getIndexedKeysNumber,
  ["create_vector_index_hash"]: createVectorIndexHash,
  ["vector_search_hash"]: vectorSearchHash,
  ["hybrid_search"]: hybridSearch,
  ["dbsize"]: dbsize,
  ["info"]: info,
  ["client_list"]: clientList,
  ["sadd"]: sadd,
  ["srem"]: srem,
  ["smembers"]: smembers,
  ["zadd"]: zadd,
  ["zrange"]: zrange,
  ["zrem"]: zrem,
  ["xadd"]: xadd,
  ["xrange"]: xrange,
  ["xdel"]: xdel,
  ["xgroup_create"]: xgroupCreate,
  ["xgroup_destroy"]: xgroupDestroy,
  ["xreadgroup"]: xreadgroup,
  ["xack"]: xack,
  ["set"]: set,
  ["get"]: get,
};
