// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface HsetResult {
  result: string;
}

export interface HsetInput {
  name: string;
  key: string;
  value: string | number;
  expire_seconds?: number | null;
}

/**
 * Set a field in a hash stored at key with an optional expiration time.
 *
 * Args:
 *     name: The Redis hash key.
 *     key: The field name inside the hash.
 *     value: The value to set.
 *     expire_seconds: Optional; time in seconds after which the key should expire.
 *
 * Returns:
 *     A success message or an error message.
 */
export function hset(args: HsetInput): Promise<ToolCallResult<HsetResult>>;

export interface HgetResult {
  result: string;
}

export interface HgetInput {
  name: string;
  key: string;
}

/**
 * Get the value of a field in a Redis hash.
 *
 * Args:
 *     name: The Redis hash key.
 *     key: The field name inside the hash.
 *
 * Returns:
 *     The field value or an error message.
 */
export function hget(args: HgetInput): Promise<ToolCallResult<HgetResult>>;

export interface HdelResult {
  result: string;
}

export interface HdelInput {
  name: string;
  key: string;
}

/**
 * Delete a field from a Redis hash.
 *
 * Args:
 *     name: The Redis hash key.
 *     key: The field name inside the hash.
 *
 * Returns:
 *     A success message or an error message.
 */
export function hdel(args: HdelInput): Promise<ToolCallResult<HdelResult>>;

export interface HgetallInput {
  name: string;
}

/**
 * Get all fields and values from a Redis hash.
 *
 * Args:
 *     name: The Redis hash key.
 *
 * Returns:
 *     A dictionary of field-value pairs or an error message.
 */
export function hgetall(args: HgetallInput): Promise<ToolCallResult<unknown>>;

export interface HexistsResult {
  result: boolean;
}

export interface HexistsInput {
  name: string;
  key: string;
}

/**
 * Check if a field exists in a Redis hash.
 *
 * Args:
 *     name: The Redis hash key.
 *     key: The field name inside the hash.
 *
 * Returns:
 *     True if the field exists, False otherwise.
 */
export function hexists(args: HexistsInput): Promise<ToolCallResult<HexistsResult>>;

export interface SetVectorInHashResult {
  result: boolean | string;
}

export interface SetVectorInHashInput {
  name: string;
  vector: number[];
  /** Default "vector". */
  vector_field?: string;
}

/**
 * Store a vector as a field in a Redis hash.
 *
 * Args:
 *     name: The Redis hash key.
 *     vector_field: The field name inside the hash. Unless specifically required, use the default field name
 *     vector: The vector (list of numbers) to store in the hash.
 *
 * Returns:
 *     True if the vector was successfully stored, False otherwise.
 */
export function setVectorInHash(args: SetVectorInHashInput): Promise<ToolCallResult<SetVectorInHashResult>>;

export interface GetVectorFromHashInput {
  name: string;
  /** Default "vector". */
  vector_field?: string;
}

/**
 * Retrieve a vector from a Redis hash and convert it back from binary blob.
 *
 * Args:
 *     name: The Redis hash key.
 *     vector_field: The field name inside the hash. Unless specifically required, use the default field name
 *
 * Returns:
 *     The vector as a list of floats, or an error message if retrieval fails.
 */
export function getVectorFromHash(args: GetVectorFromHashInput): Promise<ToolCallResult<unknown>>;

export interface JsonSetResult {
  result: string;
}

export interface JsonSetInput {
  name: string;
  path: string;
  value: string;
  expire_seconds?: number | null;
}

/**
 * Set a JSON value in Redis at a given path with an optional expiration time.
 *
 * Args:
 *     name: The Redis key where the JSON document is stored.
 *     path: The JSON path where the value should be set.
 *     value: The JSON value to store (as JSON string, or will be auto-converted).
 *     expire_seconds: Optional; time in seconds after which the key should expire.
 *
 * Returns:
 *     A success message or an error message.
 */
export function jsonSet(args: JsonSetInput): Promise<ToolCallResult<JsonSetResult>>;

