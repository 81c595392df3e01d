"""The network of a dataflow chip: tiles in rows and columns, directed links between neighbours, chips in a row or ring.

Tiles are numbered row by row, chip after chip; y grows to the south. A link has a number and a name after the tile it
leaves: `east(3,2)`, with several chips `east(1:3,2)`. Link `4 * tile + direction` leaves a tile on its chip (numbers of
links that are not there stay unused, so nothing has to be stored); those between chips follow.

A chip with two networks, as Tenstorrent's Wormhole (NoC 0 goes only east and south, NoC 1 only west and north, both
tori: tt-isa-documentation, WormholeB0/NoC), is two topologies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import BadInput, Unsupported, nearest

DIRECTIONS = ("east", "south", "west", "north", "next", "previous")
EAST, SOUTH, WEST, NORTH, NEXT, PREVIOUS = range(6)
MOST_TILES = 1 << 20
_NAME = re.compile(r"(\w+)\((?:(\d+):)?(\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class Topology:
    """A mesh of `width` columns and `height` rows; a chain has height 1; `wrap_x`, `wrap_y` close its rows, columns.

    `directions`: those that links have; one of an axis alone makes its links one-way. `chips` alike meshes stand in a
    row, or in a ring if `ring`, each linked both ways with the next: every tile of the east edge with the tile of its
    row in the west edge, or only the tiles `gateway` = (of a chip, of the next chip), both numbered within their chip.
    `capacity`, `chip_capacity`: bytes per unit of time of a link on a chip and of one between chips.

    Raises BadInput for sizes that are no whole numbers in range and for a ring of one.
    """

    width: int
    height: int
    wrap_x: bool = False
    wrap_y: bool = False
    directions: tuple[str, ...] = DIRECTIONS[:4]
    chips: int = 1
    ring: bool = False
    gateway: tuple[int, int] | None = None
    capacity: int = 1
    chip_capacity: int = 1

    def __post_init__(self) -> None:
        for name in ("width", "height", "chips", "capacity", "chip_capacity"):
            whole(name, getattr(self, name), 1, MOST_TILES)
        if self.tiles > MOST_TILES:
            raise BadInput(f"{self.tiles} tiles; at most {MOST_TILES} are allowed")
        for name, extent in (("wrap_x", self.width), ("wrap_y", self.height), ("ring", self.chips)):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise BadInput(f"{name} is {value!r}; it must be true or false")
            if value and extent == 1:
                raise BadInput(f"{name} closes a ring of 1; a ring needs 2 or more")
        ways: object = self.directions
        if not isinstance(ways, tuple) or not ways:
            raise BadInput(f"directions is {ways!r}; allowed is a tuple of some of {', '.join(DIRECTIONS[:4])}")
        for name in self.directions:
            direction_number(name, DIRECTIONS[:4])
        if len(set(self.directions)) < len(self.directions):
            raise BadInput(f"directions names one twice: {', '.join(self.directions)}")
        pair: object = self.gateway
        if pair is not None:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise BadInput(f"gateway is {pair!r}; allowed is a pair of tiles, each numbered within its chip")
            for tile in pair:
                whole("gateway", tile, 0, self.chip_tiles - 1)

    @property
    def chip_tiles(self) -> int:
        """Tiles of one chip."""
        return self.width * self.height

    @property
    def tiles(self) -> int:
        """Tiles of all chips."""
        return self.width * self.height * self.chips

    @property
    def joints(self) -> int:
        """Pairs of tiles that join a chip with the next."""
        return self.height if self.gateway is None else 1

    def joint(self, index: int) -> tuple[int, int]:
        """The tile of a chip, and the tile of the next chip that it is linked with, both numbered within their chip."""
        return self.gateway or (index * self.width + self.width - 1, index * self.width)

    def tile(self, x: int, y: int, chip: int = 0) -> int:
        """The number of the tile in column `x` and row `y`. Raises BadInput where there is none."""
        whole("x", x, 0, self.width - 1)
        whole("y", y, 0, self.height - 1)
        whole("chip", chip, 0, self.chips - 1)
        return (chip * self.height + y) * self.width + x

    def place(self, tile: int) -> tuple[int, int, int]:
        """(chip, x, y) of a tile. Raises BadInput for a number that is no tile."""
        whole("tile", tile, 0, self.tiles - 1)
        row, x = divmod(tile, self.width)
        return row // self.height, x, row % self.height

    def tile_name(self, tile: int) -> str:
        """As `(3,2)`, with several chips `(1:3,2)`: column 3, row 2, chip 1."""
        chip, x, y = self.place(tile)
        return f"({x},{y})" if self.chips == 1 else f"({chip}:{x},{y})"

    def link(self, tile: int, direction: int) -> int | None:
        """The link that leaves `tile` in a direction (its place in DIRECTIONS), or None where there is none."""
        chip, x, y = self.place(tile)
        whole("direction", direction, 0, 5)
        if direction < NEXT:
            at, extent, wrap = (y, self.height, self.wrap_y) if direction & 1 else (x, self.width, self.wrap_x)
            last = extent - 1 if direction < WEST else 0
            there = DIRECTIONS[direction] in self.directions and (wrap or at != last)
            return 4 * tile + direction if there else None
        if not self.ring and chip == (self.chips - 1 if direction == NEXT else 0):
            return None
        index = y if self.gateway is None else 0
        if self.joint(index)[direction - NEXT] != tile % self.chip_tiles:
            return None
        return self.chip_link(chip, index, direction)

    def chip_link(self, chip: int, index: int, direction: int) -> int:
        """The number of a link between chips, unchecked: of which chip and joint, NEXT or PREVIOUS."""
        return 4 * self.tiles + 2 * (chip * self.joints + index) + direction - NEXT

    def direction(self, link: int) -> int:
        """The place in DIRECTIONS of a link, unchecked."""
        beyond = link - 4 * self.tiles
        return link & 3 if beyond < 0 else NEXT + (beyond & 1)

    def tail(self, link: int) -> int:
        """The tile that a link leaves, unchecked."""
        beyond = link - 4 * self.tiles
        if beyond < 0:
            return link >> 2
        chip, index = divmod(beyond >> 1, self.joints)
        return chip * self.chip_tiles + self.joint(index)[beyond & 1]

    def head(self, link: int) -> int:
        """The tile that a link enters, unchecked."""
        beyond = link - 4 * self.tiles
        if beyond >= 0:
            chip, index = divmod(beyond >> 1, self.joints)
            chip = (chip + (-1 if beyond & 1 else 1)) % self.chips
            return chip * self.chip_tiles + self.joint(index)[1 - (beyond & 1)]
        tile, direction = link >> 2, link & 3
        ahead = 1 if direction < WEST else -1
        if direction & 1:
            inside = tile % self.chip_tiles
            return tile - inside + (inside + ahead * self.width) % self.chip_tiles
        x = tile % self.width
        return tile - x + (x + ahead) % self.width

    def wraps(self, link: int) -> bool:
        """Whether a link closes a ring: of a row, a column or the chips. Unchecked."""
        direction, tail, head = self.direction(link), self.tail(link), self.head(link)
        if direction >= NEXT:
            tail, head = tail // self.chip_tiles, head // self.chip_tiles
        return head < tail if direction in {EAST, SOUTH, NEXT} else head > tail

    def opposite(self, link: int) -> int:
        """The link back along the same wires. Raises Unsupported where links are one-way, BadInput for no link."""
        self.check(link)
        direction = self.direction(link)
        turned = (direction + 2) % 4 if direction < NEXT else NEXT + PREVIOUS - direction
        back = self.link(self.head(link), turned)
        if back is None:
            raise Unsupported(f"{self.link_name(link)} is one-way: no link goes {DIRECTIONS[turned]}")
        return back

    @property
    def links(self) -> tuple[int, ...]:
        """All links that are there, in order of their numbers."""
        found = (self.link(tile, d) for tile in range(self.tiles) for d in range(4 if self.chips == 1 else 6))
        return tuple(sorted(link for link in found if link is not None))

    def link_capacity(self, link: int) -> int:
        """Bytes per unit of time of a link, unchecked."""
        return self.capacity if link < 4 * self.tiles else self.chip_capacity

    def link_name(self, link: int) -> str:
        """As `east(3,2)`, with several chips `east(1:3,2)`. Raises BadInput for no link."""
        self.check(link)
        return DIRECTIONS[self.direction(link)] + self.tile_name(self.tail(link))

    def link_named(self, name: str) -> int:
        """The link of that name. Raises BadInput where there is none."""
        match = _NAME.fullmatch(str(name).replace(" ", ""))
        if match is None or (match[2] is None) != (self.chips == 1):
            example = "east(0,0)" if self.chips == 1 else "east(0:0,0)"
            raise BadInput(f"{name!r} is no name of a link; one is written like {example}")
        link = self.link(self.tile(int(match[3]), int(match[4]), int(match[2] or 0)), direction_number(match[1]))
        if link is None:
            raise BadInput(f"there is no link {name}: {self._leaving(name[name.index('(') :], match)}")
        return link

    def _leaving(self, place: str, match: re.Match[str]) -> str:
        tile = self.tile(int(match[3]), int(match[4]), int(match[2] or 0))
        ways = [DIRECTIONS[d] for d in range(6) if self.link(tile, d) is not None]
        return f"links leave {place} to {', '.join(ways) or 'nowhere'}"

    def check(self, link: int) -> None:
        """Raises BadInput for a number that is no link."""
        whole("link", link, 0, 4 * self.tiles + 2 * self.chips * self.joints - 1)
        if self.link(self.tail(link), self.direction(link)) != link:
            raise BadInput(f"there is no link {DIRECTIONS[self.direction(link)]}{self.tile_name(self.tail(link))}")


def direction_number(name: str, allowed: tuple[str, ...] = DIRECTIONS) -> int:
    """The place of a direction in DIRECTIONS. Raises BadInput for another name."""
    if name not in allowed:
        raise BadInput(f"no direction is called {name!r}{nearest(str(name), allowed)}; allowed: {', '.join(allowed)}")
    return DIRECTIONS.index(name)


def whole(name: str, value: object, least: int, most: int) -> None:
    """Raises BadInput for what is no whole number in the range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadInput(f"{name} is {value!r}; allowed are whole numbers from {least} to {most}")
