"""Changes of requests that go on, each a request of its own."""
