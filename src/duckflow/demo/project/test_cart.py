import unittest

from cart import total


class TotalTest(unittest.TestCase):
    def test_without_a_discount(self):
        self.assertEqual(total([30, 20]), 50)

    def test_a_discount_is_a_percentage(self):
        self.assertEqual(total([100, 100], discount=10), 180)
