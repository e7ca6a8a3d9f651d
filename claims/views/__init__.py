"""Pages of requests, history and cost. A view fetches and authorises, makes one domain call, renders."""
