// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface AggregateDbResult {
  /** The documents returned by the aggregation pipeline */
  documents: unknown[];
  /** The total number of documents returned by the aggregation pipeline */
  aggResultsCount?: number;
  /** The limits applied to the aggregation pipeline */
  appliedLimits: ("config.maxDocumentsPerQuery" | "config.maxBytesPerQuery" | "tool.responseBytesLimit")[];
}

export interface AggregateDbInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /**
   * An array of aggregation stages to execute. The first stage must be a database-level aggregation stage
   * (one of `$changeStream`, `$currentOp`, `$documents`, `$listLocalSessions`, `$queryStats`).
   * https://www.mongodb.com/docs/manual/reference/mql/aggregation-stages/#db.aggregate---stages
   * (items >= 1)
   */
  pipeline: Record<string, unknown>[];
  /**
   * The maximum number of bytes to return in the response. This value is capped by the server's configured
   * maximum and cannot be exceeded.
   * Default 1048576.
   */
  responseBytesLimit?: number;
}

/**
 * Run an aggregation against a MongoDB database
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function aggregateDb(args: AggregateDbInput): Promise<ToolCallResult<AggregateDbResult>>;

/**
 * Classic vector search using 'queryVector'. Use this when the indexed field has a classic vector index
 * (type: 'vector'). Note to LLM: Use the collection-indexes tool to verify the target field has a classic
 * vector index before using 'queryVector'.
 */
export interface AggregateVectorSearch {
  /**
   * When true, uses an ENN algorithm, otherwise uses ANN. Using ENN is not compatible with numCandidates, in
   * that case, numCandidates must be left empty.
   * Default false.
   */
  exact?: boolean;
  /** Name of the index, as retrieved from the `collection-indexes` tool. */
  index: string;
  /** Field, in dot notation, where to search. There must be a vector search index for that field. */
  path: string;
  /**
   * Number of candidates for the ANN algorithm. Mandatory when exact is false.
   * (> 0)
   */
  numCandidates?: number;
  /** Default 10. (> 0) */
  limit?: number;
  /**
   * MQL filter that can only use filter fields from the index definition. Note to LLM: If unsure, use the
   * `collection-indexes` tool to learn which fields can be used for filtering.
   */
  filter?: Record<string, unknown>;
  /**
   * The vector embeddings to search for when using classic vector search indexes (type: 'vector'). Provide
   * embeddings as an array of numbers. Use this for classic vector indexes. For auto-embed indexes (type:
   * 'autoEmbed'), use 'query' instead.
   */
  queryVector: number[];
}

/**
 * The query to search for when using auto-embed indexes (type: 'autoEmbed'). MongoDB will automatically
 * generate embeddings for the text at query time. Use this for auto-embed indexes, not 'queryVector'.
 */
export interface AggregateQuery {
  /** The text query to search for. */
  text: string;
}

/**
 * Auto-embed vector search using 'query'. Use this when the indexed field has an auto-embed index (type:
 * 'autoEmbed'). Note to LLM: Use the collection-indexes tool to verify the target field has an auto-embed
 * index before using 'query'.
 */
export interface AggregateVectorSearch2 {
  /**
   * When true, uses an ENN algorithm, otherwise uses ANN. Using ENN is not compatible with numCandidates, in
   * that case, numCandidates must be left empty.
   * Default false.
   */
  exact?: boolean;
  /** Name of the index, as retrieved from the `collection-indexes` tool. */
  index: string;
  /** Field, in dot notation, where to search. There must be a vector search index for that field. */
  path: string;
  /**
   * Number of candidates for the ANN algorithm. Mandatory when exact is false.
   * (> 0)
   */
  numCandidates?: number;
  /** Default 10. (> 0) */
  limit?: number;
  /**
   * MQL filter that can only use filter fields from the index definition. Note to LLM: If unsure, use the
   * `collection-indexes` tool to learn which fields can be used for filtering.
   */
  filter?: Record<string, unknown>;
  /**
   * The query to search for when using auto-embed indexes (type: 'autoEmbed'). MongoDB will automatically
   * generate embeddings for the text at query time. Use this for auto-embed indexes, not 'queryVector'.
   */
  query: AggregateQuery;
  /**
   * The embedding model to use for generating embeddings from the query text. If not specified, defaults to
   * the model configured in the auto-embed index definition.
   */
  model?: "voyage-4" | "voyage-4-large" | "voyage-4-lite" | "voyage-code-3";
}

export interface AggregatePipeline {
  $vectorSearch: AggregateVectorSearch | AggregateVectorSearch2;
}

export interface AggregateResult {
  /** The documents returned by the aggregation pipeline */
  documents: unknown[];
  /** The total number of documents returned by the aggregation pipeline */
  count: "indeterminate" | number;
  /** The limits applied to the aggregation pipeline */
  appliedLimits: ("config.maxDocumentsPerQuery" | "config.maxBytesPerQuery" | "tool.responseBytesLimit")[];
}

