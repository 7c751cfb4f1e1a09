"""Tables, pages and files made from a store."""
