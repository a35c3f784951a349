"""Words that say little of what a question is about: those of everyday talk, and how people shorten words in haste.

A question that has one which no phrasing has is no less a question of that kind. Nouns are the opposite: by one that
nobody here knows, another subject shows itself.
"""

SHORT_FORMS = {
    "pls": "please", "plz": "please", "thx": "thanks", "ty": "thanks", "tysm": "thanks", "u": "you", "ur": "your",
    "r": "are", "y": "why", "k": "ok", "gimme": "give me", "lemme": "let me", "wanna": "want to", "gonna": "going to",
    "gotta": "have to", "kinda": "kind of", "sorta": "sort of", "dunno": "do not know", "smth": "something",
    "sth": "something", "sumthing": "something", "thru": "through", "tho": "though", "cuz": "because", "coz": "because",
    "bc": "because", "b4": "before", "ppl": "people", "msg": "message", "msgs": "messages", "pic": "picture",
    "pics": "pictures", "img": "image", "imgs": "images", "vid": "video", "vids": "videos", "convo": "conversation",
    "convos": "conversations", "dl": "download", "dls": "downloads", "dling": "downloading", "dled": "downloaded",
    "ctx": "context", "tps": "tokens per second", "toks": "tokens", "tok": "token", "temp": "temperature",
    "temps": "temperature", "sys": "system", "db": "database", "dir": "folder", "directory": "folder",
    "directories": "folders", "dirs": "folders", "hf": "huggingface", "mem": "memory", "config": "setting",
    "configs": "settings", "configure": "setting", "conf": "setting", "prefs": "settings", "options": "settings",
    "regen": "regenerate", "redo": "regenerate", "reroll": "regenerate", "auth": "key", "authentication": "key",
    "params": "parameters", "ver": "version", "stats": "statistics", "bandwith": "bandwidth", "recs": "recommendation",
    "rec": "recommendation", "quants": "quantisation", "wi-fi": "network", "wifi": "network", "lan": "network",
    "ssd": "disk", "hdd": "disk", "drive": "disk", "perf": "speed", "snappy": "fast", "nuke": "delete",
    "nuked": "deleted", "zap": "delete", "kill": "stop", "dump": "release", "hog": "take", "hogging": "taking",
    "hogs": "takes", "eat": "take", "eats": "takes", "eating": "taking", "chew": "take", "feed": "give",
    "browse": "search", "ditch": "remove", "tweak": "change", "beefy": "powerful", "doable": "possible",
    "feasible": "possible", "sluggish": "slow", "laggy": "slow", "chug": "slow", "recoverable": "recover",
    "dedupe": "duplicates", "dedup": "duplicates", "deduplicate": "duplicates", "eli5": "explain", "vscode": "{app}",
    "docs": "documents", "xls": "xlsx", "ppt": "pptx", "jpg": "picture", "jpeg": "picture", "png": "picture",
    "screenie": "screenshot", "preselected": "default", "benchmarking": "benchmark", "cli": "terminal",
    "commandline": "terminal", "llms": "models", "sideload": "add", "outgrow": "long", "outgrows": "long",
    "timeout": "idle", "fire": "start", "spin": "start", "huggingface.co": "huggingface",
}  # fmt: skip
"""What is read for a word that is written short, carelessly, or as slang; each is a common one."""

