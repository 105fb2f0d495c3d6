"""Views for notebooks: HTML and SVG that carry their own styles and ask nobody for anything."""