export interface AggregateInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * An array of aggregation stages to execute.
   *
   * If the user has asked for a vector search, `$vectorSearch` **MUST** be the first stage
   * of the pipeline (or the first stage of a `$unionWith` sub-pipeline only when explicitly
   * combining unrelated result sets — for hybrid full-text + vector search, use `$rankFusion`
   * or `$scoreFusion` instead, see below).
   *
   * If the user has asked for lexical/Atlas search, use `$search` instead of `$text`.
   * ### Usage Rules for `$vectorSearch`
   * - **Index Type Detection:**
   *   Use the collection-indexes tool to determine if the target field has a classic vector index (type:
   * 'vector') or an auto-embed index (type: 'autoEmbed').
   * - **Classic Vector Search (type: 'vector'):**
   *   Use 'queryVector' with embeddings as an array of numbers.
   * - **Auto-Embed Vector Search (type: 'autoEmbed'):**
   *   Use 'query' - MongoDB automatically generates embeddings at query time. Do NOT use 'queryVector' or
   * 'embeddingParameters' for auto-embed indexes.
   * - **Unset embeddings:**
   *   Unless the user explicitly requests the embeddings, add an `$unset` stage **at the end of the
   * pipeline** to remove the embedding field and avoid context limits. **The $unset stage in this situation
   * is mandatory**.
   * - **Pre-filtering:**
   *   If the user requests additional filtering, include filters in `$vectorSearch.filter` only for
   * pre-filter fields in the vector index.
   *   NEVER include fields in $vectorSearch.filter that are not part of the vector index.
   * - **Post-filtering:**
   *   For all remaining filters, add a $match stage after $vectorSearch.
   * - If unsure which fields are filterable, use the collection-indexes tool to determine valid prefilter
   * fields.
   * - If no requested filters are valid prefilters, omit the filter key from $vectorSearch.
   *
   * ### Usage Rules for `$search`
   * - Include the index name, unless you know for a fact there's a default index. If unsure, use the
   * collection-indexes tool to determine the index name.
   * - The `$search` stage supports multiple operators, such as 'autocomplete', 'text', 'geoWithin', and
   * others. Choose the appropriate operator based on the user's query. If unsure of the exact syntax, consult
   * the MongoDB Atlas Search documentation, which can be found here:
   * https://www.mongodb.com/docs/atlas/atlas-search/operators-and-collectors/
   *
   * ### Usage Rules for `$rankFusion` and `$scoreFusion` (Hybrid Search)
   * Use these stages when the user wants to combine full-text (`$search`) and vector
   * (`$vectorSearch`) retrieval into a single fused result set. **Prefer native
   * fusion over a `$unionWith` + `$group` workaround** — the workaround averages
   * incompatible score scales and produces wrong rankings.
   *
   * **Which stage to use:**
   * - `$rankFusion` (MongoDB 8.0+) — Reciprocal Rank Fusion. The recommended default.
   *   Normalizes scores across incompatible scales automatically. No score tuning needed.
   * - `$scoreFusion` (MongoDB 8.2+) — Score-based fusion. Use when the user needs explicit
   *   per-pipeline weights, score normalisation (sigmoid / minMaxScaler), or a custom
   *   combination expression.
   *
   * **Construction rules:**
   * - `$rankFusion` / `$scoreFusion` MUST be the first stage of the top-level pipeline.
   * - Sub-pipelines go inside `input.pipelines` as a named map (not an array). Each name
   *   must be non-empty, must not start with `$`, and must not contain `.` or null bytes.
   * - Allowed stages inside sub-pipelines: `$search`, `$vectorSearch`, `$match`, `$sort`,
   *   `$geoNear`, `$skip`, `$limit`. `$project` and `$unset` are NOT allowed inside sub-pipelines.
   * - Do field shaping (`$project` / `$unset`) only AFTER the fusion stage, at the root.
   * - Both a vectorSearch (or autoEmbed) index AND a search (lexical) index must exist on
   *   the collection. Use the collection-indexes tool to confirm both before running a hybrid query.
   * - Add a `$limit` stage after the fusion stage to cap the final result set.
   * - Add `$unset` at the end to remove embedding fields and avoid context bloat.
   *
   * ### Usage Rules for `$rerank` (Native Reranking)
   * Use this stage when the user wants to reorder a set of candidate documents using a cross-encoder reranker
   * model.
   *
   * **Construction rules:**
   * - `$rerank` can be any stage in the pipeline on an Atlas cluster running MongoDB 8.3 or higher.
   * - It is recommended to use `$rerank` after a sorted pipeline, e.g. `$search`, `$vectorSearch`,
   * `$rankFusion`, `$scoreFusion`, or [`$match`, `$sort`].
   * - $rerank must be enabled via the Native Reranking Project Setting
   * - Set `numDocsToRerank` as the number of documents passed into `$rerank`. This will also limit the number
   * of documents returned by `$rerank`
   * - Set `path` as a field name or an array of field names that exist in all documents. Use `$match` or
   * `$set` before `$rerank` to validate no fields are missing.
   * - Add `$addFields` after `$rerank` to retrieve the reranker score.
   *
   * **`$rerank` example (recommended default):**
   * ```javascript
   * [
   *   {
   *     $match: {
   *       description: { $exists: true },
   *       name: { $exists: true }
   *     }
   *   },
   *   {
   *     $sort: {
   *       lastUpdated: -1
   *     }
   *   },
   *   {
   *     $rerank: {
   *       query: {
   *         text: "query text including instructions"
   *       },
   *       model: "rerank-2.5",
   *       numDocsToRerank: 100,
   *       path: ["description", "name"]
   *     }
   *   },
   *   {
   *     $addFields: {
   *       rerankScore: { $meta: "score" }
   *     }
   *   }
   * ]
   * ```
   */
  pipeline: (AggregatePipeline | Record<string, unknown>)[];
  /**
   * The maximum number of bytes to return in the response. This value is capped by the server's configured
   * maximum and cannot be exceeded.
   * Default 1048576.
   */
  responseBytesLimit?: number;
}

/**
 * Run an aggregation against a MongoDB collection
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function aggregate(args: AggregateInput): Promise<ToolCallResult<AggregateResult>>;

export interface CollectionIndexesClassicIndexe {
  name: string;
  key: Record<string, unknown>;
}

export interface CollectionIndexesSearchIndexe {
  name: string;
  type: string;
  status: string;
  queryable: boolean;
  latestDefinition: Record<string, unknown>;
}

export interface CollectionIndexesResult {
  classicIndexes: CollectionIndexesClassicIndexe[];
  searchIndexes: CollectionIndexesSearchIndexe[];
  classicIndexesCount: number;
  searchIndexesCount: number;
}

export interface CollectionIndexesInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
}

/**
 * Describe the indexes for a collection
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function collectionIndexes(
  args: CollectionIndexesInput,
): Promise<ToolCallResult<CollectionIndexesResult>>;

export interface CollectionSchemaResult {
  schema: Record<string, unknown>;
  fieldsCount: number;
}

export interface CollectionSchemaInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * Number of documents to sample for schema inference
   * Default 50.
   */
  sampleSize?: number;
  /**
   * The maximum number of bytes to return in the response. This value is capped by the server's configured
   * maximum and cannot be exceeded.
   * Default 1048576.
   */
  responseBytesLimit?: number;
}

/**
 * Describe the schema for a collection
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function collectionSchema(
  args: CollectionSchemaInput,
): Promise<ToolCallResult<CollectionSchemaResult>>;

export interface CollectionStorageSizeResult {
  size: number;
  units: string;
}

export interface CollectionStorageSizeInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
}

/**
 * Gets the size of the collection
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function collectionStorageSize(
  args: CollectionStorageSizeInput,
): Promise<ToolCallResult<CollectionStorageSizeResult>>;

export interface ConnectResult {
  connectionId: string;
}

export interface ConnectInput {
  /** MongoDB connection string (in the mongodb:// or mongodb+srv:// format) */
  connectionString: string;
  /**
   * Optional short label for the connection (stored slugified with a short suffix, e.g. "staging" becomes
   * staging-<suffix>). Shown in connection listings; helpful for telling multiple connections apart.
   */
  connectionName?: string;
}

/**
 * Connect to a MongoDB instance and get back a connectionId to pass to the other MongoDB tools. Each call
 * establishes a new, independent connection — multiple connections can be active at the same time.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function connect(args: ConnectInput): Promise<ToolCallResult<ConnectResult>>;

export interface CountResult {
  /** The number of documents in the collection */
  count: number;
}

export interface CountInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * A filter/query parameter. Allows users to filter the documents to count. Matches the syntax of the filter
   * argument of db.collection.count().
   */
  query?: Record<string, unknown>;
}

