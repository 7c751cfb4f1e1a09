"""Drawing observation text as SVG: a viewer can never show what the agent did not see."""