_EVERYDAY = """
lol lmao haha hehe omg wtf wth imo imho tbh idk btw fyi afaik rn atm asap nah nope yep yeah yup yo hmm hm uh um erm
eh oh ah wow damn dang heck hell crap shit fuck fucking freaking bloody noob newbie newb beginner guys folks dude bro
mate man buddy sir peeps everyone anyone someone somebody anybody nobody anywhere everywhere nowhere
kinda pretty quite rather fairly super extremely incredibly totally completely absolutely literally honestly
seriously obviously apparently probably possibly maybe perhaps hopefully finally suddenly recently lately usually
often sometimes rarely normally generally typically nearly almost barely hardly roughly approximately around
besides instead anyway anyways though although however because since until while whenever wherever whether unless
except through during before after between against along across behind below above under inside outside within
upon per via than once twice yet ago soon later earlier today tonight tomorrow yesterday
first second third last next previous same own whole entire half rest several few couple bunch ton tons plenty
enough bit little gazillion million
really actual proper decent okay fine cool awesome amazing lovely perfect terrible awful horrible bad worse worst
weird strange odd funny crazy insane stupid dumb silly lame garbage rubbish trash annoying annoyed tired sick fed
confused lost stuck unsure curious happy glad sad sorry afraid worried clear unclear easy easier easiest simple
hard harder difficult tricky complicated impossible necessary important useful useless handy neat nice sensible
reasonable realistic worth worthwhile random various certain particular specific general common usual normal typical
real true false correct incorrect exact proper main major minor basic extra additional full empty open
young older newest latest current present recent ready finished complete
think thinks thought guess suppose assume believe hope wish wonder wondering wondered feel feels felt seem seems
seemed appear appears look looks looking looked sound sounds hear heard watch mean means meant
try tries tried trying attempt attempted want wanting wanna need needing keep keeps kept keeping let lets letting
begin begins began start starts started starting stop stops stopped stopping finish end ends ended happen happens
happened happening become becomes became stay stays stayed leave leaves left leaving come comes came coming
bring brings brought take takes took taking give gives gave giving send sends sent hand pass passes passed
put puts putting set sets setting place places placed hold holds held grab grabs grabbed pick picks picked
pull pulls pulled push pushes pushed throw throws threw drop drops dropped turn turns turned turning
move moves moved moving go goes went gone going run runs ran walk jump jumps jumped sit sits sat sitting stand
tell tells told say says said saying talk ask asks asked asking answer call calls called calling mention mentioned
know knows knew known remember remembers forget forgets forgot understand understands understood learn figure
figured realise realize notice noticed find finds found check checks checked see sees saw seen show shows showed
use uses used using work works worked working deal dealing handle handles manage manages managed cope do does did
doing done make makes made making get gets got getting have has had having be been being
change changes changed fix fixes fixed mess messes messed messing break breaks broke broken ruin screw screwed
choke chokes struggle struggles suffer survive burn burns burned fail fails failed failing
like likes liked love loves loved hate hates hated prefer prefers preferred enjoy care cares bother bothers bothered
mind minds expect expects expected consider considering decide deciding plan planning planned
allow allows allowed permit enable enables enabled force forces forced squeeze squeezed fit fits
buy bought got own owns owned belong spend spent waste wasted save
every each either neither both other another others else
someone's there's here's what's that's it's how's where's who's when's
way ways thing things stuff point points case cases kind kinds sort sorts type lot lots part parts piece
time times moment moments while minute minutes hour hours day days week weeks month months year years
today's morning evening night noon
idea ideas clue hint tip tips trick tricks question questions reason reasons problem problems issue issues trouble
matter fact difference result results effect chance chances luck option choice choices example examples
hand hands head eye eyes people person friend friends anyone's family wife husband kid kids
rig box setup set-up potato beast toaster
hi hello hey greetings dear thanks thank cheers please welcome sorry excuse
anymore any-more continue proceed
actually basically simply just only even still already again also too then now here there
accidentally mistakenly somehow magically automatically manually directly quickly slowly immediately instantly
permanently temporarily separately together alone
inside-out halfway midway
"""
LIGHT_WORDS = frozenset(_EVERYDAY.split())

_PRODUCTS = """
discord gmail outlook facebook instagram twitter tiktok youtube netflix spotify steam minecraft fortnite roblox
photoshop premiere blender autocad notion trello jira figma canva dropbox icloud onedrive evernote
chrome firefox safari edge opera brave gnome kde android iphone ipad ios airpods alexa siri cortana
xbox playstation nintendo switch tv roku kindle printer scanner router modem bios usb bluetooth monitor keyboard
ssh nginx apache kubernetes docker mysql postgres wordpress excel powerpoint sharepoint teams zoom skype
whatsapp telegram signal slack reddit linkedin pinterest snapchat paypal amazon ebay uber airbnb
chatgpt openai anthropic gemini copilot midjourney dalle perplexity grok
ollama studio jan gpt4all koboldcpp koboldai webui comfyui automatic1111 sillytavern kobold oobabooga
nvidia amd intel apple microsoft google tesla
"""
OTHER_PRODUCTS = frozenset(_PRODUCTS.split())
"""What a question is about if it has their name, unless the answer has something to do with them."""
