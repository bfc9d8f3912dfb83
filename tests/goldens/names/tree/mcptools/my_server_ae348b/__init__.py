"""my-server: each tool is a module with Params, run and, where it is known, Result.

get_x_e64bf8: Tool 0.
get_x: Tool 1.
get_x_e8860c: Tool 2.
class_: Tool 3.
_2fa: Tool 4.
_init__: Tool 5.
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: Tool 6.
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_: Tool 7.
getuser_e28ebf: Tool 8.
getuser_5a42f9: Tool 9.
getuser: Tool 10.
get_x_sync: Tool 11.
_e3b0c4: Tool 12.
_3973e0: Tool 13.
_d2e2ad: Tool 14.
call_tool: Tool 15.
list: Tool 16.
open_server: Tool 17.
_all__: Tool 18.
_getattr__: Tool 19.
params: Tool 20.
run: Tool 21.
match: Tool 22.
str: Tool 23.
na_ve: Tool 24.
_cf2abf: Tool 25.
a_b_c8687a: Tool 26.
has_newline: Tool 27.
quote___: Tool 28.
_5ec1f7: Tool 29.
_etc_passwd: Tool 30.
a_b_c14cdd: Tool 31.
print: Tool 32.
none: Tool 33.
self: Tool 34.
arguments: Tool 35.
annotations: Tool 36.
pack: Tool 37.
"""

__all__ = [
    "_2fa",
    "_3973e0",
    "_5ec1f7",
    "_all__",
    "_cf2abf",
    "_d2e2ad",
    "_e3b0c4",
    "_etc_passwd",
    "_getattr__",
    "_init__",
    "a_b_c14cdd",
    "a_b_c8687a",
    "annotations",
    "arguments",
    "call_tool",
    "class_",
    "get_x",
    "get_x_e64bf8",
    "get_x_e8860c",
    "get_x_sync",
    "getuser",
    "getuser_5a42f9",
    "getuser_e28ebf",
    "has_newline",
    "list",
    "match",
    "na_ve",
    "none",
    "open_server",
    "pack",
    "params",
    "print",
    "quote___",
    "run",
    "self",
    "str",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
]
