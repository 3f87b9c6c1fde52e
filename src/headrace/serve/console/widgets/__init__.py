"""Building blocks of the console's pages: layout, charts, the flow diagram, number formats."""
