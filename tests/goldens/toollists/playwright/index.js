// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Close the page */
export async function browserClose(args = {}) {
  return callTool("playwright", "browser_close", args);
}

/** Resize the browser window */
export async function browserResize(args = {}) {
  return callTool("playwright", "browser_resize", args);
}

/** Returns all console messages */
export async function browserConsoleMessages(args = {}) {
  return callTool("playwright", "browser_console_messages", args);
}

/** Handle a dialog */
export async function browserHandleDialog(args = {}) {
  return callTool("playwright", "browser_handle_dialog", args);
}

/** Emulate CSS media features for the page, for example switch between the light and dark color scheme. */
export async function browserEmulateMedia(args = {}) {
  return callTool("playwright", "browser_emulate_media", args);
}

/** Evaluate JavaScript expression on page or element */
export async function browserEvaluate(args = {}) {
  return callTool("playwright", "browser_evaluate", args);
}

/** Upload one or multiple files */
export async function browserFileUpload(args = {}) {
  return callTool("playwright", "browser_file_upload", args);
}

/** Drop files or MIME-typed data onto an element, as if dragged from outside the page. */
export async function browserDrop(args = {}) {
  return callTool("playwright", "browser_drop", args);
}

/** Search the accessibility snapshot of the current page for text or a regular expression. */
export async function browserFind(args = {}) {
  return callTool("playwright", "browser_find", args);
}

/** Fill multiple form fields */
export async function browserFillForm(args = {}) {
  return callTool("playwright", "browser_fill_form", args);
}

/** Press a key on the keyboard */
export async function browserPressKey(args = {}) {
  return callTool("playwright", "browser_press_key", args);
}

/** Type text into editable element */
export async function browserType(args = {}) {
  return callTool("playwright", "browser_type", args);
}

/** Navigate to a URL */
export async function browserNavigate(args = {}) {
  return callTool("playwright", "browser_navigate", args);
}

/** Go back to the previous page in the history */
export async function browserNavigateBack(args = {}) {
  return callTool("playwright", "browser_navigate_back", args);
}

/** Returns a numbered list of network requests since loading the page. */
export async function browserNetworkRequests(args = {}) {
  return callTool("playwright", "browser_network_requests", args);
}

/** Returns full details (headers and body) of a single network request, or a single part if `part` is set. */
export async function browserNetworkRequest(args = {}) {
  return callTool("playwright", "browser_network_request", args);
}

/** Run a Playwright code snippet. */
export async function browserRunCodeUnsafe(args = {}) {
  return callTool("playwright", "browser_run_code_unsafe", args);
}

/** Take a screenshot of the current page. */
export async function browserTakeScreenshot(args = {}) {
  return callTool("playwright", "browser_take_screenshot", args);
}

/** Capture accessibility snapshot of the current page, this is better than screenshot */
export async function browserSnapshot(args = {}) {
  return callTool("playwright", "browser_snapshot", args);
}

/** Perform click on a web page */
export async function browserClick(args = {}) {
  return callTool("playwright", "browser_click", args);
}

/** Perform drag and drop between two elements */
export async function browserDrag(args = {}) {
  return callTool("playwright", "browser_drag", args);
}

/** Hover over element on page */
export async function browserHover(args = {}) {
  return callTool("playwright", "browser_hover", args);
}

/** Select an option in a dropdown */
export async function browserSelectOption(args = {}) {
  return callTool("playwright", "browser_select_option", args);
}

/** List, create, close, or select a browser tab. */
export async function browserTabs(args = {}) {
  return callTool("playwright", "browser_tabs", args);
}

/** Wait for text to appear or disappear or a specified time to pass */
export async function browserWaitFor(args = {}) {
  return callTool("playwright", "browser_wait_for", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["browser_close"]: browserClose,
  ["browser_resize"]: browserResize,
  ["browser_console_messages"]: browserConsoleMessages,
  ["browser_handle_dialog"]: browserHandleDialog,
  ["browser_emulate_media"]: browserEmulateMedia,
  ["browser_evaluate"]: browserEvaluate,
  ["browser_file_upload"]: browserFileUpload,
  ["browser_drop"]: browserDrop,
  ["browser_find"]: browserFind,
  ["browser_fill_form"]: browserFillForm,
  ["browser_press_key"]: browserPressKey,
  ["browser_type"]: browserType,
  ["browser_navigate"]: browserNavigate,
  ["browser_navigate_back"]: browserNavigateBack,
  ["browser_network_requests"]: browserNetworkRequests,
  ["browser_network_request"]: browserNetworkRequest,
  ["browser_run_code_unsafe"]: browserRunCodeUnsafe,
  ["browser_take_screenshot"]: browserTakeScreenshot,
  ["browser_snapshot"]: browserSnapshot,
  ["browser_click"]: browserClick,
  ["browser_drag"]: browserDrag,
  ["browser_hover"]: browserHover,
  ["browser_select_option"]: browserSelectOption,
  ["browser_tabs"]: browserTabs,
  ["browser_wait_for"]: browserWaitFor,
};
