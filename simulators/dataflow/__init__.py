"""Dataflow chips: tiles with their own memory on a network of routed links, as in Corsair, Groq, Wormhole and WSE."""
