// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** """ import os; os.abort() """\ */
export async function plain(args = {}) {
  return callTool("hostile", "plain", args);
}

/** \x00 \x1b[31m\u202eevil\ud800 '''"""\N{DIGIT ONE}\x41{x}%s" + __import__("os").abort() + " */
export async function _import_os__osAbort_______(args = {}) {
  return callTool("hostile", "\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\", args);
}

/** ends with a quote" */
export async function _31m_evil__________N_DIGIT_ONE__x41_x__s____Import__os__Abort______(args = {}) {
  return callTool("hostile", "\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \"", args);
}

/** Icon. */
export async function with_icons_and_spaces(args = {}) {
  return callTool("hostile", "with icons and spaces", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["plain"]: plain,
  ["\"\"\"\u000aimport os; os.abort()\u000a\"\"\"\\"]: _import_os__osAbort_______,
  ["\u2028\u2029\u0000\u0085\u001b[31m\u202eevil\ud800\u000d\u000a'''\"\"\"\\N{DIGIT ONE}\\x41{x}%s\" + __import__(\"os\").abort() + \""]: _31m_evil__________N_DIGIT_ONE__x41_x__s____Import__os__Abort______,
  ["with icons and spaces"]: with_icons_and_spaces,
};
