"""A plugin of the light demo: sums, units and distances."""

from __future__ import annotations

import json
import math
import statistics
from typing import Literal

from hooksdk import Annotations, ToolError, tool

READS = Annotations(read_only=True)


class Numbers:
    """Computes."""

    plugin_id = "numbers"

    @tool(annotations=READS)
    def describe_numbers(self, values: list[float]) -> str:
        """Compute the mean, median and standard deviation of some numbers.

        Args:
            values: At least two numbers.

        """
        if len(values) < 2:
            raise ToolError("give at least two numbers")
        parts = {"mean": statistics.fmean(values), "median": statistics.median(values)}
        return json.dumps({**parts, "deviation": statistics.stdev(values)})

    @tool(annotations=READS)
    def percentage_of(self, part: float, whole: float) -> float:
        """Compute how many percent a part is of a whole.

        Args:
            part: The part.
            whole: The whole, which is not 0.

        """
        return 100 * part / whole

    @tool(annotations=READS)
    def round_number(self, value: float, digits: int = 0) -> float:
        """Round a number.

        Args:
            value: The number.
            digits: How many digits stay behind the point.

        """
        return round(value, digits)

    @tool(annotations=READS)
    def convert_temperature(self, degrees: float, to: Literal["celsius", "fahrenheit"]) -> float:
        """Convert a temperature between Celsius and Fahrenheit.

        Args:
            degrees: The temperature in the other unit.
            to: The unit that is wanted.

        """
        return (degrees - 32) * 5 / 9 if to == "celsius" else degrees * 9 / 5 + 32

    @tool(annotations=READS)
    def convert_length(self, meters: float, to: Literal["feet", "inches", "miles"]) -> float:
        """Convert a length in meters to feet, inches or miles.

        Args:
            meters: The length.
            to: The unit that is wanted.

        """
        return meters / {"feet": 0.3048, "inches": 0.0254, "miles": 1609.344}[to]

    @tool(annotations=READS)
    def distance_between_places(
        self, latitude: float, longitude: float, other_latitude: float, other_longitude: float
    ) -> float:
        """Compute the distance between two places on the earth, in kilometers.

        Args:
            latitude: Of the first place, in degrees.
            longitude: Of the first place.
            other_latitude: Of the second place.
            other_longitude: Of the second place.

        """
        one, other = (
            (math.radians(latitude), math.radians(longitude)),
            (math.radians(other_latitude), math.radians(other_longitude)),
        )
        across = math.sin((other[0] - one[0]) / 2) ** 2
        along = math.sin((other[1] - one[1]) / 2) ** 2
        return 2 * 6371 * math.asin(math.sqrt(across + math.cos(one[0]) * math.cos(other[0]) * along))
