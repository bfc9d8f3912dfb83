// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

/**
 * Close the page
 *
 * Takes no arguments.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserClose(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface BrowserResizeInput {
  /** Width of the browser window */
  width: number;
  /** Height of the browser window */
  height: number;
}

/**
 * Resize the browser window
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserResize(args: BrowserResizeInput): Promise<ToolCallResult<unknown>>;

export interface BrowserConsoleMessagesInput {
  /**
   * Level of the console messages to return. Each level includes the messages of more severe levels. Defaults
   * to "info".
   * Default "info".
   */
  level: "error" | "warning" | "info" | "debug";
  /**
   * Return all console messages since the beginning of the session, not just since the last navigation.
   * Defaults to false.
   */
  all?: boolean;
  /**
   * File name to save the console messages to. Relative file names are resolved against the workspace root.
   * If not provided, messages are returned as text.
   */
  filename?: string;
}

/**
 * Returns all console messages
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserConsoleMessages(args: BrowserConsoleMessagesInput): Promise<ToolCallResult<unknown>>;

export interface BrowserHandleDialogInput {
  /** Whether to accept the dialog. */
  accept: boolean;
  /** The text of the prompt in case of a prompt dialog. */
  promptText?: string;
}

/**
 * Handle a dialog
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserHandleDialog(args: BrowserHandleDialogInput): Promise<ToolCallResult<unknown>>;

export interface BrowserEmulateMediaInput {
  /** Emulates the prefers-color-scheme media feature */
  colorScheme?: "light" | "dark" | null;
  /** Emulates the prefers-reduced-motion media feature */
  reducedMotion?: "reduce" | "no-preference" | null;
  /** Emulates the forced-colors media feature */
  forcedColors?: "active" | "none" | null;
  /** Emulates the prefers-contrast media feature */
  contrast?: "more" | "no-preference" | null;
  /** Changes the CSS media type of the page */
  media?: "screen" | "print" | null;
}

/**
 * Emulate CSS media features for the page, for example switch between the light and dark color scheme.
 * Omitted parameters are left unchanged; null clears an override.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserEmulateMedia(args?: BrowserEmulateMediaInput): Promise<ToolCallResult<unknown>>;

export interface BrowserEvaluateInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target?: string;
  /** () => { /* code *\/ } or (element) => { /* code *\/ } when element is provided */
  function: string;
  /**
   * File name to save the result to. Relative file names are resolved against the workspace root. If not
   * provided, result is returned as text.
   */
  filename?: string;
}

/**
 * Evaluate JavaScript expression on page or element
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserEvaluate(args: BrowserEvaluateInput): Promise<ToolCallResult<unknown>>;

export interface BrowserFileUploadInput {
  /**
   * The absolute paths to the files to upload. Can be single file or multiple files. If omitted, file chooser
   * is cancelled.
   */
  paths?: string[];
}

/**
 * Upload one or multiple files
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserFileUpload(args?: BrowserFileUploadInput): Promise<ToolCallResult<unknown>>;

export interface BrowserDropInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target: string;
  /** Absolute paths to files to drop onto the element. */
  paths?: string[];
  /**
   * Data to drop, as a map of MIME type to string value (e.g. {"text/plain": "hello", "text/uri-list":
   * "https://example.com"}).
   */
  data?: Record<string, string>;
}

/**
 * Drop files or MIME-typed data onto an element, as if dragged from outside the page. At least one of "paths"
 * or "data" must be provided.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserDrop(args: BrowserDropInput): Promise<ToolCallResult<unknown>>;

export interface BrowserFindInput {
  /**
   * Plain text to search for in the page snapshot (case-insensitive substring match). Provide either text or
   * regex, not both.
   */
  text?: string;
  /**
   * Regular expression to search for in the page snapshot. Matching is case-sensitive by default; wrap the
   * pattern in slashes to add flags, e.g. "/error/i" for case-insensitive. Provide either text or regex, not
   * both.
   */
  regex?: string;
  /**
   * Save results to a file instead of returning them in the response. Relative file names are resolved
   * against the workspace root.
   */
  filename?: string;
}

/**
 * Search the accessibility snapshot of the current page for text or a regular expression. Returns matching
 * snapshot nodes with a few lines of surrounding context (like search snippets), each shown under its path
 * from the root of the tree, which is cheaper than capturing the whole snapshot when you only need to locate
 * an element and its ref.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserFind(args?: BrowserFindInput): Promise<ToolCallResult<unknown>>;

export interface BrowserFillFormField {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target: string;
  /** Human-readable field name */
  name: string;
  /** Type of the field */
  type: "textbox" | "checkbox" | "radio" | "combobox" | "slider";
  /**
   * Value to fill in the field. If the field is a checkbox, the value should be `true` or `false`. If the
   * field is a combobox, the value should be the text of the option.
   */
  value: string;
}

