"""How text becomes search words, and what is known about words beforehand.

Lists are written as text, one entry a line, so that they can be read and extended without knowing the code.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import cast

from builtin_plugins.tool_search._stems import beginnings, stem

_STOP_WORDS = """
a an the this that these those such some any each every all both either
i me my mine we us our ours you your yours he him his she her hers it its they them their theirs
who whom whose which what when where why how there here
am is are was were be been being do does did done doing have has had having
can could will would shall should may might must ought
and or but nor so if then than as because while until though
of at by for with about against between into through to from in on onto upon off out over up down via per
not no only own same too very just also again once still already
don doesn didn isn aren wasn weren won wouldn couldn shouldn can cannot t s d ll ve re m o
get give gives given got show tell use used using uses know knows let lets want wants need needs please help
like would im ive id whats
"""

# One concept an entry. A word of the query also finds the others, at a fraction of its own weight.
_SYNONYMS = """
create add new make insert generate build; delete remove erase drop destroy purge discard clear trash;
update edit modify change alter revise amend patch; list enumerate browse index;
search find lookup query seek locate discover; fetch retrieve load read obtain pull; send deliver dispatch transmit;
post publish submit share upload; save store persist keep write record; copy duplicate clone replicate;
move relocate transfer migrate; rename retitle; start begin launch run execute invoke trigger initiate;
stop halt end terminate kill abort; cancel revoke withdraw; pause suspend hold; resume continue unpause;
open view display see; close shut finish resolve; enable activate; disable deactivate;
allow permit grant authorize approve; deny reject refuse decline block ban forbid; lock unlock;
check verify validate test inspect; compare diff difference contrast;
merge combine join unite concatenate consolidate; split divide separate partition;
convert transform translate change turn; calculate compute determine solve; estimate predict forecast project;
measure gauge; count number amount quantity total; summarize summary digest abstract overview recap;
analyze analysis examine evaluate assess study; monitor watch track observe follow;
notify alert notification warn inform; message chat text conversation; email mail inbox; phone telephone call dial;
schedule plan arrange; book reserve reservation booking; appointment meeting event; calendar agenda;
task todo chore; issue ticket bug problem; comment reply remark respond; buy purchase order shop; sell sale;
price cost fee charge rate; pay payment transaction; invoice bill receipt; refund reimburse reimbursement;
salary wage income earnings pay; money currency cash; stock share equity ticker;
crypto cryptocurrency bitcoin coin token; bank account; user member person people account profile; customer client;
employee staff worker personnel; company business firm corporation organization; team group; friend contact;
author writer creator; picture image photo photograph; video film clip movie; movie film cinema;
music song track audio; sound audio voice; draw paint sketch plot; chart graph plot diagram; document file paper;
folder directory; page site website web; url link address; text content string; word term vocabulary;
article story post; news headline; book novel; definition meaning; language tongue; quote quotation;
joke humor funny pun; picture photo portrait; location place address position where; city town; country nation;
map route direction navigate navigation; near nearby closest nearest around; distance far length;
travel trip journey vacation; flight airline plane airfare; hotel accommodation lodging room;
restaurant dining cafe eatery; food meal dish; recipe cook cooking; car vehicle automobile; ride taxi cab;
weather climate forecast; temperature hot cold; date day time; now current today present; latest newest recent last;
old past historical history previous; begin start first; hour minute; doctor physician; medicine drug medication;
health medical; disease illness condition; exercise workout fitness; sport game match; team club; score result;
ranking leaderboard standings; error failure exception fault bug; log record history; secret password credential;
login signin authenticate; logout signout; permission access right role; label tag category;
type kind category class; detail information description; setting preference configuration option; version release;
install setup deploy; package library module dependency; code source program script; function method;
repository project; branch fork; commit revision; server host machine; database table; column field attribute;
row record entry; sheet worksheet spreadsheet; cell range; key identifier; random arbitrary;
best top highest popular trending; maximum largest biggest highest; minimum smallest lowest; average mean;
rating review feedback; recommend suggest recommendation suggestion; similar related alike; clean clear tidy;
resize scale; rotate turn; crop cut trim; encrypt encode cipher; decrypt decode; compress zip archive;
extract unzip decompress parse; download fetch; import load; export dump; print output; sort order rank;
filter narrow; replace substitute swap; restore recover undo revert; backup snapshot; connect link attach;
disconnect detach; subscribe subscription; unsubscribe; screenshot capture; click press tap; type enter fill input;
wait sleep delay; job career employment vacancy position; house home property; animal pet; plant flower; law legal;
tax duty; loan mortgage; interest yield; investment invest portfolio; country region territory;
population demographic inhabitants; student pupil; school university college; course class lesson; exam quiz;
gift present; weight mass; speed velocity pace; size dimension; area surface; color colour hue
"""

# A word, then forms of it that have another stem.
_FORMS = """
conversion convert; analysis analyze analytics; summary summarize; comparison compare; removal remove;
retrieval retrieve; approval approve; approximation approximate; weigh weight; length long; height high tall;
flight fly; sale sell; choice choose; decision decide; division divide; multiplication multiply;
subtraction subtract; permission permit; explanation explain; description describe; definition define;
subscription subscribe; transcription transcribe transcript; maintenance maintain; pronunciation pronounce;
diagnosis diagnose diagnostic; synthesis synthesize; optimal optimize optimum; maximum maximize; minimum minimize;
renewal renew; arrival arrive; proposal propose; rental rent; response respond; loss lose lost;
growth grow grown grew; death die; birth born; speech speak spoken; advice advise; movement move; payment pay paid;
statistic statistical; mathematics math mathematical; geography geographic; medicine medical; economy economic;
history historical; biology biological; chemistry chemical; music musical; nutrition nutritional;
nearby near nearest; translator translate; restore restoration; person people; child children; man men; woman women;
foot feet; index indices; matrix matrices; vertex vertices; criterion criteria; buy bought; send sent; sell sold;
spend spent; make made; find found; write written wrote; take taken took; run ran; begin begun; build built;
drive driven drove; fly flew flown; eat eaten; choose chosen; break broken; win won; draw drawn; good better best;
bad worse worst; hold held; keep kept; leave left; meet met; pay paid; lend lent; teach taught; think thought;
cheap cheapest; expensive expense
"""

# The short form, then what it stands for; several words of one form are joined by "_".
_ABBREVIATIONS = """
abbr abbreviation; acct account; addr address; admin administrator administration; ai artificial_intelligence;
api interface; app application; appt appointment; apt apartment; arg argument; args arguments; async asynchronous;
attr attribute; auth authentication authorization authenticate authorize; avg average; bbox bounding_box;
bday birthday; bg background; bio biography; biz business; bldg building; bmi body_mass_index; btc bitcoin;
calc calculate calculator calculation; cfg configuration config; char character; ci continuous_integration;
cmd command; col column; cols columns; concat concatenate; conf configuration; config configuration configure;
conn connection; coord coordinate; coords coordinates; corp corporation; cpu processor; crm customer_relationship;
ctx context; curr current currency; cwd current_directory; db database; dbs databases; del delete; dep dependency;
deps dependencies; desc description; dest destination; dev developer development; diff difference; dim dimension;
dir directory; dirs directories; dob birth_date; doc document documentation; docs documents documentation;
dom document_object; dup duplicate; elem element; emp employee; env environment; err error; eta arrival_time;
eth ethereum; evt event; exec execute; expr expression; ext extension; fav favorite; favs favorites; fig figure;
fmt format; fn function; fps frames_second; freq frequency; func function; fx foreign_exchange;
gcd greatest_common_divisor; gdp gross_domestic_product; geo geographic geography; geoloc geolocation; gh github;
gps coordinates; gpu graphics; hr human_resources hour; hrs hours; img image; imgs images; impl implementation;
info information; init initialize; inv invoice inventory; ip internet_protocol; js javascript; k8s kubernetes;
kb knowledge_base; lang language; lat latitude; lcm least_common_multiple; len length; lib library; libs libraries;
lng longitude; loc location; lon longitude; lvl level; max maximum; mem memory; mgmt management; mgr manager;
min minimum minute; misc miscellaneous; ml machine_learning; msg message; msgs messages; mtg meeting;
nav navigate navigation; nbr number; nft token; nlp natural_language; notif notification; num number; obj object;
ocr text_recognition; ops operations; opt option; org organization; orgs organizations; param parameter;
params parameters; perf performance; perm permission; perms permissions; pic picture; pics pictures photos;
pix pixel; pkg package; pkgs packages; pmt payment; pr pull_request; prefs preferences; prev previous; proc process;
prod product production; prog program; proj project; prop property; props properties; pub publish public;
pwd password; py python; qty quantity; rand random; recs recommendations; ref reference; refs references;
reg register registration; repo repository; repos repositories; req request; res resource result; resp response;
rev revision; rm remove; roi return_investment; sec second security; sched schedule; seq sequence; sess session;
sig signature; sms text_message; spec specification; specs specifications; src source; ssl certificate;
std standard; stat statistic status; stats statistics; stt speech_text; sub subscription; svc service;
sync synchronize synchronization; sys system; tel telephone; temp temperature temporary; tmp temporary;
trans transaction translation; ts typescript timestamp; tts text_speech; tx transaction; txn transaction; txt text;
tz timezone; ui interface; univ university; url link; usr user; util utility; utils utilities; val value;
vals values; var variable; vars variables; ver version; vid video; vol volume; vuln vulnerability;
vulns vulnerabilities; wifi wireless; wiki wikipedia; wk week; ws workspace; xlsx excel; xls excel; docx word;
pptx powerpoint; ppt powerpoint presentation; md markdown; yr year; yrs years
"""

# Words that name what is wanted, not how: when nothing in a catalog answers to one, the catalog lacks the capability.
_CAPABILITIES = """
accounting ad airbnb aircraft airflow airline airport airtable alarm album alexa algebra allergy amazon ambulance
anime ansible anthem antivirus apartment appliance appointment arduino artwork asana asteroid astrology astronomy
auction audible audio audiobook auth0 autocad avalanche aws azure babysitter backup bail bakery ballet bank barcode
baseball basecamp basketball battery bicycle bigquery bike billing binance bingo biology biometric birthday bitbucket
bitcoin blender blockchain blog bloomberg bluesky bluetooth book booking bookmark boxing braille brewery browser
budget bulb bus calculator calendar call camera campsite canva captcha car carbon cargo cart casino cassandra catering
celebrity cemetery certificate charity chart chat chemistry chess chord cinema classroom clickup clinic clipboard
clothing cloudflare cobol cocktail coffee coin coinbase comet comic compiler concert confluence constellation
container cooking copyright coupon courier courtroom cricket crispr crm crossword cruise crypto cryptocurrency cuda
currency custody customs dance dashboard database databricks datadog dating debt debugger deed deezer delivery dentist
diary dictionary diet digitalocean discord dishwasher disk dividend divorce dna dns docker doctor docusign donation
doorbell doordash drawing drink drone dropbox drought drug drum dynamodb earthquake ebay ebook ecg eclipse
elasticsearch election electrician electricity elevator email embassy embroidery emoji encryption esports ethereum
etsy evernote exam excel exhibition expedia expense facebook fashion fax ferry fertilizer figma fingerprint firebase
firewall firmware fitbit fitness flashcard flight flood flower font food football forecast forex forum freezer freight
freshdesk fridge ftp fuel funeral furnace furniture galaxy gallery game garage garden garmin gene genealogy genome
geocode geofence gif gift git github gitlab glacier gmail golf goodreads gps grafana grammar graphic greenhouse
grocery guitar gym hackathon haircut handwriting hardware hashtag hearing heating helicopter helm heroku hockey
horoscope hospital hostel hotel hubspot hulu humidity hurricane illustrator image immigration infrared inheritance
instacart instagram insulin insurance intercom interview inventory invoice iot jenkins jewelry jira joke kafka kanban
karaoke kayak kernel kindle knitting kubernetes laboratory lamp landlord laptop laundry law lawn lawnmower lawsuit
lawyer lecture legal license lidar lightbulb lighting linkedin livestock loan logistics logo looker lottery loyalty
luggage lunar lyft lyrics mail mailchimp malware map marathon mariadb marketing marketo marketplace marriage massage
mastodon math mattress mayor meal medication medicine meditation meeting meme menu metro microphone microscope
microwave midi milestone minecraft miro missile modbus molecule mongodb mortgage motorcycle movie museum music mysql
nasdaq navigation neo4j netflix netlify news newsletter newspaper nintendo notary notion novel nutrition okta onedrive
onenote opera opsgenie optician oracle orchestra origami orthodontist outlook oven pager pagerduty painting paramedic
parcel parking parliament parole passport password patent patient payment paypal payroll pdf pension perfume pet
petition pharmacy phone photo photograph photoshop physics piano pinterest pipeline pizza plaid planet plant
playstation plumber podcast poem poetry poker police poll pollen pollution population portfolio postcard postgres
postgresql pottery powerbi powerpoint pregnancy prescription presentation printer prison probate projector prometheus
protein proxy puzzle qr quantum quickbooks quiz rabbitmq radio railway receipt recipe reddit redis redshift
refrigerator refund reminder rent rental resistor restaurant resume riddle ride rideshare robinhood roblox robot
roomba router rss runway sailing salary salesforce salon sap satellite sauna scanner scooter scraping screenshot
sculpture seismic senate sendgrid sensor sentry sharepoint shipment shipping shopify shopping siri sitemap skiing
skype slack sms snapchat snow snowflake soccer sofa soil solar solstice sonar song sonos soundcloud spa spacecraft
spacex speech splunk spotify spreadsheet sprinkler sql sqlite ssh ssl stadium statue sticker stock strava stripe
submarine subscription subtitle subway sudoku supabase surgery survey swimming symptom tableau tank tariff tattoo tax
taxi telegram telescope television temperature tennis terraform tesla theater therapy thermostat ticket tide tiktok
timer timezone todoist toll tornado tractor trademark traffic train transcription transit translate translation
transport travel treadmill trello tripadvisor truck trumpet tsunami tumblr tutor tv tweet twilio twitch twitter typing
uber ukulele ultrasound university vaccine vacuum valve vehicle venue vercel verilog veterinarian veterinary viber
video vineyard vinyl violin visa vitamin voice voicemail volcano volleyball vote voucher vpn vulnerability wallet
wallpaper warehouse warranty washing waterfall waze weather webcam webhook webinar wechat wedding whatsapp wheelchair
whiteboard wifi wikipedia wildfire wine wordpress workday workout xbox xero yacht yelp yoga youtube zendesk zigbee zip
zoo zoom
"""

_LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "æ": "ae", "œ": "oe", "đ": "d", "\u0131": "i"}
)
# Scripts written without spaces: every character is a word, and neighbours count as pairs.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{2,4}(?![A-Za-z0-9])"  # s3, mp3, k8s
    r"|[A-Z]{2,}s(?![a-z])"  # URLs
    r"|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+"  # HTTPServer, camelCase
    rf"|[{_UNSPACED}]|[^\W_A-Za-z0-9{_UNSPACED}]+"
)
_LONGEST_WORD = 40

STOP_WORDS = frozenset(_STOP_WORDS.split())


def fold(text: str) -> str:
    """Drop accents and width variants, keep case."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return unicodedata.normalize("NFKC", "".join([c for c in plain if not unicodedata.combining(c)]))


