"""Tables that can be asked: each is kept by who follows its changelog, with the position that its rows reflect."""
