"""The HTTP server: listening, connections of HTTP/1.1 and HTTP/2, request bodies, bind addresses."""