/**
 * Gets the number of documents in a MongoDB collection using db.collection.count() and query as an optional
 * filter parameter
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function count(args: CountInput): Promise<ToolCallResult<CountResult>>;

export interface CreateCollectionResult {
  database: string;
  collection: string;
  created: boolean;
}

export interface CreateCollectionInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
}

/**
 * Creates a new collection in a database. If the database doesn't exist, it will be created automatically.
 *
 * The server says that this tool reaches the outside world.
 */
export function createCollection(
  args: CreateCollectionInput,
): Promise<ToolCallResult<CreateCollectionResult>>;

/** Definition for a MongoDB index (e.g. ascending/descending/geospatial/text). */
export interface CreateIndexDefinition {
  type: "classic";
  /** The index definition */
  keys: Record<string, 1 | -1 | "2d" | "2dsphere" | "text" | "geoHaystack" | "hashed">;
}

/** Definition for a field that will be used for pre-filtering results. */
export interface CreateIndexField {
  type: "filter";
  /** Name of the field to index. For nested fields, use dot notation to specify path to embedded fields */
  path: string;
}

/**
 * Definition for a field that contains vector embeddings. Use this type when the field you're indexing is
 * supposed to store vector embeddings or when the user have specified one of the relevant parameters.
 */
export interface CreateIndexField2 {
  type: "vector";
  /**
   * Name of the field containing vector embeddings as arrays of numbers. This must be a dedicated embeddings
   * field, separate from any source text field, if any. For nested fields, use dot notation to specify path
   * to embedded fields.
   */
  path: string;
  /**
   * Number of vector dimensions that MongoDB Vector Search enforces at index-time and query-time
   * Default 1024. (>= 1, <= 8192)
   */
  numDimensions?: number;
  /**
   * Vector similarity function to use to search for top K-nearest neighbors. You can set this field only for
   * vector-type fields.
   * Default "euclidean".
   */
  similarity?: "cosine" | "euclidean" | "dotProduct";
  /**
   * Type of automatic vector quantization for your vectors. Use this setting only if your embeddings are
   * float or double vectors.
   * Default "none".
   */
  quantization?: "none" | "scalar" | "binary";
}

/**
 * Definition for a field containing source text from which embeddings will be automatically generated and
 * managed by MongoDB at indexing time. Use this type when you want MongoDB to handle all embedding generation
 * and storage internally. If the user specifies a dedicated field name for storing embeddings, use 'vector'
 * type instead.
 */
export interface CreateIndexField3 {
  type: "autoEmbed";
  /**
   * Name of the field containing the source text from which embeddings will be automatically generated by
   * MongoDB. This should be the text field itself, NOT a separate embeddings field containing the vector
   * embeddings. For nested fields, use dot notation to specify the path to embedded fields.
   */
  path: string;
  /**
   * Voyage embedding model to use for automatically generating embeddings from the source text in the indexed
   * field.
   */
  model: "voyage-4" | "voyage-4-large" | "voyage-4-lite" | "voyage-code-3";
  /** The data type / modality of the source content in the indexed field. Currently only 'text' is supported. */
  modality: "text";
}

/** Definition for a Vector Search index. */
export interface CreateIndexDefinition2 {
  type: "vectorSearch";
  /**
   * Definitions for the vector, autoEmbed and filter fields to index, one definition per document. Use
   * 'vector' when user specifies a dedicated field that could contain vector embeddings. Use 'autoEmbed' when
   * user wants MongoDB to automatically generate and manage embeddings internally from a text field (no
   * separate embeddings field). Use 'filter' for additional fields to filter on. At least one 'vector' or
   * 'autoEmbed' type field definition is required.
   * (items >= 1)
   */
  fields: (CreateIndexField | CreateIndexField2 | CreateIndexField3)[];
}

export interface CreateIndexDynamic {
  /** Name of a type set defined in this index's `typeSets`. */
  typeSet: string;
}

/**
 * Document describing the index to create. `fields` is required and must define at least one field when
 * `dynamic` is `false` (the default). When `dynamic` is `true` or a typeSet object, `fields` may still be
 * provided to index additional fields explicitly.
 */
export interface CreateIndexMappings {
  /**
   * Enables or disables dynamic mapping of fields for this index. If set to true, Atlas Search recursively
   * indexes all dynamically indexable fields. If set to false, you must specify individual fields to index
   * using mappings.fields. Can also be set to `{ typeSet: '<name>' }` to reference a named entry in this
   * index's `typeSets`, restricting dynamic mapping to only the field types listed in that type set.
   * Default false.
   */
  dynamic?: boolean | CreateIndexDynamic;
  /** The field mapping definitions. If `dynamic` is set to `false`, this is required. */
  fields?: Record<string, unknown>;
  [key: string]: unknown;
}

/**
 * Definition for an Atlas Search (lexical) index. Use this only if user explicitly asked for creating an
 * Atlas search index or simply a search index.
 *
 * This definition also accepts the following top-level fields, which are forwarded as-is and are not
 * exhaustively typed here:
 * - `analyzers`: array of custom analyzer definitions, e.g. `{ name: 'myAnalyzer', tokenizer: { type:
 * 'standard' }, tokenFilters: [{ type: 'lowercase' }], charFilters: [{ type: 'htmlStrip' }] }`. Reference a
 * custom analyzer by its `name` from a field's `analyzer`/`searchAnalyzer` option, instead of a built-in
 * `lucene.*` analyzer. Tokenizer types include `standard`, `keyword`, `whitespace`, `nGram`, `edgeGram`,
 * `regexSplit`, `regexCaptureGroup`, `uaxUrlEmail`. Token filter types include `lowercase`, `stopword`,
 * `snowballStemming`, `asciiFolding`, `nGram`, `shingle`, `trim`, among others.
 * - `synonyms`: array of synonym mappings, e.g. `{ name: 'mySynonyms', source: { collection:
 * 'synonymsCollectionName' }, analyzer: 'lucene.standard' }`. The `analyzer` should match the analyzer used
 * on the field(s) being searched.
 * - `storedSource`: controls which fields are stored on search nodes for fast retrieval without a round trip
 * to the database. `true` stores all fields, `false` (default) stores none, `{ include: ['fieldA', 'fieldB']
 * }` stores only the listed fields, `{ exclude: ['fieldC'] }` stores all except the listed fields.
 * - `typeSets`: array of named field-type sets for use with `mappings.dynamic`, e.g. `{ name: 'myTypeSet',
 * types: [{ type: 'string' }, { type: 'number' }] }`, to restrict dynamic mapping to only the listed types
 * instead of every dynamically indexable type.
 */
