"""my-server: 38 tools of the server "my-server".

import servers.my_server_ae348b; await servers.my_server_ae348b.<tool>(...), or <tool>_sync(...) without await.

get_x_e64bf8: Tool 0.
get_x: Tool 1.
get_x_e8860c: Tool 2.
class_: Tool 3.
_2fa: Tool 4.
_init__: Tool 5.
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: Tool 6.
xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_: Tool 7.
getUser: Tool 8.
GetUser: Tool 9.
getuser: Tool 10.
get_x_sync: Tool 11.
_e3b0c4: Tool 12.
_3973e0: Tool 13.
_d2e2ad: Tool 14.
call_tool_: Tool 15.
list_: Tool 16.
open_server: Tool 17.
_all__: Tool 18.
_getattr__: Tool 19.
Params: Tool 20.
run: Tool 21.
match: Tool 22.
str_: Tool 23.
na_ve: Tool 24.
_cf2abf: Tool 25.
a_b_c8687a: Tool 26.
has_newline: Tool 27.
quote___: Tool 28.
_5ec1f7: Tool 29.
_etc_passwd: Tool 30.
a_b_c14cdd: Tool 31.
print: Tool 32.
None_: Tool 33.
self: Tool 34.
arguments: Tool 35.
annotations: Tool 36.
pack_: Tool 37.
"""

from client.packages import open_server

__all__ = [
    "GetUser",
    "GetUser_sync",
    "None_",
    "None__sync",
    "Params",
    "Params_sync",
    "_2fa",
    "_2fa_sync",
    "_3973e0",
    "_3973e0_sync",
    "_5ec1f7",
    "_5ec1f7_sync",
    "_all__",
    "_all___sync",
    "_cf2abf",
    "_cf2abf_sync",
    "_d2e2ad",
    "_d2e2ad_sync",
    "_e3b0c4",
    "_e3b0c4_sync",
    "_etc_passwd",
    "_etc_passwd_sync",
    "_getattr__",
    "_getattr___sync",
    "_init__",
    "_init___sync",
    "a_b_c14cdd",
    "a_b_c14cdd_sync",
    "a_b_c8687a",
    "a_b_c8687a_sync",
    "annotations",
    "annotations_sync",
    "arguments",
    "arguments_sync",
    "call_tool_",
    "call_tool__sync",
    "class_",
    "class__sync",
    "getUser",
    "getUser_sync",
    "get_x",
    "get_x_e64bf8",
    "get_x_e64bf8_sync",
    "get_x_e8860c",
    "get_x_e8860c_sync",
    "get_x_sync",
    "get_x_sync_cd341f",
    "get_x_sync_sync",
    "getuser",
    "getuser_sync",
    "has_newline",
    "has_newline_sync",
    "list_",
    "list__sync",
    "match",
    "match_sync",
    "na_ve",
    "na_ve_sync",
    "open_server",
    "open_server_sync",
    "pack_",
    "pack__sync",
    "print",
    "print_sync",
    "quote___",
    "quote____sync",
    "run",
    "run_sync",
    "self",
    "self_sync",
    "str_",
    "str__sync",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx__sync",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_sync",
]

open_server(__name__, {
    "get_x_e64bf8": ("get_x_e64bf8", "get_x_e64bf8_sync"),
    "get_x": ("get_x", "get_x_sync_cd341f"),
    "get_x_e8860c": ("get_x_e8860c", "get_x_e8860c_sync"),
    "class_": ("class_", "class__sync"),
    "_2fa": ("_2fa", "_2fa_sync"),
    "_init__": ("_init__", "_init___sync"),
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_sync"),
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_": ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx__sync"),
    "getUser": ("getUser_e28ebf", "getUser_sync"),
    "GetUser": ("GetUser_5a42f9", "GetUser_sync"),
    "getuser": ("getuser", "getuser_sync"),
    "get_x_sync": ("get_x_sync", "get_x_sync_sync"),
    "_e3b0c4": ("_e3b0c4", "_e3b0c4_sync"),
    "_3973e0": ("_3973e0", "_3973e0_sync"),
    "_d2e2ad": ("_d2e2ad", "_d2e2ad_sync"),
    "call_tool_": ("call_tool_", "call_tool__sync"),
    "list_": ("list_", "list__sync"),
    "open_server": ("open_server", "open_server_sync"),
    "_all__": ("_all__", "_all___sync"),
    "_getattr__": ("_getattr__", "_getattr___sync"),
    "Params": ("Params", "Params_sync"),
    "run": ("run", "run_sync"),
    "match": ("match", "match_sync"),
    "str_": ("str_", "str__sync"),
    "na_ve": ("na_ve", "na_ve_sync"),
    "_cf2abf": ("_cf2abf", "_cf2abf_sync"),
    "a_b_c8687a": ("a_b_c8687a", "a_b_c8687a_sync"),
    "has_newline": ("has_newline", "has_newline_sync"),
    "quote___": ("quote___", "quote____sync"),
    "_5ec1f7": ("_5ec1f7", "_5ec1f7_sync"),
    "_etc_passwd": ("_etc_passwd", "_etc_passwd_sync"),
    "a_b_c14cdd": ("a_b_c14cdd", "a_b_c14cdd_sync"),
    "print": ("print", "print_sync"),
    "None_": ("None_", "None__sync"),
    "self": ("self", "self_sync"),
    "arguments": ("arguments", "arguments_sync"),
    "annotations": ("annotations", "annotations_sync"),
    "pack_": ("pack_", "pack__sync"),
})
del open_server  # a tool may be called that
