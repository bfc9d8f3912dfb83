// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface GitStatusInput {
  repo_path: string;
}

/**
 * Shows the working tree status
 *
 * The server says that this tool only reads.
 */
export function gitStatus(args: GitStatusInput): Promise<ToolCallResult<unknown>>;

export interface GitDiffUnstagedInput {
  repo_path: string;
  /** Default 3. */
  context_lines?: number;
}

/**
 * Shows changes in the working directory that are not yet staged
 *
 * The server says that this tool only reads.
 */
export function gitDiffUnstaged(args: GitDiffUnstagedInput): Promise<ToolCallResult<unknown>>;

export interface GitDiffStagedInput {
  repo_path: string;
  /** Default 3. */
  context_lines?: number;
}

/**
 * Shows changes that are staged for commit
 *
 * The server says that this tool only reads.
 */
export function gitDiffStaged(args: GitDiffStagedInput): Promise<ToolCallResult<unknown>>;

export interface GitDiffInput {
  repo_path: string;
  target: string;
  /** Default 3. */
  context_lines?: number;
}

/**
 * Shows differences between branches or commits
 *
 * The server says that this tool only reads.
 */
export function gitDiff(args: GitDiffInput): Promise<ToolCallResult<unknown>>;

export interface GitCommitInput {
  repo_path: string;
  message: string;
}

/** Records changes to the repository */
export function gitCommit(args: GitCommitInput): Promise<ToolCallResult<unknown>>;

export interface GitAddInput {
  repo_path: string;
  /** (items >= 1) */
  files: string[];
}

/**
 * Adds file contents to the staging area
 *
 * The server says that this tool is safe to repeat.
 */
export function gitAdd(args: GitAddInput): Promise<ToolCallResult<unknown>>;

export interface GitResetInput {
  repo_path: string;
}

/**
 * Unstages all staged changes
 *
 * The server says that this tool may destroy data and is safe to repeat.
 */
export function gitReset(args: GitResetInput): Promise<ToolCallResult<unknown>>;

export interface GitLogInput {
  repo_path: string;
  /** Default 10. */
  max_count?: number;
  /**
   * Start timestamp for filtering commits. Accepts: ISO 8601 format (e.g., '2024-01-15T14:30:25'), relative
   * dates (e.g., '2 weeks ago', 'yesterday'), or absolute dates (e.g., '2024-01-15', 'Jan 15 2024')
   */
  start_timestamp?: string | null;
  /**
   * End timestamp for filtering commits. Accepts: ISO 8601 format (e.g., '2024-01-15T14:30:25'), relative
   * dates (e.g., '2 weeks ago', 'yesterday'), or absolute dates (e.g., '2024-01-15', 'Jan 15 2024')
   */
  end_timestamp?: string | null;
}

/**
 * Shows the commit logs
 *
 * The server says that this tool only reads.
 */
export function gitLog(args: GitLogInput): Promise<ToolCallResult<unknown>>;

export interface GitCreateBranchInput {
  repo_path: string;
  branch_name: string;
  base_branch?: string | null;
}

/** Creates a new branch from an optional base branch */
export function gitCreateBranch(args: GitCreateBranchInput): Promise<ToolCallResult<unknown>>;

export interface GitCheckoutInput {
  repo_path: string;
  branch_name: string;
}

/** Switches branches */
export function gitCheckout(args: GitCheckoutInput): Promise<ToolCallResult<unknown>>;

export interface GitShowInput {
  repo_path: string;
  revision: string;
}

/**
 * Shows the contents of a commit, or of a file or directory given as <revision>:<path>
 *
 * The server says that this tool only reads.
 */
export function gitShow(args: GitShowInput): Promise<ToolCallResult<unknown>>;

export interface GitBranchInput {
  /** The path to the Git repository. */
  repo_path: string;
  /** Whether to list local branches ('local'), remote branches ('remote') or all branches('all'). */
  branch_type: string;
  /**
   * The commit sha that branch should contain. Do not pass anything to this param if no commit sha is
   * specified
   */
  contains?: string | null;
  /**
   * The commit sha that branch should NOT contain. Do not pass anything to this param if no commit sha is
   * specified
   */
  not_contains?: string | null;
}

/**
 * List Git branches
 *
 * The server says that this tool only reads.
 */
export function gitBranch(args: GitBranchInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "git_status": typeof gitStatus;
  readonly "git_diff_unstaged": typeof gitDiffUnstaged;
  readonly "git_diff_staged": typeof gitDiffStaged;
  readonly "git_diff": typeof gitDiff;
  readonly "git_commit": typeof gitCommit;
  readonly "git_add": typeof gitAdd;
  readonly "git_reset": typeof gitReset;
  readonly "git_log": typeof gitLog;
  readonly "git_create_branch": typeof gitCreateBranch;
  readonly "git_checkout": typeof gitCheckout;
  readonly "git_show": typeof gitShow;
  readonly "git_branch": typeof gitBranch;
};
