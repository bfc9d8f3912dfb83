// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface ReadFileResult {
  content: string;
}

export interface ReadFileInput {
  path: string;
  /** If provided, returns only the last N lines of the file */
  tail?: number;
  /** If provided, returns only the first N lines of the file */
  head?: number;
}

/**
 * Read the complete contents of a file as text. DEPRECATED: Use read_text_file instead.
 *
 * The server says that this tool only reads.
 */
export function readFile(args: ReadFileInput): Promise<ToolCallResult<ReadFileResult>>;

export interface ReadTextFileResult {
  content: string;
}

export interface ReadTextFileInput {
  path: string;
  /** If provided, returns only the last N lines of the file */
  tail?: number;
  /** If provided, returns only the first N lines of the file */
  head?: number;
}

/**
 * Read the complete contents of a file from the file system as text. Handles various text encodings and
 * provides detailed error messages if the file cannot be read. Use this tool when you need to examine the
 * contents of a single file. Use the 'head' parameter to read only the first N lines of a file, or the 'tail'
 * parameter to read only the last N lines of a file. Operates on the file as text regardless of extension.
 * Only works within allowed directories.
 *
 * The server says that this tool only reads.
 */
export function readTextFile(args: ReadTextFileInput): Promise<ToolCallResult<ReadTextFileResult>>;

export interface ReadMediaFileContent {
  type: "image" | "audio";
  data: string;
  mimeType: string;
}

export interface ReadMediaFileResource {
  uri: string;
  mimeType?: string;
  blob: string;
}

export interface ReadMediaFileContent2 {
  type: "resource";
  resource: ReadMediaFileResource;
}

export interface ReadMediaFileResult {
  content: (ReadMediaFileContent | ReadMediaFileContent2)[];
}

export interface ReadMediaFileInput {
  path: string;
}

/**
 * Read a file and return it as a base64-encoded content block with its MIME type. Image and audio files are
 * returned as image/audio content; any other file type is returned as an embedded resource. Only works within
 * allowed directories.
 *
 * The server says that this tool only reads.
 */
export function readMediaFile(args: ReadMediaFileInput): Promise<ToolCallResult<ReadMediaFileResult>>;

export interface ReadMultipleFilesResult {
  content: string;
}

export interface ReadMultipleFilesInput {
  /**
   * Array of file paths to read. Each path must be a string pointing to a valid file within allowed
   * directories.
   * (items >= 1)
   */
  paths: string[];
}

/**
 * Read the contents of multiple files simultaneously. This is more efficient than reading files one by one
 * when you need to analyze or compare multiple files. Each file's content is returned with its path as a
 * reference. Failed reads for individual files won't stop the entire operation. Only works within allowed
 * directories.
 *
 * The server says that this tool only reads.
 */
export function readMultipleFiles(
  args: ReadMultipleFilesInput,
): Promise<ToolCallResult<ReadMultipleFilesResult>>;

export interface WriteFileResult {
  content: string;
}

export interface WriteFileInput {
  path: string;
  content: string;
}

/**
 * Create a new file or completely overwrite an existing file with new content. Use with caution as it will
 * overwrite existing files without warning. Handles text content with proper encoding. Only works within
 * allowed directories.
 *
 * The server says that this tool may destroy data and is safe to repeat.
 */
export function writeFile(args: WriteFileInput): Promise<ToolCallResult<WriteFileResult>>;

export interface EditFileEdit {
  /** Text to search for - must match exactly */
  oldText: string;
  /** Text to replace with */
  newText: string;
}

export interface EditFileResult {
  content: string;
}

export interface EditFileInput {
  path: string;
  edits: EditFileEdit[];
  /**
   * Preview changes using git-style diff format
   * Default false.
   */
  dryRun?: boolean;
}

/**
 * Make line-based edits to a text file. Each edit replaces exact line sequences with new content. Returns a
 * git-style diff showing the changes made. Only works within allowed directories.
 *
 * The server says that this tool may destroy data.
 */
export function editFile(args: EditFileInput): Promise<ToolCallResult<EditFileResult>>;

export interface CreateDirectoryResult {
  content: string;
}

export interface CreateDirectoryInput {
  path: string;
}

/**
 * Create a new directory or ensure a directory exists. Can create multiple nested directories in one
 * operation. If the directory already exists, this operation will succeed silently. Perfect for setting up
 * directory structures for projects or ensuring required paths exist. Only works within allowed directories.
 *
 * The server says that this tool is safe to repeat.
 */
export function createDirectory(args: CreateDirectoryInput): Promise<ToolCallResult<CreateDirectoryResult>>;

export interface ListDirectoryResult {
  content: string;
}

