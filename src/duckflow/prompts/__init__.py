"""What we say to models: reply shapes, templates, sections, budgets, layers. Knows state and counts; never acts."""