export interface JsonGetResult {
  result: string;
}

export interface JsonGetInput {
  name: string;
  /** Default "$". */
  path?: string;
}

/**
 * Retrieve a JSON value from Redis at a given path.
 *
 * Args:
 *     name: The Redis key where the JSON document is stored.
 *     path: The JSON path to retrieve (default: root '$').
 *
 * Returns:
 *     The retrieved JSON value or an error message.
 */
export function jsonGet(args: JsonGetInput): Promise<ToolCallResult<JsonGetResult>>;

export interface JsonDelResult {
  result: string;
}

export interface JsonDelInput {
  name: string;
  /** Default "$". */
  path?: string;
}

/**
 * Delete a JSON value from Redis at a given path.
 *
 * Args:
 *     name: The Redis key where the JSON document is stored.
 *     path: The JSON path to delete (default: root '$').
 *
 * Returns:
 *     A success message or an error message.
 */
export function jsonDel(args: JsonDelInput): Promise<ToolCallResult<JsonDelResult>>;

export interface LpushResult {
  result: string;
}

export interface LpushInput {
  name: string;
  /** (format binary) */
  value: string | number;
  expire?: number | null;
}

/** Push a value onto the left of a Redis list and optionally set an expiration time. */
export function lpush(args: LpushInput): Promise<ToolCallResult<LpushResult>>;

export interface RpushResult {
  result: string;
}

export interface RpushInput {
  name: string;
  /** (format binary) */
  value: string | number;
  expire?: number | null;
}

/** Push a value onto the right of a Redis list and optionally set an expiration time. */
export function rpush(args: RpushInput): Promise<ToolCallResult<RpushResult>>;

export interface LpopResult {
  result: string;
}

export interface LpopInput {
  name: string;
}

/** Remove and return the first element from a Redis list. */
export function lpop(args: LpopInput): Promise<ToolCallResult<LpopResult>>;

export interface RpopResult {
  result: string;
}

export interface RpopInput {
  name: string;
}

/** Remove and return the last element from a Redis list. */
export function rpop(args: RpopInput): Promise<ToolCallResult<RpopResult>>;

export interface LrangeResult {
  result: string | string[];
}

export interface LrangeInput {
  name: string;
  start: number;
  stop: number;
}

/**
 * Get elements from a Redis list within a specific range.
 *
 * Returns:
 * str: A JSON string containing the list of elements or an error message.
 */
export function lrange(args: LrangeInput): Promise<ToolCallResult<LrangeResult>>;

export interface LlenResult {
  result: number;
}

export interface LlenInput {
  name: string;
}

/** Get the length of a Redis list. */
export function llen(args: LlenInput): Promise<ToolCallResult<LlenResult>>;

export interface LremResult {
  result: string;
}

export interface LremInput {
  name: string;
  count: number;
  /** (format binary) */
  element: string | number;
}

/**
 * Remove elements from a Redis list.
 *
 * Args:
 *     name: The name of the list
 *     count: Number of elements to remove (0 = all, positive = from head, negative = from tail)
 *     element: The element value to remove
 *
 * Returns:
 *     A string indicating the number of elements removed.
 */
export function lrem(args: LremInput): Promise<ToolCallResult<LremResult>>;

export interface DeleteResult {
  result: string;
}

export interface DeleteInput {
  key: string;
}

/**
 * Delete a Redis key.
 *
 * Args:
 *     key (str): The key to delete.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function delete_(args: DeleteInput): Promise<ToolCallResult<DeleteResult>>;

export interface TypeResult {
  result: Record<string, unknown>;
}

export interface TypeInput {
  key: string;
}

/**
 * Returns the string representation of the type of the value stored at key
 *
 * Args:
 *     key (str): The key to check.
 *
 * Returns:
 *     str: The type of key, or none when key doesn't exist
 */
export function type(args: TypeInput): Promise<ToolCallResult<TypeResult>>;

export interface ExpireResult {
  result: string;
}

export interface ExpireInput {
  name: string;
  expire_seconds: number;
}

