// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface GetCurrentTimeResult {
  timezone: string;
  datetime: string;
  day_of_week: string;
  is_dst: boolean;
}

export interface GetCurrentTimeInput {
  /**
   * IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' as local timezone if no
   * timezone provided by the user.
   */
  timezone: string;
}

/**
 * Get current time in a specific timezone
 *
 * The server says that this tool only reads.
 */
export function getCurrentTime(args: GetCurrentTimeInput): Promise<ToolCallResult<GetCurrentTimeResult>>;

export interface ConvertTimeTimeResult {
  timezone: string;
  datetime: string;
  day_of_week: string;
  is_dst: boolean;
}

export interface ConvertTimeResult {
  source: ConvertTimeTimeResult;
  target: ConvertTimeTimeResult;
  time_difference: string;
}

export interface ConvertTimeInput {
  /**
   * Source IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'UTC' as local timezone if no
   * source timezone provided by the user.
   */
  source_timezone: string;
  /** Time to convert in 24-hour format (HH:MM) */
  time: string;
  /**
   * Target IANA timezone name (e.g., 'Asia/Tokyo', 'America/San_Francisco'). Use 'UTC' as local timezone if
   * no target timezone provided by the user.
   */
  target_timezone: string;
}

/**
 * Convert time between timezones
 *
 * The server says that this tool only reads.
 */
export function convertTime(args: ConvertTimeInput): Promise<ToolCallResult<ConvertTimeResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "get_current_time": typeof getCurrentTime;
  readonly "convert_time": typeof convertTime;
};
