// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

/**
 * """
 * import os; os.abort()
 * """\
 */
export interface PlainN {
  /**
   * """
   * import os; os.abort()
   * """\
   */
  "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\"?: string;
  "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \""?: "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\";
}

export interface PlainInput {
  /**
   * """
   * import os; os.abort()
   * """\
   * Default "\"\"\"\nimport os; os.abort()\n\"\"\"\\".
   */
  a?: "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\" | "b" | "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \"";
  /**
   * \x00 \x1b[31m\u202eevil\ud800
   * '''"""\N{DIGIT ONE}\x41{x}%s" + __import__("os").abort() + "
   * Default "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\r\n'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" +
   * __import__(\"os\").abort() + \"". (pattern """ import os; os.abort() """\, format \x00
   * \x1b[31m\u202eevil\ud800 '''"""\N{DIGIT ONE}\x41{x}%s" + __import__("os").abort() + ")
   */
  b?: string;
  /**
   * """
   * import os; os.abort()
   * """\
   */
  n?: PlainN;
}

/**
 * """
 * import os; os.abort()
 * """\
 */
export function plain(args?: PlainInput): Promise<ToolCallResult<unknown>>;

export interface ImportOsOsAbortInput {
  /** Default "\"\"\"\nimport os; os.abort()\n\"\"\"\\". */
  "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\": string;
  "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \""?: string;
}

/**
 * \x00 \x1b[31m\u202eevil\ud800
 * '''"""\N{DIGIT ONE}\x41{x}%s" + __import__("os").abort() + "
 */
export function _import_os__osAbort_______(args: ImportOsOsAbortInput): Promise<ToolCallResult<unknown>>;

export interface _31mEvilNDIGITONEX41XSImportOsAbortResult {
  /**
   * \x00 \x1b[31m\u202eevil\ud800
   * '''"""\N{DIGIT ONE}\x41{x}%s" + __import__("os").abort() + "
   */
  "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\"?: string;
  "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \""?: string;
}

export interface _31mEvilNDIGITONEX41XSImportOsAbortInput {
  /** """" */
  x?: string;
  /** \ */
  y?: unknown;
}

/** ends with a quote" */
export function _31m_evil__________N_DIGIT_ONE__x41_x__s____Import__os__Abort______(
  args?: _31mEvilNDIGITONEX41XSImportOsAbortInput,
): Promise<ToolCallResult<_31mEvilNDIGITONEX41XSImportOsAbortResult>>;

export interface WithIconsAndSpacesInput {
  x?: string;
}

/** Icon. */
export function with_icons_and_spaces(args?: WithIconsAndSpacesInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "plain": typeof plain;
  readonly "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\": typeof _import_os__osAbort_______;
  readonly "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \"": typeof _31m_evil__________N_DIGIT_ONE__x41_x__s____Import__os__Abort______;
  readonly "with icons and spaces": typeof with_icons_and_spaces;
};