export interface CreateIndexDefinition3 {
  type: "search";
  /**
   * The analyzer to use for the index. Can be one of the built-in lucene analyzers (`lucene.standard`,
   * `lucene.simple`, `lucene.whitespace`, `lucene.keyword`), a language-specific analyzer, such as
   * `lucene.cjk` or `lucene.czech`, or a custom analyzer defined by name in `analyzers`.
   * Default "lucene.standard".
   */
  analyzer?: string;
  /**
   * Document describing the index to create. `fields` is required and must define at least one field when
   * `dynamic` is `false` (the default). When `dynamic` is `true` or a typeSet object, `fields` may still be
   * provided to index additional fields explicitly.
   */
  mappings: CreateIndexMappings;
  /**
   * Specifies the number of sub-indexes to create if the document count exceeds two billion. If omitted,
   * defaults to 1.
   * Default "1".
   */
  numPartitions?: "1" | "2" | "4";
  [key: string]: unknown;
}

export interface CreateIndexResult {
  database: string;
  collection: string;
  indexName: string;
  indexType: "classic" | "vectorSearch" | "search";
}

export interface CreateIndexInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /** The name of the index */
  name?: string;
  /**
   * The index definition. Use 'classic' for standard indexes, 'vectorSearch' for vector search indexes, and
   * 'search' for Atlas Search (lexical) indexes.
   */
  definition: (CreateIndexDefinition | CreateIndexDefinition2 | CreateIndexDefinition3)[];
}

/**
 * Create an index for a collection
 *
 * The server says that this tool reaches the outside world.
 */
export function createIndex(args: CreateIndexInput): Promise<ToolCallResult<CreateIndexResult>>;

export interface DbStatsResult {
  stats: Record<string, unknown>;
}

export interface DbStatsInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
}

/**
 * Returns statistics that reflect the use state of a single database
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function dbStats(args: DbStatsInput): Promise<ToolCallResult<DbStatsResult>>;

export interface DeleteManyResult {
  database: string;
  collection: string;
  deletedCount: number;
}

export interface DeleteManyInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * The query filter, specifying the deletion criteria. Matches the syntax of the filter argument of
   * db.collection.deleteMany()
   */
  filter?: Record<string, unknown>;
}

/**
 * Removes all documents that match the filter from a MongoDB collection
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function deleteMany(args: DeleteManyInput): Promise<ToolCallResult<DeleteManyResult>>;

export interface DisconnectResult {
  outcome: "removed" | "disconnected";
}

export interface DisconnectInput {
  /** The connectionId to disconnect. */
  connectionId: string;
}

/**
 * Close a MongoDB connection and revoke its connectionId.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function disconnect(args: DisconnectInput): Promise<ToolCallResult<DisconnectResult>>;

export interface DropCollectionResult {
  database: string;
  collection: string;
  dropped: boolean;
}

export interface DropCollectionInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
}

/**
 * Removes a collection or view from the database. The method also removes any indexes associated with the
 * dropped collection.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function dropCollection(args: DropCollectionInput): Promise<ToolCallResult<DropCollectionResult>>;

export interface DropDatabaseResult {
  database: string;
  dropped: boolean;
}

export interface DropDatabaseInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
}

/**
 * Removes the specified database, deleting the associated data files
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function dropDatabase(args: DropDatabaseInput): Promise<ToolCallResult<DropDatabaseResult>>;

export interface DropIndexResult {
  database: string;
  collection: string;
  indexName: string;
  dropped: boolean;
}

export interface DropIndexInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * The name of the index to be dropped.
   * (length >= 1)
   */
  indexName: string;
  /**
   * The type of index to be deleted. Use 'classic' for standard indexes and 'search' for atlas search and
   * vector search indexes.
   */
  type: "classic" | "search";
}

/**
 * Drop an index for the provided database and collection.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function dropIndex(args: DropIndexInput): Promise<ToolCallResult<DropIndexResult>>;

/**
 * Classic vector search using 'queryVector'. Use this when the indexed field has a classic vector index
 * (type: 'vector'). Note to LLM: Use the collection-indexes tool to verify the target field has a classic
 * vector index before using 'queryVector'.
 */
export interface ExplainVectorSearch {
  /**
   * When true, uses an ENN algorithm, otherwise uses ANN. Using ENN is not compatible with numCandidates, in
   * that case, numCandidates must be left empty.
   * Default false.
   */
  exact?: boolean;
  /** Name of the index, as retrieved from the `collection-indexes` tool. */
  index: string;
  /** Field, in dot notation, where to search. There must be a vector search index for that field. */
  path: string;
  /**
   * Number of candidates for the ANN algorithm. Mandatory when exact is false.
   * (> 0)
   */
  numCandidates?: number;
  /** Default 10. (> 0) */
  limit?: number;
  /**
   * MQL filter that can only use filter fields from the index definition. Note to LLM: If unsure, use the
   * `collection-indexes` tool to learn which fields can be used for filtering.
   */
  filter?: Record<string, unknown>;
  /**
   * The vector embeddings to search for when using classic vector search indexes (type: 'vector'). Provide
   * embeddings as an array of numbers. Use this for classic vector indexes. For auto-embed indexes (type:
   * 'autoEmbed'), use 'query' instead.
   */
  queryVector: number[];
}

/**
 * The query to search for when using auto-embed indexes (type: 'autoEmbed'). MongoDB will automatically
 * generate embeddings for the text at query time. Use this for auto-embed indexes, not 'queryVector'.
 */
export interface ExplainQuery {
  /** The text query to search for. */
  text: string;
}

/**
 * Auto-embed vector search using 'query'. Use this when the indexed field has an auto-embed index (type:
 * 'autoEmbed'). Note to LLM: Use the collection-indexes tool to verify the target field has an auto-embed
 * index before using 'query'.
 */
export interface ExplainVectorSearch2 {
  /**
   * When true, uses an ENN algorithm, otherwise uses ANN. Using ENN is not compatible with numCandidates, in
   * that case, numCandidates must be left empty.
   * Default false.
   */
  exact?: boolean;
  /** Name of the index, as retrieved from the `collection-indexes` tool. */
  index: string;
  /** Field, in dot notation, where to search. There must be a vector search index for that field. */
  path: string;
  /**
   * Number of candidates for the ANN algorithm. Mandatory when exact is false.
   * (> 0)
   */
  numCandidates?: number;
  /** Default 10. (> 0) */
  limit?: number;
  /**
   * MQL filter that can only use filter fields from the index definition. Note to LLM: If unsure, use the
   * `collection-indexes` tool to learn which fields can be used for filtering.
   */
  filter?: Record<string, unknown>;
  /**
   * The query to search for when using auto-embed indexes (type: 'autoEmbed'). MongoDB will automatically
   * generate embeddings for the text at query time. Use this for auto-embed indexes, not 'queryVector'.
   */
  query: ExplainQuery;
  /**
   * The embedding model to use for generating embeddings from the query text. If not specified, defaults to
   * the model configured in the auto-embed index definition.
   */
  model?: "voyage-4" | "voyage-4-large" | "voyage-4-lite" | "voyage-code-3";
}

