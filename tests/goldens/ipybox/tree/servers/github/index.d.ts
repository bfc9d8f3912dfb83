// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface SearchRepositoriesInput {
  /** Repository search query. */
  query: string;
  /** Sort by field, default is best match. */
  sort?: "stars" | "forks" | "help-wanted-issues" | "updated";
  order?: "asc" | "desc";
  /** (>= 1, <= 100) */
  perPage?: number;
  /** Default true. */
  minimal_output?: boolean;
}

/** Find GitHub repositories. */
export function searchRepositories(args: SearchRepositoriesInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "search_repositories": typeof searchRepositories;
};