def split_words(text: str) -> list[str]:
    """Split a text or an identifier into lower-case words, without stop words."""
    found = [word[:_LONGEST_WORD].lower() for word in _WORD.findall(fold(text))]
    return [word for word in found if word not in STOP_WORDS]


def squeeze(text: object) -> str:
    """Fold a name so that its case and its separators no longer matter."""
    return "".join([c for c in fold(_text(text, _NAME_LIMIT)).casefold() if c.isalnum()])


def _entries(text: str) -> list[list[str]]:
    return [entry.split() for entry in text.split(";")]


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to the stems that may be written for it."""
    known: dict[str, dict[str, None]] = {}
    for entry in _entries(_SYNONYMS):
        group = dict.fromkeys(stem(word) for word in entry)
        for one in group:
            known.setdefault(one, {}).update(group)
    return {one: tuple(other for other in group if other != one) for one, group in known.items()}


@cache
def abbreviations() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to its short forms, or to the single words it is short for."""
    known: dict[str, dict[str, None]] = {}
    for short, *longs in _entries(_ABBREVIATIONS) + _entries(_FORMS):
        for word in longs:
            if "_" not in word:
                known.setdefault(stem(short), {})[stem(word)] = None
                known.setdefault(stem(word), {})[stem(short)] = None
    return {one: tuple(other for other in group if other != one) for one, group in known.items()}


