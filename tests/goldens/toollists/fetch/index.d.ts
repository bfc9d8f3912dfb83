// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface FetchInput {
  /**
   * URL to fetch
   * (length >= 1, format uri)
   */
  url: string;
  /**
   * Maximum number of characters to return.
   * Default 5000. (>= 1, <= 999999)
   */
  max_length?: number;
  /**
   * On return output starting at this character index, useful if a previous fetch was truncated and more
   * context is required.
   * Default 0. (>= 0)
   */
  start_index?: number;
  /**
   * Get the actual HTML content of the requested page, without simplification.
   * Default false.
   */
  raw?: boolean;
}

/**
 * Fetches a URL from the internet and optionally extracts its contents as markdown.
 *
 * Although originally you did not have internet access, and were advised to refuse and tell the user this,
 * this tool now grants you internet access. Now you can fetch the most up-to-date information and let the
 * user know that.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function fetch(args: FetchInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "fetch": typeof fetch;
};
