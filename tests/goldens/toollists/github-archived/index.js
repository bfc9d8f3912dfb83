// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Create or update a single file in a GitHub repository */
export async function createOrUpdateFile(args = {}) {
  return callTool("github-archived", "create_or_update_file", args);
}

/** Search for GitHub repositories */
export async function searchRepositories(args = {}) {
  return callTool("github-archived", "search_repositories", args);
}

/** Create a new GitHub repository in your account */
export async function createRepository(args = {}) {
  return callTool("github-archived", "create_repository", args);
}

/** Get the contents of a file or directory from a GitHub repository */
export async function getFileContents(args = {}) {
  return callTool("github-archived", "get_file_contents", args);
}

/** Push multiple files to a GitHub repository in a single commit */
export async function pushFiles(args = {}) {
  return callTool("github-archived", "push_files", args);
}

/** Create a new issue in a GitHub repository */
export async function createIssue(args = {}) {
  return callTool("github-archived", "create_issue", args);
}

/** Create a new pull request in a GitHub repository */
export async function createPullRequest(args = {}) {
  return callTool("github-archived", "create_pull_request", args);
}

/** Fork a GitHub repository to your account or specified organization */
export async function forkRepository(args = {}) {
  return callTool("github-archived", "fork_repository", args);
}

/** Create a new branch in a GitHub repository */
export async function createBranch(args = {}) {
  return callTool("github-archived", "create_branch", args);
}

/** Get list of commits of a branch in a GitHub repository */
export async function listCommits(args = {}) {
  return callTool("github-archived", "list_commits", args);
}

/** List issues in a GitHub repository with filtering options */
export async function listIssues(args = {}) {
  return callTool("github-archived", "list_issues", args);
}

/** Update an existing issue in a GitHub repository */
export async function updateIssue(args = {}) {
  return callTool("github-archived", "update_issue", args);
}

/** Add a comment to an existing issue */
export async function addIssueComment(args = {}) {
  return callTool("github-archived", "add_issue_comment", args);
}

/** Search for code across GitHub repositories */
export async function searchCode(args = {}) {
  return callTool("github-archived", "search_code", args);
}

/** Search for issues and pull requests across GitHub repositories */
export async function searchIssues(args = {}) {
  return callTool("github-archived", "search_issues", args);
}

/** Search for users on GitHub */
export async function searchUsers(args = {}) {
  return callTool("github-archived", "search_users", args);
}

/** Get details of a specific issue in a GitHub repository. */
export async function getIssue(args = {}) {
  return callTool("github-archived", "get_issue", args);
}

/** Get details of a specific pull request */
export async function getPullRequest(args = {}) {
  return callTool("github-archived", "get_pull_request", args);
}

/** List and filter repository pull requests */
export async function listPullRequests(args = {}) {
  return callTool("github-archived", "list_pull_requests", args);
}

/** Create a review on a pull request */
export async function createPullRequestReview(args = {}) {
  return callTool("github-archived", "create_pull_request_review", args);
}

/** Merge a pull request */
export async function mergePullRequest(args = {}) {
  return callTool("github-archived", "merge_pull_request", args);
}

/** Get the list of files changed in a pull request */
export async function getPullRequestFiles(args = {}) {
  return callTool("github-archived", "get_pull_request_files", args);
}

/** Get the combined status of all status checks for a pull request */
export async function getPullRequestStatus(args = {}) {
  return callTool("github-archived", "get_pull_request_status", args);
}

/** Update a pull request branch with the latest changes from the base branch */
export async function updatePullRequestBranch(args = {}) {
  return callTool("github-archived", "update_pull_request_branch", args);
}

/** Get the review comments on a pull request */
export async function getPullRequestComments(args = {}) {
  return callTool("github-archived", "get_pull_request_comments", args);
}

/** Get the reviews on a pull request */
export async function getPullRequestReviews(args = {}) {
  return callTool("github-archived", "get_pull_request_reviews", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["create_or_update_file"]: createOrUpdateFile,
  ["search_repositories"]: searchRepositories,
  ["create_repository"]: createRepository,
  ["get_file_contents"]: getFileContents,
  ["push_files"]: pushFiles,
  ["create_issue"]: createIssue,
  ["create_pull_request"]: createPullRequest,
  ["fork_repository"]: forkRepository,
  ["create_branch"]: createBranch,
  ["list_commits"]: listCommits,
  ["list_issues"]: listIssues,
  ["update_issue"]: updateIssue,
  ["add_issue_comment"]: addIssueComment,
  ["search_code"]: searchCode,
  ["search_issues"]: searchIssues,
  ["search_users"]: searchUsers,
  ["get_issue"]: getIssue,
  ["get_pull_request"]: getPullRequest,
  ["list_pull_requests"]: listPullRequests,
  ["create_pull_request_review"]: createPullRequestReview,
  ["merge_pull_request"]: mergePullRequest,
  ["get_pull_request_files"]: getPullRequestFiles,
  ["get_pull_request_status"]: getPullRequestStatus,
  ["update_pull_request_branch"]: updatePullRequestBranch,
  ["get_pull_request_comments"]: getPullRequestComments,
  ["get_pull_request_reviews"]: getPullRequestReviews,
};
