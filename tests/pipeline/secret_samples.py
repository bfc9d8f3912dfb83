"""What must be redacted, what must not, and pieces of text to build hostile streams from. All values are made up."""

from __future__ import annotations

from typing import Final

_BODY: Final = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PRIVATE_KEY: Final = "\n".join([
    "-----BEGIN RSA PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0123456789ABCDEF", "",
    *([_BODY] * 20), "dGhlIGVuZA==", "-----END RSA PRIVATE KEY-----",
])  # fmt: skip


def _joined(*parts: str) -> str:
    """Joined here, so that this file holds nothing that another scanner takes for a secret."""
    return "".join(parts)


LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
JWT: Final = _joined("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NTY3ODkwIn0", ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9Pl")

TOKENS: Final = {
    "moonpool_key": _joined("sk-local-", LETTERS[:43]),
    "baponi_key": _joined("sk-us-", LETTERS[:16]),
    "aws_access_key": _joined("AKIA", "IOSFODNN7EXAMPLE"),
    "github_fine_grained_pat": _joined("github_pat_", LETTERS),
    "github_pat": _joined("ghp_", LETTERS[:36]),
    "github_oauth": _joined("ghs_", LETTERS[:36]),
    "gitlab_token": _joined("glpat-", LETTERS[:20]),
    "anthropic_api_key": _joined("sk-ant-", "api03-", LETTERS[:40]),
    "openai_api_key": _joined("sk-proj-", LETTERS[:40]),
    "google_api_key": _joined("AIza", LETTERS[:35]),
    "google_oauth": _joined("ya29.", LETTERS[:40]),
    "slack_token": _joined("xoxb-", "123456789012-", LETTERS[:24]),
    "stripe_key": _joined("sk_live_", LETTERS[:24]),
    "npm_token": _joined("npm_", LETTERS[:36]),
    "pypi_token": _joined("pypi-", LETTERS),
    "huggingface_token": _joined("hf_", LETTERS[:34]),
    "docker_token": _joined("dckr_pat_", LETTERS[:27]),
    "digitalocean_token": _joined("dop_v1_", "0123456789abcdef" * 4),
    "sendgrid_key": _joined("SG.", LETTERS[:22], ".", LETTERS[:43]),
    "shopify_token": _joined("shpat_", "0123456789abcdef" * 2),
    "vault_token": _joined("hvs.", LETTERS[:30]),
    "age_key": _joined("AGE-SECRET-KEY-1", LETTERS[26:36] * 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKL"),
    "jwt": JWT,
    "private_key": PRIVATE_KEY,
}

# (text with the secret in «», kind)
FIRES: Final = [
    ("DB_PASSWORD=«hunter2»", "password"),
    ("GITHUB_TOKEN=«abc»", "secret"),
    ("AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX»", "secret"),
    ("MY_API_KEY=«k3y»", "secret"),
    ('{"password": "«x»"}', "password"),
    ("TOKEN=«abc»", "secret"),
    ("MY_TOKEN2=«abc»", "secret"),
    ("_KEY=«abc1»", "secret"),
    ("APIKEY1='«abc»'", "secret"),
    ("password=«abc1\x0bx1» y", "password"),
    ("export GH_TOKEN='«two words»'", "secret"),
    ("docker run -e API_SECRET=«xyz» -p 80:80 img", "secret"),
    ("PGPASSWORD=«x;y&z» psql", "password"),
    ('DB_PASS="«a b»"', "password"),
    ("{'password': '«geheim»'}", "password"),
    (r"\"password\": \"«hunter2»\"", "password"),
    (r'{"client_secret": "«a\"b4444»"}', "secret"),
    ('"accessToken":"«abcd1234»"', "secret"),
    ("password: «hunter2»", "password"),
    ("passwd: «hunter2»", "password"),
    ("db/passwd=«hunter2»", "password"),
    ("MYSQL_PASSWD=«abc»", "password"),
    ("    db_password: «geheim»", "password"),
    ("password: '«two words»' # a comment", "password"),
    ("passphrase = «correct7»", "password"),
    ("aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG»", "secret"),
    ("'password' => '«geheim»',", "password"),
    ('password: str = "«geheim»"', "password"),
    ('var apiKey := "«geheim»"', "secret"),
    ("GET /cb?access_token=«abc123456»&x=1", "secret"),
    ("Server=db;Password=«hunter2»;Encrypt=true", "password"),
    ("curl --token «abcd1234efgh» url", "secret"),
    ("mysql --password=«s3cret» x", "password"),
    ("<ns:Password>«hunter2»</ns:Password>", "password"),
    ("Authorization: Bearer «abcdef»", "authorization"),
    ("authorization: bearer «abcdef»", "authorization"),
    ('-H "Authorization: Basic «dXNlcjpwYXNz»"', "authorization"),
    ('{"Authorization": "Bearer «abc.def»"}', "authorization"),
    ("sent Bearer «abcdefgh12345» to it", "authorization"),
    ("X-Api-Key: «abc123456»", "secret"),
    ("https://user:«pass»@host/x", "basic_auth_url"),
    ("HTTPS://u:«p»@h", "basic_auth_url"),
    ("redis://:«p@ss»@localhost:6379/0", "basic_auth_url"),
    ('"auths": {"r": {"auth": "«dXNlcjpwYXNz1»"}}', "secret"),
    (f"key\\n«{TOKENS['github_pat']}»\\n", "github_pat"),
    (f"\x1b[31m«{TOKENS['aws_access_key']}»\x1b[0m", "aws_access_key"),
    (f"?t%3D«{TOKENS['stripe_key']}»%26", "stripe_key"),
]

LEFT_ALONE: Final = [
    "if token == expected:",
    "if password != 'x' or api_key == 'abcd1234':",
    "token => handler(token)",
    "token = get_token()",
    "password = getpass.getpass()",
    'password = os.environ["DB_PASSWORD"]',
    "client = Client(token=token, password=password, api_key=api_key)",
    "api_key=settings.api_key",
    "def login(user: str, password: str, token: str | None = None) -> Token:",
    "password: string;",
    "  password: The password of the user.",
    "password: null",
    "PASSWORD=${DB_PASSWORD}",
    "DB_PASSWORD=$DB_PASSWORD",
    "API_TOKEN=<token>",
    "SECRET_KEY=********",
    "api_key: xxxxxxxx",
    'api_key = "your-api-key-here"',
    'token: "{{ secrets.TOKEN }}"',
    '"password": "%s"',
    "PUBLIC_KEY=abc PRIMARY_KEY=id",
    "PWD=/home/user",
    "DB_PASSWORD=[REDACTED:SECRET_1]",
    '{"nextPageToken": "CAUQAA12345678", "next_page_token": "Q1234567890abc"}',
    '{"max_tokens": 4096, "total_tokens": 12, "token": "Haus", "key": "PROJ-123"}',
    "usage: login [--token TOKEN] [--password PASSWORD]",
    "Bearer tokens are sent in the header; bearer authentication-mechanisms",
    "http://localhost:8080/a@b https://host/path?x=a:b@c",
    "git@github.com:acme/repo.git ssh://git@host:22/x",
    "postgres://{user}:{password}@{host}/db",
    "the risk-adjusted task-12345678901234567890abcdef",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
    'password = getpass.getpass("Password: ")',
    "passwd: files systemd",
    "/etc/passwd: PermissionError",
    "wc -l /etc/passwd = 27!",
    '{"/etc/passwd": "readable", "etc_passwd": "x1"}',
    "PASSWD_LINES=27",
    '"passwd": "root:x:0:0:root:/root:/bin/sh"',
    'def sign(private_key: "rsa.RSAPrivateKey", other_key: PKCS7PrivateKeyTypes) -> bytes:',
    'ROOT_CONFIG_KEY = "__root_validator_config__"',
    'IPV4_PAT = r"(?:[0-9]{1,3}\\.){3}[0-9]{1,3}"',
    "a file that begins with -----BEGIN PRIVATE KEY----- is a key",
    "eyJhbGciOiJIUzI1NiJ9 is only base64 of a JSON object",
    "commit 3579cee0a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "id 550e8400-e29b-41d4-a716-446655440000, 1234567890123456, 0.4111111111111111",
]

PERSONAL: Final = [
    ("mail «a.b+c@example.co.uk»,", "email"),
    ('"line\\n«x@y.de»"', "email"),
    ("card «4111 1111 1111 1111» 123", "card"),
    ("«5500005555555559».", "card"),
    ("«3782-822463-10005»", "card"),
    ("IBAN: «DE89 3704 0044 0532 0130 00»", "iban"),
    ("«GB82WEST12345698765432», ok", "iban"),
    ("call «+49 30 12345678»", "phone"),
    ("call «+12125550123» now", "phone"),
    ("(«(212) 555-0123»)", "phone"),
    ("«212-555-0123»", "phone"),
    ("Tel. «030 12345678»", "phone"),
    ("«01.23.45.67.89»", "phone"),
    ("«0049 30 12345678»", "phone"),
]

NOT_PERSONAL: Final = [
    "git@github.com:acme/repo.git",
    "x@localhost @decorator a@b",
    "4111 1111 1111 1112 and 1234567890123456",
    "0.4111111111111111 -4111111111111111e3 a4111111111111111",
    "DE88370400440532013000 and XX82WEST12345698765432",
    "2024-01-02 12:00:00.123456 1700000000 192.168.100.200 1,234,567,890",
    "550e8400-e29b-41d4-a716-446655440000 3579cee0a1b2c3d4",
    "0x7f3a2b1c 1e-10 0.1234567 +12 -5 12345678 99999999",
    "v1.2.3 10.0.0.1:8080 00:11:22:33:44:55",
]

PIECES: Final = [
    b"\n", b"\r", b" ", b"=", b"==", b'"', b"'", b"\\", b"\\n", b": ", b":", b"://", b"@", b"-", b"--", b".", b"_",
    b",", b"x", b"7", b"password", b"PASSWORD", b"token", b"_TOKEN", b"API_KEY", b"secret", b"key", b"hunter2",
    b"abcd1234",    b"Bearer ", b"Authorization", b"eyJ", b"AKIA", b"ghp_", b"sk-", b"str", b"null", b"[REDACTED:X]",
    b"<", b"</", b"(",
    b"-----BEGIN ", b"PRIVATE KEY-----", b"RSA ", b"-----END ", b"-----", _BODY.encode(), b"user", b"host.de",
    b"4111111111111111", b"4111 1111 ", b"+49 30 1234", b"030 ", b"555-", b"DE89", b"37040044", b"\xc3\xa4", b"\xff",
    b"y" * 17_000, b"=" * 33_000, b"1" * 9_000, _BODY.encode() * 300,
    *(token.encode() for token in TOKENS.values()),
]  # fmt: skip
