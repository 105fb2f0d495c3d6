"""The one mutable thing of a repository: where its branches point."""
