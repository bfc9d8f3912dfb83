// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface APIGetUserInput {
  /** (format uuid) */
  user_id: string;
}

/**
 * Notion | Retrieve a user
 * Error Responses:
 * 400: 400
 *
 * The server says that this tool only reads.
 */
export function APIGetUser(args: APIGetUserInput): Promise<ToolCallResult<unknown>>;

export interface APIGetUsersInput {
  /**
   * If supplied, this endpoint will return a page of results starting after the cursor provided. If not
   * supplied, this endpoint will return the first page of results.
   */
  start_cursor?: string;
  /**
   * The number of items from the full list desired in the response. Maximum: 100
   * Default 100.
   */
  page_size?: number;
}

/**
 * Notion | List all users
 * Error Responses:
 * 400: 400
 *
 * The server says that this tool only reads.
 */
export function APIGetUsers(args?: APIGetUsersInput): Promise<ToolCallResult<unknown>>;

/**
 * Notion | Retrieve your token's bot user
 * Error Responses:
 * 400: Bad request
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function APIGetSelf(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

/**
 * A set of criteria, `direction` and `timestamp` keys, that orders the results. The **only** supported
 * timestamp value is `"last_edited_time"`. Supported `direction` values are `"ascending"` and `"descending"`.
 * If `sort` is not provided, then the most recently edited results are returned first.
 */
export interface APIPostSearchSort {
  /** The direction to sort. Possible values include `ascending` and `descending`. */
  direction?: string;
  /** The name of the timestamp to sort against. Possible values include `last_edited_time`. */
  timestamp?: string;
  [key: string]: unknown;
}

/**
 * A set of criteria, `value` and `property` keys, that limits the results to either only pages or only data
 * sources. Possible `value` values are `"page"` or `"data_source"`. The only supported `property` value is
 * `"object"`.
 */
export interface APIPostSearchFilter {
  /**
   * The value of the property to filter the results by. Possible values for object type include `page` or
   * `data_source`. **Limitation**: Currently the only filter allowed is `object` which will filter by type of
   * object (either `page` or `data_source`)
   */
  value?: "page" | "data_source";
  /**
   * The name of the property to filter by. Currently the only property you can filter by is the object type.
   * Possible values include `object`. Limitation: Currently the only filter allowed is `object` which will
   * filter by type of object (either `page` or `data_source`)
   */
  property?: string;
  [key: string]: unknown;
}

export interface APIPostSearchInput {
  /** The text that the API compares page and database titles against. */
  query?: string;
  sort?: APIPostSearchSort | string;
  filter?: APIPostSearchFilter | string;
  /**
   * A `cursor` value returned in a previous response that If supplied, limits the response to results
   * starting after the `cursor`. If not supplied, then the first page of results is returned. Refer to
   * [pagination](https://developers.notion.com/reference/intro#pagination) for more details.
   */
  start_cursor?: string;
  /**
   * The number of items from the full list to include in the response. Maximum: `100`.
   * Default 100. (format int32)
   */
  page_size?: number;
}

/**
 * Notion | Search by title
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIPostSearch(args?: APIPostSearchInput): Promise<ToolCallResult<unknown>>;

export interface APIGetBlockChildrenInput {
  /** Identifier for a [block](ref:block) */
  block_id: string;
  /**
   * If supplied, this endpoint will return a page of results starting after the cursor provided. If not
   * supplied, this endpoint will return the first page of results.
   */
  start_cursor?: string;
  /**
   * The number of items from the full list desired in the response. Maximum: 100
   * Default 100. (format int32)
   */
  page_size?: number;
}

