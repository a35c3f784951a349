"""Questions with what answers them: about texts in the public domain (`retrieval_texts`), and about this project.

They were written by hand, as people ask. An answer is a phrase of the passage that holds it; a question across passages
has several, and all must be there.
"""

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tests.bench.programs import ROOT

TEXTS = Path(__file__).parent / "retrieval_texts"


class QuestionKind(StrEnum):
    """How a question is worded, against what answers it."""

    WORDS = "its words"
    PARAPHRASE = "other words"
    ACROSS = "several passages"


class RecallQuestion(NamedTuple):
    """A question, and the phrases of the passages that answer it."""

    text: str
    answers: tuple[str, ...]
    kind: QuestionKind = QuestionKind.PARAPHRASE


class QuestionSet(NamedTuple):
    """Questions, and the folders with what answers them."""

    name: str
    folders: tuple[Path, ...]
    questions: tuple[RecallQuestion, ...]


_BY_WORDS = (
    RecallQuestion(
        "What did the White Rabbit take out of its waistcoat-pocket?",
        ("OUT OF ITS WAISTCOAT-POCKET",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "Who stole the tarts in the song about the Queen of Hearts?",
        ("The Knave of Hearts, he stole those tarts",),
        QuestionKind.WORDS,
    ),
    RecallQuestion("What is the name of Alice's cat?", ("Dinah'll miss me very much to-night",), QuestionKind.WORDS),
    RecallQuestion(
        "What does the Caterpillar say about the sides of the mushroom?",
        ("One side will make you grow taller",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "Where does the Cheshire Cat's grin stay when the cat vanishes?",
        ("ending with the grin, which remained some time",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "What is Rule Forty-two?", ("ALL PERSONS MORE THAN A MILE HIGH TO LEAVE THE COURT",), QuestionKind.WORDS
    ),
    RecallQuestion(
        "What subjects did the Mock Turtle learn at school, Reeling and Writhing?",
        ("Reeling and Writhing, of course, to begin with",),
        QuestionKind.WORDS,
    ),
    RecallQuestion("Why is a raven like a writing-desk?", ("Why is a raven like a writing-desk?",), QuestionKind.WORDS),
    RecallQuestion(
        "What age must a Senator have attained?", ("attained to the Age of thirty Years",), QuestionKind.WORDS
    ),
    RecallQuestion(
        "How long is the President's term of office?",
        ("hold his Office during the Term of four Years",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "Who has the sole power of impeachment?", ("shall have the sole Power of Impeachment",), QuestionKind.WORDS
    ),
    RecallQuestion(
        "What does the Constitution say about excessive bail?",
        ("Excessive bail shall not be required",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "When may Congress suspend the writ of habeas corpus?",
        ("Privilege of the Writ of Habeas Corpus shall not be suspended",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "How many electors does the District of Columbia get?",
        ("District constituting the seat of Government",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "In which amendment is the poll tax forbidden?",
        ("failure to pay any poll tax or other tax",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "What unalienable rights are named in the Declaration?",
        ("that among these are Life, Liberty",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "What is a heisenbug?",
        ("A bug that disappears or alters its behavior when one attempts to probe",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "What does Hanlon's Razor say?",
        ("Never attribute to malice that which can be adequately explained by stupidity",),
        QuestionKind.WORDS,
    ),
    RecallQuestion(
        "What is Brooks's Law?", ("Adding manpower to a late software project makes it later",), QuestionKind.WORDS
    ),
    RecallQuestion("What does HCF stand for?", ("Halt and Catch Fire",), QuestionKind.WORDS),
    RecallQuestion("What is bogo-sort?", ("archetypical perversely awful algorithm",), QuestionKind.WORDS),
    RecallQuestion(
        "Where does the term big-endian come from?", ("On Holy Wars and a Plea for Peace",), QuestionKind.WORDS
    ),
    RecallQuestion("What is the bathtub curve?", ("expected failure rate of electronics",), QuestionKind.WORDS),
    RecallQuestion("What is the blinkenlights warning sign?", ("ACHTUNG! ALLES LOOKENSPEEPERS!",), QuestionKind.WORDS),
)
_PARAPHRASED = (
    RecallQuestion("Why did the girl think her sister's reading was pointless?", ("without pictures or conversation",)),
    RecallQuestion("What was in the jar that she grabbed while she was falling?", ("ORANGE MARMALADE",)),
    RecallQuestion(
        "Which drink made her shrink, and what did it taste of?", ("cherry-tart, custard, pine-apple, roast turkey",)
    ),
    RecallQuestion(
        "How did the wet animals decide to get dry by running?",
        ("the best thing to get us dry would be a Caucus-race",),
    ),
    RecallQuestion(
        "What did everyone get as prizes after the race?",
        ("Alice had no idea what to do, and in despair she put her hand in her pocket",),
    ),
    RecallQuestion("Who was sent down the chimney to chase her out of the house?", ("Bill's to go down",)),
    RecallQuestion("What smoked while sitting on a fungus?", ("quietly smoking a long hookah",)),
    RecallQuestion("What seasoning filled the kitchen and made everybody sneeze?", ("too much pepper in that soup",)),
    RecallQuestion(
        "What did the baby turn into after she carried it out?", ("it was neither more nor less than a pig",)
    ),
    RecallQuestion(
        "Why is it always the same hour for the hatmaker and his friends?",
        ("he won't do a thing I ask! It's always six o'clock now",),
    ),
    RecallQuestion(
        "What were the gardeners doing to hide their mistake with the flowers?",
        ("this here ought to have been a RED rose-tree",),
    ),
    RecallQuestion(
        "Which animals served as mallets and balls in the game?",
        ("the balls were live hedgehogs, the mallets live flamingoes",),
    ),
    RecallQuestion(
        "Why couldn't the executioner behead the pet that had only a face showing?",
        ("you couldn't cut off a head unless there was a body to cut it off from",),
    ),
    RecallQuestion(
        "How did the jury react to losing its chalk: who squeaked while writing?",
        ("One of the jurors had a pencil that squeaked",),
    ),
    RecallQuestion(
        "What does she call the court at the end, just before waking?", ("You're nothing but a pack of cards!",)
    ),
    RecallQuestion(
        "May the government make me house troops at home in peacetime?",
        ("No Soldier shall, in time of peace be quartered",),
    ),
    RecallQuestion(
        "Can police search my home without a judge's permission?", ("no Warrants shall issue, but upon probable cause",)
    ),
    RecallQuestion(
        "Do I have to testify against myself?", ("compelled in any criminal case to be a witness against himself",)
    ),
    RecallQuestion("Who takes over if the head of state dies?", ("the Vice President shall become President",)),
    RecallQuestion(
        "When did women get the vote?", ("denied or abridged by the United States or by any State on account of sex",)
    ),
    RecallQuestion("What ended slavery?", ("Neither slavery nor involuntary servitude",)),
    RecallQuestion(
        "How often may somebody be elected to the highest office?",
        ("No person shall be elected to the office of the President more than twice",),
    ),
    RecallQuestion(
        "Which change made alcohol illegal?", ("the manufacture, sale, or transportation of intoxicating liquors",)
    ),
    RecallQuestion(
        "May an official accept a gift from a foreign king?", ("accept of any present, Emolument, Office, or Title",)
    ),
    RecallQuestion("What did the colonists say was done to their coasts and towns?", ("burnt our towns",)),
    RecallQuestion(
        "What do you call it when software decays although nobody touched it?",
        ("unused programs or features will often stop working after sufficient time has passed",),
    ),
    RecallQuestion("What is the place where deleted data is jokingly said to go?", ("The universal data sink",)),
    RecallQuestion("What is a decoy computer that lures intruders called?", ("A box designed to attract crackers",)),
    RecallQuestion(
        "What is the first program that people write in a new language?", ("The canonical minimal test message",)
    ),
    RecallQuestion(
        "How do you call arguing about trifles while the big things pass unnoticed?",
        ("Technical disputes over minor, marginal issues",),
    ),
    RecallQuestion(
        "What is a secret way into a system that its makers left?",
        ("A hole in the security of a system deliberately left in place",),
    ),
    RecallQuestion(
        "Term for someone who always buys the newest release",
        ("A customer who can be relied upon to buy, without fail, the latest version",),
    ),
    RecallQuestion("Why does writing past the end of an array matter?", ("stuff more data into a buffer",)),
    RecallQuestion(
        "What is it called to type in an unreadable shorthand of digits and letters?",
        ("A shorthand method of spelling found on many British academic bulletin boards",),
    ),
)
_ACROSS = (
    RecallQuestion("Which foods and drinks changed Alice's size?", ("DRINK ME", "EAT ME"), QuestionKind.ACROSS),
    RecallQuestion(
        "What do the Duchess's cook and the Hatter say or think about pepper and treacle?",
        ("What are tarts made of?", "They lived on treacle"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "What does Alice recite wrongly?",
        ("How doth the little crocodile", "You are old, Father William"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "Which games and dances do the Queen and the Mock Turtle have?",
        ("flamingoes", "Will you, won't you, will you, won't you, will you join the dance"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "How old must one be to become a representative, and how old to become president?",
        ("twenty five Years", "thirty five Years"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "How long do senators and how long do representatives serve?",
        ("six Years", "chosen every second Year by the People"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "How was alcohol forbidden and allowed again?",
        (
            "the manufacture, sale, or transportation of intoxicating liquors",
            "eighteenth article of amendment to the Constitution of the United States is hereby repealed",
        ),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "Which amendments widened the right to vote?",
        ("on account of race, color, or previous condition of servitude", "on account of sex"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "How can a bill become law with the president and against him?",
        ("If he approve he shall sign it", "two thirds of that House shall agree to pass the Bill"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "What do the Declaration and the Constitution say about trial by jury?",
        ("benefits of Trial by Jury", "speedy and public trial"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "How do a heisenbug and a Bohr bug differ?",
        ("A bug that disappears or alters its behavior", "A repeatable bug"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "What are black hat and honey pot about attackers?",
        ("someone bent on breaking into the system", "A box designed to attract"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "How does big-endian order relate to holy wars?",
        ("most significant byte has the lowest address", "religious issues"),
        QuestionKind.ACROSS,
    ),
    RecallQuestion(
        "What is a hacker, and what is the hacker ethic?",
        ("enjoys exploring the details of programmable systems", "information-sharing is a powerful positive good"),
        QuestionKind.ACROSS,
    ),
)
_ABOUT_DOCS = (
    RecallQuestion("How long are removed conversations kept before they vanish?", ("stays in the trash for 30 days",)),
    RecallQuestion("Which keys do I press to talk instead of typing?", ("`Ctrl+Shift+D`",)),
    RecallQuestion("When does an idle tool server shut down?", ("ends after five minutes without a call",)),
    RecallQuestion("Does a folder that was unplugged lose its index?", ("keeps what it had until it is back",)),
    RecallQuestion("How do I get rid of the program with my settings and chats?", ("roundhouse uninstall --purge",)),
    RecallQuestion("Can I keep a model in memory for good?", ("A pinned model stays loaded until you run",)),
    RecallQuestion("How do I free the GPU for a game right away?", ("free all memory now",)),
    RecallQuestion("How many files may I upload of a document, how big can one be?", ("up to 64 MiB a file",)),
    RecallQuestion("Who can read the pictures that I attached?", ("readable by your account only",)),
    RecallQuestion("What happens to a broken download when the network returns?", ("continue where they broke off",)),
    RecallQuestion(
        "Is anything sent to others when a tool runs?",
        ("It reaches no other computer unless you add it with `--network`",),
    ),
    RecallQuestion("Where are my preferences stored on Linux?", ("`~/.config/roundhouse`",)),
    RecallQuestion("How can another person on my network use the models?", ("roundhouse keys new",)),
    RecallQuestion(
        "Does importing the same archive twice make duplicates?", ("Importing the same file again changes nothing",)
    ),
    RecallQuestion("Can I have long answers cut off at a word of mine?", ("--stop",)),
    RecallQuestion("How is one told that a scanned document cannot be searched?", ("A scanned PDF has no text",)),
    RecallQuestion("May a program with a key allow tools by itself?", ("With a key nothing can be allowed",)),
    RecallQuestion(
        "How many passages of text may take of the model's memory?", ("at most a third of the model's context",)
    ),
)

SETS = (
    QuestionSet("texts", (TEXTS,), (*_BY_WORDS, *_PARAPHRASED, *_ACROSS)),
    QuestionSet("docs", (ROOT / "docs" / "guide", ROOT / "docs" / "reference"), _ABOUT_DOCS),
)