/**
 * Set an expiration time for a Redis key.
 *
 * Args:
 *     name: The Redis key.
 *     expire_seconds: Time in seconds after which the key should expire.
 *
 * Returns:
 *     A success message or an error message.
 */
export function expire(args: ExpireInput): Promise<ToolCallResult<ExpireResult>>;

export interface RenameResult {
  result: Record<string, unknown>;
}

export interface RenameInput {
  old_key: string;
  new_key: string;
}

/**
 * Renames a Redis key from old_key to new_key.
 *
 * Args:
 *     old_key (str): The current name of the Redis key to rename.
 *     new_key (str): The new name to assign to the key.
 *
 * Returns:
 *     Dict[str, Any]: A dictionary containing the result of the operation.
 *         On success: {"status": "success", "message": "..."}
 *         On error: {"error": "..."}
 */
export function rename(args: RenameInput): Promise<ToolCallResult<RenameResult>>;

export interface ScanKeysResult {
  result: string | Record<string, unknown>;
}

export interface ScanKeysInput {
  /** Default "*". */
  pattern?: string;
  /** Default 100. */
  count?: number;
  /** Default 0. */
  cursor?: number;
}

/**
 * Scan keys in the Redis database using the SCAN command (non-blocking, production-safe).
 *
 * ⚠ IMPORTANT: This returns PARTIAL results from one iteration. Use scan_all_keys()
 * to get ALL matching keys, or call this function multiple times with the returned cursor
 * until cursor becomes 0.
 *
 * The SCAN command iterates through the keyspace in small chunks, making it safe to use
 * on large databases without blocking other operations.
 *
 * Args:
 *     pattern: Pattern to match keys against (default is "*" for all keys).
 *             Common patterns: "user:*", "cache:*", "*:123", etc.
 *     count: Hint for the number of keys to return per iteration (default 100).
 *            Redis may return more or fewer keys than this hint.
 *     cursor: The cursor position to start scanning from (0 to start from beginning).
 *             To continue scanning, use the cursor value returned from previous call.
 *
 * Returns:
 *     A dictionary containing:
 *     - 'cursor': Next cursor position (0 means scan is complete)
 *     - 'keys': List of keys found in this iteration (PARTIAL RESULTS)
 *     - 'total_scanned': Number of keys returned in this batch
 *     - 'scan_complete': Boolean indicating if scan is finished
 *     Or an error message if something goes wrong.
 *
 * Example usage:
 *     First call: scan_keys("user:*") -> returns cursor=1234, keys=[...], scan_complete=False
 *     Next call: scan_keys("user:*", cursor=1234) -> continues from where it left off
 *     Final call: returns cursor=0, scan_complete=True when done
 */
export function scanKeys(args?: ScanKeysInput): Promise<ToolCallResult<ScanKeysResult>>;

export interface ScanAllKeysResult {
  result: string | string[];
}

export interface ScanAllKeysInput {
  /** Default "*". */
  pattern?: string;
  /** Default 100. */
  batch_size?: number;
}

/**
 * Scan and return ALL keys matching a pattern using multiple SCAN iterations.
 *
 * This function automatically handles the SCAN cursor iteration to collect all matching keys.
 * It's safer than KEYS * for large databases but will still collect all results in memory.
 *
 * ⚠ WARNING: With very large datasets (millions of keys), this may consume significant memory.
 * For large-scale operations, consider using scan_keys() with manual iteration instead.
 *
 * Args:
 *     pattern: Pattern to match keys against (default is "*" for all keys).
 *     batch_size: Number of keys to scan per iteration (default 100).
 *
 * Returns:
 *     A list of all keys matching the pattern or an error message.
 */
export function scanAllKeys(args?: ScanAllKeysInput): Promise<ToolCallResult<ScanAllKeysResult>>;

export interface SearchRedisDocumentsResult {
  result: Record<string, unknown>[] | Record<string, unknown>;
}

export interface SearchRedisDocumentsInput {
  question: string;
}