/**
 * Notion | Retrieve block children
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIGetBlockChildren(args: APIGetBlockChildrenInput): Promise<ToolCallResult<unknown>>;

export interface APIPatchBlockChildrenText {
  content: string;
  link?: Record<string, unknown> | null;
}

export interface APIPatchBlockChildrenRichTextRequest {
  text: APIPatchBlockChildrenText;
  type?: "text";
}

export interface APIPatchBlockChildrenParagraph {
  rich_text: APIPatchBlockChildrenRichTextRequest[];
}

export interface APIPatchBlockChildrenParagraphBlockRequest {
  paragraph?: APIPatchBlockChildrenParagraph;
  type?: "paragraph";
}

export interface APIPatchBlockChildrenBulletedListItemBlockRequest {
  bulleted_list_item?: APIPatchBlockChildrenParagraph;
  type?: "bulleted_list_item";
}

export interface APIPatchBlockChildrenInput {
  /** Identifier for a [block](ref:block). Also accepts a [page](ref:page) ID. */
  block_id: string;
  /** Child content to append to a container block as an array of [block objects](ref:block) */
  children: (APIPatchBlockChildrenParagraphBlockRequest | APIPatchBlockChildrenBulletedListItemBlockRequest | string | Record<string, unknown>)[];
  /** The ID of the existing block that the new block should be appended after. */
  after?: string;
}

/**
 * Notion | Append block children
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIPatchBlockChildren(args: APIPatchBlockChildrenInput): Promise<ToolCallResult<unknown>>;

export interface APIRetrieveABlockInput {
  /** Identifier for a Notion block */
  block_id: string;
}

/**
 * Notion | Retrieve a block
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIRetrieveABlock(args: APIRetrieveABlockInput): Promise<ToolCallResult<unknown>>;

export interface APIUpdateABlockInput {
  /** Identifier for a Notion block */
  block_id: string;
  type?: Record<string, unknown> | string;
  /**
   * Set to true to archive (delete) a block. Set to false to un-archive (restore) a block.
   * Default true.
   */
  archived?: boolean;
}

/**
 * Notion | Update a block
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIUpdateABlock(args: APIUpdateABlockInput): Promise<ToolCallResult<unknown>>;

export interface APIDeleteABlockInput {
  /** Identifier for a Notion block */
  block_id: string;
}

/**
 * Notion | Delete a block
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIDeleteABlock(args: APIDeleteABlockInput): Promise<ToolCallResult<unknown>>;

export interface APIRetrieveAPageInput {
  /** Identifier for a Notion page */
  page_id: string;
  /**
   * A list of page property value IDs associated with the page. Use this param to limit the response to a
   * specific page property value or values. To retrieve multiple properties, specify each page property ID.
   * For example: `?filter_properties=iAk8&filter_properties=b7dh`.
   */
  filter_properties?: string;
}

/**
 * Notion | Retrieve a page
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIRetrieveAPage(args: APIRetrieveAPageInput): Promise<ToolCallResult<unknown>>;

/**
 * A page icon for the page. Supported types are [external file
 * object](https://developers.notion.com/reference/file-object) or [emoji
 * object](https://developers.notion.com/reference/emoji-object).
 */
export interface APIPatchPageIcon {
  emoji: string;
}

export interface APIPatchPageExternal {
  url: string;
}

/**
 * A cover image for the page. Only [external file
 * objects](https://developers.notion.com/reference/file-object) are supported.
 */
export interface APIPatchPageCover {
  external: APIPatchPageExternal;
  type?: "external";
}

export interface APIPatchPageInput {
  /** The identifier for the Notion page to be updated. */
  page_id: string;
  properties?: Record<string, unknown> | string;
  /**
   * Set to true to delete a block. Set to false to restore a block.
   * Default false.
   */
  in_trash?: boolean;
  archived?: boolean;
  icon?: APIPatchPageIcon | string;
  cover?: APIPatchPageCover | string;
}

/**
 * Notion | Update page properties
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIPatchPage(args: APIPatchPageInput): Promise<ToolCallResult<unknown>>;

export interface APIPostPagePageIdParentRequest {
  /** (format uuid) */
  page_id: string;
  [key: string]: unknown;
}

export interface APIPostPageDataSourceIdParentRequest {
  type?: "database_id";
  /** (format uuid) */
  database_id: string;
  [key: string]: unknown;
}

export interface APIPostPageParentRequest {
  type: "workspace";
  [key: string]: unknown;
}

