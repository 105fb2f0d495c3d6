"""Options of the data source: their table, and how their texts are parsed."""