/**
 * Search Redis documentation and knowledge base to learn about Redis concepts and use cases.
 *
 * This tool exposes updated and curated documentation, and must be invoked every time the user wants to learn
 * more in areas including:
 *
 * **Common Use Cases:**
 * - Session Management: User session storage and management
 * - Caching: Application-level and database query caching
 * - Rate Limiting: API throttling and request limiting
 * - Leaderboards: Gaming and ranking systems
 * - Semantic Search: AI-powered similarity search
 * - Agentic Workflows: AI agent state and memory management
 * - RAG (Retrieval-Augmented Generation): Vector storage for AI applications
 * - Real-time Analytics: Counters, metrics, and time-series data
 * - Message Queues: Task queues and job processing
 * - Geospatial: Location-based queries and proximity search
 *
 * Args:
 *     question: The question about Redis concepts, data structures, features, or use cases
 *
 * Returns:
 *     Union[List[Dict[str, Any]], Dict[str, Any]]: A list of documentation results from the API, or a dict
 * with an error message.
 */
export function searchRedisDocuments(
  args: SearchRedisDocumentsInput,
): Promise<ToolCallResult<SearchRedisDocumentsResult>>;

export interface PublishResult {
  result: string;
}

export interface PublishInput {
  channel: string;
  message: string;
}

/**
 * Publish a message to a Redis channel.
 *
 * Args:
 *     channel: The Redis channel to publish to.
 *     message: The message to send.
 *
 * Returns:
 *     A success message or an error message.
 */
export function publish(args: PublishInput): Promise<ToolCallResult<PublishResult>>;

export interface SubscribeResult {
  result: Record<string, unknown>;
}

export interface SubscribeInput {
  channel: string;
}

/**
 * Subscribe to a Redis channel and return a reusable subscription handle.
 *
 * Args:
 *     channel: The Redis channel to subscribe to.
 *
 * Returns:
 *     A dictionary containing the subscription ID or an error message.
 */
export function subscribe(args: SubscribeInput): Promise<ToolCallResult<SubscribeResult>>;

export interface PsubscribeResult {
  result: Record<string, unknown>;
}

export interface PsubscribeInput {
  pattern: string;
}

/**
 * Subscribe to Redis channels using a pattern.
 *
 * Args:
 *     pattern: The Redis channel pattern to subscribe to.
 *
 * Returns:
 *     A dictionary containing the subscription ID or an error message.
 */
export function psubscribe(args: PsubscribeInput): Promise<ToolCallResult<PsubscribeResult>>;

export interface ReadMessagesResult {
  result: Record<string, unknown>;
}

export interface ReadMessagesInput {
  subscription_id: string;
  /** Default 1000. */
  timeout_ms?: number;
  /** Default 10. */
  max_messages?: number;
}

/**
 * Read pending pub/sub messages for an existing subscription.
 *
 * Args:
 *     subscription_id: The ID returned by subscribe() or psubscribe().
 *     timeout_ms: Time to wait for messages in milliseconds. Use 0 for non-blocking.
 *     max_messages: Maximum number of messages to return in one call.
 *
 * Returns:
 *     A dictionary containing the collected messages or an error message.
 */
export function readMessages(args: ReadMessagesInput): Promise<ToolCallResult<ReadMessagesResult>>;

export interface UnsubscribeResult {
  result: Record<string, unknown>;
}

export interface UnsubscribeInput {
  subscription_id: string;
}

/**
 * Unsubscribe and close an existing pub/sub subscription.
 *
 * Args:
 *     subscription_id: The ID returned by subscribe() or psubscribe().
 *
 * Returns:
 *     A dictionary describing the closed subscription or an error message.
 */
export function unsubscribe(args: UnsubscribeInput): Promise<ToolCallResult<UnsubscribeResult>>;

export interface GetIndexesResult {
  result: string;
}

/**
 * List of indexes in the Redis database
 *
 * Returns:
 *     str: A JSON string containing the list of indexes or an error message.
 *
 * Takes no arguments.
 */
