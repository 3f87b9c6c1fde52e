"""The plan: one typed tree for every language, free of Spark. `chain` is its exact meaning, in plain Python."""
