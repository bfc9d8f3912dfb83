// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface GetDocumentRevision {
  id: string;
  author?: string | null;
}

export interface GetDocumentResult {
  title: string;
  content: string;
  revisions?: GetDocumentRevision[];
}

export interface GetDocumentInput {
  /** The ID in the document's address. */
  documentId: string;
}

/**
 * Read one document.
 *
 * The server says that this tool only reads.
 */
export function getDocument(args: GetDocumentInput): Promise<ToolCallResult<GetDocumentResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "get_document": typeof getDocument;
};