export interface APIPostPageInput {
  parent: APIPostPagePageIdParentRequest | APIPostPageDataSourceIdParentRequest | APIPostPageParentRequest | string;
  properties: Record<string, unknown> | string;
  /**
   * The content to be rendered on the new page, represented as an array of [block
   * objects](https://developers.notion.com/reference/block).
   */
  children?: (string | Record<string, unknown>)[];
  /**
   * The icon of the new page. Either an [emoji object](https://developers.notion.com/reference/emoji-object)
   * or an [external file object](https://developers.notion.com/reference/file-object)..
   * (format json)
   */
  icon?: string;
  /**
   * The cover image of the new page, represented as a [file
   * object](https://developers.notion.com/reference/file-object).
   * (format json)
   */
  cover?: string;
}

/**
 * Notion | Create a page
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIPostPage(args: APIPostPageInput): Promise<ToolCallResult<unknown>>;

export interface APIRetrieveAPagePropertyInput {
  /** Identifier for a Notion page */
  page_id: string;
  /** Identifier for a page [property](https://developers.notion.com/reference/page#all-property-values) */
  property_id: string;
  /**
   * For paginated properties. The max number of property item objects on a page. The default size is 100
   * (format int32)
   */
  page_size?: number;
  /** For paginated properties. */
  start_cursor?: string;
}

/**
 * Notion | Retrieve a page property item
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIRetrieveAPageProperty(
  args: APIRetrieveAPagePropertyInput,
): Promise<ToolCallResult<unknown>>;

export interface APIRetrieveACommentInput {
  /** Identifier for a Notion block or page */
  block_id: string;
  /**
   * If supplied, this endpoint will return a page of results starting after the cursor provided. If not
   * supplied, this endpoint will return the first page of results.
   */
  start_cursor?: string;
  /**
   * The number of items from the full list desired in the response. Maximum: 100
   * (format int32)
   */
  page_size?: number;
}

/**
 * Notion | Retrieve comments
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIRetrieveAComment(args: APIRetrieveACommentInput): Promise<ToolCallResult<unknown>>;

/** The page that contains the comment */
export interface APICreateACommentParent {
  /** the page ID */
  page_id: string;
  [key: string]: unknown;
}

export interface APICreateACommentText {
  /** The content of the comment */
  content: string;
  [key: string]: unknown;
}

export interface APICreateACommentRichText {
  text: APICreateACommentText;
  [key: string]: unknown;
}

export interface APICreateACommentInput {
  parent: APICreateACommentParent | string;
  rich_text: (APICreateACommentRichText | string | Record<string, unknown>)[];
}

/**
 * Notion | Create comment
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APICreateAComment(args: APICreateACommentInput): Promise<ToolCallResult<unknown>>;

export interface APIQueryDataSourceSortObject {
  property: string;
  direction: "ascending" | "descending";
  [key: string]: unknown;
}

export interface APIQueryDataSourceInput {
  /** Identifier for a Notion data source (database) */
  data_source_id: string;
  /** A list of page property value IDs to limit the response */
  filter_properties?: (string | Record<string, unknown>)[];
  filter?: Record<string, unknown> | string;
  sorts?: (APIQueryDataSourceSortObject | string | Record<string, unknown>)[];
  start_cursor?: string;
  /** Default 100. */
  page_size?: number;
  archived?: boolean;
  in_trash?: boolean;
}

/**
 * Notion | Query a data source
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIQueryDataSource(args: APIQueryDataSourceInput): Promise<ToolCallResult<unknown>>;

export interface APIRetrieveADataSourceInput {
  /** Identifier for a Notion data source */
  data_source_id: string;
}

/**
 * Notion | Retrieve a data source
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIRetrieveADataSource(args: APIRetrieveADataSourceInput): Promise<ToolCallResult<unknown>>;

export interface APIUpdateADataSourceText {
  content: string;
  link?: Record<string, unknown> | null;
}

export interface APIUpdateADataSourceRichTextRequest {
  text: APIUpdateADataSourceText;
  type?: "text";
}

export interface APIUpdateADataSourceInput {
  /** Identifier for a Notion data source */
  data_source_id: string;
  title?: (APIUpdateADataSourceRichTextRequest | string | Record<string, unknown>)[];
  description?: (APIUpdateADataSourceRichTextRequest | string | Record<string, unknown>)[];
  properties?: Record<string, unknown> | string;
}