export function getIndexes(args?: Record<string, never>): Promise<ToolCallResult<GetIndexesResult>>;

export interface GetIndexInfoResult {
  result: string;
}

export interface GetIndexInfoInput {
  index_name: string;
}

/**
 * Retrieve schema and information about a specific Redis index using FT.INFO.
 *
 * Args:
 *     index_name (str): The name of the index to retrieve information about.
 *
 * Returns:
 *     str: Information about the specified index or an error message.
 */
export function getIndexInfo(args: GetIndexInfoInput): Promise<ToolCallResult<GetIndexInfoResult>>;

export interface GetIndexedKeysNumberResult {
  result: string;
}

export interface GetIndexedKeysNumberInput {
  index_name: string;
}

/**
 * Retrieve the number of indexed keys by the index
 *
 * Args:
 *     index_name (str): The name of the index to retrieve information about.
 *
 * Returns:
 *     str: Number of indexed keys as a string
 */
export function getIndexedKeysNumber(
  args: GetIndexedKeysNumberInput,
): Promise<ToolCallResult<GetIndexedKeysNumberResult>>;

export interface CreateVectorIndexHashResult {
  result: string;
}

export interface CreateVectorIndexHashInput {
  /** Default "vector_index". */
  index_name?: string;
  /** Default "doc:". */
  prefix?: string;
  /** Default "vector". */
  vector_field?: string;
  /** Default 1536. */
  dim?: number;
  /** Default "COSINE". */
  distance_metric?: string;
}

/**
 * Create a Redis 8 vector similarity index using HNSW on a Redis hash.
 *
 * This function sets up a Redis index for approximate nearest neighbor (ANN)
 * search using the HNSW algorithm and float32 vector embeddings.
 *
 * Args:
 *     index_name: The name of the Redis index to create. Unless specifically required, use the default name
 * for the index.
 *     prefix: The key prefix used to identify documents to index (e.g., 'doc:'). Unless specifically
 * required, use the default prefix.
 *     vector_field: The name of the vector field to be indexed for similarity search. Unless specifically
 * required, use the default field name
 *     dim: The dimensionality of the vectors stored under the vector_field.
 *     distance_metric: The distance function to use (e.g., 'COSINE', 'L2', 'IP').
 *
 * Returns:
 *     A string indicating whether the index was created successfully or an error message.
 */
export function createVectorIndexHash(
  args?: CreateVectorIndexHashInput,
): Promise<ToolCallResult<CreateVectorIndexHashResult>>;

export interface VectorSearchHashResult {
  result: Record<string, unknown>[] | string;
}

export interface VectorSearchHashInput {
  query_vector: number[];
  /** Default "vector_index". */
  index_name?: string;
  /** Default "vector". */
  vector_field?: string;
  /** Default 5. */
  k?: number;
  return_fields?: string[] | null;
}

/**
 * Perform a KNN vector similarity search using Redis 8 or later version on vectors stored in hash data
 * structures.
 *
 * Args:
 *     query_vector: List of floats to use as the query vector.
 *     index_name: Name of the Redis index. Unless specifically specified, use the default index name.
 *     vector_field: Name of the indexed vector field. Unless specifically required, use the default field
 * name
 *     k: Number of nearest neighbors to return.
 *     return_fields: List of fields to return (optional).
 *
 * Returns:
 *     A list of matched documents or an error message.
 */
export function vectorSearchHash(
  args: VectorSearchHashInput,
): Promise<ToolCallResult<VectorSearchHashResult>>;

export interface HybridSearchResult {
  result: Record<string, unknown>[] | string;
}

export interface HybridSearchInput {
  query_vector: number[];
  /** Default "*". */
  filter_expression?: string;
  /** Default "vector_index". */
  index_name?: string;
  /** Default "vector". */
  vector_field?: string;
  /** Default 5. */
  k?: number;
  return_fields?: string[] | null;
}

