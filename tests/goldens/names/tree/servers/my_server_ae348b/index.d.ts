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

export interface GetXE8860cInput {
  value?: string;
}

/** Tool 2. */
export function getX_e8860c(args?: GetXE8860cInput): Promise<ToolCallResult<unknown>>;

export interface ClassInput {
  value?: string;
}

/** Tool 3. */
export function class_(args?: ClassInput): Promise<ToolCallResult<unknown>>;

export interface _2faInput {
  value?: string;
}

/** Tool 4. */
export function _2fa(args?: _2faInput): Promise<ToolCallResult<unknown>>;

export interface InitInput {
  value?: string;
}

/** Tool 5. */
export function Init(args?: InitInput): Promise<ToolCallResult<unknown>>;

export interface Xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_64449b {
  value?: string;
}

/** Tool 6. */
export function xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx(
  args?: Xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_64449b,
): Promise<ToolCallResult<unknown>>;

export interface Xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_198413 {
  value?: string;
}

/** Tool 7. */
export function xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx(
  args?: Xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_198413,
): Promise<ToolCallResult<unknown>>;

export interface GetUserInput2 {
  value?: string;
}

/** Tool 8. */
export function getUser(args?: GetUserInput2): Promise<ToolCallResult<unknown>>;

export interface GetUserInput {
  value?: string;
}

/** Tool 9. */
export function GetUser(args?: GetUserInput): Promise<ToolCallResult<unknown>>;

export interface GetuserInput {
  value?: string;
}

/** Tool 10. */
export function getuser(args?: GetuserInput): Promise<ToolCallResult<unknown>>;

export interface GetXSyncInput {
  value?: string;
}

/** Tool 11. */
export function getXSync(args?: GetXSyncInput): Promise<ToolCallResult<unknown>>;

export interface E3b0c4Input {
  value?: string;
}

/** Tool 12. */
export function _e3b0c4(args?: E3b0c4Input): Promise<ToolCallResult<unknown>>;

export interface _3973e0Input {
  value?: string;
}

/** Tool 13. */
export function _3973e0(args?: _3973e0Input): Promise<ToolCallResult<unknown>>;

export interface D2e2adInput {
  value?: string;
}

/** Tool 14. */
export function _d2e2ad(args?: D2e2adInput): Promise<ToolCallResult<unknown>>;

export interface CallToolInput {
  value?: string;
}

/** Tool 15. */
export function callTool_(args?: CallToolInput): Promise<ToolCallResult<unknown>>;

export interface ListInput {
  value?: string;
}

/** Tool 16. */
export function list(args?: ListInput): Promise<ToolCallResult<unknown>>;

export interface OpenServerInput {
  value?: string;
}

/** Tool 17. */
export function openServer(args?: OpenServerInput): Promise<ToolCallResult<unknown>>;

export interface AllInput {
  value?: string;
}

/** Tool 18. */
export function All(args?: AllInput): Promise<ToolCallResult<unknown>>;

export interface GetattrInput {
  value?: string;
}

/** Tool 19. */
export function Getattr(args?: GetattrInput): Promise<ToolCallResult<unknown>>;

export interface ParamsInput {
  value?: string;
}

/** Tool 20. */
export function Params(args?: ParamsInput): Promise<ToolCallResult<unknown>>;

export interface RunInput {
  value?: string;
}

/** Tool 21. */
export function run(args?: RunInput): Promise<ToolCallResult<unknown>>;

export interface MatchInput {
  value?: string;
}

/** Tool 22. */
export function match(args?: MatchInput): Promise<ToolCallResult<unknown>>;

export interface StrInput {
  value?: string;
}

/** Tool 23. */
export function str(args?: StrInput): Promise<ToolCallResult<unknown>>;

export interface NaVeInput {
  value?: string;
}

/** Tool 24. */
export function na_ve(args?: NaVeInput): Promise<ToolCallResult<unknown>>;

