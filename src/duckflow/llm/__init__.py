"""How we ask models: wire formats, tiers, decoding, token counts. Knows no state, prompts or screens."""