/**
 * Perform a hybrid search combining a Redis filter expression with KNN vector similarity.
 *
 * Hybrid search pre-filters documents by metadata before ranking by vector similarity —
 * the standard pattern for production RAG and semantic search pipelines.
 *
 * Filter expression examples:
 *     "*" → no filter, pure vector search (same as vector_search_hash)
 *     "\@category:{news}" → tag filter
 *     "\@year:[2020 2024]" → numeric range
 *     "\@lang:{en} \@year:[2022 +inf]" → combined tag + range
 *     "\@title:redis" → full-text match on a text field
 *
 * Full filter syntax: https://redis.io/docs/latest/develop/interact/search-and-query/query/
 *
 * Args:
 *     query_vector: List of floats to use as the query vector.
 *     filter_expression: Redis filter expression to restrict candidates before KNN ranking.
 *             Defaults to '*' (no filter).
 *     index_name: Name of the Redis index (default: 'vector_index').
 *     vector_field: Name of the indexed vector field (default: 'vector').
 *     k: Number of nearest neighbors to return.
 *     return_fields: Additional fields to include in results (optional).
 *
 * Returns:
 *     A list of matched documents with their similarity score, or an error message.
 */
export function hybridSearch(args: HybridSearchInput): Promise<ToolCallResult<HybridSearchResult>>;

export interface DbsizeResult {
  result: number;
}

/**
 * Get the number of keys stored in the Redis database
 *
 * Takes no arguments.
 */
export function dbsize(args?: Record<string, never>): Promise<ToolCallResult<DbsizeResult>>;

export interface InfoInput {
  /** Default "default". */
  section?: string;
}

/**
 * Get Redis server information and statistics.
 *
 * Args:
 *     section: The section of the info command (default, memory, cpu, etc.).
 *
 * Returns:
 *     A dictionary of server information or an error message.
 */
export function info(args?: InfoInput): Promise<ToolCallResult<unknown>>;

/**
 * Get a list of connected clients to the Redis server.
 *
 * Takes no arguments.
 */
export function clientList(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface SaddResult {
  result: string;
}

export interface SaddInput {
  name: string;
  value: string;
  expire_seconds?: number | null;
}

/**
 * Add a value to a Redis set with an optional expiration time.
 *
 * Args:
 *     name: The Redis set key.
 *     value: The value to add to the set.
 *     expire_seconds: Optional; time in seconds after which the set should expire.
 *
 * Returns:
 *     A success message or an error message.
 */
export function sadd(args: SaddInput): Promise<ToolCallResult<SaddResult>>;

export interface SremResult {
  result: string;
}

export interface SremInput {
  name: string;
  value: string;
}

/**
 * Remove a value from a Redis set.
 *
 * Args:
 *     name: The Redis set key.
 *     value: The value to remove from the set.
 *
 * Returns:
 *     A success message or an error message.
 */
export function srem(args: SremInput): Promise<ToolCallResult<SremResult>>;

export interface SmembersResult {
  result: string | string[];
}

export interface SmembersInput {
  name: string;
}

/**
 * Get all members of a Redis set.
 *
 * Args:
 *     name: The Redis set key.
 *
 * Returns:
 *     A list of values in the set or an error message.
 */
export function smembers(args: SmembersInput): Promise<ToolCallResult<SmembersResult>>;

export interface ZaddResult {
  result: string;
}

export interface ZaddInput {
  key: string;
  score: number;
  member: string;
  expiration?: number | null;
}

/**
 * Add a member to a Redis sorted set with an optional expiration time.
 *
 * Args:
 *     key (str): The sorted set key.
 *     score (float): The score of the member.
 *     member (str): The member to add.
 *     expiration (int, optional): Expiration time in seconds.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function zadd(args: ZaddInput): Promise<ToolCallResult<ZaddResult>>;

export interface ZrangeResult {
  result: string;
}

export interface ZrangeInput {
  key: string;
  start: number;
  end: number;
  /** Default false. */
  with_scores?: boolean;
}

