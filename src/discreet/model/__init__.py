"""What is public before any record is read: schema, network, tables and prior. Nothing here ever sees a record."""
