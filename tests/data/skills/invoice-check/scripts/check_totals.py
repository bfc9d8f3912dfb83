"""Adds up an invoice and says what is off."""

from decimal import Decimal
from pathlib import Path

RATES = Path(__file__).parent.parent / "references" / "tax-rates.md"


def rate_of(country):
    """The rate in force, from the table that lies beside this script."""
    for line in RATES.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == country:
            return Decimal(cells[1])
    raise LookupError(f"no rate for {country}")


def check(rows, *, country):
    """The positions whose gross is not net and tax, with the difference."""
    factor = 1 + rate_of(country) / 100
    off = {row["id"]: Decimal(row["gross"]) - Decimal(row["net"]) * factor for row in rows}
    return {name: difference for name, difference in off.items() if abs(difference) >= Decimal("0.01")}