@cache
def phrases() -> Mapping[str, tuple[str, ...]]:
    """Map a short form to the words of the phrase it stands for."""
    return {
        short: tuple(word.split("_")) for short, *longs in _entries(_ABBREVIATIONS) for word in longs if "_" in word
    }


@cache
def initials() -> Mapping[tuple[str, ...], str]:
    """Map the stems of a phrase to its short form."""
    return {tuple(stem(word) for word in words): stem(short) for short, words in phrases().items()}


@cache
def capabilities() -> frozenset[str]:
    """Stems that name a capability, so that a catalog without them lacks it."""
    return frozenset(stem(word) for word in _CAPABILITIES.split())


@cache
def listed() -> frozenset[str]:
    """The stems that any of the lists knows."""
    return frozenset(
        {*synonyms(), *abbreviations(), *capabilities(), *(word for words in initials() for word in words)}
    )


@cache
def listed_beginnings() -> frozenset[str]:
    """The beginnings of the stems that any of the lists knows."""
    return frozenset(start for term in listed() for start in beginnings(term))


# Schemas and texts come from strangers: whatever their size, a tool is indexed in bounded time.
_TEXT_LIMIT, _NAME_LIMIT, _FIELD_LIMIT = 4_000, 200, 20_000
_SCHEMA_DEPTH, _SCHEMA_NODES, _ENUM_LIMIT = 16, 500, 50
_NESTING = ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties")
_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n")


