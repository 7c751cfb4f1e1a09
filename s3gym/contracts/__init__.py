"""The promises that games, agents, memories and chat models keep."""
