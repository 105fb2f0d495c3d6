"""Views for notebooks: HTML and SVG with inline styles, which load nothing from the network."""
