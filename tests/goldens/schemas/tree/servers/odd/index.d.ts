// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

export interface ParameterNamesInput {
  from: string;
  "a-b": string;
  schema?: string;
  self: string;
  model_dump?: string;
  copy?: string;
  params?: string;
  arguments?: string;
  kwargs?: string;
  class?: string;
  None?: string;
  _wire?: string;
  __init__?: string;
  __x?: string;
  __x__?: string;
  alias?: string;
  str?: string;
  list?: string;
  dict?: string;
  a_b?: string;
  from_?: string;
  cls?: string;
  "2nd"?: string;
  ""?: string;
  $filter?: string;
  "naïve"?: string;
  "x.y"?: string;
  import?: string;
  run?: string;
  Params?: string;
  Any?: string;
  json?: string;
  _fill?: string;
  wire?: string;
  mro?: string;
  type?: string;
  model_fields_set?: string;
  items?: string;
  keys?: string;
  name?: string;
  value?: string;
}

/** The parameter_names case. */
export function parameterNames(args: ParameterNamesInput): Promise<ToolCallResult<unknown>>;

export interface DefsNamedLikeOursParams {
  x?: number;
}

export interface DefsNamedLikeOursResult {
  y?: string;
  z?: DefsNamedLikeOursParams;
}

export interface DefsNamedLikeOursModel {
  x?: string;
}

export interface DefsNamedLikeOursAny {
  q?: string;
}

export interface DefsNamedLikeOursInput {
  p: DefsNamedLikeOursParams;
  r?: DefsNamedLikeOursResult;
  m?: DefsNamedLikeOursModel;
  a?: DefsNamedLikeOursAny;
}

/** The defs_named_like_ours case. */
export function defsNamedLikeOurs(args: DefsNamedLikeOursInput): Promise<ToolCallResult<unknown>>;

export interface RecursiveNode {
  name: string;
  children?: RecursiveNode[];
}

export interface RecursiveInput {
  tree?: RecursiveNode;
  self?: RecursiveInput;
  loop?: unknown;
  deep?: unknown[];
}

/** The recursive case. */
export function recursive(args?: RecursiveInput): Promise<ToolCallResult<unknown>>;

export interface AllOfInput {
  /** From the base. */
  a: string;
  b: number;
}

/** The all_of case. */
export function allOf(args: AllOfInput): Promise<ToolCallResult<unknown>>;

export interface AnyOfRootInput {
  id?: string;
  name?: string;
  /** Default false. */
  exact?: boolean;
}

/** The any_of_root case. */
export function anyOfRoot(args?: AnyOfRootInput): Promise<ToolCallResult<unknown>>;

export interface OneOfMembersTarget {
  kind: "page";
  page_id: string;
}

export interface OneOfMembersTarget2 {
  kind: "db";
  db_id: string;
}

export interface OneOfMembersInput {
  target?: OneOfMembersTarget | OneOfMembersTarget2;
  id?: string | number | null;
}

/** The one_of_members case. */
export function oneOfMembers(args?: OneOfMembersInput): Promise<ToolCallResult<unknown>>;

export interface NullableD {
  x?: number;
}

export interface NullableInput {
  a?: string | null;
  b?: number | null;
  c?: null;
  d?: NullableD | null;
}

/** The nullable case. */
export function nullable(args?: NullableInput): Promise<ToolCallResult<unknown>>;

export interface OddEnumsInput {
  mixed?: string | number | boolean | null;
  ints?: 1 | 2;
  flags?: true | 1 | "1";
  words?: "" | "-created" | "created" | "class" | "mro" | "name" | "value" | "2fa" | "a b" | "A" | "a" | "__x__" | "_y_" | "quote\"" | "new\u000aline" | "'''";
  one?: "only";
  object?: Record<string, unknown>;
  none?: unknown;
  null?: null;
  many?: string;
}

/** The odd_enums case. */
export function oddEnums(args?: OddEnumsInput): Promise<ToolCallResult<unknown>>;

export interface BooleansInput {
  anything?: unknown;
  nothing?: unknown;
  list?: unknown[];
  fixed?: [string, number];
}

/** The booleans case. */
export function booleans(args?: BooleansInput): Promise<ToolCallResult<unknown>>;

export interface TuplesInput {
  new?: [string, number, ...null[]];
  old?: [string, number];
}

/** The tuples case. */
export function tuples(args?: TuplesInput): Promise<ToolCallResult<unknown>>;

export interface MapsOfObject {
  n?: number;
}

export interface MapsInput {
  labels?: Record<string, string>;
  pattern?: Record<string, number>;
  free?: Record<string, unknown>;
  of_objects?: Record<string, MapsOfObject>;
}

