"""The addresses of pages and of REST, by story."""
