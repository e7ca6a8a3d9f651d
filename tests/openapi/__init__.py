"""The OpenAPI document: what it says is what the desk does, and programs can be made from it."""
