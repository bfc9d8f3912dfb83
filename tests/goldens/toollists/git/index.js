// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Shows the working tree status */
export async function gitStatus(args = {}) {
  return callTool("git", "git_status", args);
}

/** Shows changes in the working directory that are not yet staged */
export async function gitDiffUnstaged(args = {}) {
  return callTool("git", "git_diff_unstaged", args);
}

/** Shows changes that are staged for commit */
export async function gitDiffStaged(args = {}) {
  return callTool("git", "git_diff_staged", args);
}

/** Shows differences between branches or commits */
export async function gitDiff(args = {}) {
  return callTool("git", "git_diff", args);
}

/** Records changes to the repository */
export async function gitCommit(args = {}) {
  return callTool("git", "git_commit", args);
}

/** Adds file contents to the staging area */
export async function gitAdd(args = {}) {
  return callTool("git", "git_add", args);
}

/** Unstages all staged changes */
export async function gitReset(args = {}) {
  return callTool("git", "git_reset", args);
}

/** Shows the commit logs */
export async function gitLog(args = {}) {
  return callTool("git", "git_log", args);
}

/** Creates a new branch from an optional base branch */
export async function gitCreateBranch(args = {}) {
  return callTool("git", "git_create_branch", args);
}

/** Switches branches */
export async function gitCheckout(args = {}) {
  return callTool("git", "git_checkout", args);
}

/** Shows the contents of a commit, or of a file or directory given as <revision>:<path> */
export async function gitShow(args = {}) {
  return callTool("git", "git_show", args);
}

/** List Git branches */
export async function gitBranch(args = {}) {
  return callTool("git", "git_branch", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["git_status"]: gitStatus,
  ["git_diff_unstaged"]: gitDiffUnstaged,
  ["git_diff_staged"]: gitDiffStaged,
  ["git_diff"]: gitDiff,
  ["git_commit"]: gitCommit,
  ["git_add"]: gitAdd,
  ["git_reset"]: gitReset,
  ["git_log"]: gitLog,
  ["git_create_branch"]: gitCreateBranch,
  ["git_checkout"]: gitCheckout,
  ["git_show"]: gitShow,
  ["git_branch"]: gitBranch,
};
