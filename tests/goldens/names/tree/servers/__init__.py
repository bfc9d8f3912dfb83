"""MCP servers as Python packages.

my_server_ae348b: my-server, 38 tools
my_server: my_server, 2 tools
class_: class, 2 tools
_9lives: 9lives, 2 tools
_up: ../up, 2 tools
servers: servers, 2 tools
client: Client, 2 tools
_e3b0c4: , 2 tools
"""

from client.packages import open_servers

__all__ = [
    "my_server_ae348b",
    "my_server",
    "class_",
    "_9lives",
    "_up",
    "servers",
    "client",
    "_e3b0c4",
]

open_servers(__name__, __all__)
del open_servers
