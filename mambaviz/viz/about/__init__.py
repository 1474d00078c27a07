"""What the About page shows, as HTML: the glossary, what is simplified, versions, keys."""