def _text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _walk(schema: object) -> tuple[list[str], list[str], list[str]]:
    """Collect parameter names, descriptions and enum values, those near the root first."""
    names: list[str] = []
    texts: list[str] = []
    values: list[str] = []
    queue: list[tuple[object, int]] = [(schema, 0)]
    seen: set[int] = set()
    for node, depth in queue:  # grows while it is walked
        if len(seen) >= _SCHEMA_NODES:
            break
        if id(node) in seen or depth > _SCHEMA_DEPTH:
            continue
        seen.add(id(node))
        if isinstance(node, list):
            queue.extend((child, depth + 1) for child in cast("list[object]", node)[:_SCHEMA_NODES])
        if not isinstance(node, Mapping):
            continue
        mapping = cast("Mapping[object, object]", node)
        texts.append(_text(mapping.get("description"), _TEXT_LIMIT))
        enum = mapping.get("enum")
        if isinstance(enum, list):
            values.extend(_text(value, _NAME_LIMIT) for value in cast("list[object]", enum)[:_ENUM_LIMIT])
        for key in ("properties", "$defs", "definitions"):
            children = mapping.get(key)
            if isinstance(children, Mapping):
                found = list(islice(cast("Mapping[object, object]", children).items(), _SCHEMA_NODES))
                if key == "properties":
                    names.extend(_text(name, _NAME_LIMIT) for name, _ in found)
                queue.extend((child, depth + 1) for _, child in found)
        queue.extend((mapping[key], depth + 1) for key in _NESTING if key in mapping)
    return names, texts, values


def _split_all(texts: Sequence[str]) -> Iterator[list[str]]:
    left = _FIELD_LIMIT
    for text in texts:
        if left > 0 and (found := split_words(text[:left])):
            yield found
        left -= len(text)


def tool_words(name: object, description: object, parameters: object, owner: object) -> Iterator[list[list[str]]]:
    """Split a tool into the words of its fields, each a list of texts.

    The fields are: name, first sentence, rest of the description, names, descriptions and enum values of the
    parameters, owner.
    """
    first, *rest = _SENTENCE_END.split(_text(description, _TEXT_LIMIT).strip(), maxsplit=1)
    for texts in ([_text(name, _NAME_LIMIT)], [first], rest, *_walk(parameters), [_text(owner, _NAME_LIMIT)]):
        yield list(_split_all(texts))