/**
 * Notion | Update a data source
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIUpdateADataSource(args: APIUpdateADataSourceInput): Promise<ToolCallResult<unknown>>;

export interface APICreateADataSourcePageIdParentRequest {
  /** (format uuid) */
  page_id: string;
  [key: string]: unknown;
}

export interface APICreateADataSourceText {
  content: string;
  link?: Record<string, unknown> | null;
}

export interface APICreateADataSourceRichTextRequest {
  text: APICreateADataSourceText;
  type?: "text";
}

export interface APICreateADataSourceInput {
  parent: APICreateADataSourcePageIdParentRequest | string;
  properties: Record<string, unknown> | string;
  title?: (APICreateADataSourceRichTextRequest | string | Record<string, unknown>)[];
}

/**
 * Notion | Create a data source
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APICreateADataSource(args: APICreateADataSourceInput): Promise<ToolCallResult<unknown>>;

export interface APIListDataSourceTemplatesInput {
  /** Identifier for a Notion data source */
  data_source_id: string;
  start_cursor?: string;
  /** Default 100. */
  page_size?: number;
}

/**
 * Notion | List templates in a data source
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIListDataSourceTemplates(
  args: APIListDataSourceTemplatesInput,
): Promise<ToolCallResult<unknown>>;

export interface APIRetrieveADatabaseInput {
  /** Identifier for a Notion database */
  database_id: string;
}

/**
 * Notion | Retrieve a database
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool only reads.
 */
export function APIRetrieveADatabase(args: APIRetrieveADatabaseInput): Promise<ToolCallResult<unknown>>;

export interface APIMovePageMovePageParentRequest {
  type: "page_id";
  /** (format uuid) */
  page_id: string;
  [key: string]: unknown;
}

export interface APIMovePageMovePageParentRequest2 {
  type: "database_id";
  /** (format uuid) */
  database_id: string;
  [key: string]: unknown;
}

export interface APIMovePageMovePageParentRequest3 {
  type: "workspace";
  [key: string]: unknown;
}

export interface APIMovePageInput {
  /**
   * Identifier for a Notion page
   * (format uuid)
   */
  page_id: string;
  parent: APIMovePageMovePageParentRequest | APIMovePageMovePageParentRequest2 | APIMovePageMovePageParentRequest3 | string;
}

/**
 * Notion | Move a page
 * Error Responses:
 * 400: Bad request
 *
 * The server says that this tool may destroy data.
 */
export function APIMovePage(args: APIMovePageInput): Promise<ToolCallResult<unknown>>;

export interface APIRetrievePageMarkdownInput {
  /**
   * Identifier for a Notion page (or block) to read or update as markdown.
   * (format uuid)
   */
  page_id: string;
  /**
   * Whether to include meeting note transcripts. When false (default), a placeholder with the meeting note
   * URL is shown instead of the full transcript.
   * Default false.
   */
  include_transcript?: boolean;
}

/**
 * Notion | Retrieve a page as Markdown
 * Error Responses:
 * 400: Bad request
 * 403: The integration lacks the read/update content capability required for this page.
 * 404: Page not found or not shared with the integration.
 * 429: Rate limited.
 *
 * The server says that this tool only reads.
 */
export function APIRetrievePageMarkdown(args: APIRetrievePageMarkdownInput): Promise<ToolCallResult<unknown>>;

/** Provide when type is `replace_content`. Replaces the entire page content. */
export interface APIUpdatePageMarkdownReplaceContent {
  /** The complete new page content as enhanced Markdown. */
  new_str: string;
  /** Permit deletion of existing child pages/databases that are no longer present in the new content. */
  allow_deleting_content?: boolean;
  [key: string]: unknown;
}

export interface APIUpdatePageMarkdownContentUpdate {
  /** Exact existing Markdown text to find. */
  old_str: string;
  /** Replacement Markdown text. */
  new_str: string;
  /** Replace every occurrence of old_str instead of just the first (default false). */
  replace_all_matches?: boolean;
  [key: string]: unknown;
}

/** Provide when type is `update_content`. Applies targeted find-and-replace edits. */
export interface APIUpdatePageMarkdownUpdateContent {
  /** Up to 100 find-and-replace edits applied in order. */
  content_updates: APIUpdatePageMarkdownContentUpdate[];
  /** Permit deletion of existing child pages/databases removed by the edits. */
  allow_deleting_content?: boolean;
  [key: string]: unknown;
}