export interface ExplainPipeline {
  $vectorSearch: ExplainVectorSearch | ExplainVectorSearch2;
}

export interface ExplainArguments {
  /**
   * An array of aggregation stages to execute.
   *
   * If the user has asked for a vector search, `$vectorSearch` **MUST** be the first stage
   * of the pipeline (or the first stage of a `$unionWith` sub-pipeline only when explicitly
   * combining unrelated result sets — for hybrid full-text + vector search, use `$rankFusion`
   * or `$scoreFusion` instead, see below).
   *
   * If the user has asked for lexical/Atlas search, use `$search` instead of `$text`.
   * ### Usage Rules for `$vectorSearch`
   * - **Index Type Detection:**
   *   Use the collection-indexes tool to determine if the target field has a classic vector index (type:
   * 'vector') or an auto-embed index (type: 'autoEmbed').
   * - **Classic Vector Search (type: 'vector'):**
   *   Use 'queryVector' with embeddings as an array of numbers.
   * - **Auto-Embed Vector Search (type: 'autoEmbed'):**
   *   Use 'query' - MongoDB automatically generates embeddings at query time. Do NOT use 'queryVector' or
   * 'embeddingParameters' for auto-embed indexes.
   * - **Unset embeddings:**
   *   Unless the user explicitly requests the embeddings, add an `$unset` stage **at the end of the
   * pipeline** to remove the embedding field and avoid context limits. **The $unset stage in this situation
   * is mandatory**.
   * - **Pre-filtering:**
   *   If the user requests additional filtering, include filters in `$vectorSearch.filter` only for
   * pre-filter fields in the vector index.
   *   NEVER include fields in $vectorSearch.filter that are not part of the vector index.
   * - **Post-filtering:**
   *   For all remaining filters, add a $match stage after $vectorSearch.
   * - If unsure which fields are filterable, use the collection-indexes tool to determine valid prefilter
   * fields.
   * - If no requested filters are valid prefilters, omit the filter key from $vectorSearch.
   *
   * ### Usage Rules for `$search`
   * - Include the index name, unless you know for a fact there's a default index. If unsure, use the
   * collection-indexes tool to determine the index name.
   * - The `$search` stage supports multiple operators, such as 'autocomplete', 'text', 'geoWithin', and
   * others. Choose the appropriate operator based on the user's query. If unsure of the exact syntax, consult
   * the MongoDB Atlas Search documentation, which can be found here:
   * https://www.mongodb.com/docs/atlas/atlas-search/operators-and-collectors/
   *
   * ### Usage Rules for `$rankFusion` and `$scoreFusion` (Hybrid Search)
   * Use these stages when the user wants to combine full-text (`$search`) and vector
   * (`$vectorSearch`) retrieval into a single fused result set. **Prefer native
   * fusion over a `$unionWith` + `$group` workaround** — the workaround averages
   * incompatible score scales and produces wrong rankings.
   *
   * **Which stage to use:**
   * - `$rankFusion` (MongoDB 8.0+) — Reciprocal Rank Fusion. The recommended default.
   *   Normalizes scores across incompatible scales automatically. No score tuning needed.
   * - `$scoreFusion` (MongoDB 8.2+) — Score-based fusion. Use when the user needs explicit
   *   per-pipeline weights, score normalisation (sigmoid / minMaxScaler), or a custom
   *   combination expression.
   *
   * **Construction rules:**
   * - `$rankFusion` / `$scoreFusion` MUST be the first stage of the top-level pipeline.
   * - Sub-pipelines go inside `input.pipelines` as a named map (not an array). Each name
   *   must be non-empty, must not start with `$`, and must not contain `.` or null bytes.
   * - Allowed stages inside sub-pipelines: `$search`, `$vectorSearch`, `$match`, `$sort`,
   *   `$geoNear`, `$skip`, `$limit`. `$project` and `$unset` are NOT allowed inside sub-pipelines.
   * - Do field shaping (`$project` / `$unset`) only AFTER the fusion stage, at the root.
   * - Both a vectorSearch (or autoEmbed) index AND a search (lexical) index must exist on
   *   the collection. Use the collection-indexes tool to confirm both before running a hybrid query.
   * - Add a `$limit` stage after the fusion stage to cap the final result set.
   * - Add `$unset` at the end to remove embedding fields and avoid context bloat.
   *
   * ### Usage Rules for `$rerank` (Native Reranking)
   * Use this stage when the user wants to reorder a set of candidate documents using a cross-encoder reranker
   * model.
   *
   * **Construction rules:**
   * - `$rerank` can be any stage in the pipeline on an Atlas cluster running MongoDB 8.3 or higher.
   * - It is recommended to use `$rerank` after a sorted pipeline, e.g. `$search`, `$vectorSearch`,
   * `$rankFusion`, `$scoreFusion`, or [`$match`, `$sort`].
   * - $rerank must be enabled via the Native Reranking Project Setting
   * - Set `numDocsToRerank` as the number of documents passed into `$rerank`. This will also limit the number
   * of documents returned by `$rerank`
   * - Set `path` as a field name or an array of field names that exist in all documents. Use `$match` or
   * `$set` before `$rerank` to validate no fields are missing.
   * - Add `$addFields` after `$rerank` to retrieve the reranker score.
   *
   * **`$rerank` example (recommended default):**
   * ```javascript
   * [
   *   {
   *     $match: {
   *       description: { $exists: true },
   *       name: { $exists: true }
   *     }
   *   },
   *   {
   *     $sort: {
   *       lastUpdated: -1
   *     }
   *   },
   *   {
   *     $rerank: {
   *       query: {
   *         text: "query text including instructions"
   *       },
   *       model: "rerank-2.5",
   *       numDocsToRerank: 100,
   *       path: ["description", "name"]
   *     }
   *   },
   *   {
   *     $addFields: {
   *       rerankScore: { $meta: "score" }
   *     }
   *   }
   * ]
   * ```
   */
  pipeline: (ExplainPipeline | Record<string, unknown>)[];
}

export interface ExplainMethod {
  name: "aggregate";
  arguments: ExplainArguments;
}

export interface ExplainSort {
  $meta: string;
}

export interface ExplainArguments2 {
  /** The query filter, matching the syntax of the query argument of db.collection.find() */
  filter?: Record<string, unknown>;
  /** The projection, matching the syntax of the projection argument of db.collection.find() */
  projection?: Record<string, unknown>;
  /**
   * The maximum number of documents to return
   * Default 10.
   */
  limit?: number;
  /**
   * A document, describing the sort order, matching the syntax of the sort argument of cursor.sort(). The
   * keys of the object are the fields to sort on, while the values are the sort directions (1 for ascending,
   * -1 for descending).
   */
  sort?: Record<string, 1 | -1 | "asc" | "desc" | "ascending" | "descending" | ExplainSort>;
}

