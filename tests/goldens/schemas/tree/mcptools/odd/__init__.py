"""Odd schemas: each tool is a module with Params, run and, where it is known, Result.

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

__all__ = [
    "all_of",
    "any_of_root",
    "booleans",
    "broken",
    "broken_properties",
    "constraints",
    "defs_named_like_ours",
    "external_refs",
    "list_result",
    "maps",
    "missing_properties",
    "no_arguments",
    "no_schema",
    "not_an_object",
    "null_schema",
    "nullable",
    "odd_enums",
    "odd_members",
    "odd_result",
    "one_of_members",
    "parameter_names",
    "recursive",
    "recursive_result",
    "references",
    "schema_false",
    "schema_true",
    "tuples",
    "unknown_dialect",
]
