"""The service's database: SQLite in a file by default, PostgreSQL by URL, behind one `Database` (SQLAlchemy Core).

`addresses` reads URLs, `opening` opens a database and sees to its schema (`schema`, `migrations`), `sqlite_database`
and `postgres_database` are the two. Tables of all features are in `tables`: one schema, one set of migrations.
`moonpool run` imports none of this: SQLAlchemy alone takes 0.2 s.
"""