export interface ExplainMethod2 {
  name: "find";
  arguments: ExplainArguments2;
}

export interface ExplainArguments3 {
  /**
   * A filter/query parameter. Allows users to filter the documents to count. Matches the syntax of the filter
   * argument of db.collection.count().
   */
  query?: Record<string, unknown>;
}

export interface ExplainMethod3 {
  name: "count";
  arguments: ExplainArguments3;
}

export interface ExplainResult {
  explainResult: Record<string, unknown>;
  method: "aggregate" | "find" | "count";
  verbosity: "queryPlanner" | "queryPlannerExtended" | "executionStats" | "allPlansExecution";
}

export interface ExplainInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /** The method and its arguments to run */
  method: (ExplainMethod | ExplainMethod2 | ExplainMethod3)[];
  /**
   * The verbosity of the explain plan, defaults to queryPlanner. If the user wants to know how fast is a
   * query in execution time, use executionStats. It supports all verbosities as defined in the MongoDB
   * Driver.
   * Default "queryPlanner".
   */
  verbosity?: "queryPlanner" | "queryPlannerExtended" | "executionStats" | "allPlansExecution";
}

/**
 * Returns statistics describing the execution of the winning plan chosen by the query optimizer for the
 * evaluated method
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function explain(args: ExplainInput): Promise<ToolCallResult<ExplainResult>>;

export interface ExportSort {
  $meta: string;
}

/** The arguments for 'find' operation. */
export interface ExportArguments {
  /** The query filter, matching the syntax of the query argument of db.collection.find() */
  filter?: Record<string, unknown>;
  /** The projection, matching the syntax of the projection argument of db.collection.find() */
  projection?: Record<string, unknown>;
  limit?: number;
  /**
   * A document, describing the sort order, matching the syntax of the sort argument of cursor.sort(). The
   * keys of the object are the fields to sort on, while the values are the sort directions (1 for ascending,
   * -1 for descending).
   */
  sort?: Record<string, 1 | -1 | "asc" | "desc" | "ascending" | "descending" | ExportSort>;
}

export interface ExportExportTarget {
  /** The literal name 'find' to represent a find cursor as target. */
  name: "find";
  /** The arguments for 'find' operation. */
  arguments: ExportArguments;
}

/**
 * Classic vector search using 'queryVector'. Use this when the indexed field has a classic vector index
 * (type: 'vector'). Note to LLM: Use the collection-indexes tool to verify the target field has a classic
 * vector index before using 'queryVector'.
 */
export interface ExportVectorSearch {
  /**
   * When true, uses an ENN algorithm, otherwise uses ANN. Using ENN is not compatible with numCandidates, in
   * that case, numCandidates must be left empty.
   * Default false.
   */
  exact?: boolean;
  /** Name of the index, as retrieved from the `collection-indexes` tool. */
  index: string;
  /** Field, in dot notation, where to search. There must be a vector search index for that field. */
  path: string;
  /**
   * Number of candidates for the ANN algorithm. Mandatory when exact is false.
   * (> 0)
   */
  numCandidates?: number;
  /** Default 10. (> 0) */
  limit?: number;
  /**
   * MQL filter that can only use filter fields from the index definition. Note to LLM: If unsure, use the
   * `collection-indexes` tool to learn which fields can be used for filtering.
   */
  filter?: Record<string, unknown>;
  /**
   * The vector embeddings to search for when using classic vector search indexes (type: 'vector'). Provide
   * embeddings as an array of numbers. Use this for classic vector indexes. For auto-embed indexes (type:
   * 'autoEmbed'), use 'query' instead.
   */
  queryVector: number[];
}

/**
 * The query to search for when using auto-embed indexes (type: 'autoEmbed'). MongoDB will automatically
 * generate embeddings for the text at query time. Use this for auto-embed indexes, not 'queryVector'.
 */
export interface ExportQuery {
  /** The text query to search for. */
  text: string;
}

/**
 * Auto-embed vector search using 'query'. Use this when the indexed field has an auto-embed index (type:
 * 'autoEmbed'). Note to LLM: Use the collection-indexes tool to verify the target field has an auto-embed
 * index before using 'query'.
 */
export interface ExportVectorSearch2 {
  /**
   * When true, uses an ENN algorithm, otherwise uses ANN. Using ENN is not compatible with numCandidates, in
   * that case, numCandidates must be left empty.
   * Default false.
   */
  exact?: boolean;
  /** Name of the index, as retrieved from the `collection-indexes` tool. */
  index: string;
  /** Field, in dot notation, where to search. There must be a vector search index for that field. */
  path: string;
  /**
   * Number of candidates for the ANN algorithm. Mandatory when exact is false.
   * (> 0)
   */
  numCandidates?: number;
  /** Default 10. (> 0) */
  limit?: number;
  /**
   * MQL filter that can only use filter fields from the index definition. Note to LLM: If unsure, use the
   * `collection-indexes` tool to learn which fields can be used for filtering.
   */
  filter?: Record<string, unknown>;
  /**
   * The query to search for when using auto-embed indexes (type: 'autoEmbed'). MongoDB will automatically
   * generate embeddings for the text at query time. Use this for auto-embed indexes, not 'queryVector'.
   */
  query: ExportQuery;
  /**
   * The embedding model to use for generating embeddings from the query text. If not specified, defaults to
   * the model configured in the auto-embed index definition.
   */
  model?: "voyage-4" | "voyage-4-large" | "voyage-4-lite" | "voyage-code-3";
}

export interface ExportPipeline {
  $vectorSearch: ExportVectorSearch | ExportVectorSearch2;
}

