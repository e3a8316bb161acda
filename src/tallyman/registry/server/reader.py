"""The role of outside readers on a server that is not ours: found, never made."""

from __future__ import annotations

from psycopg.conninfo import make_conninfo

from tallyman.registry.server.address import SECRETS, connect, split_address

# A comma means "or". `datasets` stands for all of our own tables.
READER = """
    SELECT r.rolname AS name FROM pg_roles r
    WHERE r.rolcanlogin AND NOT r.rolsuper AND NOT r.rolcreaterole
      AND has_database_privilege(r.oid, current_database(), 'CONNECT')
      AND has_table_privilege(r.oid, 'iceberg_tables', 'SELECT')
      AND has_table_privilege(r.oid, 'iceberg_namespace_properties', 'SELECT')
      AND NOT has_table_privilege(r.oid, 'iceberg_tables', 'INSERT, UPDATE, DELETE, TRUNCATE')
      AND NOT has_table_privilege(
          r.oid, 'iceberg_namespace_properties', 'INSERT, UPDATE, DELETE, TRUNCATE')
      AND NOT has_table_privilege(r.oid, 'datasets', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
    ORDER BY (r.rolname = current_user) DESC, (r.rolname = 'tallyman_reader') DESC, r.rolname
    LIMIT 1
"""


def reader_address(url: str) -> str | None:
    """Return the address with a role that can only read what outside readers need, without a
    password; None if the server has no such role."""
    with connect(url) as connection:
        found = connection.execute(READER).fetchone()
    if found is None:
        return None
    known = {k: v for k, v in (split_address(url) or {}).items() if k not in SECRETS}
    return make_conninfo(**known | {"user": str(found["name"])})
