// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** The parameter_names case. */
export async function parameterNames(args = {}) {
  return callTool("odd", "parameter_names", args);
}

/** The defs_named_like_ours case. */
export async function defsNamedLikeOurs(args = {}) {
  return callTool("odd", "defs_named_like_ours", args);
}

/** The recursive case. */
export async function recursive(args = {}) {
  return callTool("odd", "recursive", args);
}

/** The all_of case. */
export async function allOf(args = {}) {
  return callTool("odd", "all_of", args);
}

/** The any_of_root case. */
export async function anyOfRoot(args = {}) {
  return callTool("odd", "any_of_root", args);
}

/** The one_of_members case. */
export async function oneOfMembers(args = {}) {
  return callTool("odd", "one_of_members", args);
}

/** The nullable case. */
export async function nullable(args = {}) {
  return callTool("odd", "nullable", args);
}

/** The odd_enums case. */
export async function oddEnums(args = {}) {
  return callTool("odd", "odd_enums", args);
}

/** The booleans case. */
export async function booleans(args = {}) {
  return callTool("odd", "booleans", args);
}

/** The tuples case. */
export async function tuples(args = {}) {
  return callTool("odd", "tuples", args);
}

/** The maps case. */
export async function maps(args = {}) {
  return callTool("odd", "maps", args);
}

/** The missing_properties case. */
export async function missingProperties(args = {}) {
  return callTool("odd", "missing_properties", args);
}

/** The no_arguments case. */
export async function noArguments(args = {}) {
  return callTool("odd", "no_arguments", args);
}

/** The schema_true case. */
export async function schemaTrue(args = {}) {
  return callTool("odd", "schema_true", args);
}

/** The schema_false case. */
export async function schemaFalse(args = {}) {
  return callTool("odd", "schema_false", args);
}

/** The not_an_object case. */
export async function notAnObject(args = {}) {
  return callTool("odd", "not_an_object", args);
}

/** The external_refs case. */
export async function externalRefs(args = {}) {
  return callTool("odd", "external_refs", args);
}

/** The unknown_dialect case. */
export async function unknownDialect(args = {}) {
  return callTool("odd", "unknown_dialect", args);
}

/** The broken case. */
export async function broken(args = {}) {
  return callTool("odd", "broken", args);
}

/** The broken_properties case. */
export async function brokenProperties(args = {}) {
  return callTool("odd", "broken_properties", args);
}

/** The references case. */
export async function references(args = {}) {
  return callTool("odd", "references", args);
}

/** The constraints case. */
export async function constraints(args = {}) {
  return callTool("odd", "constraints", args);
}

/** No inputSchema at all. */
export async function noSchema(args = {}) {
  return callTool("odd", "no_schema", args);
}

/** null_schema */
export async function nullSchema(args = {}) {
  return callTool("odd", "null_schema", args);
}

/** odd_members */
export async function oddMembers(args = {}) {
  return callTool("odd", "odd_members", args);
}

/** Gives a list. */
export async function listResult(args = {}) {
  return callTool("odd", "list_result", args);
}

/** Gives a tree. */
export async function recursiveResult(args = {}) {
  return callTool("odd", "recursive_result", args);
}

/** Result members with odd names. */
export async function oddResult(args = {}) {
  return callTool("odd", "odd_result", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["parameter_names"]: parameterNames,
  ["defs_named_like_ours"]: defsNamedLikeOurs,
  ["recursive"]: recursive,
  ["all_of"]: allOf,
  ["any_of_root"]: anyOfRoot,
  ["one_of_members"]: oneOfMembers,
  ["nullable"]: nullable,
  ["odd_enums"]: oddEnums,
  ["booleans"]: booleans,
  ["tuples"]: tuples,
  ["maps"]: maps,
  ["missing_properties"]: missingProperties,
  ["no_arguments"]: noArguments,
  ["schema_true"]: schemaTrue,
  ["schema_false"]: schemaFalse,
  ["not_an_object"]: notAnObject,
  ["external_refs"]: externalRefs,
  ["unknown_dialect"]: unknownDialect,
  ["broken"]: broken,
  ["broken_properties"]: brokenProperties,
  ["references"]: references,
  ["constraints"]: constraints,
  ["no_schema"]: noSchema,
  ["null_schema"]: nullSchema,
  ["odd_members"]: oddMembers,
  ["list_result"]: listResult,
  ["recursive_result"]: recursiveResult,
  ["odd_result"]: oddResult,
};