/**
 * Retrieve a range of members from a Redis sorted set.
 *
 * Args:
 *     key (str): The sorted set key.
 *     start (int): The starting index.
 *     end (int): The ending index.
 *     with_scores (bool, optional): Whether to include scores in the result.
 *
 * Returns:
 *     str: The sorted set members in the given range or an error message.
 */
export function zrange(args: ZrangeInput): Promise<ToolCallResult<ZrangeResult>>;

export interface ZremResult {
  result: string;
}

export interface ZremInput {
  key: string;
  member: string;
}

/**
 * Remove a member from a Redis sorted set.
 *
 * Args:
 *     key (str): The sorted set key.
 *     member (str): The member to remove.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function zrem(args: ZremInput): Promise<ToolCallResult<ZremResult>>;

export interface XaddResult {
  result: string;
}

export interface XaddInput {
  key: string;
  fields: Record<string, unknown>;
  expiration?: number | null;
}

/**
 * Add an entry to a Redis stream with an optional expiration time.
 *
 * Args:
 *     key (str): The stream key.
 *     fields (dict): The fields and values for the stream entry.
 *     expiration (int, optional): Expiration time in seconds.
 *
 * Returns:
 *     str: The ID of the added entry or an error message.
 */
export function xadd(args: XaddInput): Promise<ToolCallResult<XaddResult>>;

export interface XrangeResult {
  result: string;
}

export interface XrangeInput {
  key: string;
  /** Default 1. */
  count?: number;
}

/**
 * Read entries from a Redis stream.
 *
 * Args:
 *     key (str): The stream key.
 *     count (int, optional): Number of entries to retrieve.
 *
 * Returns:
 *     str: The retrieved stream entries or an error message.
 */
export function xrange(args: XrangeInput): Promise<ToolCallResult<XrangeResult>>;

export interface XdelResult {
  result: string;
}

export interface XdelInput {
  key: string;
  entry_id: string;
}

/**
 * Delete an entry from a Redis stream.
 *
 * Args:
 *     key (str): The stream key.
 *     entry_id (str): The ID of the entry to delete.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function xdel(args: XdelInput): Promise<ToolCallResult<XdelResult>>;

export interface XgroupCreateResult {
  result: string;
}

export interface XgroupCreateInput {
  key: string;
  group_name: string;
  /** Default "$". */
  start_id?: string;
  /** Default true. */
  mkstream?: boolean;
}

/**
 * Create a consumer group for a Redis stream.
 *
 * Args:
 *     key (str): The stream key.
 *     group_name (str): The consumer group name.
 *     start_id (str, optional): Stream ID from which the group starts consuming.
 *     mkstream (bool, optional): Create the stream if it does not exist.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function xgroupCreate(args: XgroupCreateInput): Promise<ToolCallResult<XgroupCreateResult>>;

export interface XgroupDestroyResult {
  result: string;
}

export interface XgroupDestroyInput {
  key: string;
  group_name: string;
}

/**
 * Destroy a consumer group for a Redis stream.
 *
 * Args:
 *     key (str): The stream key.
 *     group_name (str): The consumer group name.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function xgroupDestroy(args: XgroupDestroyInput): Promise<ToolCallResult<XgroupDestroyResult>>;

export interface XreadgroupResult {
  result: string;
}

export interface XreadgroupInput {
  key: string;
  group_name: string;
  consumer_name: string;
  /** Default 1. */
  count?: number;
  block_ms?: number | null;
  /** Default ">". */
  stream_id?: string;
}

/**
 * Read entries from a Redis stream using a consumer group.
 *
 * Args:
 *     key (str): The stream key.
 *     group_name (str): The consumer group name.
 *     consumer_name (str): The consumer name.
 *     count (int, optional): Maximum number of entries to retrieve.
 *     block_ms (int, optional): Maximum time to block waiting for entries.
 *         Use None for a non-blocking read. 0 is rejected because Redis treats
 *         BLOCK 0 as an indefinite wait.
 *     stream_id (str, optional): Stream ID to read from. Use ">" for new messages.
 *
 * Returns:
 *     str: The retrieved stream entries or an error message.
 */
