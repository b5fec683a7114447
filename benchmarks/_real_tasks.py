"""40 tasks over the 1,860 tools, each asked for in two ways, as somebody would who has never seen the tools.

The roundabout wordings were written before any ranking of them was looked at, the plain ones after it, all of them, found or not.
All tools that do the job are listed, those of other servers as well; what their arguments must say is a pattern for each
parameter that matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["TASKS", "Task", "says"]


@dataclass(frozen=True)
class Task:
    """One job for one tool."""

    id: str
    roundabout: str
    """Asked without the words of the tools' names."""
    plain: str
    """Asked in the field's usual words."""
    right: Mapping[str, Mapping[str, str]]
    """The tools that do it, as `owner/name`; patterns for their arguments, searched in the value or in its JSON."""
    answer: str
    """What the right tool answers to the right arguments."""


def says(arguments: Mapping[str, Any], patterns: Mapping[str, str]) -> bool:
    """Whether the arguments hold what the patterns ask for. What stands as `name?` may be left out."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}
    return all(
        re.search(pattern, texts[name], re.IGNORECASE)
        if (name := written.removesuffix("?")) in texts
        else name != written
        for written, pattern in patterns.items()
    )


TASKS = [
    # The net
    Task(
        "domain",
        "Who is mortonfarm.org registered to, and when does that run out?",
        "Look up the WHOIS record of the domain mortonfarm.org: owner and expiry date.",
        {
            "whois/whois_domain": {"domain": "^mortonfarm.org$"}, "Domain Name Search/Whois": {"domain": "^mortonfarm.org$"},
            "Bulk WHOIS/Bulk WHOIS": {"domain": "^mortonfarm.org$"}, "ViewDNS/Whois": {"domain": "^mortonfarm.org$"},
        },
        "Registrant: Morton Farm Cooperative. Expires: 2027-03-01.",
    ),
    Task(
        "network",
        "Which organisation is behind AS64501?",
        "Look up who owns the autonomous system number AS64501.",
        {"whois/whois_as": {"asn": "^(AS)?64501$"}},
        "AS64501: Polar Transit AB, Sweden.",
    ),
    Task(
        "pages",
        "How many addresses does https://shop.example list for search engines?",
        "How many pages are in the sitemap of https://shop.example?",
        {
            "sitemap/get_sitemap_stats": {"url": "shop.example"}, "sitemap/get_sitemap_pages": {"url": "shop.example"},
            "sitemap/get_sitemap_tree": {"url": "shop.example"},
        },
        '{"pages": 214, "sections": 6}',
    ),
    Task(
        "article",
        "Show me what stands on https://news.example/harbour, as Markdown.",
        "Fetch the web page https://news.example/harbour as Markdown.",
        {
            "npx_fetch/fetch_markdown": {"url": "news.example/harbour"}, "fetch/fetch": {"url": "news.example/harbour"},
            "office-fetch/fetch": {"url": "news.example/harbour"},
        },
        "# The harbour opens again\nFrom Monday on the ferries go every hour.",
    ),
    Task(
        "forum",
        "What is everybody on Hacker News talking about right now?",
        "Show the top stories on Hacker News.",
        {"hackernews/getStories": {"type": "top|best"}},
        '[{"id": 101, "title": "A compiler in an afternoon", "points": 812}]',
    ),
    Task(
        "abstract",
        "In two or three lines, please: what does the encyclopaedia Wikipedia say about the Antikythera mechanism?",
        "Give me a short summary of the Wikipedia article on the Antikythera mechanism.",
        {
            "wikipedia/get_summary": {"title": "antikythera"}, "wikipedia/get_article": {"title": "antikythera"},
            "wikipedia/summarize_article_for_query": {"title": "antikythera"}, "wikipedia/extract_key_facts": {"title": "antikythera"},
            "wikipedia/search_wikipedia": {"query": "antikythera"},
        },
        "An ancient Greek hand-powered model of the solar system, found in 1901.",
    ),
    Task(
        "video",
        "I cannot listen now. What is said in https://www.youtube.com/watch?v=aB3dE5fG7hI ? In English, please.",
        "Get the English transcript of the YouTube video https://www.youtube.com/watch?v=aB3dE5fG7hI",
        {"youtube-transcript/get_transcript": {"url": "aB3dE5fG7hI", "lang": "^en"}},
        "Welcome back. Today we plane a table top by hand.",
    ),
    # Time, chance, places
    Task(
        "seoul",
        "It is 14:30 in Lisbon. What does a clock in Seoul say at that moment?",
        "Convert 14:30 from Lisbon time to Seoul time.",
        {
            f"{owner}/convert_time": {"source_timezone": "Lisbon", "time": "14:30", "target_timezone": "Seoul"}
            for owner in ("time", "office-time")
        },
        '{"target": {"timezone": "Asia/Seoul", "datetime": "22:30"}}',
    ),
    Task(
        "nairobi",
        "How late is it in Nairobi?",
        "What time is it now in Nairobi?",
        {f"{owner}/get_current_time": {"timezone": "Nairobi"} for owner in ("time", "office-time")},
        '{"timezone": "Africa/Nairobi", "datetime": "18:05"}',
    ),
    Task(
        "dice",
        "Think of a whole number for me, by pure chance, anything from 1 to 60.",
        "Give me a random integer from 1 to 60.",
        {"random-number/random_int": {"low": "^1$", "high": "^60$"}},
        "37",
    ),
    Task(
        "standup",
        "Who speaks first? Put Ada, Bo, Cem and Dora into an order by lot.",
        "Shuffle this list of names: Ada, Bo, Cem, Dora.",
        {
            "random-number/random_shuffle": {"items": "Ada.*Bo.*Cem.*Dora"},
            "random-number/random_sample": {"population": "Ada.*Bo.*Cem.*Dora", "k": "^4$"},
        },
        '["Cem", "Ada", "Dora", "Bo"]',
    ),
    Task(
        "key",
        "I need an unguessable key, 32 bytes long, written in base 16.",
        "Generate a secure random token of 32 bytes as hex.",
        {"random-number/secure_token_hex": {"nbytes?": "^32$"}},
        "9f1c66e0a4b75d1f",
    ),
    Task(
        "car",
        "I am at 52.52, 13.405 and my electric car is nearly empty. Where do I plug in?",
        "Find charging stations for electric cars near latitude 52.52, longitude 13.405.",
        {"osm-mcp-server/find_ev_charging_stations": {"latitude": r"^52\.52", "longitude": r"^13\.405"}},
        '[{"name": "Alexanderplatz garage", "distance_m": 640, "kw": 50}]',
    ),
    Task(
        "coffee",
        "Three of us live at 48.85,2.35, at 48.87,2.33 and at 48.84,2.37. Where could we have a coffee so that nobody has a long way?",
        "Suggest a good place to meet for three people at 48.85,2.35, 48.87,2.33 and 48.84,2.37, preferably a cafe.",
        {"osm-mcp-server/suggest_meeting_point": {"locations": r"48\.85.*48\.87.*48\.84"}},
        '{"center": [48.853, 2.35], "venues": ["Cafe de la Tour"]}',
    ),
    Task(
        "where",
        "Latitude and longitude of Karl Johans gate 22 in Oslo, please.",
        "Get the coordinates of the address Karl Johans gate 22, Oslo.",
        {
            "osm-mcp-server/geocode_address": {"address": "Karl Johans gate 22"}, "LocationIQ/search": {"q": "Karl Johans gate 22"},
            " Forward & Reverse Geocoding by googleMap api/forward": {"query": "Karl Johans gate 22"},
        },
        '{"lat": 59.9131, "lon": 10.7405}',
    ),
    Task(
        "flat",
        "Two adults look for a place to stay in Porto from 2026-09-04 to 2026-09-08, at somebody's home, not in a hotel.",
        "Search Airbnb for a place for two adults in Porto from 2026-09-04 to 2026-09-08.",
        {"airbnb/airbnb_search": {"location": "Porto", "checkin": "2026-09-04", "checkout": "2026-09-08"}},
        '[{"id": "7711", "name": "Room over the river", "price": 71}]',
    ),
    # Documents
    Task(
        "join",
        "Make one file of /docs/jan.pdf and /docs/feb.pdf, and leave it in /docs/all.",
        "Merge /docs/jan.pdf and /docs/feb.pdf into one PDF in the folder /docs/all.",
        {"searxng/pdf_merger": {"inputPaths": "jan.pdf.*feb.pdf", "outputDir": "/docs/all"}},
        '{"output": "/docs/all/merged.pdf"}',
    ),
    Task(
        "thesis",
        "My thesis is /home/me/thesis.docx, but the library takes PDF only. Save it as /home/me/thesis.pdf.",
        "Convert /home/me/thesis.docx to PDF and save it as /home/me/thesis.pdf.",
        {
            "searxng/docx_to_pdf": {"inputPath": "thesis.docx", "outputPath": "thesis.pdf"},
            "word-document-server/convert_to_pdf": {"filename": "thesis.docx"}, "office-word/convert_to_pdf": {"filename": "thesis.docx"},
        },
        "saved as /home/me/thesis.pdf",
    ),
    Task(
        "changes",
        "What is not the same in /notes/v1.txt and /notes/v2.txt? Leave the outcome in /notes/out.",
        "Compare the text files /notes/v1.txt and /notes/v2.txt and write the differences to /notes/out.",
        {"searxng/text_diff": {"file1Path": "v[12].txt", "file2Path": "v[12].txt", "outputDir": "/notes/out"}},
        '{"added": 3, "removed": 1, "output": "/notes/out/diff.txt"}',
    ),
    Task(
        "latin",
        "/old/list.txt is in latin1. Write it into /new in UTF-8.",
        "Convert the text file /old/list.txt from latin1 to UTF-8 encoding, into the folder /new.",
        {
            "searxng/text_encoding_converter": {
                "inputPath": "/old/list.txt", "outputDir": "/new", "fromEncoding": "latin-?1|8859-1", "toEncoding": "utf-?8",
            }
        },
        '{"output": "/new/list.txt"}',
    ),
    Task(
        "lock",
        "Nobody is to open contract.docx without the code word plover7.",
        "Protect the Word document contract.docx with the password plover7.",
        {
            f"{owner}/protect_document": {"filename": "contract.docx", "password": "^plover7$"}
            for owner in ("word-document-server", "office-word")
        },
        "contract.docx is encrypted now",
    ),
    Task(
        "limited",
        "In invoice.docx every 'Ltd' has to become 'Limited'.",
        "Replace 'Ltd' by 'Limited' everywhere in the Word document invoice.docx.",
        {
            f"{owner}/search_and_replace": {"filename": "invoice.docx", "find_text": "^Ltd", "replace_text": "^Limited"}
            for owner in ("word-document-server", "office-word")
        },
        "7 places changed",
    ),
    Task(
        "miriam",
        "What has Miriam remarked in the margins of report.docx?",
        "Show the comments that Miriam wrote in the Word document report.docx.",
        {
            "office-word/get_comments_by_author": {"filename": "report.docx", "author": "Miriam"},
            "office-word/get_all_comments": {"filename": "report.docx"},
        },
        '[{"author": "Miriam", "text": "Is this figure from May?"}]',
    ),
    Task(
        "author",
        "Let the file information of the presentation that is open say that Noor Haddad wrote it.",
        "Set the author of the open PowerPoint presentation to Noor Haddad.",
        {"ppt/set_core_properties": {"author": "Noor Haddad"}},
        '{"author": "Noor Haddad"}',
    ),
    Task(
        "sales",
        "Order the rows A1:D40 of the sheet Sales in /data/q3.xlsx by column C, largest first.",
        "Sort the range A1:D40 on the sheet Sales of the Excel file /data/q3.xlsx by column C, descending.",
        {"office-excel/sort_range": {"path": "q3.xlsx", "sheet": "^Sales$", "range": "A1:D40", "sort_by": "C"}},
        "40 rows sorted",
    ),
    Task(
        "remark",
        "Stick a remark on the cell B7 of the sheet Plan in /data/budget.xlsx. It reads: check with Ida.",
        "Add a note to cell B7 on the sheet Plan of the Excel file /data/budget.xlsx: check with Ida",
        {"office-excel/set_note": {"path": "budget.xlsx", "sheet": "^Plan$", "cell": "^B7$", "text": "check with Ida"}},
        "done: Plan!B7",
    ),
    Task(
        "june",
        "In /data/hours.xlsx the tab May is to be there twice; call the second one June.",
        "Copy the sheet May of the Excel file /data/hours.xlsx to a new sheet named June.",
        {
            "office-excel/copy_sheet": {"path": "hours.xlsx", "sheet": "^May$", "new_name": "^June$"},
            "excel/excel_copy_sheet": {"fileAbsolutePath": "hours.xlsx", "srcSheetName": "^May$", "dstSheetName": "^June$"},
        },
        "the sheets are May, June",
    ),
    # Work on code and machines
    Task(
        "line",
        "I want a new line of work called fix-login in the repository /src/shop.",
        "Create a git branch fix-login in the repository /src/shop.",
        {
            f"{owner}/git_create_branch": {"repo_path": "/src/shop", "branch_name": "^fix-login$"}
            for owner in ("git", "office-git")
        },
        "Created branch 'fix-login' from 'main'",
    ),
    Task(
        "recent",
        "What were the last five things that were committed in /src/shop?",
        "Show the last 5 git commits of the repository /src/shop.",
        {f"{owner}/git_log": {"repo_path": "/src/shop", "max_count": "^5$"} for owner in ("git", "office-git")},
        "a1b2c3 Fix the cart\nd4e5f6 Add a page\n...",
    ),
    Task(
        "unstage",
        "In /src/shop I marked too much for the next commit. Take all of it out again, but leave my edits alone.",
        "Unstage all staged changes in the git repository /src/shop.",
        {f"{owner}/git_reset": {"repo_path": "/src/shop"} for owner in ("git", "office-git")},
        "All staged changes reset",
    ),
    Task(
        "cart",
        "Where below /src/shop does the word LegacyCart still stand?",
        "Search the code in /src/shop for LegacyCart.",
        {"desktop-commander/search_code": {"path": "/src/shop", "pattern": "LegacyCart"}},
        "/src/shop/cart.py:12: class LegacyCart:",
    ),
    Task(
        "hangs",
        "The process with the number 4312 hangs. End it.",
        "Kill the process with PID 4312.",
        {"desktop-commander/kill_process": {"pid": "^4312$"}, "desktop-commander/force_terminate": {"pid": "^4312$"}},
        "4312 has ended",
    ),
    Task(
        "biggest",
        "Which file in /var/data takes up the most room?",
        "List the files in the directory /var/data with their sizes, the largest first.",
        {"filesystem/list_directory_with_sizes": {"path": "/var/data"}},
        "dump.sql 3.1 GB\nlog.txt 12 MB",
    ),
    Task(
        "output",
        "What has the Docker container web-1 printed lately?",
        "Show the latest logs of the Docker container web-1.",
        {"docker-mcp/get-logs": {"container_name": "^web-1$"}},
        "GET / 200\nGET /cart 500",
    ),
    Task(
        "holes",
        "Is it known that somebody can break into something through the npm package lodash?",
        "Check the npm package lodash for known vulnerabilities.",
        {"npm-sentinel-mcp/npmVulnerabilities": {"packages": "lodash"}},
        '{"lodash": [{"severity": "high", "fixed": "4.17.21"}]}',
    ),
    Task(
        "pom",
        "Which org.slf4j:slf4j-api should stand in my pom today? No alphas or betas.",
        "What is the latest stable release of the Maven dependency org.slf4j:slf4j-api?",
        {
            "maven-deps-server/get_latest_release": {"dependency": "org.slf4j:slf4j-api"},
            "maven-deps-server/list_maven_versions": {"dependency": "org.slf4j:slf4j-api"},
        },
        "2.0.17",
    ),
    # Pictures, notes, money
    Task(
        "slices",
        "Draw how our money goes, as slices of a circle: rent 50, food 30, fun 20.",
        "Make a pie chart of our spending: rent 50, food 30, fun 20.",
        {"mcp-server-chart/generate_pie_chart": {"data": "(?=.*rent)(?=.*50)(?=.*food)(?=.*30)(?=.*fun)(?=.*20)"}},
        "https://charts.example/77.png",
    ),
    Task(
        "shed",
        "Jot down 'Panels face south' in my folder ideas, under the headline Solar shed.",
        "Write a note with the title 'Solar shed' in the folder ideas. Its content: Panels face south",
        {"basic-memory/write_note": {"title": "Solar shed", "content": "Panels face south", "folder": "ideas"}},
        "ideas/solar-shed.md",
    ),
    Task(
        "kroner",
        "How many Norwegian kroner did one euro cost on 2025-03-14?",
        "What was the exchange rate from EUR to NOK on 2025-03-14?",
        {"exchange-rate-mcp/exchange_rate": {"baseCurrency": "^EUR$", "targetCurrency": "^NOK$", "date": "2025-03-14"}},
        "1 EUR = 11.61 NOK",
    ),
    Task(
        "tesla",
        "Have the people who run Tesla (TSLA) been selling shares of their own company?",
        "Show the insider trades of Tesla (TSLA).",
        {"investor/get_insider_trades": {"ticker": "^TSLA$"}},
        '[{"name": "V. Taneja", "sold": 2941}]',
    ),
]  # fmt: skip
