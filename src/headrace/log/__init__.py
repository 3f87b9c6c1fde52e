"""The log: topics of partitions, embedded or on Apache Kafka, behind one contract."""
