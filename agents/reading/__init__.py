"""Reading observation text: one parser per game, the inverse of the game's ``observe``."""
