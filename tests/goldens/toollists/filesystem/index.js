// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Read the complete contents of a file as text. */
export async function readFile(args = {}) {
  return callTool("filesystem", "read_file", args);
}

/** Read the complete contents of a file from the file system as text. */
export async function readTextFile(args = {}) {
  return callTool("filesystem", "read_text_file", args);
}

/** Read a file and return it as a base64-encoded content block with its MIME type. */
export async function readMediaFile(args = {}) {
  return callTool("filesystem", "read_media_file", args);
}

/** Read the contents of multiple files simultaneously. */
export async function readMultipleFiles(args = {}) {
  return callTool("filesystem", "read_multiple_files", args);
}

/** Create a new file or completely overwrite an existing file with new content. */
export async function writeFile(args = {}) {
  return callTool("filesystem", "write_file", args);
}

/** Make line-based edits to a text file. */
export async function editFile(args = {}) {
  return callTool("filesystem", "edit_file", args);
}

/** Create a new directory or ensure a directory exists. */
export async function createDirectory(args = {}) {
  return callTool("filesystem", "create_directory", args);
}

/** Get a detailed listing of all files and directories in a specified path. */
export async function listDirectory(args = {}) {
  return callTool("filesystem", "list_directory", args);
}

/** Get a detailed listing of all files and directories in a specified path, including sizes. */
export async function listDirectoryWithSizes(args = {}) {
  return callTool("filesystem", "list_directory_with_sizes", args);
}

/** Get a recursive tree view of files and directories as a JSON structure. */
export async function directoryTree(args = {}) {
  return callTool("filesystem", "directory_tree", args);
}

/** Move or rename files and directories. */
export async function moveFile(args = {}) {
  return callTool("filesystem", "move_file", args);
}

/** Recursively search for files and directories matching a pattern. */
export async function searchFiles(args = {}) {
  return callTool("filesystem", "search_files", args);
}

/** Retrieve detailed metadata about a file or directory. */
export async function getFileInfo(args = {}) {
  return callTool("filesystem", "get_file_info", args);
}

/** Returns the list of directories that this server is allowed to access. */
export async function listAllowedDirectories(args = {}) {
  return callTool("filesystem", "list_allowed_directories", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["read_file"]: readFile,
  ["read_text_file"]: readTextFile,
  ["read_media_file"]: readMediaFile,
  ["read_multiple_files"]: readMultipleFiles,
  ["write_file"]: writeFile,
  ["edit_file"]: editFile,
  ["create_directory"]: createDirectory,
  ["list_directory"]: listDirectory,
  ["list_directory_with_sizes"]: listDirectoryWithSizes,
  ["directory_tree"]: directoryTree,
  ["move_file"]: moveFile,
  ["search_files"]: searchFiles,
  ["get_file_info"]: getFileInfo,
  ["list_allowed_directories"]: listAllowedDirectories,
};
