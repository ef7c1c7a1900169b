"""Text, HTML, SVG and plots of results and networks."""
