"""Public descriptions, made before any record is read: schema, network, tables and prior. No module sees a record."""
