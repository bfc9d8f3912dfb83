// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Tool 0. */
export async function getX_e64bf8(args = {}) {
  return callTool("my-server", "get-x", args);
}

/** Tool 1. */
export async function getX_cd341f(args = {}) {
  return callTool("my-server", "get_x", args);
}

/** Tool 2. */
export async function getX_e8860c(args = {}) {
  return callTool("my-server", "get.x", args);
}

/** Tool 3. */
export async function class_(args = {}) {
  return callTool("my-server", "class", args);
}

/** Tool 4. */
export async function _2fa(args = {}) {
  return callTool("my-server", "2fa", args);
}

/** Tool 5. */
export async function Init(args = {}) {
  return callTool("my-server", "__init__", args);
}

/** Tool 6. */
export async function xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx(args = {}) {
  return callTool("my-server", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", args);
}

/** Tool 7. */
export async function xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx(args = {}) {
  return callTool("my-server", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-", args);
}

/** Tool 8. */
export async function getUser(args = {}) {
  return callTool("my-server", "getUser", args);
}

/** Tool 9. */
export async function GetUser(args = {}) {
  return callTool("my-server", "GetUser", args);
}

/** Tool 10. */
export async function getuser(args = {}) {
  return callTool("my-server", "getuser", args);
}

/** Tool 11. */
export async function getXSync(args = {}) {
  return callTool("my-server", "get_x_sync", args);
}

/** Tool 12. */
export async function _e3b0c4(args = {}) {
  return callTool("my-server", "", args);
}

/** Tool 13. */
export async function _3973e0(args = {}) {
  return callTool("my-server", "-", args);
}

/** Tool 14. */
export async function _d2e2ad(args = {}) {
  return callTool("my-server", "_", args);
}

/** Tool 15. */
export async function callTool_(args = {}) {
  return callTool("my-server", "call_tool", args);
}

/** Tool 16. */
export async function list(args = {}) {
  return callTool("my-server", "list", args);
}

/** Tool 17. */
export async function openServer(args = {}) {
  return callTool("my-server", "open_server", args);
}

/** Tool 18. */
export async function All(args = {}) {
  return callTool("my-server", "__all__", args);
}

/** Tool 19. */
export async function Getattr(args = {}) {
  return callTool("my-server", "__getattr__", args);
}

/** Tool 20. */
export async function Params(args = {}) {
  return callTool("my-server", "Params", args);
}

/** Tool 21. */
export async function run(args = {}) {
  return callTool("my-server", "run", args);
}

/** Tool 22. */
export async function match(args = {}) {
  return callTool("my-server", "match", args);
}

/** Tool 23. */
export async function str(args = {}) {
  return callTool("my-server", "str", args);
}

/** Tool 24. */
export async function na_ve(args = {}) {
  return callTool("my-server", "naïve", args);
}

/** Tool 25. */
export async function _cf2abf(args = {}) {
  return callTool("my-server", "日本", args);
}

/** Tool 26. */
export async function a_b_c8687a(args = {}) {
  return callTool("my-server", "a b", args);
}

/** Tool 27. */
export async function has_newline(args = {}) {
  return callTool("my-server", "has\u000anewline", args);
}

/** Tool 28. */
export async function quote___(args = {}) {
  return callTool("my-server", "quote\"'\\", args);
}

/** Tool 29. */
export async function _5ec1f7(args = {}) {
  return callTool("my-server", "..", args);
}

/** Tool 30. */
export async function _etc_passwd(args = {}) {
  return callTool("my-server", "../../etc/passwd", args);
}

/** Tool 31. */
export async function a_b_c14cdd(args = {}) {
  return callTool("my-server", "a/b", args);
}

/** Tool 32. */
export async function print(args = {}) {
  return callTool("my-server", "print", args);
}

/** Tool 33. */
export async function None_(args = {}) {
  return callTool("my-server", "None", args);
}

/** Tool 34. */
export async function self(args = {}) {
  return callTool("my-server", "self", args);
}

/** Tool 35. */
export async function arguments_(args = {}) {
  return callTool("my-server", "arguments", args);
}

/** Tool 36. */
export async function annotations(args = {}) {
  return callTool("my-server", "annotations", args);
}

/** Tool 37. */
export async function pack(args = {}) {
  return callTool("my-server", "pack", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["get-x"]: getX_e64bf8,
  ["get_x"]: getX_cd341f,
  ["get.x"]: getX_e8860c,
  ["class"]: class_,
  ["2fa"]: _2fa,
  ["__init__"]: Init,
  ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,
  ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-"]: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,
  ["getUser"]: getUser,
  ["GetUser"]: GetUser,
  ["getuser"]: getuser,
  ["get_x_sync"]: getXSync,
  [""]: _e3b0c4,
  ["-"]: _3973e0,
  ["_"]: _d2e2ad,
  ["call_tool"]: callTool_,
  ["list"]: list,
  ["open_server"]: openServer,
  ["__all__"]: All,
  ["__getattr__"]: Getattr,
  ["Params"]: Params,
  ["run"]: run,
  ["match"]: match,
  ["str"]: str,
  ["naïve"]: na_ve,
  ["日本"]: _cf2abf,
  ["a b"]: a_b_c8687a,
  ["has\u000anewline"]: has_newline,
  ["quote\"'\\"]: quote___,
  [".."]: _5ec1f7,
  ["../../etc/passwd"]: _etc_passwd,
  ["a/b"]: a_b_c14cdd,
  ["print"]: print,
  ["None"]: None_,
  ["self"]: self,
  ["arguments"]: arguments_,
  ["annotations"]: annotations,
  ["pack"]: pack,
};