/** The arguments for 'aggregate' operation. */
export interface ExportArguments2 {
  /**
   * An array of aggregation stages to execute.
   *
   * If the user has asked for a vector search, `$vectorSearch` **MUST** be the first stage
   * of the pipeline (or the first stage of a `$unionWith` sub-pipeline only when explicitly
   * combining unrelated result sets — for hybrid full-text + vector search, use `$rankFusion`
   * or `$scoreFusion` instead, see below).
   *
   * If the user has asked for lexical/Atlas search, use `$search` instead of `$text`.
   * ### Usage Rules for `$vectorSearch`
   * - **Index Type Detection:**
   *   Use the collection-indexes tool to determine if the target field has a classic vector index (type:
   * 'vector') or an auto-embed index (type: 'autoEmbed').
   * - **Classic Vector Search (type: 'vector'):**
   *   Use 'queryVector' with embeddings as an array of numbers.
   * - **Auto-Embed Vector Search (type: 'autoEmbed'):**
   *   Use 'query' - MongoDB automatically generates embeddings at query time. Do NOT use 'queryVector' or
   * 'embeddingParameters' for auto-embed indexes.
   * - **Unset embeddings:**
   *   Unless the user explicitly requests the embeddings, add an `$unset` stage **at the end of the
   * pipeline** to remove the embedding field and avoid context limits. **The $unset stage in this situation
   * is mandatory**.
   * - **Pre-filtering:**
   *   If the user requests additional filtering, include filters in `$vectorSearch.filter` only for
   * pre-filter fields in the vector index.
   *   NEVER include fields in $vectorSearch.filter that are not part of the vector index.
   * - **Post-filtering:**
   *   For all remaining filters, add a $match stage after $vectorSearch.
   * - If unsure which fields are filterable, use the collection-indexes tool to determine valid prefilter
   * fields.
   * - If no requested filters are valid prefilters, omit the filter key from $vectorSearch.
   *
   * ### Usage Rules for `$search`
   * - Include the index name, unless you know for a fact there's a default index. If unsure, use the
   * collection-indexes tool to determine the index name.
   * - The `$search` stage supports multiple operators, such as 'autocomplete', 'text', 'geoWithin', and
   * others. Choose the appropriate operator based on the user's query. If unsure of the exact syntax, consult
   * the MongoDB Atlas Search documentation, which can be found here:
   * https://www.mongodb.com/docs/atlas/atlas-search/operators-and-collectors/
   *
   * ### Usage Rules for `$rankFusion` and `$scoreFusion` (Hybrid Search)
   * Use these stages when the user wants to combine full-text (`$search`) and vector
   * (`$vectorSearch`) retrieval into a single fused result set. **Prefer native
   * fusion over a `$unionWith` + `$group` workaround** — the workaround averages
   * incompatible score scales and produces wrong rankings.
   *
   * **Which stage to use:**
   * - `$rankFusion` (MongoDB 8.0+) — Reciprocal Rank Fusion. The recommended default.
   *   Normalizes scores across incompatible scales automatically. No score tuning needed.
   * - `$scoreFusion` (MongoDB 8.2+) — Score-based fusion. Use when the user needs explicit
   *   per-pipeline weights, score normalisation (sigmoid / minMaxScaler), or a custom
   *   combination expression.
   *
   * **Construction rules:**
   * - `$rankFusion` / `$scoreFusion` MUST be the first stage of the top-level pipeline.
   * - Sub-pipelines go inside `input.pipelines` as a named map (not an array). Each name
   *   must be non-empty, must not start with `$`, and must not contain `.` or null bytes.
   * - Allowed stages inside sub-pipelines: `$search`, `$vectorSearch`, `$match`, `$sort`,
   *   `$geoNear`, `$skip`, `$limit`. `$project` and `$unset` are NOT allowed inside sub-pipelines.
   * - Do field shaping (`$project` / `$unset`) only AFTER the fusion stage, at the root.
   * - Both a vectorSearch (or autoEmbed) index AND a search (lexical) index must exist on
   *   the collection. Use the collection-indexes tool to confirm both before running a hybrid query.
   * - Add a `$limit` stage after the fusion stage to cap the final result set.
   * - Add `$unset` at the end to remove embedding fields and avoid context bloat.
   *
   * ### Usage Rules for `$rerank` (Native Reranking)
   * Use this stage when the user wants to reorder a set of candidate documents using a cross-encoder reranker
   * model.
   *
   * **Construction rules:**
   * - `$rerank` can be any stage in the pipeline on an Atlas cluster running MongoDB 8.3 or higher.
   * - It is recommended to use `$rerank` after a sorted pipeline, e.g. `$search`, `$vectorSearch`,
   * `$rankFusion`, `$scoreFusion`, or [`$match`, `$sort`].
   * - $rerank must be enabled via the Native Reranking Project Setting
   * - Set `numDocsToRerank` as the number of documents passed into `$rerank`. This will also limit the number
   * of documents returned by `$rerank`
   * - Set `path` as a field name or an array of field names that exist in all documents. Use `$match` or
   * `$set` before `$rerank` to validate no fields are missing.
   * - Add `$addFields` after `$rerank` to retrieve the reranker score.
   *
   * **`$rerank` example (recommended default):**
   * ```javascript
   * [
   *   {
   *     $match: {
   *       description: { $exists: true },
   *       name: { $exists: true }
   *     }
   *   },
   *   {
   *     $sort: {
   *       lastUpdated: -1
   *     }
   *   },
   *   {
   *     $rerank: {
   *       query: {
   *         text: "query text including instructions"
   *       },
   *       model: "rerank-2.5",
   *       numDocsToRerank: 100,
   *       path: ["description", "name"]
   *     }
   *   },
   *   {
   *     $addFields: {
   *       rerankScore: { $meta: "score" }
   *     }
   *   }
   * ]
   * ```
   */
  pipeline: (ExportPipeline | Record<string, unknown>)[];
}

export interface ExportExportTarget2 {
  /** The literal name 'aggregate' to represent an aggregation cursor as target. */
  name: "aggregate";
  /** The arguments for 'aggregate' operation. */
  arguments: ExportArguments2;
}

export interface ExportInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /** A short description to uniquely identify the export. */
  exportTitle: string;
  /** The export target along with its arguments. */
  exportTarget: (ExportExportTarget | ExportExportTarget2)[];
  /**
   * The format to be used when exporting collection data as EJSON with default being relaxed.
   * relaxed: A string format that emphasizes readability and interoperability at the expense of type
   * preservation. That is, conversion from relaxed format to BSON can lose type information.
   * canonical: A string format that emphasizes type preservation at the expense of readability and
   * interoperability. That is, conversion from canonical to BSON will generally preserve type information
   * except in certain specific cases.
   * Default "relaxed".
   */
  jsonExportFormat?: "relaxed" | "canonical";
}

/**
 * Export a query or aggregation results in the specified EJSON format.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function export_(args: ExportInput): Promise<ToolCallResult<unknown>>;

export interface FindSort {
  $meta: string;
}

export interface FindResult {
  /** The documents returned by the find query */
  documents: unknown[];
  /** The total number of documents returned by the find query */
  queryResultsCount?: number;
  /** The limits applied to the find query */
  appliedLimits: ("config.maxDocumentsPerQuery" | "config.maxBytesPerQuery" | "tool.responseBytesLimit")[];
}

export interface FindInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /** The query filter, matching the syntax of the query argument of db.collection.find() */
  filter?: Record<string, unknown>;
  /** The projection, matching the syntax of the projection argument of db.collection.find() */
  projection?: Record<string, unknown>;
  /**
   * The maximum number of documents to return
   * Default 10.
   */
  limit?: number;
  /**
   * A document, describing the sort order, matching the syntax of the sort argument of cursor.sort(). The
   * keys of the object are the fields to sort on, while the values are the sort directions (1 for ascending,
   * -1 for descending).
   */
  sort?: Record<string, 1 | -1 | "asc" | "desc" | "ascending" | "descending" | FindSort>;
  /**
   * The maximum number of bytes to return in the response. This value is capped by the server's configured
   * maximum and cannot be exceeded.
   * Default 1048576.
   */
  responseBytesLimit?: number;
}

