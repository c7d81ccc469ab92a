"""The experiments, in folders by the question asked."""