export interface BrowserFillFormInput {
  /** Fields to fill in */
  fields: BrowserFillFormField[];
}

/**
 * Fill multiple form fields
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserFillForm(args: BrowserFillFormInput): Promise<ToolCallResult<unknown>>;

export interface BrowserPressKeyInput {
  /** Name of the key to press or a character to generate, such as `ArrowLeft` or `a` */
  key: string;
}

/**
 * Press a key on the keyboard
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserPressKey(args: BrowserPressKeyInput): Promise<ToolCallResult<unknown>>;

export interface BrowserTypeInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target: string;
  /** Text to type into the element */
  text: string;
  /** Whether to submit entered text (press Enter after) */
  submit?: boolean;
  /**
   * Whether to type one character at a time. Useful for triggering key handlers in the page. By default
   * entire text is filled in at once.
   */
  slowly?: boolean;
}

/**
 * Type text into editable element
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserType(args: BrowserTypeInput): Promise<ToolCallResult<unknown>>;

export interface BrowserNavigateInput {
  /** The URL to navigate to */
  url: string;
}

/**
 * Navigate to a URL
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserNavigate(args: BrowserNavigateInput): Promise<ToolCallResult<unknown>>;

/**
 * Go back to the previous page in the history
 *
 * Takes no arguments.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserNavigateBack(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface BrowserNetworkRequestsInput {
  /**
   * Whether to include successful static resources like images, fonts, scripts, etc. Defaults to false.
   * Default false.
   */
  static: boolean;
  /** Only return requests whose URL matches this regexp (e.g. "/api/.*user"). */
  filter?: string;
  /**
   * File name to save the network requests to. Relative file names are resolved against the workspace root.
   * If not provided, requests are returned as text.
   */
  filename?: string;
}

/**
 * Returns a numbered list of network requests since loading the page. Use browser_network_request with the
 * number to get full details.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserNetworkRequests(args: BrowserNetworkRequestsInput): Promise<ToolCallResult<unknown>>;

export interface BrowserNetworkRequestInput {
  /**
   * 1-based index of the request, as printed by browser_network_requests.
   * (>= 1)
   */
  index: number;
  /** Return only this part of the request. Omit to return full details. */
  part?: "request-headers" | "request-body" | "response-headers" | "response-body";
  /**
   * File name to save the result to. Relative file names are resolved against the workspace root. If not
   * provided, output is returned as text.
   */
  filename?: string;
}

/**
 * Returns full details (headers and body) of a single network request, or a single part if `part` is set. Use
 * the number from browser_network_requests.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserNetworkRequest(args: BrowserNetworkRequestInput): Promise<ToolCallResult<unknown>>;

export interface BrowserRunCodeUnsafeInput {
  /**
   * A JavaScript function containing Playwright code to execute. It will be invoked with a single argument,
   * page, which you can use for any page interaction. For example: `async (page) => { await
   * page.getByRole('button', { name: 'Submit' }).click(); return await page.title(); }`
   */
  code?: string;
  /**
   * Load code from the specified file. Relative file names are resolved against the workspace root. If both
   * code and filename are provided, code will be ignored.
   */
  filename?: string;
}

/**
 * Run a Playwright code snippet. Unsafe: executes arbitrary JavaScript in the Playwright server process and
 * is RCE-equivalent.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserRunCodeUnsafe(args?: BrowserRunCodeUnsafeInput): Promise<ToolCallResult<unknown>>;

export interface BrowserTakeScreenshotInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target?: string;
  /** Image format for the screenshot. If unset, inferred from the filename extension, otherwise png. */
  type?: "png" | "jpeg" | "webp";
  /**
   * File name to save the screenshot to. Relative file names are resolved against the workspace root. If not
   * specified, the screenshot is saved into the output directory as `page-{timestamp}.{png|jpeg|webp}`.
   */
  filename?: string;
  /**
   * When true, takes a screenshot of the full scrollable page, instead of the currently visible viewport.
   * Cannot be used with element screenshots.
   */
  fullPage?: boolean;
  /**
   * Image resolution scale. "css" produces a screenshot sized in CSS pixels (smaller, consistent across
   * devices). "device" produces a high-resolution screenshot using device pixels (larger, accounts for the
   * device pixel ratio). Default is css.
   * Default "css".
   */
  scale: "css" | "device";
}

