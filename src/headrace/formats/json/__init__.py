"""JSON: objects or bare values of columns, ksqlDB's rules and the strict ones of typed topics."""
