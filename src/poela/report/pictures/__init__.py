"""Pictures for the page: small SVG without scripts, coloured by the page's own style, light or dark."""