/**
 * Take a screenshot of the current page. You can't perform actions based on the screenshot, use
 * browser_snapshot for actions.
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserTakeScreenshot(args: BrowserTakeScreenshotInput): Promise<ToolCallResult<unknown>>;

export interface BrowserSnapshotInput {
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target?: string;
  /**
   * Save snapshot to a file instead of returning it in the response. Relative file names are resolved against
   * the workspace root.
   */
  filename?: string;
  /** Limit the depth of the snapshot tree */
  depth?: number;
  /**
   * Include each element's bounding box as [box=x,y,width,height] in the snapshot. Coordinates are
   * viewport-relative, in CSS pixels (Element.getBoundingClientRect)
   */
  boxes?: boolean;
}

/**
 * Capture accessibility snapshot of the current page, this is better than screenshot
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserSnapshot(args?: BrowserSnapshotInput): Promise<ToolCallResult<unknown>>;

export interface BrowserClickInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target: string;
  /** Whether to perform a double click instead of a single click */
  doubleClick?: boolean;
  /** Button to click, defaults to left */
  button?: "left" | "right" | "middle";
  /** Modifier keys to press */
  modifiers?: ("Alt" | "Control" | "ControlOrMeta" | "Meta" | "Shift")[];
}

/**
 * Perform click on a web page
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserClick(args: BrowserClickInput): Promise<ToolCallResult<unknown>>;

export interface BrowserDragInput {
  /** Human-readable source element description used to obtain the permission to interact with the element */
  startElement?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  startTarget: string;
  /** Human-readable target element description used to obtain the permission to interact with the element */
  endElement?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  endTarget: string;
}

/**
 * Perform drag and drop between two elements
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserDrag(args: BrowserDragInput): Promise<ToolCallResult<unknown>>;

export interface BrowserHoverInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target: string;
}

/**
 * Hover over element on page
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserHover(args: BrowserHoverInput): Promise<ToolCallResult<unknown>>;

export interface BrowserSelectOptionInput {
  /** Human-readable element description used to obtain permission to interact with the element */
  element?: string;
  /** Exact target element reference from the page snapshot, or a unique element selector */
  target: string;
  /** Array of values to select in the dropdown. This can be a single value or multiple values. */
  values: string[];
}

/**
 * Select an option in a dropdown
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserSelectOption(args: BrowserSelectOptionInput): Promise<ToolCallResult<unknown>>;

export interface BrowserTabsInput {
  /** Operation to perform */
  action: "list" | "new" | "close" | "select";
  /** Tab index, used for close/select. If omitted for close, current tab is closed. */
  index?: number;
  /** URL to navigate to in the new tab, used for new. */
  url?: string;
}

/**
 * List, create, close, or select a browser tab.
 *
 * The server says that this tool may destroy data and reaches the outside world.
 */
export function browserTabs(args: BrowserTabsInput): Promise<ToolCallResult<unknown>>;

export interface BrowserWaitForInput {
  /** The time to wait in seconds, at most 30 */
  time?: number;
  /** The text to wait for */
  text?: string;
  /** The text to wait for to disappear */
  textGone?: string;
}

/**
 * Wait for text to appear or disappear or a specified time to pass
 *
 * The server says that this tool only reads and reaches the outside world.
 */
export function browserWaitFor(args?: BrowserWaitForInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "browser_close": typeof browserClose;
  readonly "browser_resize": typeof browserResize;
  readonly "browser_console_messages": typeof browserConsoleMessages;
  readonly "browser_handle_dialog": typeof browserHandleDialog;
  readonly "browser_emulate_media": typeof browserEmulateMedia;
  readonly "browser_evaluate": typeof browserEvaluate;
  readonly "browser_file_upload": typeof browserFileUpload;
  readonly "browser_drop": typeof browserDrop;
  readonly "browser_find": typeof browserFind;
  readonly "browser_fill_form": typeof browserFillForm;
  readonly "browser_press_key": typeof browserPressKey;
  readonly "browser_type": typeof browserType;
  readonly "browser_navigate": typeof browserNavigate;
  readonly "browser_navigate_back": typeof browserNavigateBack;
  readonly "browser_network_requests": typeof browserNetworkRequests;
  readonly "browser_network_request": typeof browserNetworkRequest;
  readonly "browser_run_code_unsafe": typeof browserRunCodeUnsafe;
  readonly "browser_take_screenshot": typeof browserTakeScreenshot;
  readonly "browser_snapshot": typeof browserSnapshot;
  readonly "browser_click": typeof browserClick;
  readonly "browser_drag": typeof browserDrag;
  readonly "browser_hover": typeof browserHover;
  readonly "browser_select_option": typeof browserSelectOption;
  readonly "browser_tabs": typeof browserTabs;
  readonly "browser_wait_for": typeof browserWaitFor;
};