/** The maps case. */
export function maps(args?: MapsInput): Promise<ToolCallResult<unknown>>;

/** The missing_properties case. */
export function missingProperties(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

/**
 * The no_arguments case.
 *
 * Takes no arguments.
 */
export function noArguments(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

/** The schema_true case. */
export function schemaTrue(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

/** The schema_false case. */
export function schemaFalse(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

/** The not_an_object case. */
export function notAnObject(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

export interface ExternalRefsInput {
  a?: unknown;
  b?: unknown;
  c?: unknown;
  d?: unknown;
}

/** The external_refs case. */
export function externalRefs(args?: ExternalRefsInput): Promise<ToolCallResult<unknown>>;

export interface UnknownDialectInput {
  a?: string;
}

/** The unknown_dialect case. */
export function unknownDialect(args?: UnknownDialectInput): Promise<ToolCallResult<unknown>>;

export interface BrokenInput {
  a: unknown;
  b?: unknown;
  c?: unknown;
  d?: unknown;
  e?: unknown;
  f?: unknown;
  g?: unknown;
  h?: unknown;
  i?: unknown[];
}

/** The broken case. */
export function broken(args: BrokenInput): Promise<ToolCallResult<unknown>>;

/** The broken_properties case. */
export function brokenProperties(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

export interface ReferencesInput {
  "a/b~c"?: string;
  x?: string;
  y?: number;
}

/** The references case. */
export function references(args?: ReferencesInput): Promise<ToolCallResult<unknown>>;

export interface ConstraintsInput {
  /**
   * How much.
   * (> 0, multiple of 0.5)
   */
  n?: number;
  /** (length <= 10, pattern ^[a-z]+$) */
  s?: string;
  /** (format date-time) */
  when?: string;
  /**
   * Maybe.
   * (>= 1)
   */
  opt?: number | null;
  /** Default ["a"]. (items <= 3, items of format uri) */
  tags?: string[];
}

/** The constraints case. */
export function constraints(args?: ConstraintsInput): Promise<ToolCallResult<unknown>>;

/** No inputSchema at all. */
export function noSchema(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

/** Call "null_schema". */
export function nullSchema(args?: Record<string, unknown>): Promise<ToolCallResult<unknown>>;

export interface OddMembersInput {
  a?: string;
}

/** Call "odd_members". */
export function oddMembers(args?: OddMembersInput): Promise<ToolCallResult<unknown>>;

export interface ListResultResult {
  a?: number;
}

/**
 * Gives a list.
 *
 * Takes no arguments.
 */
export function listResult(args?: Record<string, never>): Promise<ToolCallResult<ListResultResult[]>>;

export interface RecursiveResultResult {
  name: string;
  children?: RecursiveResultResult[];
}

/**
 * Gives a tree.
 *
 * Takes no arguments.
 */
export function recursiveResult(args?: Record<string, never>): Promise<ToolCallResult<RecursiveResultResult>>;

export interface OddResultResult {
  from?: string;
  "a-b"?: number;
  model_dump?: string;
  result?: number[];
}

/**
 * Result members with odd names.
 *
 * Takes no arguments.
 */
export function oddResult(args?: Record<string, never>): Promise<ToolCallResult<OddResultResult>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "parameter_names": typeof parameterNames;
  readonly "defs_named_like_ours": typeof defsNamedLikeOurs;
  readonly "recursive": typeof recursive;
  readonly "all_of": typeof allOf;
  readonly "any_of_root": typeof anyOfRoot;
  readonly "one_of_members": typeof oneOfMembers;
  readonly "nullable": typeof nullable;
  readonly "odd_enums": typeof oddEnums;
  readonly "booleans": typeof booleans;
  readonly "tuples": typeof tuples;
  readonly "maps": typeof maps;
  readonly "missing_properties": typeof missingProperties;
  readonly "no_arguments": typeof noArguments;
  readonly "schema_true": typeof schemaTrue;
  readonly "schema_false": typeof schemaFalse;
  readonly "not_an_object": typeof notAnObject;
  readonly "external_refs": typeof externalRefs;
  readonly "unknown_dialect": typeof unknownDialect;
  readonly "broken": typeof broken;
  readonly "broken_properties": typeof brokenProperties;
  readonly "references": typeof references;
  readonly "constraints": typeof constraints;
  readonly "no_schema": typeof noSchema;
  readonly "null_schema": typeof nullSchema;
  readonly "odd_members": typeof oddMembers;
  readonly "list_result": typeof listResult;
  readonly "recursive_result": typeof recursiveResult;
  readonly "odd_result": typeof oddResult;
};
