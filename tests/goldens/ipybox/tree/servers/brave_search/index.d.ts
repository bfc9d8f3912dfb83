// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface BraveImageSearchProperties {
  url: string;
  width?: number;
}

export interface BraveImageSearchItem {
  title: string;
  properties: BraveImageSearchProperties;
}

export interface BraveImageSearchResult {
  items: BraveImageSearchItem[];
  might_be_offensive?: boolean;
}

export interface BraveImageSearchInput {
  /**
   * The search query.
   * (length <= 400)
   */
  query: string;
  /** Default 50. (>= 1, <= 200) */
  count?: number;
}

/** Search the web for images. */
export function braveImageSearch(
  args: BraveImageSearchInput,
): Promise<ToolCallResult<BraveImageSearchResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "brave_image_search": typeof braveImageSearch;
};
