/** Types of `mcp_client.js`: what generated wrappers stand on. */

/** One block of a tool's answer, as the protocol has it. */
export interface ContentBlock {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  [member: string]: unknown;
}

/** The server's own CallToolResult. */
export interface RawToolResult {
  content?: ContentBlock[];
  structuredContent?: unknown;
  isError?: boolean;
  [member: string]: unknown;
}

/** Why a call gave no data. */
export interface ErrorFields {
  type: string;
  message: string;
  retryable: boolean;
}

/** What can be read of every call. */
export interface CallOutcome<Result> {
  readonly ok: boolean;
  /** What the tool returned; throws the typed error of a failed call. */
  readonly data: Result;
  readonly error: ErrorFields | null;
  readonly raw: RawToolResult | null;
  readonly content: ContentBlock[];
  readonly structuredContent: Result | undefined;
  readonly isError: boolean;
  /** All text blocks, joined by newlines. Of a failed call it throws, as `content`, until the code has asked `ok`. */
  readonly text: string;
  /** The data; throws the typed error of a failed call. */
  unwrap(): Result;
  toJSON(): Result;
}

/** Names that are the call's, whatever the data has. */
type Always = "raw" | "structuredContent" | "isError" | "unwrap" | "toJSON";

/** The members of the data that a result shows as its own. */
type Shown<Result> = Result extends string | readonly unknown[]
  ? Result
  : Result extends object
    ? { [Key in keyof Result as Key extends Always ? never : Key]: Result[Key] }
    : unknown;

/** The names that the type of the data declares. */
type Named<Result> = Result extends string | readonly unknown[]
  ? never
  : Result extends object
    ? keyof { [Key in keyof Result as string extends Key ? never : number extends Key ? never : Key]: never }
    : never;

/** What is read of the call: all but what the data has a member for. */
type OfTheCall<Result> = {
  readonly [Key in keyof CallOutcome<Result> as Key extends Exclude<Named<Result>, Always> ? never : Key]: CallOutcome<Result>[Key];
};

/** Outcome of one tool call. A failing tool is a result whose `ok` is false; reading its data throws. */
export type ToolCallResult<Result = unknown> = OfTheCall<Result> & Shown<Result>;

export const ToolCallResult: {
  new (reply: unknown, tool?: string): ToolCallResult;
  [Symbol.hasInstance](value: unknown): value is ToolCallResult;
};

export interface CallRequest {
  serverId: string;
  name: string;
  arguments?: object;
}

/** Call a tool by its own name. Never throws for a failing tool. */
export function callTool(serverId: string, name: string, args?: object): Promise<ToolCallResult>;
export function callTool(request: CallRequest): Promise<ToolCallResult>;

/** A tool call gave no data. The message says why and what to do. */
export class ToolCallError extends Error {
  constructor(message: string, about?: { type?: string; retryable?: boolean; tool?: string; line?: number });
  readonly type: string;
  readonly retryable: boolean;
  readonly tool: string;
  /** Of the code, where it made the call; 0: unknown. */
  readonly line: number;
  toJSON(): ErrorFields;
}
/** The tool itself reported the failure. */
export class ToolError extends ToolCallError {}
/** No such tool in this session. */
export class UnknownTool extends ToolCallError {}
/** The arguments do not fit the tool's schema; nothing was called. */
export class ValidationError extends ToolCallError {}
/** A rule of the operator forbids the call. */
export class PolicyDenied extends ToolCallError {}
/** The server changed the tool, and the operator has not accepted that yet. */
export class ToolPaused extends ToolCallError {}
/** A person refused the call. */
export class ApprovalRejected extends ToolCallError {}
/** Nobody answered in time, which counts as a refusal. */
export class ApprovalExpired extends ToolCallError {}
/** The server took too long. */
export class Timeout extends ToolCallError {}
/** Too many calls. */
export class RateLimit extends ToolCallError {}
/** The server died or could not be reached; it is being restarted. */
export class TransientNetwork extends ToolCallError {}
/** The server answered with a protocol error or with garbage. */
export class UpstreamError extends ToolCallError {}
/** The result is over the limit. */
export class OutputTooLarge extends ToolCallError {}
/** The call came after its execution was over, or from outside of one. */
export class ExecutionEnded extends ToolCallError {}
