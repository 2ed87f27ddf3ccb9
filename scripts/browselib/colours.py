"""Whether a text can be read before its background: WCAG 2.2, relative luminance and contrast ratio. Pure."""

import re

Colour = tuple[float, float, float, float]  # red, green, blue, 0 to 255, and how much of it covers, 0 to 1


def parse(css: str) -> Colour:
    """As getComputedStyle says it: rgb(…) or rgba(…)."""
    if not re.fullmatch(r"rgba?\([\d., ]+\)", css):
        raise ValueError(f"{css} is no colour of sRGB")
    numbers = [float(number) for number in re.findall(r"[\d.]+", css)]
    return (*numbers[:3], numbers[3] if len(numbers) > 3 else 1.0)


def laid_over(upper: Colour, lower: Colour) -> Colour:
    """What is seen of both, where the lower one covers all."""
    return (*(upper[3] * above + (1 - upper[3]) * below for above, below in zip(upper[:3], lower[:3])), 1.0)


def luminance(colour: Colour) -> float:
    red, green, blue = (linear(part / 255) for part in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def contrast(one: Colour, other: Colour) -> float:
    """From 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)