export interface ListDirectoryInput {
  path: string;
}

/**
 * Get a detailed listing of all files and directories in a specified path. Results clearly distinguish
 * between files and directories with [FILE] and [DIR] prefixes. This tool is essential for understanding
 * directory structure and finding specific files within a directory. Only works within allowed directories.
 *
 * The server says that this tool only reads.
 */
export function listDirectory(args: ListDirectoryInput): Promise<ToolCallResult<ListDirectoryResult>>;

export interface ListDirectoryWithSizesResult {
  content: string;
}

export interface ListDirectoryWithSizesInput {
  path: string;
  /**
   * Sort entries by name or size
   * Default "name".
   */
  sortBy?: "name" | "size";
}

/**
 * Get a detailed listing of all files and directories in a specified path, including sizes. Results clearly
 * distinguish between files and directories with [FILE] and [DIR] prefixes. This tool is useful for
 * understanding directory structure and finding specific files within a directory. Only works within allowed
 * directories.
 *
 * The server says that this tool only reads.
 */
export function listDirectoryWithSizes(
  args: ListDirectoryWithSizesInput,
): Promise<ToolCallResult<ListDirectoryWithSizesResult>>;

export interface DirectoryTreeResult {
  content: string;
}

export interface DirectoryTreeInput {
  path: string;
  /** Default []. */
  excludePatterns?: string[];
}

/**
 * Get a recursive tree view of files and directories as a JSON structure. Each entry includes 'name', 'type'
 * (file/directory), and 'children' for directories. Files have no children array, while directories always
 * have a children array (which may be empty). The output is formatted with 2-space indentation for
 * readability. Only works within allowed directories.
 *
 * The server says that this tool only reads.
 */
export function directoryTree(args: DirectoryTreeInput): Promise<ToolCallResult<DirectoryTreeResult>>;

export interface MoveFileResult {
  content: string;
}

export interface MoveFileInput {
  source: string;
  destination: string;
}

/**
 * Move or rename files and directories. Can move files between directories and rename them in a single
 * operation. If the destination exists, the operation will fail. Works across different directories and can
 * be used for simple renaming within the same directory. Both source and destination must be within allowed
 * directories.
 *
 * The server says that this tool may destroy data.
 */
export function moveFile(args: MoveFileInput): Promise<ToolCallResult<MoveFileResult>>;

export interface SearchFilesResult {
  content: string;
}

export interface SearchFilesInput {
  path: string;
  pattern: string;
  /** Default []. */
  excludePatterns?: string[];
}

/**
 * Recursively search for files and directories matching a pattern. The patterns should be glob-style patterns
 * that match paths relative to the working directory. Use pattern like '*.ext' to match files in current
 * directory, and '**\/*.ext' to match files in all subdirectories. Returns full paths to all matching items.
 * Great for finding files when you don't know their exact location. Only searches within allowed directories.
 *
 * The server says that this tool only reads.
 */
export function searchFiles(args: SearchFilesInput): Promise<ToolCallResult<SearchFilesResult>>;

export interface GetFileInfoResult {
  content: string;
}

export interface GetFileInfoInput {
  path: string;
}

/**
 * Retrieve detailed metadata about a file or directory. Returns comprehensive information including size,
 * creation time, last modified time, permissions, and type. This tool is perfect for understanding file
 * characteristics without reading the actual content. Only works within allowed directories.
 *
 * The server says that this tool only reads.
 */
export function getFileInfo(args: GetFileInfoInput): Promise<ToolCallResult<GetFileInfoResult>>;

export interface ListAllowedDirectoriesResult {
  content: string;
}

/**
 * Returns the list of directories that this server is allowed to access. Subdirectories within these allowed
 * directories are also accessible. Use this to understand which directories and their nested paths are
 * available before trying to access files.
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function listAllowedDirectories(
  args?: Record<string, never>,
): Promise<ToolCallResult<ListAllowedDirectoriesResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "read_file": typeof readFile;
  readonly "read_text_file": typeof readTextFile;
  readonly "read_media_file": typeof readMediaFile;
  readonly "read_multiple_files": typeof readMultipleFiles;
  readonly "write_file": typeof writeFile;
  readonly "edit_file": typeof editFile;
  readonly "create_directory": typeof createDirectory;
  readonly "list_directory": typeof listDirectory;
  readonly "list_directory_with_sizes": typeof listDirectoryWithSizes;
  readonly "directory_tree": typeof directoryTree;
  readonly "move_file": typeof moveFile;
  readonly "search_files": typeof searchFiles;
  readonly "get_file_info": typeof getFileInfo;
  readonly "list_allowed_directories": typeof listAllowedDirectories;
};
