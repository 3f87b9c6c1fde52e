"""Languages: text or calls become plans. Words of a dialect stay in its folder."""