export interface Cf2abfInput {
  value?: string;
}

/** Tool 25. */
export function _cf2abf(args?: Cf2abfInput): Promise<ToolCallResult<unknown>>;

export interface ABC8687aInput {
  value?: string;
}

/** Tool 26. */
export function a_b_c8687a(args?: ABC8687aInput): Promise<ToolCallResult<unknown>>;

export interface HasNewlineInput {
  value?: string;
}

/** Tool 27. */
export function has_newline(args?: HasNewlineInput): Promise<ToolCallResult<unknown>>;

export interface QuoteInput {
  value?: string;
}

/** Tool 28. */
export function quote___(args?: QuoteInput): Promise<ToolCallResult<unknown>>;

export interface _5ec1f7Input {
  value?: string;
}

/** Tool 29. */
export function _5ec1f7(args?: _5ec1f7Input): Promise<ToolCallResult<unknown>>;

export interface EtcPasswdInput {
  value?: string;
}

/** Tool 30. */
export function _etc_passwd(args?: EtcPasswdInput): Promise<ToolCallResult<unknown>>;

export interface ABC14cddInput {
  value?: string;
}

/** Tool 31. */
export function a_b_c14cdd(args?: ABC14cddInput): Promise<ToolCallResult<unknown>>;

export interface PrintInput {
  value?: string;
}

/** Tool 32. */
export function print(args?: PrintInput): Promise<ToolCallResult<unknown>>;

export interface NoneInput {
  value?: string;
}

/** Tool 33. */
export function None_(args?: NoneInput): Promise<ToolCallResult<unknown>>;

export interface SelfInput {
  value?: string;
}

/** Tool 34. */
export function self(args?: SelfInput): Promise<ToolCallResult<unknown>>;

export interface ArgumentsInput {
  value?: string;
}

/** Tool 35. */
export function arguments_(args?: ArgumentsInput): Promise<ToolCallResult<unknown>>;

export interface AnnotationsInput {
  value?: string;
}

/** Tool 36. */
export function annotations(args?: AnnotationsInput): Promise<ToolCallResult<unknown>>;

export interface PackInput {
  value?: string;
}

/** Tool 37. */
export function pack(args?: PackInput): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "get-x": typeof getX_e64bf8;
  readonly "get_x": typeof getX_cd341f;
  readonly "get.x": typeof getX_e8860c;
  readonly "class": typeof class_;
  readonly "2fa": typeof _2fa;
  readonly "__init__": typeof Init;
  readonly "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": typeof xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;
  readonly "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-": typeof xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;
  readonly "getUser": typeof getUser;
  readonly "GetUser": typeof GetUser;
  readonly "getuser": typeof getuser;
  readonly "get_x_sync": typeof getXSync;
  readonly "": typeof _e3b0c4;
  readonly "-": typeof _3973e0;
  readonly "_": typeof _d2e2ad;
  readonly "call_tool": typeof callTool_;
  readonly "list": typeof list;
  readonly "open_server": typeof openServer;
  readonly "__all__": typeof All;
  readonly "__getattr__": typeof Getattr;
  readonly "Params": typeof Params;
  readonly "run": typeof run;
  readonly "match": typeof match;
  readonly "str": typeof str;
  readonly "naïve": typeof na_ve;
  readonly "日本": typeof _cf2abf;
  readonly "a b": typeof a_b_c8687a;
  readonly "has\u000anewline": typeof has_newline;
  readonly "quote\"'\\": typeof quote___;
  readonly "..": typeof _5ec1f7;
  readonly "../../etc/passwd": typeof _etc_passwd;
  readonly "a/b": typeof a_b_c14cdd;
  readonly "print": typeof print;
  readonly "None": typeof None_;
  readonly "self": typeof self;
  readonly "arguments": typeof arguments_;
  readonly "annotations": typeof annotations;
  readonly "pack": typeof pack;
};
