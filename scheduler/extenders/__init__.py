"""The HTTP extender protocol, pure: encoding of requests, decoding and checking of answers."""
