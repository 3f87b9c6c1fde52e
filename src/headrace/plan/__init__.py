"""The query plan: one typed tree for every language, independent of Spark. `chain` is its reference interpreter."""