/**
 * Run a find query against a MongoDB collection
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function find(args: FindInput): Promise<ToolCallResult<FindResult>>;

export interface InsertManyResult {
  database: string;
  collection: string;
  insertedCount: number;
  insertedIds: unknown[];
}

export interface InsertManyInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * The array of documents to insert, matching the syntax of the document argument of
   * db.collection.insertMany().
   */
  documents: Record<string, unknown>[];
}

/**
 * Insert an array of documents into a MongoDB collection. If the list of documents is above
 * com.mongodb/maxRequestPayloadBytes, consider inserting them in batches.
 *
 * The server says that this tool reaches the outside world.
 */
export function insertMany(args: InsertManyInput): Promise<ToolCallResult<InsertManyResult>>;

export interface ListCollectionsCollection {
  name: string;
}

export interface ListCollectionsResult {
  collections: ListCollectionsCollection[];
  totalCount: number;
}

export interface ListCollectionsInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
}

/**
 * List all collections for a given database
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function listCollections(args: ListCollectionsInput): Promise<ToolCallResult<ListCollectionsResult>>;

export interface ListConnectionsConnection {
  connectionId: string;
  name: string;
  source: "explicit" | "preconfigured";
  state?: "connected" | "connecting" | "disconnected" | "errored";
  description: string;
  lastError?: string;
  createdAt: string;
  lastUsedAt: string;
}

export interface ListConnectionsResult {
  connections: ListConnectionsConnection[];
}

/**
 * List the active MongoDB connections and their connectionIds. Use this to find a connectionId established
 * earlier.
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function listConnections(args?: Record<string, never>): Promise<ToolCallResult<ListConnectionsResult>>;

export interface ListDatabasesDatabase {
  name: string;
  size: number;
}

export interface ListDatabasesResult {
  databases: ListDatabasesDatabase[];
  totalCount: number;
}

export interface ListDatabasesInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
}

/**
 * List all databases for a MongoDB connection
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function listDatabases(args: ListDatabasesInput): Promise<ToolCallResult<ListDatabasesResult>>;

export interface MongodbLogsResult {
  logs: string[];
  totalLinesWritten: number;
  shownCount: number;
}

export interface MongodbLogsInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /**
   * The type of logs to return. Global returns all recent log entries, while startupWarnings returns only
   * warnings and errors from when the process started.
   * Default "global".
   */
  type?: "global" | "startupWarnings";
  /**
   * The maximum number of log entries to return.
   * Default 50. (>= 1, <= 1024)
   */
  limit?: number;
}

/**
 * Returns the most recent logged mongod events
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function mongodbLogs(args: MongodbLogsInput): Promise<ToolCallResult<MongodbLogsResult>>;

export interface RenameCollectionResult {
  database: string;
  oldCollection: string;
  newCollection: string;
  renamed: boolean;
}

export interface RenameCollectionInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /** The new name for the collection */
  newName: string;
  /**
   * If true, drops the target collection if it exists
   * Default false.
   */
  dropTarget?: boolean;
}

/**
 * Renames a collection in a MongoDB database
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function renameCollection(
  args: RenameCollectionInput,
): Promise<ToolCallResult<RenameCollectionResult>>;

export interface UpdateManyResult {
  database: string;
  collection: string;
  matchedCount: number;
  modifiedCount: number;
  upsertedCount: number;
  upsertedId?: string;
}

export interface UpdateManyInput {
  /** The connection to run the operation against. Use the id returned by one of the connect tools. */
  connectionId: string;
  /** Database name */
  database: string;
  /** Collection name */
  collection: string;
  /**
   * The selection criteria for the update, matching the syntax of the filter argument of
   * db.collection.updateOne()
   */
  filter?: Record<string, unknown>;
  /** An update document describing the modifications to apply using update operator expressions */
  update: Record<string, unknown>;
  /** Controls whether to insert a new document if no documents match the filter */
  upsert?: boolean;
}

/**
 * Updates all documents that match the specified filter for a collection. If the list of documents is above
 * com.mongodb/maxRequestPayloadBytes, consider updating them in batches.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function updateMany(args: UpdateManyInput): Promise<ToolCallResult<UpdateManyResult>>;

export interface SearchKnowledgeDataSource {
  /** The name of the data source */
  name: string;
  /** The version label of the data source */
  versionLabel?: string;
}

export interface SearchKnowledgeInput {
  /**
   * A natural language query to search for in the MongoDB Assistant knowledge base. This should be a single
   * question or a topic that is relevant to the user's MongoDB use case.
   */
  query: string;
  /**
   * The maximum number of results to return
   * Default 5. (>= 1, <= 100)
   */
  limit?: number;
  /**
   * A list of one or more data sources to limit the search to. You can specify a specific version of a data
   * source by providing the version label. If not provided, the latest version of all data sources will be
   * searched. Available data sources and their versions can be listed by calling the list-knowledge-sources
   * tool.
   */
  dataSources?: SearchKnowledgeDataSource[];
}

/**
 * Search for information in the MongoDB Assistant knowledge base. This includes official documentation,
 * curated expert guidance, and other resources provided by MongoDB. Supports filtering by data source and
 * version.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function searchKnowledge(args: SearchKnowledgeInput): Promise<ToolCallResult<unknown>>;

/**
 * List available data sources in the MongoDB Assistant knowledge base. Use this to explore available data
 * sources or to find search filter parameters to use in search-knowledge.
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function listKnowledgeSources(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "aggregate-db": typeof aggregateDb;
  readonly "aggregate": typeof aggregate;
  readonly "collection-indexes": typeof collectionIndexes;
  readonly "collection-schema": typeof collectionSchema;
  readonly "collection-storage-size": typeof collectionStorageSize;
  readonly "connect": typeof connect;
  readonly "count": typeof count;
  readonly "create-collection": typeof createCollection;
  readonly "create-index": typeof createIndex;
  readonly "db-stats": typeof dbStats;
  readonly "delete-many": typeof deleteMany;
  readonly "disconnect": typeof disconnect;
  readonly "drop-collection": typeof dropCollection;
  readonly "drop-database": typeof dropDatabase;
  readonly "drop-index": typeof dropIndex;
  readonly "explain": typeof explain;
  readonly "export": typeof export_;
  readonly "find": typeof find;
  readonly "insert-many": typeof insertMany;
  readonly "list-collections": typeof listCollections;
  readonly "list-connections": typeof listConnections;
  readonly "list-databases": typeof listDatabases;
  readonly "mongodb-logs": typeof mongodbLogs;
  readonly "rename-collection": typeof renameCollection;
  readonly "update-many": typeof updateMany;
  readonly "search-knowledge": typeof searchKnowledge;
  readonly "list-knowledge-sources": typeof listKnowledgeSources;
};
