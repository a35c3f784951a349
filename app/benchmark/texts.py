"""What the built-in workloads are written with. All of it was written for them and belongs to the application."""

PASSAGES = (
    (
        "A locomotive shed is a building in which locomotives are kept. Its tracks meet at a turntable in the "
        "middle, a bridge on a pivot that turns until it points at the track that is asked for. The shape "
        "saves land, since every engine can leave without another being moved, and it saves time, since a "
        "single person at the lever can serve forty stalls."
    ),
    (
        "Before a locomotive left in the morning, somebody had been at work for hours. The fire was lit "
        "with oiled waste and split wood, coal was added in thin layers, and the boiler warmed slowly so "
        "that no plate would be strained. Four hours was usual for a small engine and eight for a large "
        "one, and nobody who hurried it kept the work for long."
    ),
    (
        "The signal box at the junction held sixty levers in four colours. Red ones moved signals, black "
        "ones points, blue ones the bolts that hold points in place, and white ones nothing at all: they "
        "had been left in the frame when a siding was lifted. A mechanism below the floor kept two levers "
        "from being pulled if the trains they allowed could meet."
    ),
    (
        "Rain that falls on the northern side of the ridge reaches the sea after forty days, and rain on "
        "the southern side after nine. The difference is made by the marsh, where water moves more slowly "
        "than a person could see. Engineers who drained a third of it found that the floods downstream "
        "came earlier, rose higher, and carried more soil than before."
    ),
    (
        "Bread that is left to rise overnight in the cold tastes of more than bread that rises in an "
        "hour. Enzymes have time to take starch apart, and the acids that bacteria make are not driven "
        "off. The baker pays with space, for the dough must lie somewhere, and is repaid in the morning, "
        "when the oven can be filled as soon as it is hot."
    ),
    (
        "A lens bends blue light more strongly than red, so that a simple telescope shows every star with "
        "a coloured border. Two kinds of glass, one bending more and one spreading more, can be joined so "
        "that the borders nearly cancel. The recipe was kept secret for twenty years, until the workman "
        "who ground both halves compared them on his own bench."
    ),
    (
        "The tide tables of the harbour were computed by a machine of brass wheels and a single wire. "
        "Each wheel stood for one rhythm of the moon or the sun; the wire ran over all of them and moved "
        "a pen by their sum. It drew a year in a few hours, and when an electronic computer took its "
        "place the two were found to differ by less than a hand's breadth."
    ),
    (
        "Bees tell each other where flowers are by walking in a figure of eight. The angle of the middle "
        "line to the vertical is the angle of the way to the sun, and the length of the waggle is the "
        "distance. On a cloudy day they see the direction of the sun in the polarisation of a small piece "
        "of blue sky, which people cannot see at all."
    ),
    (
        "The library kept its catalogue on cards for ninety years. A card had the author, the title, a "
        "number, and on the back whatever the librarians thought worth knowing: who had asked for it, "
        "which page was missing, where a better copy was. When the drawers were photographed the backs "
        "were left out, and it took ten years until somebody noticed the loss."
    ),
    (
        "Concrete made with volcanic ash grows stronger in sea water, where ordinary concrete crumbles. "
        "The water dissolves the ash and leaves crystals in the gaps, so that cracks close by themselves. "
        "Harbour walls built in that way two thousand years ago still stand, while a pier put up beside "
        "them within living memory had to be replaced twice."
    ),
    (
        "Two clocks on the same shelf were seen to swing in step, however they had been started. The "
        "shelf moved too little to be seen, yet it carried a little of each swing to the other. Within "
        "half an hour they beat together, always in opposite directions, and when one was moved across "
        "the room they began to drift apart by some seconds a day."
    ),
    (
        "The village measured its fields in days, by how long a team needed to plough them. A day on "
        "heavy ground was a third smaller than a day on sand, which made the measure fair and the maps "
        "useless. When taxes were to be raised by area, surveyors walked every boundary with a chain, and "
        "half of the village discovered that it was larger than it had thought."
    ),
)

QUESTIONS = (
    "Explain to a curious child why the sky is blue during the day and red in the evening.",
    "What should I look at before I buy a used bicycle? Give me a list with a reason for each point.",
    "Write a short letter to a neighbour whose dog barks at night. It should be friendly and clear.",
    "How does a refrigerator move heat from a cold place to a warm one? Use no formulas.",
    "I have rice, two eggs, an onion and a lemon. What can I cook, and how long does each step take?",
    "Compare renting and buying a flat for somebody who will probably move in four years.",
    "Tell a story of about ten sentences about a lighthouse keeper who is afraid of the dark.",
    "What is the difference between weather and climate, and why are they so often confused?",
    "Plan a day in a town by the sea with two children, one of whom does not like walking.",
    "Summarise what a budget is for, and name three mistakes that people make with their first.",
    "Why do some metals rust and others do not? Give an example from a kitchen.",
    "How can I learn to draw hands? Give me exercises for two weeks, ten minutes a day.",
)