/** Insert at the start or end of the page. Cannot be combined with after. */
export interface APIUpdatePageMarkdownPosition {
  type?: "start" | "end";
  [key: string]: unknown;
}

/** Deprecated. Provide when type is `insert_content`. Inserts Markdown at a position. */
export interface APIUpdatePageMarkdownInsertContent {
  /** Enhanced Markdown to insert. */
  content: string;
  /** Ellipsis-format selection ("start text...end text") to insert after. Cannot be combined with position. */
  after?: string;
  /** Insert at the start or end of the page. Cannot be combined with after. */
  position?: APIUpdatePageMarkdownPosition;
  [key: string]: unknown;
}

/** Deprecated. Provide when type is `replace_content_range`. Replaces a selected range of Markdown. */
export interface APIUpdatePageMarkdownReplaceContentRange {
  /** New Markdown content for the range. */
  content: string;
  /** Ellipsis-format selection ("start text...end text") identifying the range to replace. */
  content_range: string;
  /** Permit deletion of child pages/databases within the replaced range. */
  allow_deleting_content?: boolean;
  [key: string]: unknown;
}

export interface APIUpdatePageMarkdownInput {
  /**
   * Identifier for a Notion page (or block) to read or update as markdown.
   * (format uuid)
   */
  page_id: string;
  /**
   * The kind of edit to apply. Prefer `replace_content` (overwrite the whole page) or `update_content`
   * (targeted find-and-replace). `insert_content` and `replace_content_range` are deprecated.
   */
  type: "replace_content" | "update_content" | "insert_content" | "replace_content_range";
  replace_content?: APIUpdatePageMarkdownReplaceContent | string;
  update_content?: APIUpdatePageMarkdownUpdateContent | string;
  insert_content?: APIUpdatePageMarkdownInsertContent | string;
  replace_content_range?: APIUpdatePageMarkdownReplaceContentRange | string;
}

/**
 * Notion | Update a page's content as Markdown
 * Error Responses:
 * 400: Bad request
 * 403: The integration lacks the read/update content capability required for this page.
 * 404: Page not found or not shared with the integration.
 * 409: Conflict (e.g. row limit exceeded).
 * 429: Rate limited.
 *
 * The server says that this tool may destroy data.
 */
export function APIUpdatePageMarkdown(args: APIUpdatePageMarkdownInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "API-get-user": typeof APIGetUser;
  readonly "API-get-users": typeof APIGetUsers;
  readonly "API-get-self": typeof APIGetSelf;
  readonly "API-post-search": typeof APIPostSearch;
  readonly "API-get-block-children": typeof APIGetBlockChildren;
  readonly "API-patch-block-children": typeof APIPatchBlockChildren;
  readonly "API-retrieve-a-block": typeof APIRetrieveABlock;
  readonly "API-update-a-block": typeof APIUpdateABlock;
  readonly "API-delete-a-block": typeof APIDeleteABlock;
  readonly "API-retrieve-a-page": typeof APIRetrieveAPage;
  readonly "API-patch-page": typeof APIPatchPage;
  readonly "API-post-page": typeof APIPostPage;
  readonly "API-retrieve-a-page-property": typeof APIRetrieveAPageProperty;
  readonly "API-retrieve-a-comment": typeof APIRetrieveAComment;
  readonly "API-create-a-comment": typeof APICreateAComment;
  readonly "API-query-data-source": typeof APIQueryDataSource;
  readonly "API-retrieve-a-data-source": typeof APIRetrieveADataSource;
  readonly "API-update-a-data-source": typeof APIUpdateADataSource;
  readonly "API-create-a-data-source": typeof APICreateADataSource;
  readonly "API-list-data-source-templates": typeof APIListDataSourceTemplates;
  readonly "API-retrieve-a-database": typeof APIRetrieveADatabase;
  readonly "API-move-page": typeof APIMovePage;
  readonly "API-retrieve-page-markdown": typeof APIRetrievePageMarkdown;
  readonly "API-update-page-markdown": typeof APIUpdatePageMarkdown;
};
