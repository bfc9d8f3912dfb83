// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface GetXE64bf8Input {
  value?: string;
}

/** Tool 0. */
export function getX_e64bf8(args?: GetXE64bf8Input): Promise<ToolCallResult<unknown>>;

export interface GetXCd341fInput {
  value?: string;
}

/** Tool 1. */
export function getX_cd341f(args?: GetXCd341fInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "get-x": typeof getX_e64bf8;
  readonly "get_x": typeof getX_cd341f;
};