CODE = (
    (
        '"""An account book: entries, balances, and a report by month."""\n'
        "\n"
        "from collections import defaultdict\n"
        "from dataclasses import dataclass\n"
        "from datetime import date\n"
        "\n"
        "\n"
        "@dataclass(frozen=True)\n"
        "class Entry:\n"
        "    day: date\n"
        "    account: str\n"
        "    cents: int\n"
        "    text: str = ''\n"
        "\n"
        "\n"
        "class Book:\n"
        "    def __init__(self) -> None:\n"
        "        self._entries: list[Entry] = []\n"
        "\n"
        "    def add(self, entry: Entry) -> None:\n"
        "        if entry.cents == 0:\n"
        "            raise ValueError('An entry without an amount.')\n"
        "        self._entries.append(entry)\n"
        "\n"
        "    def balance(self, account: str) -> int:\n"
        "        return sum(entry.cents for entry in self._entries if entry.account == account)\n"
        "\n"
        "    def by_month(self) -> dict[tuple[int, int], int]:\n"
        "        totals: dict[tuple[int, int], int] = defaultdict(int)\n"
    ),
    (
        '"""A queue of jobs with priorities, and workers that take them."""\n'
        "\n"
        "import heapq\n"
        "import itertools\n"
        "import threading\n"
        "\n"
        "\n"
        "class JobQueue:\n"
        "    def __init__(self) -> None:\n"
        "        self._heap: list[tuple[int, int, str]] = []\n"
        "        self._count = itertools.count()\n"
        "        self._condition = threading.Condition()\n"
        "        self._closed = False\n"
        "\n"
        "    def put(self, job: str, priority: int = 0) -> None:\n"
        "        with self._condition:\n"
        "            if self._closed:\n"
        "                raise RuntimeError('The queue is closed.')\n"
        "            heapq.heappush(self._heap, (-priority, next(self._count), job))\n"
        "            self._condition.notify()\n"
        "\n"
        "    def take(self, timeout: float | None = None) -> str | None:\n"
        "        with self._condition:\n"
    ),
    (
        '"""A grid of cells, read from text, and the shortest way through it."""\n'
        "\n"
        "from collections import deque\n"
        "from collections.abc import Iterator\n"
        "\n"
        "Cell = tuple[int, int]\n"
        "\n"
        "\n"
        "class Grid:\n"
        "    def __init__(self, text: str) -> None:\n"
        "        self.rows = text.splitlines()\n"
        "\n"
        "    def is_free(self, cell: Cell) -> bool:\n"
        "        row, column = cell\n"
        "        is_inside = 0 <= row < len(self.rows) and 0 <= column < len(self.rows[row])\n"
        "        return is_inside and self.rows[row][column] != '#'\n"
        "\n"
        "    def neighbours(self, cell: Cell) -> Iterator[Cell]:\n"
        "        row, column = cell\n"
        "        for step in ((0, 1), (1, 0), (0, -1), (-1, 0)):\n"
        "            near = row + step[0], column + step[1]\n"
        "            if self.is_free(near):\n"
        "                yield near\n"
        "\n"
        "    def shortest_path(self, start: Cell, goal: Cell) -> list[Cell]:\n"
    ),
)

AGENT_TASKS = (
    "The report by month counts the last day of the year twice. Find out why.",
    "Add a way to close the queue so that workers end once it is empty.",
    "The path is wrong when start and goal are the same cell. Look into it.",
    "Balances of accounts with a space in their name are always zero. What is the cause?",
)

AGENT_STEPS = (
    "Continue with the next step.",
    "Is there another place that does the same? Say which.",
    "Say in one sentence what you would change, and why it is enough.",
    "Which test would have found this?",
)

REVIEWS = (
    "The lamp arrived two days late but is brighter than I had hoped. The switch feels loose.",
    "Does what it says. I have used it every morning for a month, and it has never leaked.",
    "The instructions are for another model. I had to guess, and now one screw is left over.",
    "My daughter loves it. The colours came off on the second wash, though.",
    "I sent it back after an hour: it hums, and nobody at the shop could tell me why.",
    "Half the price of the one I had, and I cannot tell the difference.",
    "It stopped charging after the update. Support answered within a day and sent a new one.",
    "Too small for a grown person, whatever the picture shows.",
)

ORDERS = (
    ("Please send 3 boxes of tracing paper to Mill Lane 4 in Northam, and invoice the workshop. It is not urgent."),
    "We need 12 kilos of flour by Friday at Harbour Street 18, Westport. Call before you come.",
    "One replacement handle for the garden gate, to be left at the back door of Hill House, Elmford.",
    ("40 tickets for the evening train, for the school in Brackley, Church Road 2. The teacher pays by transfer."),
    ("Send 2 litres of linseed oil and nothing else to the studio at Quay 7, Saltmouth, as soon as you can."),
    "6 chairs, delivered upstairs, at Station Square 1 in Overton, any day but Monday.",
)

AGENT_RULES = (
    "You are a careful assistant that works in a folder of source code. You read before you write, you "
    "change as little as the task needs, and you run the tests after every change. You answer in one or "
    "two sentences and name files by their paths. Tools: read_file(path) returns a file with line "
    "numbers. list_files(folder) returns names and sizes. search(pattern, folder) returns lines that "
    "match, each with its file. write_file(path, text) replaces a file. run(command) runs a command for "
    "two minutes at most and returns what it printed and how it ended. Never delete what you did not "
    "create. Never print secrets. If a command fails twice in the same way, stop and say what you have "
    "seen."
)
