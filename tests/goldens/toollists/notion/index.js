// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Notion | Retrieve a user Error Responses: 400: 400 */
export async function APIGetUser(args = {}) {
  return callTool("notion", "API-get-user", args);
}

/** Notion | List all users Error Responses: 400: 400 */
export async function APIGetUsers(args = {}) {
  return callTool("notion", "API-get-users", args);
}

/** Notion | Retrieve your token's bot user Error Responses: 400: Bad request */
export async function APIGetSelf(args = {}) {
  return callTool("notion", "API-get-self", args);
}

/** Notion | Search by title Error Responses: 400: Bad request */
export async function APIPostSearch(args = {}) {
  return callTool("notion", "API-post-search", args);
}

/** Notion | Retrieve block children Error Responses: 400: Bad request */
export async function APIGetBlockChildren(args = {}) {
  return callTool("notion", "API-get-block-children", args);
}

/** Notion | Append block children Error Responses: 400: Bad request */
export async function APIPatchBlockChildren(args = {}) {
  return callTool("notion", "API-patch-block-children", args);
}

/** Notion | Retrieve a block Error Responses: 400: Bad request */
export async function APIRetrieveABlock(args = {}) {
  return callTool("notion", "API-retrieve-a-block", args);
}

/** Notion | Update a block Error Responses: 400: Bad request */
export async function APIUpdateABlock(args = {}) {
  return callTool("notion", "API-update-a-block", args);
}

/** Notion | Delete a block Error Responses: 400: Bad request */
export async function APIDeleteABlock(args = {}) {
  return callTool("notion", "API-delete-a-block", args);
}

/** Notion | Retrieve a page Error Responses: 400: Bad request */
export async function APIRetrieveAPage(args = {}) {
  return callTool("notion", "API-retrieve-a-page", args);
}

/** Notion | Update page properties Error Responses: 400: Bad request */
export async function APIPatchPage(args = {}) {
  return callTool("notion", "API-patch-page", args);
}

/** Notion | Create a page Error Responses: 400: Bad request */
export async function APIPostPage(args = {}) {
  return callTool("notion", "API-post-page", args);
}

/** Notion | Retrieve a page property item Error Responses: 400: Bad request */
export async function APIRetrieveAPageProperty(args = {}) {
  return callTool("notion", "API-retrieve-a-page-property", args);
}

/** Notion | Retrieve comments Error Responses: 400: Bad request */
export async function APIRetrieveAComment(args = {}) {
  return callTool("notion", "API-retrieve-a-comment", args);
}

/** Notion | Create comment Error Responses: 400: Bad request */
export async function APICreateAComment(args = {}) {
  return callTool("notion", "API-create-a-comment", args);
}

/** Notion | Query a data source Error Responses: 400: Bad request */
export async function APIQueryDataSource(args = {}) {
  return callTool("notion", "API-query-data-source", args);
}

/** Notion | Retrieve a data source Error Responses: 400: Bad request */
export async function APIRetrieveADataSource(args = {}) {
  return callTool("notion", "API-retrieve-a-data-source", args);
}

/** Notion | Update a data source Error Responses: 400: Bad request */
export async function APIUpdateADataSource(args = {}) {
  return callTool("notion", "API-update-a-data-source", args);
}

/** Notion | Create a data source Error Responses: 400: Bad request */
export async function APICreateADataSource(args = {}) {
  return callTool("notion", "API-create-a-data-source", args);
}

/** Notion | List templates in a data source Error Responses: 400: Bad request */
export async function APIListDataSourceTemplates(args = {}) {
  return callTool("notion", "API-list-data-source-templates", args);
}

/** Notion | Retrieve a database Error Responses: 400: Bad request */
export async function APIRetrieveADatabase(args = {}) {
  return callTool("notion", "API-retrieve-a-database", args);
}

/** Notion | Move a page Error Responses: 400: Bad request */
export async function APIMovePage(args = {}) {
  return callTool("notion", "API-move-page", args);
}

/**
 * Notion | Retrieve a page as Markdown Error Responses: 400: Bad request 403: The integration lacks the read/update…
 */
export async function APIRetrievePageMarkdown(args = {}) {
  return callTool("notion", "API-retrieve-page-markdown", args);
}

/** Notion | Update a page's content as Markdown Error Responses: 400: Bad request 403: The integration lacks the… */
export async function APIUpdatePageMarkdown(args = {}) {
  return callTool("notion", "API-update-page-markdown", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["API-get-user"]: APIGetUser,
  ["API-get-users"]: APIGetUsers,
  ["API-get-self"]: APIGetSelf,
  ["API-post-search"]: APIPostSearch,
  ["API-get-block-children"]: APIGetBlockChildren,
  ["API-patch-block-children"]: APIPatchBlockChildren,
  ["API-retrieve-a-block"]: APIRetrieveABlock,
  ["API-update-a-block"]: APIUpdateABlock,
  ["API-delete-a-block"]: APIDeleteABlock,
  ["API-retrieve-a-page"]: APIRetrieveAPage,
  ["API-patch-page"]: APIPatchPage,
  ["API-post-page"]: APIPostPage,
  ["API-retrieve-a-page-property"]: APIRetrieveAPageProperty,
  ["API-retrieve-a-comment"]: APIRetrieveAComment,
  ["API-create-a-comment"]: APICreateAComment,
  ["API-query-data-source"]: APIQueryDataSource,
  ["API-retrieve-a-data-source"]: APIRetrieveADataSource,
  ["API-update-a-data-source"]: APIUpdateADataSource,
  ["API-create-a-data-source"]: APICreateADataSource,
  ["API-list-data-source-templates"]: APIListDataSourceTemplates,
  ["API-retrieve-a-database"]: APIRetrieveADatabase,
  ["API-move-page"]: APIMovePage,
  ["API-retrieve-page-markdown"]: APIRetrievePageMarkdown,
  ["API-update-page-markdown"]: APIUpdatePageMarkdown,
};
