"""Odd schemas: 28 tools of the server "odd".

import servers.odd; await servers.odd.<tool>(...), or <tool>_sync(...) without await.

parameter_names: The parameter_names case.
defs_named_like_ours: The defs_named_like_ours case.
recursive: The recursive case.
all_of: The all_of case.
any_of_root: The any_of_root case.
one_of_members: The one_of_members case.
nullable: The nullable case.
odd_enums: The odd_enums case.
booleans: The booleans case.
tuples: The tuples case.
maps: The maps case.
missing_properties: The missing_properties case.
no_arguments: The no_arguments case.
schema_true: The schema_true case.
schema_false: The schema_false case.
not_an_object: The not_an_object case.
external_refs: The external_refs case.
unknown_dialect: The unknown_dialect case.
broken: The broken case.
broken_properties: The broken_properties case.
references: The references case.
constraints: The constraints case.
no_schema: No inputSchema at all.
null_schema: null_schema
odd_members: odd_members
list_result: Gives a list.
recursive_result: Gives a tree.
odd_result: Result members with odd names.
"""

from client.packages import open_server

__all__ = [
    "all_of",
    "all_of_sync",
    "any_of_root",
    "any_of_root_sync",
    "booleans",
    "booleans_sync",
    "broken",
    "broken_properties",
    "broken_properties_sync",
    "broken_sync",
    "constraints",
    "constraints_sync",
    "defs_named_like_ours",
    "defs_named_like_ours_sync",
    "external_refs",
    "external_refs_sync",
    "list_result",
    "list_result_sync",
    "maps",
    "maps_sync",
    "missing_properties",
    "missing_properties_sync",
    "no_arguments",
    "no_arguments_sync",
    "no_schema",
    "no_schema_sync",
    "not_an_object",
    "not_an_object_sync",
    "null_schema",
    "null_schema_sync",
    "nullable",
    "nullable_sync",
    "odd_enums",
    "odd_enums_sync",
    "odd_members",
    "odd_members_sync",
    "odd_result",
    "odd_result_sync",
    "one_of_members",
    "one_of_members_sync",
    "parameter_names",
    "parameter_names_sync",
    "recursive",
    "recursive_result",
    "recursive_result_sync",
    "recursive_sync",
    "references",
    "references_sync",
    "schema_false",
    "schema_false_sync",
    "schema_true",
    "schema_true_sync",
    "tuples",
    "tuples_sync",
    "unknown_dialect",
    "unknown_dialect_sync",
]

open_server(__name__, {
    "parameter_names": ("parameter_names", "parameter_names_sync"),
    "defs_named_like_ours": ("defs_named_like_ours", "defs_named_like_ours_sync"),
    "recursive": ("recursive", "recursive_sync"),
    "all_of": ("all_of", "all_of_sync"),
    "any_of_root": ("any_of_root", "any_of_root_sync"),
    "one_of_members": ("one_of_members", "one_of_members_sync"),
    "nullable": ("nullable", "nullable_sync"),
    "odd_enums": ("odd_enums", "odd_enums_sync"),
    "booleans": ("booleans", "booleans_sync"),
    "tuples": ("tuples", "tuples_sync"),
    "maps": ("maps", "maps_sync"),
    "missing_properties": ("missing_properties", "missing_properties_sync"),
    "no_arguments": ("no_arguments", "no_arguments_sync"),
    "schema_true": ("schema_true", "schema_true_sync"),
    "schema_false": ("schema_false", "schema_false_sync"),
    "not_an_object": ("not_an_object", "not_an_object_sync"),
    "external_refs": ("external_refs", "external_refs_sync"),
    "unknown_dialect": ("unknown_dialect", "unknown_dialect_sync"),
    "broken": ("broken", "broken_sync"),
    "broken_properties": ("broken_properties", "broken_properties_sync"),
    "references": ("references", "references_sync"),
    "constraints": ("constraints", "constraints_sync"),
    "no_schema": ("no_schema", "no_schema_sync"),
    "null_schema": ("null_schema", "null_schema_sync"),
    "odd_members": ("odd_members", "odd_members_sync"),
    "list_result": ("list_result", "list_result_sync"),
    "recursive_result": ("recursive_result", "recursive_result_sync"),
    "odd_result": ("odd_result", "odd_result_sync"),
})
del open_server  # a tool may be called that
