"""A shopping cart."""


def total(prices, discount=0):
    """The sum of the prices, reduced by a discount in percent."""
    return sum(prices) - discount
