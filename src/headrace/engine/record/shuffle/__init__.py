"""Packs records by key group for the shuffle, and unpacks them in order of arrival."""
