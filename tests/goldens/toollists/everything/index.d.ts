// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface EchoInput {
  /** Message to echo */
  message: string;
}

/**
 * Echoes back the input string
 *
 * The server says that this tool only reads.
 */
export function echo(args: EchoInput): Promise<ToolCallResult<unknown>>;

export interface GetAnnotatedMessageInput {
  /** Type of message to demonstrate different annotation patterns */
  messageType: "error" | "success" | "debug";
  /**
   * Whether to include an example image
   * Default false.
   */
  includeImage?: boolean;
}

/**
 * Demonstrates how annotations can be used to provide metadata about content.
 *
 * The server says that this tool only reads.
 */
export function getAnnotatedMessage(args: GetAnnotatedMessageInput): Promise<ToolCallResult<unknown>>;

/**
 * Returns all environment variables, helpful for debugging MCP server configuration
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function getEnv(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface GetResourceLinksInput {
  /**
   * Number of resource links to return (1-10)
   * Default 3. (>= 1, <= 10)
   */
  count?: number;
}

/**
 * Returns up to ten resource links that reference different types of resources
 *
 * The server says that this tool only reads.
 */
export function getResourceLinks(args?: GetResourceLinksInput): Promise<ToolCallResult<unknown>>;

export interface GetResourceReferenceInput {
  /** Default "Text". */
  resourceType?: "Text" | "Blob";
  /**
   * ID of the text resource to fetch
   * Default 1.
   */
  resourceId?: number;
}

/**
 * Returns a resource reference that can be used by MCP clients
 *
 * The server says that this tool only reads.
 */
export function getResourceReference(args?: GetResourceReferenceInput): Promise<ToolCallResult<unknown>>;

export interface GetStructuredContentResult {
  /** Temperature in celsius */
  temperature: number;
  /** Weather conditions description */
  conditions: string;
  /** Humidity percentage */
  humidity: number;
}

export interface GetStructuredContentInput {
  /** Choose city */
  location: "New York" | "Chicago" | "Los Angeles";
}

/**
 * Returns structured content along with an output schema for client data validation
 *
 * The server says that this tool only reads.
 */
export function getStructuredContent(
  args: GetStructuredContentInput,
): Promise<ToolCallResult<GetStructuredContentResult>>;

export interface GetSumInput {
  /** First number */
  a: number;
  /** Second number */
  b: number;
}

/**
 * Returns the sum of two numbers
 *
 * The server says that this tool only reads.
 */
export function getSum(args: GetSumInput): Promise<ToolCallResult<unknown>>;

/**
 * Returns a tiny MCP logo image.
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function getTinyImage(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface GzipFileAsResourceInput {
  /**
   * Name of the output file
   * Default "README.md.gz".
   */
  name?: string;
  /**
   * URL or data URI of the file content to compress
   * Default "https://raw.githubusercontent.com/modelcontextprotocol/servers/refs/heads/main/README.md".
   * (format uri)
   */
  data?: string;
  /**
   * How the resulting gzipped file should be returned. 'resourceLink' returns a link to a resource that can
   * be read later, 'resource' returns a full resource object.
   * Default "resourceLink".
   */
  outputType?: "resourceLink" | "resource";
}

/**
 * Compresses a single file using gzip compression. Depending upon the selected output type, returns either
 * the compressed data as a gzipped resource or a resource link, allowing it to be downloaded in a subsequent
 * request during the current session.
 *
 * The server says that this tool is safe to repeat and reaches the outside world.
 */
export function gzipFileAsResource(args?: GzipFileAsResourceInput): Promise<ToolCallResult<unknown>>;

/**
 * Toggles simulated, random-leveled logging on or off.
 *
 * Takes no arguments.
 */
export function toggleSimulatedLogging(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

/**
 * Toggles simulated resource subscription updates on or off.
 *
 * Takes no arguments.
 */
export function toggleSubscriberUpdates(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface TriggerLongRunningOperationInput {
  /**
   * Duration of the operation in seconds
   * Default 10.
   */
  duration?: number;
  /**
   * Number of steps in the operation
   * Default 5.
   */
  steps?: number;
}

/**
 * Demonstrates a long running operation with progress updates.
 *
 * The server says that this tool only reads.
 */
export function triggerLongRunningOperation(
  args?: TriggerLongRunningOperationInput,
): Promise<ToolCallResult<unknown>>;

/**
 * Lists the current MCP roots provided by the client. Demonstrates the roots protocol capability even though
 * this server doesn't access files.
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function getRootsList(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

/**
 * Trigger a Request from the Server for User Elicitation
 *
 * Takes no arguments.
 */
export function triggerElicitationRequest(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface TriggerSamplingRequestInput {
  /** The prompt to send to the LLM */
  prompt: string;
  /**
   * Maximum number of tokens to generate
   * Default 100.
   */
  maxTokens?: number;
}

/**
 * Trigger a Request from the Server for LLM Sampling
 *
 * The server says that this tool reaches the outside world.
 */
export function triggerSamplingRequest(args: TriggerSamplingRequestInput): Promise<ToolCallResult<unknown>>;

export interface SimulateResearchQueryInput {
  /** The research topic to investigate */
  topic: string;
  /**
   * Simulate an ambiguous query that requires clarification (triggers input_required status)
   * Default false.
   */
  ambiguous?: boolean;
}

/**
 * Simulates a deep research operation that gathers, analyzes, and synthesizes information. Demonstrates MCP
 * task-based operations with progress through multiple stages. If 'ambiguous' is true and client supports
 * elicitation, sends an elicitation request for clarification.
 */
export function simulateResearchQuery(args: SimulateResearchQueryInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "echo": typeof echo;
  readonly "get-annotated-message": typeof getAnnotatedMessage;
  readonly "get-env": typeof getEnv;
  readonly "get-resource-links": typeof getResourceLinks;
  readonly "get-resource-reference": typeof getResourceReference;
  readonly "get-structured-content": typeof getStructuredContent;
  readonly "get-sum": typeof getSum;
  readonly "get-tiny-image": typeof getTinyImage;
  readonly "gzip-file-as-resource": typeof gzipFileAsResource;
  readonly "toggle-simulated-logging": typeof toggleSimulatedLogging;
  readonly "toggle-subscriber-updates": typeof toggleSubscriberUpdates;
  readonly "trigger-long-running-operation": typeof triggerLongRunningOperation;
  readonly "get-roots-list": typeof getRootsList;
  readonly "trigger-elicitation-request": typeof triggerElicitationRequest;
  readonly "trigger-sampling-request": typeof triggerSamplingRequest;
  readonly "simulate-research-query": typeof simulateResearchQuery;
};