export function xreadgroup(args: XreadgroupInput): Promise<ToolCallResult<XreadgroupResult>>;

export interface XackResult {
  result: string;
}

export interface XackInput {
  key: string;
  group_name: string;
  entry_ids: string[];
}

/**
 * Acknowledge entries that were processed by a consumer group.
 *
 * Args:
 *     key (str): The stream key.
 *     group_name (str): The consumer group name.
 *     entry_ids (List[str]): Entry IDs to acknowledge.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function xack(args: XackInput): Promise<ToolCallResult<XackResult>>;

export interface SetResult {
  result: string;
}

export interface SetInput {
  key: string;
  /** (format binary) */
  value: string | number | Record<string, unknown>;
  expiration?: number | null;
}

/**
 * Set a Redis string value with an optional expiration time.
 *
 * Args:
 *     key (str): The key to set.
 *     value (str, bytes, int, float, dict): The value to store.
 *     expiration (int, optional): Expiration time in seconds.
 *
 * Returns:
 *     str: Confirmation message or an error message.
 */
export function set(args: SetInput): Promise<ToolCallResult<SetResult>>;

export interface GetResult {
  /** (format binary) */
  result: string;
}

export interface GetInput {
  key: string;
}

/**
 * Get a Redis string value.
 *
 * Args:
 *     key (str): The key to retrieve.
 *
 * Returns:
 *     str, bytes: The stored value or an error message.
 */
export function get(args: GetInput): Promise<ToolCallResult<GetResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "hset": typeof hset;
  readonly "hget": typeof hget;
  readonly "hdel": typeof hdel;
  readonly "hgetall": typeof hgetall;
  readonly "hexists": typeof hexists;
  readonly "set_vector_in_hash": typeof setVectorInHash;
  readonly "get_vector_from_hash": typeof getVectorFromHash;
  readonly "json_set": typeof jsonSet;
  readonly "json_get": typeof jsonGet;
  readonly "json_del": typeof jsonDel;
  readonly "lpush": typeof lpush;
  readonly "rpush": typeof rpush;
  readonly "lpop": typeof lpop;
  readonly "rpop": typeof rpop;
  readonly "lrange": typeof lrange;
  readonly "llen": typeof llen;
  readonly "lrem": typeof lrem;
  readonly "delete": typeof delete_;
  readonly "type": typeof type;
  readonly "expire": typeof expire;
  readonly "rename": typeof rename;
  readonly "scan_keys": typeof scanKeys;
  readonly "scan_all_keys": typeof scanAllKeys;
  readonly "search_redis_documents": typeof searchRedisDocuments;
  readonly "publish": typeof publish;
  readonly "subscribe": typeof subscribe;
  readonly "psubscribe": typeof psubscribe;
  readonly "read_messages": typeof readMessages;
  readonly "unsubscribe": typeof unsubscribe;
  readonly "get_indexes": typeof getIndexes;
  readonly "get_index_info": typeof getIndexInfo;
  readonly "get_indexed_keys_number": typeof getIndexedKeysNumber;
  readonly "create_vector_index_hash": typeof createVectorIndexHash;
  readonly "vector_search_hash": typeof vectorSearchHash;
  readonly "hybrid_search": typeof hybridSearch;
  readonly "dbsize": typeof dbsize;
  readonly "info": typeof info;
  readonly "client_list": typeof clientList;
  readonly "sadd": typeof sadd;
  readonly "srem": typeof srem;
  readonly "smembers": typeof smembers;
  readonly "zadd": typeof zadd;
  readonly "zrange": typeof zrange;
  readonly "zrem": typeof zrem;
  readonly "xadd": typeof xadd;
  readonly "xrange": typeof xrange;
  readonly "xdel": typeof xdel;
  readonly "xgroup_create": typeof xgroupCreate;
  readonly "xgroup_destroy": typeof xgroupDestroy;
  readonly "xreadgroup": typeof xreadgroup;
  readonly "xack": typeof xack;
  readonly "set": typeof set;
  readonly "get": typeof get;
};
